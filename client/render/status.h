// The daemon's status, as a page and as JSON.
#ifndef PROFD_CLIENT_RENDER_STATUS_H_
#define PROFD_CLIENT_RENDER_STATUS_H_

#include <cstdint>
#include <string>

#include "profd/v1/profiler.pb.h"

namespace profctl {

// `now_ns`: wall clock, for "since".
std::string RenderStatusText(const profd::v1::GetStatusResponse& status, int64_t now_ns,
                             bool colour);
std::string RenderStatusJson(const profd::v1::GetStatusResponse& status);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STATUS_H_
