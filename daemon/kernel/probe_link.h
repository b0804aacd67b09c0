// The system call that puts several probes into a file under one link.
#ifndef PROFD_DAEMON_KERNEL_PROBE_LINK_H_
#define PROFD_DAEMON_KERNEL_PROBE_LINK_H_

#include <cstdint>
#include <span>

#include "daemon/base/fd.h"

namespace profd {

// What a program that is to stand at several places expects to be attached to
// (BPF_TRACE_UPROBE_MULTI, since 6.6). The headers that this is built with may be older.
inline constexpr uint32_t kUprobeMulti = 48;

// Links the program at `offsets` in the file `path`, for one process or every one with 0. `cookies`
// and `semaphores` (ProbePlace) are as many as the offsets, or none. Without a link, errno says
// why.
UniqueFd LinkProbes(int program, const char* path, int32_t pid, std::span<const uint64_t> offsets,
                    std::span<const uint64_t> cookies, std::span<const uint64_t> semaphores);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_PROBE_LINK_H_
