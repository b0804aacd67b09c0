// The daemon's status, as a page and as JSON.
#ifndef PROFD_CLIENT_RENDER_STATUS_H_
#define PROFD_CLIENT_RENDER_STATUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "profd/v1/profiler.pb.h"

namespace profctl {

// How the functions of a kind of profile got their names.
struct KindNames {
  std::string kind;
  std::vector<profd::v1::NameShare> shares;
  std::string note;  // why there are none
};

// `now_ns`: wall clock, for "since". `names`: of the last minute; shown if there are any.
std::string RenderStatusText(const profd::v1::GetStatusResponse& status, int64_t now_ns,
                             bool colour, const std::vector<KindNames>& names = {});
std::string RenderStatusJson(const profd::v1::GetStatusResponse& status,
                             const std::vector<KindNames>& names = {});

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_STATUS_H_
