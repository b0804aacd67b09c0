// What is missing from an answer: layers that were off for part of the window, and allocation
// events that no probe saw.
#ifndef PROFD_CLIENT_RENDER_GAPS_H_
#define PROFD_CLIENT_RENDER_GAPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

// Whether a layer that was on for `on_ns` was off for a noticeable part of the window.
bool HasGap(const Profile& profile, int64_t on_ns);

// One sentence for each layer that was off for part of the window, with the consequence: "the
// switch layer was off for 12.0 s of 60.0 s: ...". For a profile of bytes also what is unknown
// about its threads. Sentences have no full stop.
std::vector<std::string> DescribeGaps(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_GAPS_H_
