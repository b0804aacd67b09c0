// What is missing from an answer: layers that were off for part of the window, and allocation
// events that no probe saw.
#ifndef PROFD_CLIENT_RENDER_GAPS_H_
#define PROFD_CLIENT_RENDER_GAPS_H_

#include <string>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

// One sentence for each layer that was off for part of the window, with the consequence: "the
// switch layer was off for 12.0 s of 60.0 s: ...". For a profile of bytes also what is unknown
// about its threads. Sentences have no full stop.
std::vector<std::string> DescribeGaps(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_GAPS_H_
