// Finds out by trial what this kernel permits.
#ifndef PROFD_DAEMON_KERNEL_KERNEL_TRIALS_H_
#define PROFD_DAEMON_KERNEL_KERNEL_TRIALS_H_

namespace profd {

// Whether a program may run at the entry of a kernel function, `type_id` in the kernel's BTF. Some
// kernels refuse that.
bool MayEnterFunction(int type_id);

// Whether a link of several probes for a process takes what all of its threads do. Kernels before
// 6.10 that do not have commit 46ba0e49b642 take only the main thread's. Needs CAP_BPF and
// CAP_PERFMON; true without them, as then no probe is permitted anyway.
bool ProbesSeeAllThreads();

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_KERNEL_TRIALS_H_
