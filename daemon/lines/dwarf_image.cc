#include "daemon/lines/dwarf_image.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/elf/elf_file.h"
#include "daemon/lines/protocol.h"
#include "daemon/symbolize/debug_file.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::Section;

// The headers of linux/elf.h may be older.
constexpr uint32_t kZstd = 2;  // ELFCOMPRESS_ZSTD
constexpr uint64_t kMostDecompressed = 192 << 20;
constexpr size_t kLongestName = 64;

std::string NameOf(const ElfFile& elf, const Section& names, const Section& section) {
  return elf.ReadString(names.offset + section.name, names.offset + names.size, kLongestName);
}

// The section of section names. ElfFile looks names up, but lists none.
const Section* FindNames(const ElfFile& elf) {
  const Section* found = elf.FindSectionByName(".shstrtab");
  return found != nullptr && found->type == SHT_STRTAB ? found : nullptr;
}

bool IsZstd(const ElfFile& elf, const Section& section) {
  Elf64_Chdr header;
  return (section.flags & SHF_COMPRESSED) != 0 && section.type != SHT_NOBITS &&
         section.size >= sizeof(header) && elf.Read(section.offset, &header, sizeof(header)).ok() &&
         header.ch_type == kZstd;
}

// Builds an ELF file with nothing but sections.
class ImageBuilder {
 public:
  explicit ImageBuilder(uint16_t machine) : machine_(machine), bytes_(sizeof(Elf64_Ehdr), '\0') {
    headers_.emplace_back();
  }

  // Where `size` bytes of a section go.
  char* Add(const std::string& name, uint32_t type, uint64_t flags, uint64_t size) {
    constexpr size_t kAlignment = 16;
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    Elf64_Shdr& header = headers_.emplace_back();
    header.sh_name = static_cast<Elf64_Word>(names_.size());
    header.sh_type = type;
    header.sh_flags = flags;
    header.sh_offset = bytes_.size();
    header.sh_size = size;
    header.sh_addralign = 1;
    names_ += name;
    names_ += '\0';
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + header.sh_offset;
  }

  std::string Finish() {
    const std::string name = ".shstrtab";
    const size_t size = names_.size() + name.size() + 1;
    char* const to = Add(name, SHT_STRTAB, 0, size);
    std::memcpy(to, names_.data(), names_.size());
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = machine_;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof(header);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(headers_.size());
    header.e_shstrndx = static_cast<Elf64_Half>(headers_.size() - 1);
    header.e_shoff =
        (bytes_.size() + alignof(Elf64_Shdr) - 1) / alignof(Elf64_Shdr) * alignof(Elf64_Shdr);
    bytes_.resize(header.e_shoff);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    bytes_.append(reinterpret_cast<const char*>(headers_.data()),
                  headers_.size() * sizeof(Elf64_Shdr));
    return std::move(bytes_);
  }

 private:
  const uint16_t machine_;
  std::string bytes_;
  std::string names_ = std::string(1, '\0');
  std::vector<Elf64_Shdr> headers_;
};

absl::Status AddDecompressed(const ElfFile& elf, const Section& section, const std::string& name,
                             ImageBuilder& image) {
  std::string compressed(section.size, '\0');
  RETURN_IF_ERROR(elf.Read(section.offset, compressed.data(), compressed.size()));
  Elf64_Chdr header;
  std::memcpy(&header, compressed.data(), sizeof(header));
  char* const to =
      image.Add(name, section.type, section.flags & ~uint64_t{SHF_COMPRESSED}, header.ch_size);
  const size_t size = ZSTD_decompress(to, header.ch_size, compressed.data() + sizeof(header),
                                      compressed.size() - sizeof(header));
  if (ZSTD_isError(size) != 0 || size != header.ch_size) {
    return absl::DataLossError(absl::StrCat("section ", name, " cannot be decompressed"));
  }
  return absl::OkStatus();
}

// The debug sections of a file, of which some are compressed by zstd.
absl::StatusOr<std::string> Decompress(const ElfFile& elf, const Section& names, uint64_t most) {
  ImageBuilder image(elf.machine());
  uint64_t total = 0;
  for (const Section& section : elf.sections()) {
    const std::string name = NameOf(elf, names, section);
    if (!name.starts_with(".debug_") || section.type == SHT_NOBITS) continue;
    uint64_t size = section.size;
    if (IsZstd(elf, section)) {
      Elf64_Chdr header;
      RETURN_IF_ERROR(elf.Read(section.offset, &header, sizeof(header)));
      size = header.ch_size;
    }
    if (size > most - total || section.size > most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", most >> 20, " MiB of compressed debug info"));
    }
    total += size;
    if (IsZstd(elf, section)) {
      RETURN_IF_ERROR(AddDecompressed(elf, section, name, image));
      continue;
    }
    char* const to = image.Add(name, section.type, section.flags, section.size);
    RETURN_IF_ERROR(elf.Read(section.offset, to, section.size));
  }
  return image.Finish();
}

