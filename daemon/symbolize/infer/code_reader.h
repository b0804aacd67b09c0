// Reads the machine code of an ELF file by virtual address, many functions at a time.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CODE_READER_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CODE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

// The functions of a file, each of which ends where the next one begins. Not thread-safe.
class CodeReader {
 public:
  // All must outlive this. `begins`: addresses of functions, ascending.
  CodeReader(const ElfFile* elf, std::span<const uint64_t> begins) : elf_(elf), begins_(begins) {}

  size_t count() const { return begins_.size(); }
  uint64_t BeginOf(size_t function) const { return begins_[function]; }
  // The function that contains `address`.
  std::optional<size_t> FunctionAt(uint64_t address) const;
  // The function that begins there.
  std::optional<size_t> FunctionFrom(uint64_t address) const;
  // Empty if the code cannot be read. At most 256 KiB of a function. Valid until the next call.
  std::span<const uint8_t> Code(size_t function);

 private:
  uint64_t SizeOf(size_t function) const;

  const ElfFile* const elf_;
  const std::span<const uint64_t> begins_;
  // What was read last, from `at_` on.
  std::vector<uint8_t> bytes_;
  uint64_t at_ = 0;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CODE_READER_H_
