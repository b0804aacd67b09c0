// What is missing from an answer: layers that were not on for all of its window, and events of an
// allocator that no probe saw.
#ifndef PROFD_CLIENT_RENDER_GAPS_H_
#define PROFD_CLIENT_RENDER_GAPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/profile.h"

namespace profctl {

// A layer that was on for `on_ns` was missing for some of the window.
bool HasGap(const Profile& profile, int64_t on_ns);

// One sentence for each layer that the profile is made of and that was missing for some of the
// window, and what that means for the answer: "the per-switch layer was shed for 12.0 s of 60.0 s,
// ...". For a profile of bytes also what is not known of its threads. Without an end, for lines of
// several parts.
std::vector<std::string> DescribeGaps(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_GAPS_H_
