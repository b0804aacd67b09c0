// What every page says of the answer that it shows.
#ifndef PROFD_CLIENT_RENDER_CAPTION_H_
#define PROFD_CLIENT_RENDER_CAPTION_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// "2026-01-31T14:00:00Z to 2026-01-31T14:01:00Z (60.0 s)".
std::string DescribeWindow(const Profile& profile);

// The same with the host: "... on node-7".
std::string DescribeWindowAndHost(const Profile& profile);

// "8 torn_walk: Stacks thrown away because ...".
std::string DescribeLoss(const profd::v1::Loss& loss);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_CAPTION_H_
