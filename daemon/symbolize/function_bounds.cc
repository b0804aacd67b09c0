#include "daemon/symbolize/function_bounds.h"

#include <algorithm>

#include "daemon/elf/frame_table.h"
#include "daemon/unwind/byte_reader.h"
#include "daemon/unwind/cfi.h"
#include "daemon/unwind/compressed_section.h"

namespace profd::symbolize {
namespace {

// What a search of the whole .eh_frame may do; the largest programs have a million functions.
constexpr uint64_t kMaxUpdates = 8'000'000;
// Of an .eh_frame that is read as a whole: of programs of 100 MB.
constexpr uint64_t kMaxFrameBytes = 16 << 20;
// Enough for the length, the id, and two addresses of 8 bytes.
constexpr size_t kDescriptionHead = 40;
constexpr size_t kCommonBytes = 512;

// The bytes of the file that are loaded from `address` on.
std::optional<FileRange> BytesAt(const ElfFile& elf, uint64_t address) {
  for (const Segment& segment : elf.segments()) {
    if (segment.type != PT_LOAD || address < segment.address) continue;
    const uint64_t inside = address - segment.address;
    if (inside >= segment.file_size) continue;
    return FileRange{.offset = segment.offset + inside, .size = segment.file_size - inside};
  }
  return std::nullopt;
}

// Up to `size` bytes at an address; fewer at the end of their segment.
std::span<const uint8_t> ReadAt(const ElfFile& elf, uint64_t address, std::span<uint8_t> buffer) {
  const std::optional<FileRange> place = BytesAt(elf, address);
  if (!place) return {};
  buffer = buffer.first(std::min<uint64_t>(buffer.size(), place->size));
  if (!elf.Read(place->offset, buffer.data(), buffer.size()).ok()) return {};
  return buffer;
}

uint64_t TextBase(const ElfFile& elf) {
  for (const Segment& segment : elf.segments()) {
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0) return segment.address;
  }
  return 0;
}

// Reads the descriptions that the search table refers to.
class Descriptions {
 public:
  Descriptions(const ElfFile& elf, uint64_t data_base)
      : elf_(elf), data_base_(data_base), text_base_(TextBase(elf)) {}

  // Remembers the last one: neighbours often ask for the same function.
  std::optional<FunctionBounds> Read(uint64_t address) {
    if (!known_ || address != address_) {
      bounds_ = Parse(address);
      address_ = address;
      known_ = true;
    }
    return bounds_;
  }

 private:
  std::optional<FunctionBounds> Parse(uint64_t address) {
    uint8_t buffer[kDescriptionHead];
    ByteReader reader(ReadAt(elf_, address, buffer));
    uint64_t id_at = address + sizeof(uint32_t);
    constexpr uint32_t kExtendedLength = 0xffffffff;
    if (reader.Read<uint32_t>() == kExtendedLength) {
      reader.Read<uint64_t>();
      id_at += sizeof(uint64_t);
    }
    // The id is the distance back to the common entry, and 0 in a common entry itself.
    const uint64_t id = reader.Read<uint32_t>();
    if (!reader.ok() || id == 0 || id > id_at) return std::nullopt;
    const std::optional<uint8_t> encoding = EncodingOf(id_at - id);
    if (!encoding) return std::nullopt;
    const auto begin = ReadEncodedPointer(reader, *encoding, address, data_base_, text_base_);
    const auto size = ReadEncodedPointer(reader, *encoding & kPointerFormatMask, 0, 0, 0);
    if (!begin || !size || *begin + *size < *begin) return std::nullopt;
    return FunctionBounds{.begin = *begin, .end = *begin + *size};
  }

  std::optional<uint8_t> EncodingOf(uint64_t common) {
    if (!common_known_ || common != common_) {
      uint8_t buffer[kCommonBytes];
      encoding_ = ReadPointerEncoding(ReadAt(elf_, common, buffer), common);
      common_ = common;
      common_known_ = true;
    }
    return encoding_;
  }

