#include "daemon/symbolize/infer/function_begins.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace profd::symbolize {
namespace {

constexpr uint64_t kMaxFunctions = 2'000'000;
// The head of .eh_frame_hdr: version, three encodings, the address of .eh_frame, the count.
constexpr size_t kHeadBytes = 12;
constexpr uint8_t kVersion = 1;
constexpr uint8_t kRelative4 = 0x1b;      // DW_EH_PE_pcrel | DW_EH_PE_sdata4
constexpr uint8_t kUnsigned4 = 0x03;      // DW_EH_PE_udata4
constexpr uint8_t kTableEncoding = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4

struct Entry {
  int32_t begin;  // relative to the header
  int32_t description;
};

}  // namespace

std::vector<uint64_t> ReadFunctionBegins(const ElfFile& elf) {
  std::vector<uint64_t> begins;
  const auto header =
      std::find_if(elf.segments().begin(), elf.segments().end(),
                   [](const Segment& segment) { return segment.type == PT_GNU_EH_FRAME; });
  if (header == elf.segments().end() || header->file_size < kHeadBytes) return begins;
  std::array<uint8_t, kHeadBytes> head;
  if (!elf.Read(header->offset, head.data(), head.size()).ok() || head[0] != kVersion ||
      head[1] != kRelative4 || head[2] != kUnsigned4 || head[3] != kTableEncoding) {
    return begins;
  }
  uint32_t count;
  std::memcpy(&count, &head[8], sizeof(count));
  const uint64_t fits = (header->file_size - kHeadBytes) / sizeof(Entry);
  const uint64_t used = std::min<uint64_t>({count, fits, kMaxFunctions});
  begins.reserve(used);
  // Where the table cannot be read any more, the functions up to there are known.
  const absl::Status unused = elf.ReadPieces(
      {header->offset + kHeadBytes, used * sizeof(Entry)}, 0,
      [&](uint64_t, std::string_view bytes) {
        for (size_t i = 0; i + sizeof(Entry) <= bytes.size(); i += sizeof(Entry)) {
          Entry entry;
          std::memcpy(&entry, bytes.data() + i, sizeof(entry));
          begins.push_back(header->address + static_cast<uint64_t>(int64_t{entry.begin}));
        }
        return true;
      });
  (void)unused;
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  return begins;
}

}  // namespace profd::symbolize
