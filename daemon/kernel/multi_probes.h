// What this kernel makes of several probes under one link.
#ifndef PROFD_DAEMON_KERNEL_MULTI_PROBES_H_
#define PROFD_DAEMON_KERNEL_MULTI_PROBES_H_

#include <cstdint>

namespace profd {

// The fields of union bpf_attr that BPF_LINK_CREATE reads for kUprobeMulti (probe.h).
struct UprobeMultiAttr {
  uint32_t program;
  uint32_t target;
  uint32_t attach_type;
  uint32_t link_flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_counts;
  uint64_t cookies;
  uint32_t count;
  uint32_t flags;
  uint32_t pid;
  uint32_t pad;
};

// Whether such a link for a process takes what all of its threads do. Kernels before 6.10 that do
// not have commit 46ba0e49b642 take only the main thread's. Needs CAP_BPF and CAP_PERFMON; true
// without them, as then no probe is permitted anyway.
bool ProbesSeeAllThreads();

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_MULTI_PROBES_H_
