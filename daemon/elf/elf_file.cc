#include "daemon/elf/elf_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/elf/build_id.h"

namespace profd::symbolize {
namespace {

// Normal files have dozens of sections; files built with one section per function have thousands.
constexpr uint64_t kMaxSections = 1 << 16;
constexpr uint64_t kMaxSegments = 4096;
// More than any linker makes; bounds the search for each address.
constexpr size_t kMaxCodeSegments = 64;
constexpr uint64_t kPageSize = 4096;
constexpr size_t kPieceBytes = 256 << 10;

constexpr uint64_t PageUp(uint64_t value) { return (value + kPageSize - 1) & ~(kPageSize - 1); }

}  // namespace

absl::StatusOr<ElfFile> ElfFile::Open(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus("fstat", errno);
  if (!S_ISREG(st.st_mode)) return absl::InvalidArgumentError("not a regular file");
  ElfFile file(fd, static_cast<uint64_t>(st.st_size));
  RETURN_IF_ERROR(file.ReadHeaders());
  return file;
}

absl::Status ElfFile::ReadHeaders() {
  Elf64_Ehdr header;
  if (size_ < sizeof(header)) return absl::InvalidArgumentError("too short for an ELF file");
  RETURN_IF_ERROR(Read(0, &header, sizeof(header)));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("not a little-endian ELF64 file");
  }

  machine_ = header.e_machine;
  // Counts that do not fit their 16 bits are kept in the first section's header.
  Elf64_Shdr first{};
  uint64_t section_count = header.e_shnum;
  uint64_t segment_count = header.e_phnum;
  names_index_ = header.e_shstrndx;
  if (header.e_shoff != 0 && header.e_shentsize == sizeof(Elf64_Shdr) &&
      Read(header.e_shoff, &first, sizeof(first)).ok()) {
    if (section_count == 0) section_count = first.sh_size;
    if (segment_count == PN_XNUM) segment_count = first.sh_info;
    if (names_index_ == SHN_XINDEX) names_index_ = first.sh_link;
    ReadSections(header, section_count);
  }
  ReadSegments(header, segment_count);
  return absl::OkStatus();
}

void ElfFile::ReadSections(const Elf64_Ehdr& header, uint64_t count) {
  const uint64_t fits = (size_ - header.e_shoff) / sizeof(Elf64_Shdr);
  count = std::min({count, fits, kMaxSections});
  std::vector<Elf64_Shdr> raw(count);
  if (!Read(header.e_shoff, raw.data(), count * sizeof(Elf64_Shdr)).ok()) return;
  sections_.reserve(count);
  for (const Elf64_Shdr& s : raw) {
    sections_.push_back({.name = s.sh_name,
                         .type = s.sh_type,
                         .link = s.sh_link,
                         .flags = s.sh_flags,
                         .address = s.sh_addr,
                         .offset = s.sh_offset,
                         .size = s.sh_size,
                         .entry_size = s.sh_entsize});
  }
}

void ElfFile::ReadSegments(const Elf64_Ehdr& header, uint64_t count) {
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff >= size_) return;
  const uint64_t fits = (size_ - header.e_phoff) / sizeof(Elf64_Phdr);
  count = std::min({count, fits, kMaxSegments});
  std::vector<Elf64_Phdr> raw(count);
  if (!Read(header.e_phoff, raw.data(), count * sizeof(Elf64_Phdr)).ok()) return;
  for (const Elf64_Phdr& p : raw) {
    if (p.p_type != PT_LOAD && p.p_type != PT_NOTE && p.p_type != PT_GNU_EH_FRAME) continue;
    segments_.push_back({.type = p.p_type,
                         .flags = p.p_flags,
                         .offset = p.p_offset,
                         .address = p.p_vaddr,
                         .file_size = p.p_filesz,
                         .memory_size = p.p_memsz,
                         .align = p.p_align});
    if (p.p_type == PT_LOAD && (p.p_flags & PF_X) != 0 && p.p_offset < size_ &&
        code_.size() < kMaxCodeSegments) {
      code_.push_back(segments_.back());
      code_.back().file_size = std::min(p.p_filesz, size_ - p.p_offset);
    }
  }
}

const Section* ElfFile::FindSection(uint32_t index) const {
  if (index == SHN_UNDEF || index >= sections_.size()) return nullptr;
  return &sections_[index];
}

const Section* ElfFile::FindSectionByName(std::string_view name) const {
  const Section* names = FindSection(names_index_);
  if (names == nullptr || names->type == SHT_NOBITS || names->offset > size_) return nullptr;
  const uint64_t end = names->offset + std::min(names->size, size_ - names->offset);
  for (const Section& section : sections_) {
    if (section.name >= end - names->offset) continue;
    if (ReadString(names->offset + section.name, end, name.size() + 1) == name) return &section;
  }
  return nullptr;
}

bool ElfFile::HasSection(uint32_t type) const {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const Section& section) { return section.type == type; });
}

