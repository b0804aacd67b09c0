// Disk requests as text.
#ifndef PROFD_CLIENT_RENDER_DISK_H_
#define PROFD_CLIENT_RENDER_DISK_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// A table of devices and operations: requests, bytes, times. Nothing if there were no requests.
void AppendDisks(const Profile& profile, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DISK_H_
