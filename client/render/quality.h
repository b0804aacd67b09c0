// How far an answer can be trusted.
#ifndef PROFD_CLIENT_RENDER_QUALITY_H_
#define PROFD_CLIENT_RENDER_QUALITY_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// Sample size, complete stacks, overhead and losses under a heading.
void AppendQuality(const Profile& profile, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_QUALITY_H_
