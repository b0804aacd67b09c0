// Finds the panic locations of an ELF file.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_LOCATION_READER_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_LOCATION_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/data_reader.h"
#include "daemon/symbolize/infer/source_path.h"

namespace profd::symbolize {

// Goes through the pointers of the data of a file once. Pointers are where relocations of the type
// R_X86_64_RELATIVE say; in programs at a fixed address, and with packed relocations (SHT_RELR),
// they are the words of the data themselves.
class LocationReader {
 public:
  struct Record {
    uint64_t address = 0;
    uint32_t file = 0;  // index into the files
    uint32_t line = 0;
  };

  // `elf` must outlive this.
  explicit LocationReader(const ElfFile* elf) : elf_(elf), data_(elf) {}

  void ReadAll();

  // The following are for use after ReadAll. Records are in the order in which they were found.
  std::vector<Record> TakeRecords() { return std::move(records_); }
  const std::vector<SourceFile>& files() const { return files_; }
  // The crate of the files below a root, as metadata of `tracing` tells it: "" means that the
  // first module is the crate. None if nothing is known.
  std::optional<std::string> CrateOfRoot(const std::string& root) const;

 private:
  // A string slice in the data: pointer and length.
  struct Slice {
    uint64_t slot = 0;  // its own address
    uint64_t pointer = 0;
    uint64_t length = 0;
  };

  void ReadRelocations(const Section& section);
  void ScanRange(const DataRange& range);
  void Consider(uint64_t slot, uint64_t pointer);
  std::optional<uint32_t> FileOf(const Slice& slice);
  uint32_t InternPath(const Slice& slice);
  void Learn(uint32_t file, const Slice& slice);

  const ElfFile* const elf_;
  DataReader data_;
  uint64_t pointers_ = 0;
  std::vector<Record> records_;
  std::vector<SourceFile> files_;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, uint32_t> by_slice_;
  absl::flat_hash_map<std::string, uint32_t> by_path_;
  std::array<Slice, 8> recent_ = {};  // the last strings that are not paths
  size_t next_recent_ = 0;
  std::optional<std::pair<uint64_t, uint32_t>> path_;  // slot and file of the last path alone
  // Root of source files to crates that were seen with them, and how often.
  std::map<std::string, std::map<std::string, uint32_t>> learned_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_LOCATION_READER_H_