  const ElfFile& elf_;
  const uint64_t data_base_;
  const uint64_t text_base_;
  bool known_ = false;
  uint64_t address_ = 0;
  std::optional<FunctionBounds> bounds_;
  bool common_known_ = false;
  uint64_t common_ = 0;
  std::optional<uint8_t> encoding_;
};

using AllBounds = std::vector<std::optional<FunctionBounds>>;

// Keeps those that contain their address: a table may lie.
void Keep(std::span<const uint64_t> addresses, size_t index,
          const std::optional<FunctionBounds>& bounds, AllBounds& found) {
  if (bounds && bounds->Contains(addresses[index])) found[index] = bounds;
}

void SearchTable(const ElfFile& elf, const FrameTable& table, std::span<const uint64_t> addresses,
                 AllBounds& found) {
  Descriptions descriptions(elf, table.address);
  size_t next = 0;
  std::optional<uint64_t> last;  // the description of the function that begins last so far
  const auto settle = [&](uint64_t end) {
    for (; next < addresses.size() && addresses[next] < end; ++next) {
      if (last) Keep(addresses, next, descriptions.Read(*last), found);
    }
  };
  ForEachEntry(elf, table, [&](const FrameTableEntry& entry) {
    settle(entry.begin);
    last = entry.description;
    return next < addresses.size();
  });
  if (!addresses.empty() && next < addresses.size()) settle(addresses.back() + 1);
}

void SearchAll(const FrameSection& frames, std::span<const uint64_t> addresses, AllBounds& found) {
  // Functions overlap little in files that do not lie. The innermost one wins.
  uint64_t updates_left = addresses.size() * 4 + kMaxUpdates;
  FrameReader(frames).ForEachFunction([&](const FrameDescription& description) {
    const FunctionBounds bounds{.begin = description.begin,
                                .end = description.begin + description.size};
    auto at = std::lower_bound(addresses.begin(), addresses.end(), bounds.begin);
    for (; at != addresses.end() && *at < bounds.end && updates_left > 0; ++at, --updates_left) {
      std::optional<FunctionBounds>& held = found[static_cast<size_t>(at - addresses.begin())];
      if (!held || held->begin < bounds.begin) held = bounds;
    }
  });
}

void SearchFrames(const ElfFile& elf, std::span<const uint64_t> addresses, AllBounds& found) {
  const Section* section = elf.FindSectionByName(".eh_frame");
  if (section == nullptr || section->type == SHT_NOBITS || section->size > kMaxFrameBytes) return;
  std::vector<uint8_t> bytes(section->size);
  if (!elf.Read(section->offset, bytes.data(), bytes.size()).ok()) return;
  FrameSection frames;
  frames.bytes = bytes;
  frames.address = section->address;
  const Segment* header = FrameHeaderSegment(elf);
  frames.data_base = header != nullptr ? header->address : 0;
  frames.text_base = TextBase(elf);
  SearchAll(frames, addresses, found);
}

// Functions that .eh_frame does not describe.
void SearchDebugFrame(const ElfFile& elf, std::span<const uint64_t> addresses, AllBounds& found) {
  const Section* section = elf.FindSectionByName(".debug_frame");
  if (section == nullptr || section->type == SHT_NOBITS || section->size > kMaxDebugFrameBytes) {
    return;
  }
  std::vector<uint64_t> missing;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!found[i]) missing.push_back(addresses[i]);
  }
  std::vector<uint8_t> bytes(section->size);
  if (missing.empty() || !elf.Read(section->offset, bytes.data(), bytes.size()).ok()) return;
  if ((section->flags & SHF_COMPRESSED) != 0) {
    std::optional<std::vector<uint8_t>> unpacked = UnpackSection(bytes, kMaxDebugFrameBytes);
    if (!unpacked) return;
    bytes = *std::move(unpacked);
  }
  FrameSection frames;
  frames.bytes = bytes;
  frames.debug_frame = true;
  AllBounds added(missing.size());
  SearchAll(frames, missing, added);
  for (size_t i = 0, next = 0; next < missing.size(); ++i) {
    if (addresses[i] == missing[next]) found[i] = added[next++];
  }
}

}  // namespace

std::vector<std::optional<FunctionBounds>> FindBounds(const ElfFile& elf,
                                                      std::span<const uint64_t> addresses) {
  AllBounds found(addresses.size());
  if (addresses.empty()) return found;
  if (const std::optional<FrameTable> table = FindFrameTable(elf)) {
    SearchTable(elf, *table, addresses, found);
  } else {
    SearchFrames(elf, addresses, found);
  }
  SearchDebugFrame(elf, addresses, found);
  return found;
}

}  // namespace profd::symbolize
