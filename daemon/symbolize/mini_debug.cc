#include "daemon/symbolize/mini_debug.h"

#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

namespace profd::symbolize {
namespace {

// A distribution's largest are 4 MB, and need 9 MiB to unpack.
constexpr uint64_t kMaxPackedBytes = 16 << 20;
constexpr uint64_t kMaxUnpackedBytes = 64 << 20;
constexpr uint64_t kMaxDecoderBytes = 20 << 20;
constexpr size_t kUnpackedPiece = 64 << 10;

class Decoder {
 public:
  Decoder() { ready_ = lzma_stream_decoder(&stream_, kMaxDecoderBytes, 0) == LZMA_OK; }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { lzma_end(&stream_); }

  bool finished() const { return finished_; }

  // Unpacks `bytes` to the end of `fd`. False to stop: at the end, and on any error.
  bool Unpack(std::string_view bytes, int fd) {
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    while (ready_ && !finished_) {
      stream_.next_out = piece_.data();
      stream_.avail_out = piece_.size();
      const lzma_ret result = lzma_code(&stream_, LZMA_RUN);
      if (result != LZMA_OK && result != LZMA_STREAM_END) return false;
      const size_t size = piece_.size() - stream_.avail_out;
      if (stream_.total_out > kMaxUnpackedBytes ||
          write(fd, piece_.data(), size) != static_cast<ssize_t>(size)) {
        return false;
      }
      finished_ = result == LZMA_STREAM_END;
      if (!finished_ && stream_.avail_in == 0 && size < piece_.size()) return true;
    }
    return false;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_ = false;
  bool finished_ = false;
  std::vector<uint8_t> piece_ = std::vector<uint8_t>(kUnpackedPiece);
};

}  // namespace

std::optional<DebugFile> OpenMiniDebug(const ElfFile& elf) {
  const Section* section = elf.FindSectionByName(".gnu_debugdata");
  if (section == nullptr || section->type == SHT_NOBITS || section->size > kMaxPackedBytes) {
    return std::nullopt;
  }
  UniqueFd fd(memfd_create("symbols", MFD_CLOEXEC));
  if (!fd.ok()) return std::nullopt;
  Decoder decoder;
  const absl::Status read = elf.ReadPieces(
      {.offset = section->offset, .size = section->size}, 0,
      [&](uint64_t /*at*/, std::string_view bytes) { return decoder.Unpack(bytes, fd.get()); });
  if (!read.ok() || !decoder.finished()) return std::nullopt;
  absl::StatusOr<ElfFile> unpacked = ElfFile::Open(fd.get());
  if (!unpacked.ok()) return std::nullopt;
  return DebugFile{.fd = std::move(fd), .elf = *std::move(unpacked)};
}

}  // namespace profd::symbolize
