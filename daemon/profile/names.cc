#include "daemon/profile/profile.h"

namespace profd {

const char* ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kRunQueue:
      return "runqueue";
    case Reason::kReclaim:
      return "reclaim";
    case Reason::kFault:
      return "fault";
    case Reason::kFsync:
      return "fsync";
    case Reason::kLock:
      return "lock";
    case Reason::kDisk:
      return "disk";
    case Reason::kPoll:
      return "poll";
    case Reason::kNet:
      return "net";
    case Reason::kSleep:
      return "sleep";
    case Reason::kPipe:
      return "pipe";
    case Reason::kChild:
      return "child";
    case Reason::kSignal:
      return "signal";
    case Reason::kOther:
      return "other";
    case Reason::kStopped:
      return "stopped";
    case Reason::kTraced:
      return "traced";
    case Reason::kFrozen:
      return "frozen";
  }
  return "other";
}

const char* WalkName(WalkResult walk) {
  switch (static_cast<profd_walk>(walk)) {
    case PROFD_WALK_COMPLETE:
      return "[complete]";
    case PROFD_WALK_TOO_DEEP:
      return "[stack too deep]";
    case PROFD_WALK_NO_RULE:
      return "[no unwind rule]";
    case PROFD_WALK_RULES_PENDING:
      return "[unwind rules pending]";
    case PROFD_WALK_UNREADABLE:
      return "[stack unreadable]";
    case PROFD_WALK_NO_PROGRESS:
      return "[stack does not grow]";
    case PROFD_WALK_UNSUPPORTED:
      return "[unwind rule not supported]";
    case PROFD_WALK_MAP_BUSY:
      return "[memory map busy]";
    case PROFD_WALK_NOT_MAPPED:
      return "[address not mapped]";
    case PROFD_WALK_NO_USER:
      return "[no user stack]";
    case PROFD_WALK_TORN:
      return "[torn walk]";
    case PROFD_WALK_LOST:
      return "[stack lost]";
    case PROFD_WALK_COUNT:
      break;
  }
  return "[unknown]";
}

