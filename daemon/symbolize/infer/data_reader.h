// Reads the data of an ELF file by virtual address, through a small cache.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_DATA_READER_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_DATA_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

// A section with bytes in the file that is mapped as data.
struct DataRange {
  uint64_t address = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool writable = false;
};

// Not thread-safe.
class DataReader {
 public:
  // `elf` must outlive this.
  explicit DataReader(const ElfFile* elf);

  // Sections of data, by ascending address; at most a few hundred.
  const std::vector<DataRange>& ranges() const { return ranges_; }
  // The section that contains the `size` bytes at `address`; null if none does.
  const DataRange* Find(uint64_t address, uint64_t size) const;

  // Copies `size` bytes of data at `address`. False if they are not in one section, or if the file
  // is too short.
  bool Read(uint64_t address, void* out, size_t size);

 private:
  struct Block {
    uint64_t offset = UINT64_MAX;  // of the file
    size_t size = 0;
    std::unique_ptr<char[]> bytes;
  };

  const Block* Load(uint64_t offset);

  const ElfFile* const elf_;
  std::vector<DataRange> ranges_;
  std::vector<Block> blocks_;  // direct-mapped by offset
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_DATA_READER_H_