std::optional<uint64_t> ElfFile::VaddrOfOffset(uint64_t offset) const {
  // The loader maps whole pages, so bytes around a segment in its pages are mapped, too.
  std::optional<uint64_t> exact;
  std::optional<uint64_t> executable_page;
  for (const Segment& segment : segments_) {
    if (segment.type != PT_LOAD) continue;
    const uint64_t vaddr = segment.address + (offset - segment.offset);
    const bool executable = (segment.flags & PF_X) != 0;
    if (offset >= segment.offset && offset - segment.offset < segment.file_size) {
      if (executable) return vaddr;
      if (!exact) exact = vaddr;
    } else if (executable && !executable_page) {
      const uint64_t lead = segment.offset % kPageSize;
      const uint64_t from_page = offset - (segment.offset - lead);
      if (segment.file_size <= size_ && offset >= segment.offset - lead &&
          from_page < PageUp(lead + segment.file_size)) {
        executable_page = vaddr;
      }
    }
  }
  return exact ? exact : executable_page;
}

std::optional<FileRange> ElfFile::CodeAt(uint64_t vaddr) const {
  for (const Segment& segment : code_) {
    if (vaddr < segment.address || vaddr - segment.address >= segment.file_size) continue;
    const uint64_t inside = vaddr - segment.address;
    return FileRange{.offset = segment.offset + inside, .size = segment.file_size - inside};
  }
  return std::nullopt;
}

std::string ElfFile::BuildId() const {
  for (const Segment& segment : segments_) {
    if (segment.type != PT_NOTE) continue;
    std::string id = BuildIdFromNotes(segment.offset, segment.file_size, segment.align);
    if (!id.empty()) return id;
  }
  for (const Section& section : sections_) {
    if (section.type != SHT_NOTE) continue;
    std::string id = BuildIdFromNotes(section.offset, section.size, 4);
    if (!id.empty()) return id;
  }
  return "";
}

std::string ElfFile::BuildIdFromNotes(uint64_t offset, uint64_t size, uint64_t align) const {
  if (offset > size_) return "";
  const auto read = [this](uint64_t at, void* out, size_t wanted) {
    return Read(at, out, wanted).ok();
  };
  return symbolize::BuildIdFromNotes(read, offset, offset + std::min(size, size_ - offset), align);
}

std::string ElfFile::HeadersId() const {
  Elf64_Ehdr header;
  if (!Read(0, &header, sizeof(header)).ok()) return "";
  uLong checksum = crc32(0, nullptr, 0);
  const auto add = [&](std::string_view bytes) {
    checksum = crc32(checksum, reinterpret_cast<const Bytef*>(bytes.data()),
                     static_cast<uInt>(bytes.size()));
    return true;
  };
  const auto add_table = [&](uint64_t offset, uint64_t entries, uint64_t entry_size) {
    const auto visit = [&](uint64_t /*at*/, std::string_view bytes) { return add(bytes); };
    return ReadPieces({.offset = offset, .size = entries * entry_size}, 0, visit).ok();
  };
  add({reinterpret_cast<const char*>(&header), sizeof(header)});
  // As far as the file goes.
  if (!add_table(header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr)) ||
      !add_table(header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr))) {
    return "";
  }
  return absl::StrCat(absl::Hex(size_), ".", absl::Hex(checksum, absl::kZeroPad8));
}

absl::Status ElfFile::Read(uint64_t offset, void* out, size_t size) const {
  if (offset > size_ || size > size_ - offset) {
    return absl::OutOfRangeError("file is shorter than its headers say");
  }
  return ReadFileAt(fd_, offset, out, size);
}

std::string ElfFile::ReadString(uint64_t offset, uint64_t end, size_t limit) const {
  end = std::min(end, size_);
  std::string text;
  // Most names are short; long ones are read in pieces of increasing size.
  size_t piece = 256;
  while (offset < end && text.size() < limit) {
    const size_t size =
        static_cast<size_t>(std::min<uint64_t>({piece, end - offset, limit - text.size()}));
    const size_t old_size = text.size();
    text.resize(old_size + size);
    if (!Read(offset, text.data() + old_size, size).ok()) return "";
    const size_t nul = text.find('\0', old_size);
    if (nul != std::string::npos) {
      text.resize(nul);
      return text;
    }
    offset += size;
    piece *= 4;
  }
  return text;
}

absl::Status ElfFile::ReadPieces(
    const FileRange& range, size_t overlap,
    absl::FunctionRef<bool(uint64_t at, std::string_view bytes)> visit) const {
  if (range.offset >= size_) return absl::OkStatus();
  const uint64_t end = range.offset + std::min(range.size, size_ - range.offset);
  std::vector<char> piece(static_cast<size_t>(std::min<uint64_t>(end - range.offset, kPieceBytes)));
  size_t kept = 0;
  for (uint64_t at = range.offset; at < end;) {
    const auto fresh = static_cast<size_t>(std::min<uint64_t>(piece.size() - kept, end - at));
    RETURN_IF_ERROR(Read(at, piece.data() + kept, fresh));
    const std::string_view bytes(piece.data(), kept + fresh);
    if (!visit(at - kept, bytes)) return absl::OkStatus();
    at += fresh;
    kept = std::min(overlap, bytes.size());
    std::memmove(piece.data(), bytes.data() + bytes.size() - kept, kept);
  }
  return absl::OkStatus();
}

}  // namespace profd::symbolize
