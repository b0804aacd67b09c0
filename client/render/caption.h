// What every page says of the answer that it shows.
#ifndef PROFD_CLIENT_RENDER_CAPTION_H_
#define PROFD_CLIENT_RENDER_CAPTION_H_

#include <string>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

// "2026-01-31T14:00:00Z to 2026-01-31T14:01:00Z (60.0 s)".
std::string DescribeWindow(const Profile& profile);

// The same with the host: "... on node-7".
std::string DescribeWindowAndHost(const Profile& profile);

// "3 counters_full, 30 ms": how much was lost.
std::string NameLoss(const profd::v1::Loss& loss);

// "3 counters_full, 30 ms: Samples were dropped ...".
std::string DescribeLoss(const profd::v1::Loss& loss);

// A loss that any busy machine has and that needs nothing (docs/losses.md).
bool IsUsualLoss(const profd::v1::Loss& loss, const profd::v1::Cost& cost);

// "8 torn_walk; 2 mapping_busy (usual, nothing to do)"; empty if there is none.
std::string DescribeUsualLosses(const profd::v1::Profile& message);

// A line for each loss of an answer, and one for all usual ones.
std::vector<std::string> DescribeLosses(const profd::v1::Profile& message);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_CAPTION_H_