const LossDescription& DescribeLoss(size_t loss) {
  static constexpr LossDescription kDescriptions[kLossCount] = {
      {"counters_full",
       "Samples were dropped: the counter table was full. Watch fewer targets, or raise --limit "
       "counters or --tick."},
      {"counters_full_ns", "Weight of those samples, ns."},
      {"stack_ring_full",
       "Stacks did not reach profd: the ring was full. Their time is shown as [stack lost]. "
       "Raise --limit ring if this lasts."},
      {"exit_ring_full",
       "Threads exited while the ring was full. Their time since the last drain is missing. "
       "Watch fewer targets, or raise --limit exits or --limit ring."},
      {"event_ring_full",
       "New modules or touched pages were not recorded: the ring was full. Unwind rules for a new "
       "library may come late. Raise --limit ring if this lasts."},
      {"thread_storage",
       "Threads could not be marked and are missing. Check the memory limit of profd's cgroup."},
      {"switch_unseen",
       "Context switches that the kernel did not report. Their time comes from the kernel's own "
       "accounting."},
      {"torn_walk",
       "Stacks thrown away because the thread ran during the walk. If a thread's second walk is "
       "torn, too, its time is shown as [torn walk]."},
      {"torn_ledger", "Accounts that changed while they were read. The next drain corrects them."},
      {"known_stacks_full",
       "The table of known stacks was full, so stacks were sent more than once. Nothing is "
       "missing."},
      {"modules_full",
       "The module table was full: targets map more files at one time. Stacks end in the modules "
       "left out. Watch fewer targets, or raise --limit modules."},
      {"heap_counters_full",
       "Allocation events were dropped: their counter table was full. Totals stay exact, shares "
       "of stacks may be off. Watch fewer targets, or raise --limit heap-counters."},
      {"heap_counters_full_bytes", "Weight of those events, bytes."},
      {"heap_walk_busy",
       "Allocation events without a stack: other threads were interrupted during their walks on "
       "the same CPU."},
      {"heap_storage",
       "There was no room for the totals of some threads. Their allocation events are missing. "
       "Check the memory limit of profd's cgroup."},
      {"fault_walk_busy",
       "Touched pages that were not counted: other threads were interrupted during their walks "
       "on the same CPU."},
      {"live_born",
       "Allocations of sampled objects that profd missed. The live heap is larger than shown."},
      {"live_gone",
       "Frees of sampled objects that profd missed. The live heap is smaller than shown, until "
       "their process ends."},
      {"mapping_lost",
       "Mapping calls that were not counted: their counter table was full, or other threads were "
       "interrupted during their walks on the same CPU. Watch fewer targets, or raise --limit "
       "heap-counters."},
      {"mapping_busy",
       "Memory was unmapped while another thread changed the mappings. Unmapped file mappings "
       "may be counted as private memory."},
      {"malloc_counters_full",
       "In bursts, calls to glibc's malloc found a table full. Figures of their threads or "
       "stacks are too low. Watch fewer targets, or raise --limit malloc-threads or "
       "malloc-stacks."},
      {"cpu_sample_lost",
       "Samples of running code were dropped: their counter table was full, or the kernel had no "
       "memory at hand for a new counter. Time on CPU stays exact, shares of stacks may be off. "
       "If there are many, watch fewer targets, or raise --limit counters."},
      {"cpu_sample_lost_ns", "Weight of those samples, ns."},
      {"disk_request_lost",
       "Disk requests and file syncs that were not counted: a table was full, or the kernel did "
       "not "
       "report that they were done. If there are many, watch fewer targets, or raise --limit "
       "counters."},
      {"waker_lost",
       "Wakers that were not counted: their counter table was full, or the kernel had no memory at "
       "hand for a new counter. Their waits are shown as [waker unknown]. If there are many, watch "
       "fewer targets, or raise --limit counters."},
      {"waker_lost_ns", "Weight of those waits, ns."},
      {"long_wait_lost",
       "Long waits that are not listed one by one: too many at once, or the ring was full. Times "
       "and "
       "totals are complete. If there are many, watch fewer targets, or raise --limit ring."},
      {"wait_duration_lost",
       "Waits that are in no histogram: their thread waited for more than five reasons at a time. "
       "Times and numbers of waits are complete."},
      {"object_lost",
       "Waits whose object is shown as [other objects]: too many new ones at once, or the ring was "
       "full. Times are complete. If there are many, watch fewer targets."},
      {"lock_wait_lost",
       "Waits for locks that profctl locks does not count: their counter table was full, or the "
       "kernel had no memory at hand for a new counter. Times are complete. If there are many, "
       "watch fewer targets, or raise --limit counters."},
      {"switch_stack_lost",
       "Context switches that --kind switches attributes to other stacks: their counter table was "
       "full, or the kernel had no memory at hand for a new counter. Their number is complete. If "
       "there are many, watch fewer targets, or raise --limit counters."},
      {"heap_total_late",
       "Heap totals of threads that could not be read because their process was changing its "
       "mappings. Those of the last event are shown; the next drain corrects them."},
      {"recursion_misses",
       "The kernel skipped runs of a program. Context switches may be missing. Look for other "
       "tracers."},
      {"thread_vanished",
       "Threads exited without a final account. Their time since the last drain is missing."},
      {"stack_unknown", "Samples whose stack never arrived. Their time is shown as [stack lost]."},
      {"store_dropped",
       "Data was dropped before it was an hour old: the store was full. Watch fewer targets, or "
       "raise --limit store."},
      {"module_unreadable", "Module files that could not be read or parsed. Stacks end there."},
      {"rules_full",
       "Modules without unwind rules: their memory limit was reached. Watch fewer targets, or "
       "raise --limit rules."},
      {"drain_failed", "Drains that failed. The next drain covers their time. Read profd's log."},
      {"memory_dropped",
       "Points of the memory timeline were dropped before they were an hour old: the timeline "
       "was full. Watch fewer targets, or raise --limit timeline."},
      {"store_damaged",
       "Stored data could not be read: memory is damaged, or profd has a bug. Report it."},
      {"modules_forgotten",
       "Files that no target runs any more were forgotten: too many in an hour. Older stacks show "
       "them as [unknown module]. Watch fewer targets."},
  };
  static constexpr LossDescription kUnknown = {"unknown", "A loss of an unknown kind."};
  return loss < kLossCount ? kDescriptions[loss] : kUnknown;
}

}  // namespace profd
