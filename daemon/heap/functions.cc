#include "daemon/heap/functions.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/unwind/cfi.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::Section;
using symbolize::Segment;

// The largest programs have some 30 MB of .eh_frame and 700,000 functions.
constexpr uint64_t kMaxFrameBytes = 64 << 20;
constexpr size_t kMaxFunctions = 2'000'000;
constexpr uint64_t kMaxFrameHeaderBytes = 64;  // as much of it as is read
// Gaps between functions up to this size are read with them instead of skipped; and the most that
// is read at once.
constexpr uint64_t kMaxGap = 4096;
constexpr uint64_t kMaxBatchBytes = 256 << 10;
// The largest programs have 300 MB of code. A larger sum means that functions overlap.
constexpr uint64_t kMaxVisitedBytes = 512 << 20;

// Position of .eh_frame, and the bases of its pointers.
struct FramePlace {
  FileRange range;
  FrameSection section;  // `bytes` is not set yet
};

std::optional<FramePlace> FindBySection(const ElfFile& elf) {
  const Section* found = elf.FindSectionByName(".eh_frame");
  if (found == nullptr || found->type == SHT_NOBITS || (found->flags & SHF_ALLOC) == 0 ||
      (found->flags & SHF_COMPRESSED) != 0) {
    return std::nullopt;
  }
  FramePlace place;
  place.range = {.offset = found->offset, .size = found->size};
  place.section.address = found->address;
  return place;
}

std::optional<FramePlace> FindBySegment(const ElfFile& elf, const Segment& header) {
  uint8_t bytes[kMaxFrameHeaderBytes];
  const auto size = static_cast<size_t>(std::min<uint64_t>(header.file_size, sizeof(bytes)));
  if (!elf.Read(header.offset, bytes, size).ok()) return std::nullopt;
  const std::optional<uint64_t> address = ReadFrameHeader({bytes, size}, header.address);
  if (!address) return std::nullopt;
  for (const Segment& segment : elf.segments()) {
    if (segment.type != PT_LOAD || *address < segment.address ||
        *address - segment.address >= segment.file_size) {
      continue;
    }
    const uint64_t inside = *address - segment.address;
    FramePlace place;
    place.range = {.offset = segment.offset + inside, .size = segment.file_size - inside};
    place.section.address = *address;
    place.section.exact_size = false;
    return place;
  }
  return std::nullopt;
}

std::optional<FramePlace> FindFrames(const ElfFile& elf) {
  const auto& segments = elf.segments();
  const auto header = std::find_if(segments.begin(), segments.end(), [](const Segment& segment) {
    return segment.type == PT_GNU_EH_FRAME;
  });
  std::optional<FramePlace> place = FindBySection(elf);
  if (!place && header != segments.end()) place = FindBySegment(elf, *header);
  if (!place) return std::nullopt;
  if (header != segments.end()) place->section.data_base = header->address;
  const auto text = std::find_if(segments.begin(), segments.end(), [](const Segment& segment) {
    return segment.type == PT_LOAD && (segment.flags & PF_X) != 0;
  });
  if (text != segments.end()) place->section.text_base = text->address;
  return place;
}

}  // namespace

absl::StatusOr<std::vector<FileRange>> ListFunctions(const ElfFile& elf) {
  std::optional<FramePlace> place = FindFrames(elf);
  if (!place || place->range.size == 0) return std::vector<FileRange>();
  // Without a section header the segment may extend past .eh_frame: a terminator ends the list.
  const uint64_t size =
      place->section.exact_size ? place->range.size : std::min(place->range.size, kMaxFrameBytes);
  if (size > kMaxFrameBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(".eh_frame has ", size, " bytes, more than the limit of ", kMaxFrameBytes));
  }
  // Check that the file has these bytes before allocating memory for them.
  uint8_t last;
  RETURN_IF_ERROR(elf.Read(place->range.offset + size - 1, &last, sizeof(last)));
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  RETURN_IF_ERROR(elf.Read(place->range.offset, bytes.data(), bytes.size()));
  place->section.bytes = bytes;

  std::vector<FileRange> functions;
  bool too_many = false;
  FrameReader(place->section).ForEachFunction([&](const FrameDescription& function) {
    const std::optional<FileRange> code = elf.CodeAt(function.begin);
    if (!code || function.size == 0) return;
    too_many = functions.size() == kMaxFunctions;
    if (too_many) return;
    functions.push_back({.offset = code->offset, .size = std::min(function.size, code->size)});
  });
  if (too_many) {
    return absl::ResourceExhaustedError(
        absl::StrCat(".eh_frame has more than ", kMaxFunctions, " entries"));
  }
  // Of two functions with the same start, keep the longer one.
  std::sort(functions.begin(), functions.end(), [](const FileRange& a, const FileRange& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.size > b.size;
  });
  const auto same_begin = [](const FileRange& a, const FileRange& b) {
    return a.offset == b.offset;
  };
  functions.erase(std::unique(functions.begin(), functions.end(), same_begin), functions.end());
  return functions;
}

absl::Status VisitFunctions(
    const ElfFile& elf, uint64_t limit,
    absl::FunctionRef<void(const FileRange& function, std::span<const uint8_t> code)> visit) {
  ASSIGN_OR_RETURN(const std::vector<FileRange> functions, ListFunctions(elf));
  std::vector<uint8_t> bytes;
  const auto head = [limit](const FileRange& function) {
    return std::min<uint64_t>(function.size, limit);
  };
  uint64_t all = 0;
  for (const FileRange& function : functions) all += head(function);
  if (all > kMaxVisitedBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(".eh_frame describes more than ", kMaxVisitedBytes >> 20, " MiB of code"));
  }
  for (size_t first = 0; first < functions.size();) {
    const uint64_t begin = functions[first].offset;
    uint64_t end = begin + head(functions[first]);
    size_t last = first + 1;
    for (; last < functions.size(); ++last) {
      const uint64_t head_end = functions[last].offset + head(functions[last]);
      if (functions[last].offset > end + kMaxGap || head_end - begin > kMaxBatchBytes) break;
      end = std::max(end, head_end);
    }
    bytes.resize(static_cast<size_t>(end - begin));
    RETURN_IF_ERROR(elf.Read(begin, bytes.data(), bytes.size()));
    const std::span<const uint8_t> code(bytes);
    for (; first < last; ++first) {
      const FileRange& function = functions[first];
      visit(function, code.subspan(function.offset - begin, head(function)));
    }
  }
  return absl::OkStatus();
}

}  // namespace profd
