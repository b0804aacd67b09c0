#include "daemon/service/waker_frames.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

// The program that took the stack, its tracepoint, and what leads there: not more frames.
constexpr size_t kMostOfWaking = 24;
constexpr std::string_view kWakes = "try_to_wake_up";

struct Origin {
  std::string_view prefix;  // of a function
  std::string_view name;
};
constexpr std::array<Origin, 14> kOrigins = {{
    {"net_rx_action", "[network]"},
    {"__napi_poll", "[network]"},
    {"hrtimer_", "[timer]"},
    {"__hrtimer_", "[timer]"},
    {"run_timer_", "[timer]"},
    {"__run_timer", "[timer]"},
    {"tick_", "[timer]"},
    {"blk_", "[block]"},
    {"bio_endio", "[block]"},
    {"nvme_", "[block]"},
    {"virtblk_", "[block]"},
    {"scsi_", "[block]"},
    {"ata_", "[block]"},
    {"mmc_", "[block]"},
}};

// Two frames hold one name, which need not end in NUL.
std::string NameAt(const StackTrace& waker, size_t frame) {
  std::array<char, PROFD_COMM_LEN> bytes{};
  std::memcpy(bytes.data(), &waker.frames[frame], bytes.size());
  const std::string_view text(bytes.data(), strnlen(bytes.data(), bytes.size()));
  return CleanText(text);
}

}  // namespace

bool HasWakerName(const StackTrace& waker) {
  return waker.frames.size() >= PROFD_WAKER_NAME_FRAMES &&
         waker.kernel_frames >= PROFD_WAKER_NAME_FRAMES;
}

std::string WakerName(const StackTrace& waker) {
  const std::string process = NameAt(waker, 0), thread = NameAt(waker, 2);
  // It does nothing but what interrupts leave to it.
  if (thread.starts_with("ksoftirqd/")) return "";
  if (process == thread) return std::string(WithoutWorkerNumber(thread));
  return absl::StrCat(process, "/", thread);
}

size_t FramesOfWaking(std::span<const std::string_view> kernel) {
  for (size_t i = std::min(kernel.size(), kMostOfWaking); i > 0; i--) {
    if (kernel[i - 1] == kWakes) return i;
  }
  return 0;
}

std::string_view InterruptName(std::span<const std::string_view> kernel) {
  for (const std::string_view function : kernel) {
    for (const Origin& origin : kOrigins) {
      if (function.starts_with(origin.prefix)) return origin.name;
    }
  }
  return "[interrupt]";
}

}  // namespace profd
