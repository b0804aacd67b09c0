// Pointers in the data of an ELF file, as they are after relocation.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_POINTER_TABLE_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_POINTER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/data_reader.h"

namespace profd::symbolize {

// A word with a pointer: what it refers to.
struct Pointer {
  uint64_t address = 0;
  bool imported = false;         // it refers to another file; its address is not known
  std::string_view symbol = {};  // of the dynamic symbol table, if it is one of C++'s own
};

// A position-independent file has its pointers in .rela.dyn; with RELR, and in other programs, they
// are in place. The file is read in pieces: what is kept are the relocations by symbol, and the
// range of each piece. Looking something up is bounded: when the work is used up, nothing is found
// any more. Hostile input. Not thread-safe.
class PointerTable {
 public:
  // `elf` must outlive this.
  explicit PointerTable(const ElfFile* elf);

  // Where there are pointers to one of `targets` (ascending): (target, place), in no order. At most
  // `limit`. Reads all relocations and, where pointers are in place, all data.
  std::vector<std::pair<uint64_t, uint64_t>> FindReferences(std::span<const uint64_t> targets,
                                                            size_t limit);

  // The word at `place`. Nothing where there is no data. A word that is no pointer is a number all
  // the same. After FindReferences only.
  std::optional<Pointer> At(uint64_t place);

  // The string at an address; empty if there is none of less than `limit` bytes.
  std::string StringAt(uint64_t address, size_t limit);

 private:
  // Relocations that lie together in the file.
  struct Piece {
    uint64_t offset = 0;  // in the file
    uint32_t count = 0;
    uint64_t least = UINT64_MAX;  // places
    uint64_t most = 0;
  };
  struct BySymbol {
    uint64_t place;
    uint64_t symbol;  // index in the dynamic symbol table
    int64_t addend;
  };

  void ScanRelocations(std::span<const uint64_t> targets, size_t limit,
                       std::vector<std::pair<uint64_t, uint64_t>>* found);
  void ScanData(std::span<const uint64_t> targets, size_t limit,
                std::vector<std::pair<uint64_t, uint64_t>>* found);
  void ResolveSymbols();
  std::optional<uint64_t> Relocated(uint64_t place);
  const std::vector<Elf64_Rela>* Load(size_t piece);
  bool Charge(uint64_t work);

  const ElfFile* const elf_;
  const bool position_independent_;
  DataReader data_;
  bool in_place_ = false;  // some pointers have no entry in .rela.dyn
  const Section* symbols_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<BySymbol> by_symbol_;                       // sorted by place
  absl::flat_hash_map<uint64_t, Pointer> symbol_values_;  // by index, of those in by_symbol_
  std::vector<std::string> names_;
  absl::flat_hash_map<uint64_t, size_t> copied_;  // address of a copy in .bss: index in names_
  std::vector<std::pair<size_t, std::vector<Elf64_Rela>>> loaded_;  // direct-mapped by piece
  uint64_t work_left_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_POINTER_TABLE_H_
