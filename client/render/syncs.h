// File syncs as text.
#ifndef PROFD_CLIENT_RENDER_SYNCS_H_
#define PROFD_CLIENT_RENDER_SYNCS_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// A table of files and the calls that sync them. Nothing if there were none.
void AppendSyncs(const Profile& profile, bool colour, std::string& text);

// The file that took the longest to sync; null if that was less than `least_ns`. Of the profile's
// message.
const profd::v1::FileSync* LongestSync(const Profile& profile, double least_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SYNCS_H_
