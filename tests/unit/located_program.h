// Small ELF files with panic locations, as a Rust compiler and a linker make them.
#ifndef PROFD_TESTS_UNIT_LOCATED_PROGRAM_H_
#define PROFD_TESTS_UNIT_LOCATED_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/fd.h"
#include "tests/unit/elf_builder.h"

namespace profd::test {

// How the program's pointers are stored.
enum class Pointers {
  kRelocated,  // in relocations; the data has zeros
  kInPlace,    // in the data itself
};

// Sections: .text, .eh_frame_hdr, .rodata with strings, .data.rel.ro with records, .rela.dyn. File
// offsets and addresses are the same.
class LocatedProgram {
 public:
  static constexpr uint64_t kCode = 0x1000;
  static constexpr uint64_t kStrings = 0x2000;
  static constexpr uint64_t kRecords = 0x6000;

  explicit LocatedProgram(Pointers pointers = Pointers::kRelocated) : pointers_(pointers) {}

  // Adds a Location and returns its address.
  uint64_t AddLocation(std::string_view path, uint32_t line = 1, uint32_t column = 1);
  // Adds a string slice and returns its address.
  uint64_t AddSlice(std::string_view text);
  void AddWord(uint64_t word) { Put(records_, word); }

  // Adds a function and returns its address. It loads these records, calls and jumps to addresses
  // that are not 0, and has `more` code before it returns.
  uint64_t AddFunction(const std::vector<uint64_t>& loads, uint64_t call = 0, uint64_t jump = 0,
                       const Bytes& more = {});
  uint64_t AddCode(const Bytes& code) { return AddFunction({}, 0, 0, code); }

  Bytes Build() const;
  // The same as a file in memory.
  UniqueFd BuildFile() const;

 private:
  const Pointers pointers_;
  Bytes code_;
  Bytes strings_;
  Bytes records_;
  std::vector<Elf64_Rela> relocations_;
  std::vector<uint64_t> begins_;
};

// A file in memory with these bytes.
UniqueFd FileOf(const Bytes& bytes);

}  // namespace profd::test

#endif  // PROFD_TESTS_UNIT_LOCATED_PROGRAM_H_
