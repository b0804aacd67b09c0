#include "client/analysis/telling_frames.h"

#include <algorithm>
#include <utility>

#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kTellingFrames = 6;
constexpr int kPassedByAll = 4;  // rank of frames that say nothing

}  // namespace

int FrameRank(const Frame& frame, Unit unit) {
  if (frame.common && (unit == Unit::kBytes || frame.kind == profd::v1::FRAME_KIND_KERNEL)) {
    return kPassedByAll;
  }
  switch (frame.kind) {
    case profd::v1::FRAME_KIND_APPLICATION:
    case profd::v1::FRAME_KIND_SYNTHETIC:
      return 0;
    case profd::v1::FRAME_KIND_RUNTIME:
      return 1;
    case profd::v1::FRAME_KIND_LIBC:
      return 2;
    case profd::v1::FRAME_KIND_KERNEL:
      return 3;
    default:
      return 1;
  }
}

std::vector<std::string> Askers(const Profile& profile) {
  std::vector<std::string> askers;
  askers.reserve(profile.stacks.size());
  for (const Stack& stack : profile.stacks) {
    askers.push_back(stack.origin == kUnsampled ? "[no stack]"
                                                : CleanName(profile.frames[stack.origin].function));
  }
  return askers;
}

// The innermost frames of the most telling kinds, and always the entry into libc or the kernel.
std::vector<TellingFrame> TellingFrames(const Profile& profile, const Stack& stack) {
  std::vector<size_t> order(stack.frames.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](size_t i) {
    return FrameRank(profile.frames[stack.frames[i]], profile.unit);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  // Frames of the allocator are obvious in an allocation.
  const bool without_allocator =
      profile.unit == Unit::kBytes && !order.empty() && rank(order.front()) < kPassedByAll;
  order.resize(std::min(order.size(), kTellingFrames));
  const bool only_code =
      std::all_of(order.begin(), order.end(), [&](size_t i) { return rank(i) < 2; });
  if (only_code && order.size() == kTellingFrames) {
    const size_t innermost = *std::min_element(order.begin(), order.end());
    if (innermost > 0 && rank(innermost - 1) == 2) order.back() = innermost - 1;
  }
  std::sort(order.begin(), order.end());
  std::vector<TellingFrame> telling;
  size_t next = 0;  // after the last one that is shown
  for (const size_t i : order) {
    const Frame& frame = profile.frames[stack.frames[i]];
    if (rank(i) == kPassedByAll && (!telling.empty() || without_allocator)) continue;
    std::string name = CleanName(frame.function);
    if (frame.kind == profd::v1::FRAME_KIND_KERNEL) name += " (kernel)";
    telling.push_back({.name = std::move(name), .after_gap = !telling.empty() && i > next});
    next = i + 1;
  }
  return telling;
}

}  // namespace profctl
