// What the rule compiler needs from an ELF file: its code ranges, .eh_frame and a few symbols.
#ifndef PROFD_DAEMON_UNWIND_ELF_IMAGE_H_
#define PROFD_DAEMON_UNWIND_ELF_IMAGE_H_

#include <elf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/unwind/cfi.h"

namespace profd {

// A symbol with code, by file offset. `size` in bytes, 0 when the symbol has none.
struct CodeSymbol {
  std::string_view name;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// A view of a whole x86-64 ELF file; the bytes must outlive it. Every field is hostile.
class ElfImage {
 public:
  // InvalidArgument if it is not a little-endian x86-64 executable, position-independent executable
  // or shared object.
  static absl::StatusOr<ElfImage> Parse(std::span<const uint8_t> file);

  // File offset of the code at [address, address + size), which must lie in one executable
  // segment with bytes in the file.
  std::optional<uint64_t> CodeOffset(uint64_t address, uint64_t size) const;

  // Found by section header, else by the PT_GNU_EH_FRAME segment. Empty if there is none.
  std::optional<FrameSection> FindFrameSection() const;

  // The first section of this name; empty if there is none, or it has no bytes in the file.
  std::optional<Elf64_Shdr> FindSection(std::string_view name) const;

  // The .debug_frame, which compilers write instead for functions that shall have no .eh_frame. If
  // it is compressed, `unpacked` gets its bytes and must outlive the result.
  std::optional<FrameSection> FindDebugFrame(std::vector<uint8_t>& unpacked) const;

  // File offset of the entry point, when execution of a process or of its dynamic linker
  // begins there. (Old linkers also give plain libraries an entry point, which means nothing.)
  std::optional<uint64_t> EntryOffset() const;

  // Whether it is a program and not a library.
  bool is_program() const { return program_; }

  // Whether it was linked against other objects.
  bool needs_libraries() const { return has_needed_; }

  // Defined symbols of .symtab and .dynsym with one of these names, of at most `max_size` bytes;
  // at most a few dozen.
  std::vector<CodeSymbol> FindCode(std::span<const std::string_view> names,
                                   uint64_t max_size) const;

  std::span<const uint8_t> file() const { return file_; }

 private:
  struct Segment {
    uint64_t address = 0;
    uint64_t offset = 0;
    uint64_t size = 0;  // bytes in the file
  };

  explicit ElfImage(std::span<const uint8_t> file) : file_(file) {}

  absl::Status ReadProgramHeaders();
  void ReadSectionHeaders();
  void ReadDynamic(const Elf64_Phdr& header);
  std::span<const uint8_t> Bytes(uint64_t offset, uint64_t size) const;
  std::string_view SectionName(const Elf64_Shdr& section) const;
  std::optional<Elf64_Shdr> SectionHeader(uint64_t index) const;
  std::optional<FrameSection> FrameSectionByHeader() const;
  std::optional<FrameSection> FrameSectionBySegment() const;
  void FindCodeIn(const Elf64_Shdr& table, std::span<const std::string_view> names,
                  uint64_t max_size, std::vector<CodeSymbol>& found) const;

  std::span<const uint8_t> file_;
  Elf64_Ehdr header_ = {};
  uint64_t section_count_ = 0;
  std::span<const uint8_t> section_names_;
  std::vector<Segment> code_;
  std::optional<Elf64_Phdr> frame_header_segment_;
  bool program_ = false;
  bool has_needed_ = false;
  bool has_dynamic_ = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_ELF_IMAGE_H_
