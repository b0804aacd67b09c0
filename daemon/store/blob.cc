#include "daemon/store/blob.h"

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

// Beyond it a blob of some 100 KB gets smaller by a few per cent, in twice the time.
constexpr int kCompressionLevel = 3;
constexpr size_t kChecksumBytes = 4;

uint32_t Checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::string PackBlob(std::string_view content) {
  // Not filled with zeros: most of it is not touched, and takes no memory.
  const size_t bound = ZSTD_compressBound(content.size());
  const auto room = std::make_unique_for_overwrite<char[]>(bound);
  const size_t size =
      ZSTD_compress(room.get(), bound, content.data(), content.size(), kCompressionLevel);
  // Only for want of memory: an empty blob is refused when it is read.
  if (ZSTD_isError(size) != 0) return "";
  const std::string_view frame(room.get(), size);
  const uint32_t checksum = Checksum(frame);
  std::string blob;
  blob.reserve(kChecksumBytes + size);
  for (size_t i = 0; i < kChecksumBytes; i++) blob += static_cast<char>(checksum >> (8 * i));
  blob += frame;
  return blob;
}

absl::StatusOr<std::string> UnpackBlob(std::string_view blob) {
  if (blob.size() < kChecksumBytes) return absl::DataLossError("stored segment: too short");
  uint32_t checksum = 0;
  for (size_t i = 0; i < kChecksumBytes; i++) {
    checksum |= static_cast<uint32_t>(static_cast<uint8_t>(blob[i])) << (8 * i);
  }
  const std::string_view frame = blob.substr(kChecksumBytes);
  if (checksum != Checksum(frame)) return absl::DataLossError("stored segment: wrong checksum");
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ||
      size > kMaxBlobContent) {
    return absl::DataLossError("stored segment: damaged frame");
  }
  std::string content(size, '\0');
  const size_t got = ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0) {
    return absl::DataLossError(absl::StrCat("stored segment: ", ZSTD_getErrorName(got)));
  }
  if (got != size) return absl::DataLossError("stored segment: damaged frame");
  return content;
}

}  // namespace profd
