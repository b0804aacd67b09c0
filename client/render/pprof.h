// A profile for pprof: proto/pprof/profile.proto, compressed by gzip.
#ifndef PROFD_CLIENT_RENDER_PPROF_H_
#define PROFD_CLIENT_RENDER_PPROF_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/answer/view.h"

namespace profctl {

// Views of the sample types of one answer; at least one. Each has a value ("offcpu", in nanoseconds
// or bytes), the number of its samples ("offcpu_ticks"), and of a level its growth ("rss_growth").
// Labels of a sample: process, pid, thread, tid, reason, syscall, object, idle; with groups their
// labels instead of process and thread.
absl::StatusOr<std::string> RenderPprof(const std::vector<View>& views);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_PPROF_H_
