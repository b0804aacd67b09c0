#include "client/answer/watched.h"

#include <algorithm>

namespace profctl {
namespace {

// Smaller differences are the precision at which a layer can be switched.
constexpr int64_t kLeastGapNs = 100'000'000;
constexpr int64_t kLeastGapPart = 100;  // of the window

}  // namespace

bool HasGap(const Profile& profile, int64_t on_ns) {
  const int64_t window_ns = WindowNs(profile);
  const int64_t off_ns = window_ns - std::clamp<int64_t>(on_ns, 0, window_ns);
  return off_ns > std::max(kLeastGapNs, window_ns / kLeastGapPart);
}

int64_t WatchedNs(const Profile& profile) {
  const int64_t window_ns = WindowNs(profile);
  // Smaller differences are the precision at which a window can be cut.
  if (!HasGap(profile, profile.type.watched_ns())) return window_ns;
  return std::clamp<int64_t>(profile.type.watched_ns(), 0, window_ns);
}

}  // namespace profctl