// .gnu_debugaltlink: a file name, and the build-id of the file.
struct SupplementaryFile {
  std::string name;      // "": there is none
  std::string build_id;  // hex
};

SupplementaryFile ReadSupplementaryFile(const ElfFile& elf) {
  SupplementaryFile found;
  const Section* section = elf.FindSectionByName(".gnu_debugaltlink");
  if (section == nullptr || section->type == SHT_NOBITS ||
      section->size > UINT64_MAX - section->offset) {
    return found;
  }
  const uint64_t end = section->offset + section->size;
  std::string name = elf.ReadString(section->offset, end, kMaxFileName);
  const uint64_t id_at = section->offset + name.size() + 1;
  if (name.empty() || id_at >= end || end - id_at > kMaxBuildId / 2) return found;
  std::string build_id(end - id_at, '\0');
  if (!elf.Read(id_at, build_id.data(), build_id.size()).ok()) return found;
  found.name = std::move(name);
  found.build_id = absl::BytesToHexString(build_id);
  return found;
}

}  // namespace

absl::StatusOr<DwarfImage> DwarfImage::Open(int fd, OpenSupplementary open_supplementary) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  ASSIGN_OR_RETURN(DwarfImage image, OpenAlone(fd, elf, kMostDecompressed));
  const SupplementaryFile wanted = ReadSupplementaryFile(elf);
  if (wanted.name.empty()) return image;
  UniqueFd supplementary_fd = open_supplementary(wanted.name, wanted.build_id);
  const absl::StatusOr<ElfFile> supplementary_elf = supplementary_fd.ok()
                                                        ? ElfFile::Open(supplementary_fd.get())
                                                        : absl::NotFoundError("no file");
  if (!supplementary_elf.ok()) return image;
  // Both are in the memory of one worker.
  const uint64_t used = image.bytes_ ? image.bytes_->size() : 0;
  const uint64_t left = kMostDecompressed - std::min(kMostDecompressed, used);
  // Without it, what is in the file itself is known all the same.
  if (absl::StatusOr<DwarfImage> opened =
          OpenAlone(supplementary_fd.get(), *supplementary_elf, left);
      opened.ok()) {
    image.supplementary_fd_ = std::move(supplementary_fd);
    image.supplementary_ = std::make_unique<DwarfImage>(*std::move(opened));
    dwarf_setalt(image.dwarf(), image.supplementary_->dwarf());
  }
  return image;
}

absl::StatusOr<DwarfImage> DwarfImage::OpenAlone(int fd, const ElfFile& elf,
                                                 uint64_t most_decompressed) {
  if (!symbolize::HasDebugInfo(elf)) return absl::NotFoundError("no debug info");
  DwarfImage image;
  const Section* names = FindNames(elf);
  const bool zstd =
      names != nullptr && std::any_of(elf.sections().begin(), elf.sections().end(),
                                      [&](const Section& section) { return IsZstd(elf, section); });
  elf_version(EV_CURRENT);
  if (zstd) {
    ASSIGN_OR_RETURN(std::string bytes, Decompress(elf, *names, most_decompressed));
    image.bytes_ = std::make_unique<std::string>(std::move(bytes));
    image.elf_.reset(elf_memory(image.bytes_->data(), image.bytes_->size()));
  } else {
    // Mapped, as debug info may be larger than memory; only what is compressed is copied.
    image.elf_.reset(elf_begin(fd, ELF_C_READ_MMAP, nullptr));
  }
  if (image.elf_ == nullptr) {
    return absl::DataLossError(absl::StrCat("not readable: ", elf_errmsg(-1)));
  }
  image.dwarf_.reset(dwarf_begin_elf(image.elf_.get(), DWARF_C_READ, nullptr));
  if (image.dwarf_ == nullptr) {
    return absl::DataLossError(absl::StrCat("no usable debug info: ", dwarf_errmsg(-1)));
  }
  return image;
}

}  // namespace profd
