// The passive data that flows from the collector through the store to the service.
#ifndef PROFD_DAEMON_PROFILE_PROFILE_H_
#define PROFD_DAEMON_PROFILE_PROFILE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/cost.h"

namespace profd {

// Why a thread is not running; the values are those of enum profd_reason.
enum class Reason : uint8_t {
  kRunQueue = PROFD_REASON_RUNQUEUE,
  kReclaim = PROFD_REASON_RECLAIM,
  kFault = PROFD_REASON_FAULT,
  kFsync = PROFD_REASON_FSYNC,
  kLock = PROFD_REASON_LOCK,
  kDisk = PROFD_REASON_DISK,
  kPoll = PROFD_REASON_POLL,
  kNet = PROFD_REASON_NET,
  kSleep = PROFD_REASON_SLEEP,
  kPipe = PROFD_REASON_PIPE,
  kChild = PROFD_REASON_CHILD,
  kSignal = PROFD_REASON_SIGNAL,
  kOther = PROFD_REASON_OTHER,
  kStopped = PROFD_REASON_STOPPED,
  kTraced = PROFD_REASON_TRACED,
  kFrozen = PROFD_REASON_FROZEN,
};
inline constexpr size_t kReasonCount = PROFD_REASON_COUNT;

// What a sample is of; the values are those of enum profd_kind.
enum class Kind : uint8_t {
  kWait = PROFD_KIND_WAIT,             // time not running, ns
  kAlloc = PROFD_KIND_ALLOC,           // memory allocated, bytes
  kFree = PROFD_KIND_FREE,             // memory freed, bytes
  kInuse = PROFD_KIND_INUSE,           // memory in use, bytes of live objects
  kResident = PROFD_KIND_RESIDENT,     // memory resident, bytes, by who touched it first
  kMapped = PROFD_KIND_MAPPED,         // private anonymous memory mapped, bytes
  kUnmapped = PROFD_KIND_UNMAPPED,     // the same, unmapped
  kReturned = PROFD_KIND_RETURNED,     // its pages given back, bytes of addresses
  kCpu = PROFD_KIND_CPU,               // time on a CPU, ns
  kDisk = PROFD_KIND_DISK,             // time that disk requests took, ns
  kDiskQueue = PROFD_KIND_DISK_QUEUE,  // part of it before the driver got them
  kDiskBytes = PROFD_KIND_DISK_BYTES,  // bytes of disk requests
  kWaker = PROFD_KIND_WAKER,           // waits by who ended them, ns
  kSync = PROFD_KIND_SYNC,             // time that file syncs took, ns
  kSwitch = PROFD_KIND_SWITCH,         // context switches; the argument is the weight of one
  // No sample is of these.
  kWall = PROFD_KIND_COUNT,          // kWait and kCpu together
  kLocks = PROFD_KIND_COUNT + 1,     // waits for locks
  kRunQueue = PROFD_KIND_COUNT + 2,  // waits for a CPU, by who had it
  // No sample type is of this: how many waits took how long. A sample's argument is the bucket
  // (bpf/abi/duration.h), its weight the longest of its waits, ns; 0: not known.
  kDuration = PROFD_KIND_COUNT + 3,
  // Nor of this: waits for locks that ended. What they hold is told in bpf/abi/waker.h.
  kEnded = PROFD_KIND_COUNT + 4,
};
inline constexpr size_t kKindCount = PROFD_KIND_COUNT + 3;  // with a sample type
inline constexpr size_t kStoredKindCount = kKindCount + 2;

// A stored sample of such a kind says for what a thread waited, or was about to wait.
inline constexpr bool HasReason(Kind kind) { return kind == Kind::kWait || kind == Kind::kSwitch; }

// Of such a kind a sample's weight and ticks are neither time nor ticks.
inline constexpr bool IsHistogram(Kind kind) {
  return kind == Kind::kDuration || kind == Kind::kEnded;
}

// Of such a kind there is so much at an instant. A stored sample is a change of it, which may be
// negative: what there is at an instant is the sum of all changes before it.
inline constexpr bool IsLevel(Kind kind) { return kind == Kind::kInuse || kind == Kind::kResident; }

// Of such a kind each call was counted, or one of so many: no total is known beside the samples,
// whose key has as the argument of how many one was counted.
inline constexpr bool IsMapping(Kind kind) {
  return kind == Kind::kMapped || kind == Kind::kUnmapped || kind == Kind::kReturned;
}

// Of such a kind each event was counted. The key's argument is PROFD_DISK_ARGUMENT; with
// PROFD_DISK_PEAK the sample is of no request.
inline constexpr bool IsDisk(Kind kind) {
  return kind == Kind::kDisk || kind == Kind::kDiskQueue || kind == Kind::kDiskBytes;
}

enum class ThreadId : uint64_t {};  // unique for the life of the daemon; 0 is never used
enum class StackId : uint64_t {};   // 64-bit hash of a stack's frames; 0: no stack
enum class ModuleId : uint32_t {};  // of a version of a file, never used again; 0: none
enum class WatchId : uint16_t {};   // of a module that probes may stand in; 0: none

// How a walk ended; the values are those of enum profd_walk.
enum class WalkResult : uint8_t {};
inline constexpr WalkResult kWalkComplete = WalkResult{PROFD_WALK_COMPLETE};

// What a thread allocated or freed, by its allocator's own count.
struct HeapDelta {
  int64_t bytes = 0;
  int64_t seen_bytes = 0;    // that the events which were seen stand for
  int64_t unseen_bytes = 0;  // of events that no probe saw
  int64_t events = 0;        // that were seen
  int64_t gaps = 0;          // between two that were seen
  int64_t late_bytes =
      0;  // of seen_bytes, those told by the allocator's slow path, after the event
  // Beside that, of an allocator that keeps no count, as estimated from bursts of tracing.
  int64_t burst_bytes = 0;
  int64_t burst_doubt = 0;  // standard error of burst_bytes by what the probes did to the thread
  int64_t burst_calls = 0;  // that were counted
  friend bool operator==(const HeapDelta&, const HeapDelta&) = default;
};

// sum += delta. Sums may come from damaged bytes: they wrap instead of being undefined.
inline void AddHeap(const HeapDelta& delta, HeapDelta* sum) {
  sum->bytes = WrappingAdd(sum->bytes, delta.bytes);
  sum->seen_bytes = WrappingAdd(sum->seen_bytes, delta.seen_bytes);
  sum->unseen_bytes = WrappingAdd(sum->unseen_bytes, delta.unseen_bytes);
  sum->events = WrappingAdd(sum->events, delta.events);
  sum->gaps = WrappingAdd(sum->gaps, delta.gaps);
  sum->late_bytes = WrappingAdd(sum->late_bytes, delta.late_bytes);
  sum->burst_bytes = WrappingAdd(sum->burst_bytes, delta.burst_bytes);
  sum->burst_doubt = WrappingAdd(sum->burst_doubt, delta.burst_doubt);
  sum->burst_calls = WrappingAdd(sum->burst_calls, delta.burst_calls);
}

// What a thread did between two drains. Sums of these over a window telescope, so a value may be
// negative where an open interval was divided differently at the drain before.
struct LedgerDelta {
  int64_t wall_ns = 0;  // time the thread was watched
  int64_t on_cpu_ns = 0;
  std::array<int64_t, kReasonCount> off_ns{};  // [kRunQueue] is the run queue, the rest blocked
  std::array<int64_t, kReasonCount> waits{};
  // Blocked time whose reason is not known, because the per-switch layer was off.
  int64_t unattributed_ns = 0;
  // The kernel's own books; zero when that layer is off.
  int64_t books_on_cpu_ns = 0;
  int64_t books_runqueue_ns = 0;
  int64_t voluntary_switches = 0;
  int64_t involuntary_switches = 0;
  int64_t minor_faults = 0;
  int64_t major_faults = 0;
  int64_t read_bytes = 0;
  int64_t write_bytes = 0;
  HeapDelta allocated{}, freed{};
  // Of a row that stands for several: how many processes that ended were added to it.
  int64_t folded_processes = 0;
  friend bool operator==(const LedgerDelta&, const LedgerDelta&) = default;
};

struct ThreadLedger {
  ThreadId thread{};
  LedgerDelta delta;
};

// A thread that was in one wait all the time between two drains.
struct RestingThread {
  ThreadId thread{};
  int64_t wall_ns = 0;
  std::optional<Reason> reason;  // none: not known
};

// sum += rest.
inline void AddRest(const RestingThread& rest, LedgerDelta* sum) {
  int64_t& waited =
      rest.reason ? sum->off_ns[static_cast<size_t>(*rest.reason)] : sum->unattributed_ns;
  waited += rest.wall_ns;
  sum->wall_ns += rest.wall_ns;
}

struct SampleKey {
  ThreadId thread{};
  StackId stack{};
  uint64_t argument = 0;  // of the system call; of kInuse bytes per sampled object; of kWaker the
                          // waiter's stack; see IsFromBursts
  int32_t syscall = -1;
  Reason reason = Reason::kOther;  // of waits
  Kind kind = Kind::kWait;
  friend bool operator==(const SampleKey&, const SampleKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SampleKey& k) {
    return H::combine(std::move(h), k.thread, k.stack, k.argument, k.syscall, k.reason, k.kind);
  }
};

// Bytes that are estimated from bursts of tracing.
inline bool IsFromBursts(const SampleKey& key) {
  return (key.kind == Kind::kAlloc || key.kind == Kind::kFree) &&
         key.argument == PROFD_BURST_ARGUMENT;
}

// Events of an allocator that stand for more than one of its intervals.
inline bool IsLarge(const SampleKey& key) {
  return (key.kind == Kind::kAlloc || key.kind == Kind::kFree) &&
         key.argument == PROFD_HEAP_LARGE_ARGUMENT;
}

// What is kept of objects that are waited for, and of files that are synced, as stacks are: their
// words are the frames (struct profd_object). 0: the argument is none.
inline StackId ObjectOf(const SampleKey& key) {
  // Each file sync was counted. The key's argument is PROFD_SYNC_ARGUMENT.
  if (key.kind == Kind::kSync) return StackId{PROFD_SYNC_FILE(key.argument)};
  return key.kind == Kind::kWait && (key.argument & PROFD_OBJECT_BIT) != 0 ? StackId{key.argument}
                                                                           : StackId{};
}
// Stands for all that were not described.
inline constexpr StackId kOtherObjects{PROFD_OBJECT_BIT};

struct Sample {
  SampleKey key;
  int64_t weight = 0;  // sum of the tick intervals in force, ns; or what events stand for, bytes
  int64_t ticks = 0;   // or events
  // Of levels in a merged window, whose weight and events are what there is at its end: what the
  // weight grew by in the window.
  int64_t growth = 0;
  // In a merged window: sum of the squares of the weights, by delta.
  double squares = 0;
};

// A single wait that was long.
struct LongWait {
  SampleKey key{};          // of kWait; without a stack, argument and system call if no tick saw it
  int64_t begin_ns = 0;     // monotonic
  int64_t duration_ns = 0;  // until the thread could run again, or was last seen in it
  int64_t doubt_ns = 0;     // it may have taken longer by so much
  bool earlier = false;     // it began earlier, when nobody watched
  bool lasts = false;       // it is not known to be over
  StackId waker{};          // who ended it; 0: not known
};

// Who a thread is. Sent again when its name changes; `exited` once it is known to be gone.
struct ThreadInfo {
  ThreadId id{};
  int32_t pid = 0;
  int32_t tid = 0;
  uint32_t target = 0;  // index of the selector that marked it
  std::string name{};
  std::string process{};
  bool exited = false;
  // CLOCK_BOOTTIME, ns: with the numbers above they tell who it is for as long as the machine is
  // up. 0: not known.
  int64_t start_ns = 0;
  int64_t process_start_ns = 0;
  // In the store: it has only levels in this segment. In segments of a single drain it is set only
  // if the thread exited. What it did may be in a row for several that exited.
  bool only_levels = false;
  friend bool operator==(const ThreadInfo&, const ThreadInfo&) = default;
};

// The name of a row that stands for threads of a process that exited.
inline constexpr std::string_view kExitedThreads = "[exited threads]";

// A stack as walked. Frames are packed as in abi.h: kernel frames first, innermost first.
struct StackTrace {
  StackId id{};
  WalkResult walk = kWalkComplete;
  uint16_t kernel_frames = 0;
  std::vector<uint64_t> frames;
};

// Of a frame, as abi.h packs it.
inline constexpr bool IsKernelFrame(uint64_t frame) {
  return (frame & PROFD_FRAME_KERNEL) == PROFD_FRAME_KERNEL;
}
inline constexpr bool IsInFile(uint64_t frame) {
  return (frame & PROFD_FRAME_IN_FILE) != 0 && !IsKernelFrame(frame);
}
// The file that it is in; 0 where it is in none.
inline constexpr ModuleId ModuleOf(uint64_t frame) {
  if (!IsInFile(frame)) return ModuleId{};
  return static_cast<ModuleId>((frame & ~PROFD_FRAME_IN_FILE) >> PROFD_FRAME_MODULE_SHIFT);
}
// Where it is: an offset in the file, or an address.
inline constexpr uint64_t PlaceOf(uint64_t frame) {
  return IsInFile(frame) ? frame & PROFD_FRAME_OFFSET_MASK : frame;
}

// Ways to lose something: those of enum profd_loss, then the daemon's own.
inline constexpr size_t kKernelLossCount = PROFD_LOSS_COUNT;
enum class Loss : uint8_t {
  kRecursionMisses = PROFD_LOSS_COUNT,  // runs of a program that the kernel skipped
  kThreadVanished,                      // threads that ended without a final account
  kStackUnknown,                        // samples whose stack record never arrived
  kStoreDropped,      // seconds dropped from memory before their age, to keep the byte limit
  kModuleUnreadable,  // modules whose file could not be read or understood
  kRulesFull,         // modules left out because the limit for rules was reached
  kDrainFailed,
  kMemoryDropped,     // points of the processes' memory dropped before their age, to keep the limit
  kStoreDamaged,      // seconds in memory that could not be read
  kModulesForgotten,  // modules that stored stacks may name, and whose names had no room any more
  kCount,
};
inline constexpr size_t kLossCount = static_cast<size_t>(Loss::kCount);
using LossCounts = std::array<uint64_t, kLossCount>;

struct LossDescription {
  const char* cause;  // stable name, e.g. "counters_full"
  const char* help;   // one sentence for a person
};
// `loss` is an enum profd_loss or a Loss.
const LossDescription& DescribeLoss(size_t loss);
const char* ReasonName(Reason reason);
// The synthetic frame for a walk that is not complete, e.g. "[no unwind rule]".
const char* WalkName(WalkResult walk);

// Everything that one drain took out of the kernel.
struct ProfileDelta {
  int64_t begin_ns = 0;  // monotonic
  int64_t end_ns = 0;
  bool books_on = false;
  bool switch_on = false;
  bool tick_on = false;
  bool heap_on = false;
  bool faults_on = false;
  bool mappings_on = false;
  bool cpu_on = false;
  bool disk_on = false;
  bool wakers_on = false;
  bool switch_stacks_on = false;
  bool bursts_on = false;
  int64_t bursts = 0;            // that the samples hold; one with calls at most
  int64_t burst_ns = 0;          // their length
  int64_t burst_span_ns = 0;     // the time that they stand for
  int64_t tick_interval_ns = 0;  // mean of the ticks; without any, that in force
  int64_t ticks = 0;
  int64_t ticks_missed = 0;
  int64_t walks = 0;
  int64_t torn_walks = 0;
  CollectorCost cost;
  LossCounts losses{};
  int64_t lost_weight_ns = 0;       // weight of samples that found the counters full
  std::vector<ThreadInfo> threads;  // new or changed since the last delta
  std::vector<StackTrace> stacks;   // new since the last delta; may repeat
  std::vector<ThreadLedger> ledgers;
  std::vector<RestingThread> resting;  // each thread once, maybe beside a ledger
  std::vector<Sample> samples;
  // From which duration on waits are in `long_waits`, those for poll and sleep and others; 0: none.
  int64_t long_rest_ns = 0, long_work_ns = 0;
  std::vector<LongWait> long_waits;  // one may be told several times
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_PROFILE_H_
