// The longest waits as text.
#ifndef PROFD_CLIENT_RENDER_WORST_H_
#define PROFD_CLIENT_RENDER_WORST_H_

#include <span>
#include <string>

#include "client/answer/longest.h"
#include "client/answer/profile.h"

namespace profctl {

// A page: each wait with when, how long, who, for what, its stack and who ended it; then what the
// list leaves out.
std::string RenderWorst(const Profile& profile, std::span<const LongWait> waits, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_WORST_H_
