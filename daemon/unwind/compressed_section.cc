#include "daemon/unwind/compressed_section.h"

#include <elf.h>
#include <zlib.h>
#include <zstd.h>

#include <limits>

#include "daemon/unwind/byte_reader.h"

namespace profd {
namespace {

// Elf64_Chdr::ch_type; older headers lack the second.
constexpr uint32_t kZlib = 1;
constexpr uint32_t kZstd = 2;
// No compressor gets more out of a byte, so that a short section cannot claim much memory.
constexpr uint64_t kMostRatio = 1032;

bool UnpackZlib(std::span<const uint8_t> packed, std::span<uint8_t> to) {
  uLongf size = to.size();
  return packed.size() <= std::numeric_limits<uLong>::max() &&
         uncompress(to.data(), &size, packed.data(), packed.size()) == Z_OK && size == to.size();
}

bool UnpackZstd(std::span<const uint8_t> packed, std::span<uint8_t> to) {
  const size_t size = ZSTD_decompress(to.data(), to.size(), packed.data(), packed.size());
  return ZSTD_isError(size) == 0 && size == to.size();
}

}  // namespace

std::optional<std::vector<uint8_t>> UnpackSection(std::span<const uint8_t> section,
                                                  uint64_t max_bytes) {
  ByteReader reader(section);
  const auto header = reader.Read<Elf64_Chdr>();
  if (!reader.ok() || header.ch_size == 0 || header.ch_size > max_bytes ||
      header.ch_size / kMostRatio > section.size()) {
    return std::nullopt;
  }
  const std::span<const uint8_t> packed = section.subspan(sizeof(header));
  std::vector<uint8_t> unpacked(header.ch_size);
  const bool done = header.ch_type == kZlib   ? UnpackZlib(packed, unpacked)
                    : header.ch_type == kZstd ? UnpackZstd(packed, unpacked)
                                              : false;
  if (!done) return std::nullopt;
  return unpacked;
}

}  // namespace profd
