#include "daemon/unwind/elf_image.h"

#include <algorithm>
#include <cstring>

#include "daemon/unwind/byte_reader.h"
#include "daemon/unwind/compressed_section.h"

namespace profd {
namespace {

// More than any linker makes; bounds the search per function.
constexpr size_t kMaxCodeSegments = 64;
constexpr size_t kMaxFoundSymbols = 64;
constexpr uint64_t kMaxNameSize = 32;
constexpr std::string_view kFrameSectionName = ".eh_frame";
constexpr std::string_view kFrameHeaderName = ".eh_frame_hdr";
constexpr std::string_view kDebugFrameName = ".debug_frame";

template <typename T>
bool ReadStruct(std::span<const uint8_t> bytes, uint64_t offset, T& out) {
  ByteReader reader(bytes, offset);
  out = reader.Read<T>();
  return reader.ok();
}

}  // namespace

absl::StatusOr<ElfImage> ElfImage::Parse(std::span<const uint8_t> file) {
  ElfImage image(file);
  Elf64_Ehdr& header = image.header_;
  if (!ReadStruct(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64) {
    return absl::InvalidArgumentError("not an x86-64 ELF file");
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
    return absl::InvalidArgumentError("ELF file is neither a program nor a shared object");
  }
  RETURN_IF_ERROR(image.ReadProgramHeaders());
  image.ReadSectionHeaders();
  return image;
}

absl::Status ElfImage::ReadProgramHeaders() {
  if (header_.e_phnum == 0) return absl::OkStatus();
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) {
    return absl::InvalidArgumentError("ELF file has program headers of an unexpected size");
  }
  program_ = header_.e_type == ET_EXEC;
  for (uint64_t i = 0; i < header_.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadStruct(file_, header_.e_phoff + i * sizeof(segment), segment)) {
      return absl::InvalidArgumentError("ELF program headers lie outside the file");
    }
    switch (segment.p_type) {
      case PT_LOAD:
        if ((segment.p_flags & PF_X) != 0 && segment.p_offset < file_.size() &&
            code_.size() < kMaxCodeSegments) {
          code_.push_back({segment.p_vaddr, segment.p_offset,
                           std::min<uint64_t>(segment.p_filesz, file_.size() - segment.p_offset)});
        }
        break;
      case PT_INTERP:
        program_ = true;
        break;
      case PT_DYNAMIC:
        if (!has_dynamic_) ReadDynamic(segment);
        break;
      case PT_GNU_EH_FRAME:
        if (!frame_header_segment_) frame_header_segment_ = segment;
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

void ElfImage::ReadDynamic(const Elf64_Phdr& header) {
  has_dynamic_ = true;
  ByteReader reader(Bytes(header.p_offset, header.p_filesz));
  while (reader.remaining() >= sizeof(Elf64_Dyn)) {
    const auto entry = reader.Read<Elf64_Dyn>();
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) has_needed_ = true;
    if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0) program_ = true;
  }
}

void ElfImage::ReadSectionHeaders() {
  if (header_.e_shoff == 0 || header_.e_shoff >= file_.size() ||
      header_.e_shentsize != sizeof(Elf64_Shdr)) {
    return;
  }
  Elf64_Shdr first;
  if (!ReadStruct(file_, header_.e_shoff, first)) return;
  // Counts that do not fit the file header are kept in the first section header.
  const uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
  section_count_ = std::min<uint64_t>(count, (file_.size() - header_.e_shoff) / sizeof(Elf64_Shdr));
  const uint64_t names = header_.e_shstrndx == SHN_XINDEX ? first.sh_link : header_.e_shstrndx;
  if (auto section = SectionHeader(names); section && section->sh_type == SHT_STRTAB) {
    section_names_ = Bytes(section->sh_offset, section->sh_size);
  }
}

std::span<const uint8_t> ElfImage::Bytes(uint64_t offset, uint64_t size) const {
  if (offset > file_.size() || size > file_.size() - offset) return {};
  return file_.subspan(offset, size);
}

std::optional<Elf64_Shdr> ElfImage::SectionHeader(uint64_t index) const {
  Elf64_Shdr section;
  if (index >= section_count_ ||
      !ReadStruct(file_, header_.e_shoff + index * sizeof(section), section)) {
    return std::nullopt;
  }
  return section;
}

std::string_view ElfImage::SectionName(const Elf64_Shdr& section) const {
  return ByteReader(section_names_, section.sh_name).ReadString(kMaxNameSize);
}

std::optional<Elf64_Shdr> ElfImage::FindSection(std::string_view name) const {
  for (uint64_t i = 0; i < section_count_; ++i) {
    const std::optional<Elf64_Shdr> section = SectionHeader(i);
    if (!section || section->sh_type == SHT_NOBITS || SectionName(*section) != name) continue;
    return section;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfImage::CodeOffset(uint64_t address, uint64_t size) const {
  for (const Segment& segment : code_) {
    if (address < segment.address) continue;
    const uint64_t inside = address - segment.address;
    if (inside < segment.size && size <= segment.size - inside) return segment.offset + inside;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfImage::EntryOffset() const {
  if (header_.e_entry == 0) return std::nullopt;
  // The dynamic linker is a library that needs no other library, and is not a program.
  if (!program_ && has_needed_) return std::nullopt;
  return CodeOffset(header_.e_entry, 1);
}

std::optional<FrameSection> ElfImage::FindFrameSection() const {
  std::optional<FrameSection> section = FrameSectionByHeader();
  if (!section) section = FrameSectionBySegment();
  if (section && !code_.empty()) section->text_base = code_.front().address;
  return section;
}

std::optional<FrameSection> ElfImage::FrameSectionByHeader() const {
  std::optional<FrameSection> found;
  uint64_t data_base = frame_header_segment_ ? frame_header_segment_->p_vaddr : 0;
  for (uint64_t i = 0; i < section_count_; ++i) {
    const std::optional<Elf64_Shdr> section = SectionHeader(i);
    if (!section || (section->sh_flags & SHF_ALLOC) == 0 || section->sh_type == SHT_NOBITS) {
      continue;
    }
    const std::string_view name = SectionName(*section);
    if (name == kFrameHeaderName) data_base = section->sh_addr;
    if (name != kFrameSectionName || found) continue;
    const std::span<const uint8_t> bytes = Bytes(section->sh_offset, section->sh_size);
    if (bytes.empty()) continue;
    found.emplace();
    found->bytes = bytes;
    found->address = section->sh_addr;
  }
  if (found) found->data_base = data_base;
  return found;
}

std::optional<FrameSection> ElfImage::FrameSectionBySegment() const {
  if (!frame_header_segment_) return std::nullopt;
  const uint64_t address = frame_header_segment_->p_vaddr;
  const std::optional<uint64_t> start = ReadFrameHeader(
      Bytes(frame_header_segment_->p_offset, frame_header_segment_->p_filesz), address);
  if (!start) return std::nullopt;
  for (uint64_t i = 0; i < header_.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadStruct(file_, header_.e_phoff + i * sizeof(segment), segment)) break;
    if (segment.p_type != PT_LOAD || *start < segment.p_vaddr || segment.p_offset > file_.size()) {
      continue;
    }
    const uint64_t inside = *start - segment.p_vaddr;
    const uint64_t size = std::min<uint64_t>(segment.p_filesz, file_.size() - segment.p_offset);
    if (inside >= size) continue;
    FrameSection section;
    section.bytes = Bytes(segment.p_offset + inside, size - inside);
    section.address = *start;
    section.data_base = address;
    section.exact_size = false;
    return section;
  }
  return std::nullopt;
}

std::optional<FrameSection> ElfImage::FindDebugFrame(std::vector<uint8_t>& unpacked) const {
  for (uint64_t i = 0; i < section_count_; ++i) {
    const std::optional<Elf64_Shdr> section = SectionHeader(i);
    if (!section || section->sh_type == SHT_NOBITS || SectionName(*section) != kDebugFrameName) {
      continue;
    }
    FrameSection found;
    found.debug_frame = true;
    found.bytes = Bytes(section->sh_offset, section->sh_size);
    if ((section->sh_flags & SHF_COMPRESSED) != 0) {
      std::optional<std::vector<uint8_t>> contents =
          UnpackSection(found.bytes, kMaxDebugFrameBytes);
      if (!contents) return std::nullopt;
      unpacked = *std::move(contents);
      found.bytes = unpacked;
    }
    if (found.bytes.empty()) return std::nullopt;
    return found;
  }
  return std::nullopt;
}

std::vector<CodeSymbol> ElfImage::FindCode(std::span<const std::string_view> names,
                                           uint64_t max_size) const {
  std::vector<CodeSymbol> found;
  // Only one table of each type is read, so many headers for the same bytes cost nothing.
  bool seen_static = false;
  bool seen_dynamic = false;
  for (uint64_t i = 0; i < section_count_; ++i) {
    const std::optional<Elf64_Shdr> section = SectionHeader(i);
    if (!section) break;
    bool* seen = section->sh_type == SHT_SYMTAB   ? &seen_static
                 : section->sh_type == SHT_DYNSYM ? &seen_dynamic
                                                  : nullptr;
    if (seen == nullptr || *seen) continue;
    *seen = true;
    FindCodeIn(*section, names, max_size, found);
  }
  return found;
}

void ElfImage::FindCodeIn(const Elf64_Shdr& table, std::span<const std::string_view> names,
                          uint64_t max_size, std::vector<CodeSymbol>& found) const {
  const std::optional<Elf64_Shdr> strings_header = SectionHeader(table.sh_link);
  if (!strings_header || strings_header->sh_type != SHT_STRTAB) return;
  const std::span<const uint8_t> strings =
      Bytes(strings_header->sh_offset, strings_header->sh_size);
  ByteReader reader(Bytes(table.sh_offset, table.sh_size));
  while (reader.remaining() >= sizeof(Elf64_Sym) && found.size() < kMaxFoundSymbols) {
    const auto symbol = reader.Read<Elf64_Sym>();
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_NOTYPE)) continue;
    // Most symbols are rejected here, before a page of their names is read.
    if (symbol.st_size > max_size) continue;
    const std::string_view name = ByteReader(strings, symbol.st_name).ReadString(kMaxNameSize);
    const auto match = std::find(names.begin(), names.end(), name);
    if (match == names.end()) continue;
    if (const std::optional<uint64_t> offset = CodeOffset(symbol.st_value, 1)) {
      found.push_back({*match, *offset, symbol.st_size});
    }
  }
}

}  // namespace profd
