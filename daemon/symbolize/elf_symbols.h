// Looks up a few addresses in symbol tables of any size.
#ifndef PROFD_DAEMON_SYMBOLIZE_ELF_SYMBOLS_H_
#define PROFD_DAEMON_SYMBOLIZE_ELF_SYMBOLS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/name_source.h"

namespace profd::symbolize {

// A function or a variable.
struct NamedSymbol {
  std::string name;
  uint64_t address = 0;  // virtual
  uint64_t size = 0;     // bytes, 0 when the symbol has none
};

// Functions defined in .symtab and .dynsym of `elf` whose name contains `part`, at most `limit`.
// Names of more than 255 bytes are skipped, and so are unreadable tables. Time is bounded by the
// size of the tables, memory by `limit`.
std::vector<NamedSymbol> FindFunctions(const ElfFile& elf, std::string_view part, size_t limit);
// The same for variables, except thread-local ones.
std::vector<NamedSymbol> FindVariables(const ElfFile& elf, std::string_view part, size_t limit);

// A function of .dynsym.
struct ExportedFunction {
  uint64_t address = 0;  // virtual
  uint64_t size = 0;     // bytes
  FileRange name;        // in the file: where it begins, and where its table ends
};
// The functions that `elf` exports, of at most `max_size` bytes each, by address, one for each;
// none if there are more than `limit`. Of several names of an address, one without a leading
// underscore comes first.
std::vector<ExportedFunction> ExportedFunctions(const ElfFile& elf, uint64_t max_size,
                                                size_t limit);

// Functions of a symbol table that are called across files.
struct CalledFunctions {
  std::vector<NamedSymbol> defined;  // with one of the wanted names
  bool imports = false;              // some functions must be defined by other files
};
// Searches the tables of type `table` (SHT_DYNSYM or SHT_SYMTAB). Finds at most `limit` functions
// that are not local to the file (STB_LOCAL) and whose name equals one of `names`. Bounded as
// above.
CalledFunctions FindCalled(const ElfFile& elf, uint32_t table,
                           std::span<const std::string_view> names, size_t limit);

// A symbol that covers an address.
struct CoveringSymbol {
  std::string name;  // mangled, without version; "" if no symbol covers the address
  std::vector<std::string> other_names = {};  // of the same place, the likeliest first
  uint32_t more_names = 0;                    // of further symbols, which were not read
  uint64_t begin = 0;                         // where the symbol begins
  bool sized = false;                         // false: a label; how far it reaches is a guess
  NameSource source = NameSource::kNone;
};

enum class SymbolsOf { kCode, kData };

// Streams the tables past the wanted addresses and keeps only the best candidates. Memory depends
// on the number of addresses, time is bounded by the size of the tables.
class SymbolLookup {
 public:
  // `addresses`: virtual addresses, ascending, each once. `wanted`: functions and labels in code,
  // or variables, except thread-local ones.
  explicit SymbolLookup(std::vector<uint64_t> addresses, SymbolsOf wanted = SymbolsOf::kCode);

  // Streams .symtab, which gives names of the kind `symbols`, and .dynsym of `elf`, which must
  // outlive this. True if it has a .symtab.
  bool AddTables(const ElfFile& elf, NameSource symbols = NameSource::kSymbols);

  // For each address.
  std::vector<CoveringSymbol> Find();

 private:
  // Names of a place that are read.
  static constexpr size_t kMaxNames = 8;

  struct Table {
    const ElfFile* elf;
    uint64_t strings_begin;
    uint64_t strings_end;
    NameSource source;
  };

  struct NameRef {
    uint32_t offset;  // in the table's strings
    uint16_t table;
    bool weak;
    uint8_t rank;
  };

  // The best symbol so far, and a few other names of the same place to choose from.
  struct Candidate {
    uint64_t value = 0;
    uint8_t rank = 0;  // the highest of its names; 0: none
    uint8_t name_count = 0;
    uint16_t offered =
        0;  // names in the first table that has any, as .dynsym repeats those of .symtab
    std::array<NameRef, kMaxNames> names;

    void Offer(uint64_t symbol_value, NameRef name);
  };

  struct Slot {
    Candidate covering;   // the innermost symbol whose [value, value + size) contains the address
    Candidate preceding;  // the last symbol without a size at or before the address
    uint64_t sized_value = 0;    // the last start and the last end of sized symbols that begin
    uint64_t sized_end = 0;      // at or before the address
    uint64_t section_begin = 0;  // of the preceding candidate
    uint64_t section_end = 0;
  };

  void AddTable(const ElfFile& elf, const Section& section, NameSource source);
  void AddSymbol(const ElfFile& elf, const Elf64_Sym& symbol, uint16_t table);
  CoveringSymbol Describe(const Candidate& candidate, bool sized) const;

  const SymbolsOf wanted_;
  std::vector<uint64_t> addresses_;
  std::vector<Slot> slots_;  // one per address
  std::vector<Table> tables_;
  uint64_t symbols_left_;
  uint64_t updates_left_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_ELF_SYMBOLS_H_
