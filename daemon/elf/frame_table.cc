#include "daemon/elf/frame_table.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "daemon/unwind/byte_reader.h"
#include "daemon/unwind/cfi.h"

namespace profd::symbolize {
namespace {

// .eh_frame_hdr: version, three encodings, the address of .eh_frame, the number of functions, then
// a table of pairs (begin of the function, its description), sorted by the first. Both are relative
// to the header. Format: the LSB's chapter on .eh_frame_hdr.
constexpr uint8_t kHeaderVersion = 1;
constexpr uint8_t kSigned4 = 0x0b;
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kRelativeToHeader = 0x30;
constexpr uint64_t kFixedHeaderBytes = 4;
constexpr uint64_t kMaxHeaderBytes = 64;
// The largest programs have about a million functions.
constexpr uint64_t kMaxEntries = 8'000'000;

struct RawEntry {
  int32_t begin;
  int32_t description;
};

}  // namespace

const Segment* FrameHeaderSegment(const ElfFile& elf) {
  for (const Segment& segment : elf.segments()) {
    if (segment.type == PT_GNU_EH_FRAME) return &segment;
  }
  return nullptr;
}

std::optional<FrameTable> FindFrameTable(const ElfFile& elf) {
  const Segment* segment = FrameHeaderSegment(elf);
  if (segment == nullptr) return std::nullopt;
  uint8_t bytes[kMaxHeaderBytes];
  const size_t size = std::min<uint64_t>(segment->file_size, sizeof(bytes));
  if (size < kFixedHeaderBytes || !elf.Read(segment->offset, bytes, size).ok()) return std::nullopt;
  ByteReader reader(std::span<const uint8_t>(bytes, size));
  const uint8_t version = reader.Read<uint8_t>();
  const uint8_t frame_encoding = reader.Read<uint8_t>();
  const uint8_t count_encoding = reader.Read<uint8_t>();
  const uint8_t table_encoding = reader.Read<uint8_t>();
  if (version != kHeaderVersion || count_encoding != kUnsigned4 ||
      table_encoding != (kRelativeToHeader | kSigned4) ||
      !ReadEncodedPointer(reader, frame_encoding, segment->address, segment->address, 0)) {
    return std::nullopt;
  }
  const uint64_t count = reader.Read<uint32_t>();
  if (!reader.ok() || count == 0) return std::nullopt;
  const uint64_t fits = (segment->file_size - reader.position()) / sizeof(RawEntry);
  return FrameTable{.address = segment->address,
                    .entries = {.offset = segment->offset + reader.position(),
                                .size = std::min({count, fits, kMaxEntries}) * sizeof(RawEntry)}};
}

void ForEachEntry(const ElfFile& elf, const FrameTable& table,
                  absl::FunctionRef<bool(const FrameTableEntry&)> visit) {
  const auto absolute = [&](int32_t relative) {
    return table.address + static_cast<uint64_t>(int64_t{relative});
  };
  (void)elf.ReadPieces(table.entries, 0, [&](uint64_t /*at*/, std::string_view bytes) {
    for (size_t i = 0; i + sizeof(RawEntry) <= bytes.size(); i += sizeof(RawEntry)) {
      RawEntry entry;
      std::memcpy(&entry, bytes.data() + i, sizeof(entry));
      if (!visit({.begin = absolute(entry.begin), .description = absolute(entry.description)})) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace profd::symbolize
