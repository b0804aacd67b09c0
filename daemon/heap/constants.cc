#include "daemon/heap/constants.h"

#include <algorithm>

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::Section;

// The largest programs have some 60 MB of constants.
constexpr uint64_t kMaxConstantBytes = 512 << 20;

}  // namespace

// Constants are in read-only sections. Without section headers: in read-only segments, or in the
// code segment if the linker made no separate one.
std::vector<FileRange> FindConstants(const ElfFile& elf) {
  std::vector<FileRange> ranges;
  const Section* frames = elf.FindSectionByName(".eh_frame");
  for (const Section& section : elf.sections()) {
    const uint64_t excluded = SHF_WRITE | SHF_EXECINSTR | SHF_COMPRESSED;
    if (section.type == SHT_PROGBITS && (section.flags & SHF_ALLOC) != 0 &&
        (section.flags & excluded) == 0 && &section != frames) {
      ranges.push_back({.offset = section.offset, .size = section.size});
    }
  }
  for (const uint32_t excluded : {PF_W | PF_X, PF_W}) {
    if (!ranges.empty()) break;
    for (const symbolize::Segment& segment : elf.segments()) {
      if (segment.type == PT_LOAD && (segment.flags & excluded) == 0) {
        ranges.push_back({.offset = segment.offset, .size = segment.file_size});
      }
    }
  }
  uint64_t left = kMaxConstantBytes;
  for (FileRange& range : ranges) {
    range.size = std::min(range.size, left);
    left -= range.size;
  }
  return ranges;
}

}  // namespace profd
