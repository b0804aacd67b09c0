#include "daemon/symbolize/module_code.h"

#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace profd::symbolize {
namespace {

constexpr size_t kMaxSegments = 16;

// "address.size.checksum", hexadecimal; empty if the section cannot be read.
std::string Describe(const ElfFile& elf, const Section& section) {
  uLong checksum = crc32(0, nullptr, 0);
  uint64_t read = 0;
  const auto visit = [&](uint64_t /*at*/, std::string_view bytes) {
    checksum = crc32(checksum, reinterpret_cast<const Bytef*>(bytes.data()),
                     static_cast<uInt>(bytes.size()));
    read += bytes.size();
    return true;
  };
  if (!elf.ReadPieces({.offset = section.offset, .size = section.size}, 0, visit).ok() ||
      read != section.size) {
    return "";
  }
  return absl::StrCat(absl::Hex(section.address), ".", absl::Hex(section.size), ".",
                      absl::Hex(static_cast<uint32_t>(checksum)));
}

}  // namespace

std::string CodeIdOf(const ElfFile& elf, uint64_t* bytes_left) {
  std::string id;
  for (const char* name : {".text", ".eh_frame"}) {
    const Section* section = elf.FindSectionByName(name);
    if (section == nullptr || section->type == SHT_NOBITS || section->size == 0 ||
        section->size > *bytes_left) {
      return "";
    }
    *bytes_left -= section->size;
    const std::string part = Describe(elf, *section);
    if (part.empty()) return "";
    absl::StrAppend(&id, id.empty() ? "" : "-", part);
  }
  return id;
}

std::vector<Segment> CodeSegmentsOf(const ElfFile& elf) {
  std::vector<Segment> segments;
  for (const Segment& segment : elf.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    if (segments.size() == kMaxSegments) break;
    segments.push_back(segment);
  }
  return segments;
}

}  // namespace profd::symbolize
