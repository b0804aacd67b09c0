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
       "Samples were dropped because the counter map was full; fetch a narrower "
       "set of targets or raise the tick interval."},
      {"counters_full_ns", "Weight of the samples dropped because the counter map was full, ns."},
      {"stack_ring_full",
       "Stacks could not be handed over because the ring was full; their time "
       "is shown as [stack lost]."},
      {"exit_ring_full", "Threads exited while the ring was full; their last account is missing."},
      {"event_ring_full",
       "Events (exec, new module) were dropped; rules for a new library may "
       "come late."},
      {"thread_storage", "Threads could not be marked; they are missing from the answer."},
      {"switch_unseen",
       "Switches that the kernel did not report; their time was recovered from the "
       "kernel's own totals."},
      {"torn_walk",
       "Stacks thrown away because the thread ran during the walk; their time is "
       "shown as [torn walk]."},
      {"torn_ledger",
       "Accounts read while the thread kept switching; corrected at the next drain."},
      {"known_stacks_full", "The map of known stacks was full; stacks were sent more than once."},
      {"modules_full", "More modules than the table holds; stacks end in those left out."},
      {"heap_counters_full",
       "Allocation events were dropped because their counter map was full; totals stay exact, "
       "shares of stacks may be off."},
      {"heap_counters_full_bytes", "Weight of the allocation events dropped, bytes."},
      {"heap_walk_busy",
       "Allocation events without a stack, because other threads were interrupted in theirs on "
       "the same CPU."},
      {"heap_storage",
       "Allocation events of threads whose totals found no place; they are missing."},
      {"fault_walk_busy",
       "Pages that were touched but not counted, because other threads were interrupted in their "
       "walks on the same CPU."},
      {"live_born",
       "Sampled objects that came to life and are not counted; the live heap is told as smaller "
       "than it is."},
      {"live_gone",
       "Sampled objects that are gone and still counted; the live heap is told as larger than it "
       "is, until their process ends."},
      {"mapping_lost",
       "Mapping calls that are not counted, because their counter map was full or other threads "
       "were interrupted in their walks on the same CPU."},
      {"mapping_busy",
       "Mapping calls while another thread changed the mappings; what they took away was counted "
       "as private memory, which that of a file is not."},
      {"malloc_counters_full",
       "Calls of glibc's malloc in bursts that found a table full; what their threads or stacks "
       "allocated is told too low. Watch fewer processes."},
      {"recursion_misses",
       "Runs of a kernel program that the kernel skipped; switches may be "
       "missing."},
      {"thread_vanished",
       "Threads ended without a final account; their time since the last drain "
       "is missing."},
      {"stack_unknown", "Samples whose stack never arrived; their time is shown as [stack lost]."},
      {"store_dropped", "Seconds dropped from memory before their age, to keep the byte limit."},
      {"module_unreadable",
       "Modules whose file could not be read or understood; their stacks end "
       "there."},
      {"rules_full", "Modules left out because the memory limit for unwind rules was reached."},
      {"drain_failed", "Drains that failed; see the daemon's log."},
      {"memory_dropped",
       "Points of the memory timeline dropped before their age, to keep the byte limit; watch "
       "fewer "
       "processes."},
  };
  static constexpr LossDescription kUnknown = {"unknown", "A loss of an unknown kind."};
  return loss < kLossCount ? kDescriptions[loss] : kUnknown;
}

}  // namespace profd
