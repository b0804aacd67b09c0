// A bounds-checked reader of ELF64 files that may lie, be sparse, or shrink while they are read.
#ifndef PROFD_DAEMON_ELF_ELF_FILE_H_
#define PROFD_DAEMON_ELF_ELF_FILE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"

namespace profd::symbolize {

struct Section {
  uint32_t name = 0;  // offset in the section name table
  uint32_t type = 0;
  uint32_t link = 0;
  uint64_t flags = 0;
  uint64_t address = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entry_size = 0;

  bool Executable() const { return (flags & SHF_EXECINSTR) != 0; }
  bool Contains(uint64_t vaddr) const { return vaddr >= address && vaddr - address < size; }
};

// Bytes of a file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct Segment {
  uint32_t type = 0;
  uint32_t flags = 0;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint64_t file_size = 0;
  uint64_t memory_size = 0;
  uint64_t align = 0;
};

// The headers of one file. Everything is read with pread: with a mapping, the process would be
// killed if the owner of the file truncated it.
class ElfFile {
 public:
  // Reads the headers of the regular file behind `fd`, which must outlive the result. A file with a
  // broken section table has no sections. Errors: InvalidArgument if it is not a little-endian
  // ELF64 file, and read errors.
  static absl::StatusOr<ElfFile> Open(int fd);

  uint16_t machine() const { return machine_; }  // EM_*

  const std::vector<Section>& sections() const { return sections_; }
  // Segments of type PT_LOAD, PT_NOTE and PT_GNU_EH_FRAME.
  const std::vector<Segment>& segments() const { return segments_; }
  // Null if `index` is out of range, SHN_UNDEF or a reserved number.
  const Section* FindSection(uint32_t index) const;
  const Section* FindSectionByName(std::string_view name) const;
  // Whether there is a section of type `type` (SHT_*).
  bool HasSection(uint32_t type) const;

  // The virtual address at which the loader maps the byte at `offset`; none if no PT_LOAD segment
  // contains it. If segments share a page of the file, the executable one wins.
  std::optional<uint64_t> VaddrOfOffset(uint64_t offset) const;

  // The file position of the code at `vaddr`, and how many bytes of its executable segment follow;
  // none if `vaddr` is not code.
  std::optional<FileRange> CodeAt(uint64_t vaddr) const;

  // The GNU build-id as hex; "" when there is none.
  std::string BuildId() const;
  // Tells files without a build-id apart: their size, and a checksum (CRC-32) of their headers,
  // hex.
  // "" if they cannot be read.
  std::string HeadersId() const;

  // Reads exactly `size` bytes at `offset`. OutOfRange if the file is too short.
  absl::Status Read(uint64_t offset, void* out, size_t size) const;
  // The NUL-terminated string at `offset`, cut at `end` or after `limit` bytes. "" if it cannot be
  // read.
  std::string ReadString(uint64_t offset, uint64_t end, size_t limit) const;
  // Reads `range`, as far as the file goes, in pieces of about 256 KiB. Calls `visit(at, bytes)`
  // for each until it returns false. Each piece repeats the last `overlap` bytes (fewer than 4096)
  // of the previous one, so anything up to that length is complete in one of them.
  absl::Status ReadPieces(const FileRange& range, size_t overlap,
                          absl::FunctionRef<bool(uint64_t at, std::string_view bytes)> visit) const;

 private:
  ElfFile(int fd, uint64_t size) : fd_(fd), size_(size) {}
  absl::Status ReadHeaders();
  void ReadSections(const Elf64_Ehdr& header, uint64_t count);
  void ReadSegments(const Elf64_Ehdr& header, uint64_t count);
  std::string BuildIdFromNotes(uint64_t offset, uint64_t size, uint64_t align) const;

  int fd_;
  uint64_t size_;
  uint16_t machine_ = EM_NONE;
  uint32_t names_index_ = 0;
  std::vector<Section> sections_;
  std::vector<Segment> segments_;
  std::vector<Segment> code_;  // executable PT_LOAD segments, cut to the size of the file
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_ELF_ELF_FILE_H_
