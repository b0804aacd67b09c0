// For how much of its window something was watched.
#ifndef PROFD_CLIENT_ANSWER_WATCHED_H_
#define PROFD_CLIENT_ANSWER_WATCHED_H_

#include <cstdint>

#include "client/answer/profile.h"

namespace profctl {

// Whether a layer that was on for `on_ns` was off for a noticeable part of the window.
bool HasGap(const Profile& profile, int64_t on_ns);

// Part of the window in which allocations were watched, ns.
int64_t WatchedNs(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_WATCHED_H_
