// The source locations that a Rust program carries for its panics.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_LOCATIONS_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_LOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/source_path.h"

namespace profd::symbolize {

// A source file of the program.
struct LocatedFile {
  std::string module;  // "tokio::runtime::park"
  uint32_t crate = 0;  // index into crates()
  SourceFile::Origin origin = SourceFile::Origin::kUnknown;
};

struct LocatedLine {
  uint32_t file = 0;  // index into LocationTable::files()
  uint32_t line = 0;
};

// Every core::panic::Location of a file: {pointer and length of the path, line, column}, and which
// source file each is in. Paths of workspaces do not tell the name of their crate. Where a program
// uses the crate `tracing`, its metadata has paths together with names of modules, which do.
class LocationTable {
 public:
  // Reads all records. Errors in the file end the search: what was found until then counts.
  // `own_crate` is the crate of files whose path names none. Time and memory are bounded: a few
  // million pointers, 2^20 records, 2^15 source files.
  static LocationTable Read(const ElfFile& elf, std::string_view own_crate);

  // Index into files() for the record at this address; none if there is no record.
  std::optional<uint32_t> FileAt(uint64_t address) const;
  std::optional<LocatedLine> LineAt(uint64_t address) const;
  // The lines of a file that have records, ascending.
  std::vector<uint32_t> LinesOf(uint32_t file) const;

  const std::vector<LocatedFile>& files() const { return files_; }
  const std::vector<std::string>& crates() const { return crates_; }
  size_t record_count() const { return records_.size(); }
  // How many records each crate has.
  std::vector<uint32_t> RecordsOfCrates() const;
  size_t MemoryBytes() const;

 private:
  struct Record {
    uint64_t address;
    uint32_t file;
    uint32_t line;
  };

  std::vector<Record> records_;  // by address
  std::vector<LocatedFile> files_;
  std::vector<std::string> crates_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_LOCATIONS_H_
