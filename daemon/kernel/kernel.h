// The kernel side as the daemon sees it, by concern: ticks, drains, switches and faults, probes,
// modules. Tests have a fake of it (tests/support/fake_kernel.h).
#ifndef PROFD_DAEMON_KERNEL_KERNEL_H_
#define PROFD_DAEMON_KERNEL_KERNEL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/base/code_range.h"
#include "daemon/base/limits.h"
#include "daemon/base/status.h"
#include "daemon/kernel/probe.h"
#include "daemon/profile/profile.h"

namespace profd {

struct KernelOptions {
  bool switch_layer = true;
  bool heap_layer = true;
  bool fault_layer = true;
  bool map_layer = true;
  bool malloc_layer = true;
  bool cpu_layer = true;
  bool disk_layer = true;
  bool waker_layer = true;
  bool switch_stack_layer = true;
  // VisitAll() also works where threads are visited by list; for tests.
  bool visits_all = false;
  // Every process of our PID namespace belongs to this target; 0: only those that are marked.
  uint32_t default_target = 0;
  Limits limits = {};
};

// Programs that profd can do without, each to be loaded or not.
enum class KernelLayer {
  kSwitch,
  kHeap,
  kLive,
  kTold,
  kFault,
  kMap,
  kMalloc,
  kCpu,
  kDisk,
  kSync,
  kWaker,
  kSwitchStack,
  kLook
};
inline constexpr size_t kKernelLayers = 13;
// By layer, why the kernel did not take its programs; empty where it did, or was not asked to.
using LayerRefusals = std::array<std::string, kKernelLayers>;

struct ProgramMisses {
  std::string name;
  uint64_t recursion_misses = 0;
};

struct ModuleRules {
  profd_module_key key{};
  std::vector<profd_rule> rows;
};

// An entry of the kernel's table of modules.
struct KnownModule {
  profd_module_key key{};
  ModuleId id{};
  uint32_t used = 0;  // the kernel's clock when a walk or AnnounceMappings looked it up last
};

using CounterEntry = std::pair<profd_sample_key, profd_sample_value>;

using DiskEntry = std::pair<profd_disk_key, profd_disk_value>;

// What a burst found: by thread and stack, and by thread (thread id).
struct MallocCounts {
  std::vector<CounterEntry> samples;
  std::vector<std::pair<uint64_t, profd_malloc_thread>> threads;
};

// Threads that ended without being known one by one, by process: how much there was of them.
using ExitedEntry = std::pair<profd_exited_key, profd_exited>;

// Threads of which a drain wrote nothing, because they were in the waits still in which the last
// record of each showed it at rest.
struct LeftOut {
  uint64_t threads = 0;
  int64_t now_ns = 0;    // when the last thread had been looked at, monotonic
  int64_t clock_ns = 0;  // the same by the scheduler's clock
};

// What came by at a place for events: struct profd_heap_tally.
struct HeapTally {
  WatchId module{};
  uint32_t number = 0;
  uint64_t held = 0, refused = 0;
};

// Whether one link can hold the probes for one process (since Linux 6.6). Before, each is a perf
// event, and those take CAP_SYS_ADMIN.
bool HasMultiProbes();

using RecordSink = std::function<void(std::span<const uint8_t>)>;

// Whether threads were woken.
struct WokenMarks {
  // By slot (struct profd_visit), 1 when the thread of that slot was woken. Shared with programs; a
  // multiple of 8 bytes.
  std::span<uint8_t> marks;
  // How often they began to be kept; 0: they are not kept now.
  uint32_t turn = 0;
};

// The weight of ticks, ns, and their number.
struct TickSum {
  uint64_t ns = 0;
  uint32_t ticks = 0;
};

// The tick, for the sampler's thread; it runs beside all the rest.
class TickKernel {
 public:
  virtual ~TickKernel() = default;
  // Whether this kernel can be told which threads to visit.
  virtual bool ticks_by_list() const = 0;
  // Where the threads to visit are written to, and what was found is read from.
  virtual std::span<profd_visit> VisitTable() = 0;
  // Visits the first `count` threads of the table. `instant_ns` is when the tick was due
  // (monotonic). Needs ticks_by_list().
  virtual absl::Status Visit(size_t count, int64_t instant_ns) = 0;
  // Visits every target thread. `sink` gets the samples (struct profd_visit). Where there are ticks
  // by list it needs KernelOptions::visits_all.
  virtual absl::Status VisitAll(int64_t instant_ns, const RecordSink& sink) = 0;
  // What a visit with a stride of 1 weighs from now on, ns.
  virtual void SetTickWeight(int64_t /*ns*/) {}
  virtual WokenMarks Woken() { return {}; }
  // All ticks before the present one, and with it: how often quiet threads were found in their wait
  // is told by the difference (struct profd_visit).
  virtual void SetTickSums(const TickSum& /*before*/, const TickSum& /*now*/) {}
  // Hands over the threads that were born since the last call; where these are more than
  // PROFD_MAX_BORN, the last of them.
  virtual void TakeBorn(absl::FunctionRef<void(const profd_born&)> sink) = 0;
  // The ring should be read soon: there is something in it that others wait for, or it fills.
  // Thread-safe.
  virtual bool RingHasNews() const = 0;
  virtual profd_tick_stats TickStats() const = 0;  // thread-safe
};

// Accounts of threads, the ring, losses.
class DrainKernel {
 public:
  virtual ~DrainKernel() = default;
  // Makes a process a target, through its pidfd. Its threads follow at the next DrainThreads.
  // False when it is one already. NotFound when it is gone.
  virtual absl::StatusOr<bool> Mark(int pidfd, uint32_t target) = 0;
  // Hands over what programs put into the ring since the last call; of what comes meanwhile no more
  // than a ring full.
  virtual absl::Status PollEvents(const RecordSink& sink) = 0;
  // Writes the account of every target thread (struct profd_thread_record) to `sink`; without `all`
  // of those that are not at rest. After an error it is not known what was written: all is to be
  // asked for.
  virtual absl::StatusOr<LeftOut> DrainThreads(const RecordSink& sink, bool all = true) = 0;
  // What was added since the last call for threads that ended and left no record. A thread that
  // ends meanwhile may be in this one in part: the next one has the rest.
  virtual absl::StatusOr<std::vector<ExitedEntry>> DrainExited() = 0;
  // Whether there were execs since the last call, of processes that are not known, that no record
  // tells of.
  virtual bool TakeUntoldExecs() = 0;
  // Forgets which stacks were handed over, so that they are sent again: when the map of them is
  // nearly full, or when `all` says so.
  virtual absl::Status TrimKnownStacks(bool all) = 0;

  // Totals since start.
  virtual std::vector<uint64_t> Losses() const = 0;  // indexed by enum profd_loss
  virtual std::vector<ProgramMisses> Misses() const = 0;
  // Where the machine code of our programs lies, while this lives. Empty if the kernel hides it.
  virtual std::vector<CodeRange> OwnCode() const = 0;
  // Thread-safe. Bytes the kernel charges for our maps, rule tables included. It does not report
  // what is stored with threads; that is estimated from `threads`, of which `heap_threads` have
  // allocated.
  virtual uint64_t MapBytes(uint64_t threads, uint64_t heap_threads) const = 0;
};

// Context switches and page faults. Costs are totals since start.
class EventKernel {
 public:
  virtual ~EventKernel() = default;
  // Turns the per-switch layer off, so that it costs nothing, or on. Ledgers stand still until the
  // next DrainThreads after it came on. No-op without KernelOptions::switch_layer.
  virtual absl::Status SetSwitchLayer(bool on) = 0;
  virtual bool switch_on() const = 0;
  // False when it was not asked for, or the kernel does not show the scheduler's clock.
  virtual bool has_switch_layer() const = 0;
  virtual profd_switch_cost SwitchCost() const = 0;
  // By enum profd_long_wait_class, from which duration on the per-switch program tells of waits
  // that are over (struct profd_long_wait_record), ns; 0: never.
  virtual void SetLongWaits(const std::array<int64_t, PROFD_LONG_WAIT_CLASSES>& /*least_ns*/) {}
  // From now on the pages whose profd_page_hash lies below 2^32 / one_in are told of when somebody
  // touches them first (struct profd_page_record); 0: none, and page faults cost nothing.
  virtual absl::Status SetFaults(uint32_t one_in) = 0;
  virtual bool faults_on() const = 0;
  virtual uint64_t fault_seed() const = 0;
  virtual profd_fault_cost FaultCost() const = 0;
};

// A clock that interrupts each CPU, where the stack of the thread there is counted.
class CpuKernel {
 public:
  virtual ~CpuKernel() = default;
  // The CPUs that can have a clock now: those that are online.
  virtual absl::StatusOr<std::vector<uint32_t>> ClockedCpus() const = 0;
  // From now on the CPU's clock interrupts once in `period_ns` of time that it is not idle, for the
  // first time a whole period from now; 0: never. A sample has the period as its weight.
  virtual absl::Status SetCpuClock(uint32_t cpu, int64_t period_ns) = 0;
  // Changes the epoch of the counters and empties the one that was live. When a CPU is stuck in the
  // middle of counting, what was counted comes with a later call.
  virtual absl::StatusOr<std::vector<CounterEntry>> DrainCpuCounters() = 0;
  virtual profd_cpu_cost CpuCost() const = 0;  // totals since start
  // What an interrupt of the clock costs without the program, ns. Takes some 10 ms of CPU time.
  virtual absl::StatusOr<double> MeasureCpuInterrupt() const = 0;
};

// Requests to block devices, by the thread and stack that submitted them.
class DiskKernel {
 public:
  virtual ~DiskKernel() = default;
  // From now on the requests of targets are counted, and the stack of one in `one_in` is taken, at
  // random; 0: none are counted, and requests cost nothing.
  virtual absl::Status SetDisk(uint32_t one_in) = 0;
  virtual bool disk_on() const = 0;
  // Changes the epoch of the counters and empties the one that was live. When a CPU is stuck in the
  // middle of counting, what was counted comes with a later call. Entries whose argument has
  // PROFD_OBJECT_BIT are of file syncs; those with PROFD_DISK_PEAK tell how many requests were in
  // flight.
  virtual absl::StatusOr<std::vector<DiskEntry>> DrainDisk() = 0;
  virtual profd_disk_cost DiskCost() const = 0;  // totals since start
  // Which file syncs are not counted with them; empty where all are.
  virtual std::string SyncsNote() const = 0;
};

// The program at wake-ups, which counts who ends the waits that ticks have seen.
class WakerKernel {
 public:
  virtual ~WakerKernel() = default;
  // The waker of one wait in `one_in` is counted, at random; 0: of none, and wake-ups cost nothing.
  virtual absl::Status SetWakers(uint32_t one_in) = 0;
  virtual bool wakers_on() const = 0;
  // Changes the epoch of the counters and empties the one that was live. When a CPU is stuck in the
  // middle of counting, what was counted comes with a later call.
  virtual absl::StatusOr<std::vector<CounterEntry>> DrainWakerCounters() = 0;
  virtual profd_waker_cost WakerCost() const = 0;  // totals since start
};

// Counts one context switch in many with its stack, while the program of the ledger runs.
class SwitchStackKernel {
 public:
  virtual ~SwitchStackKernel() = default;
  // One switch that the ledger enters in `one_in`, a power of two, is counted, at random, with that
  // weight; 0: none. After PROFD_SWITCH_STACKS of them a CPU counts fewer, with their weight, until
  // the next drain.
  virtual absl::Status SetSwitchStacks(uint32_t one_in) = 0;
  // Both this and the ledger are on.
  virtual bool switch_stacks_on() const = 0;
  // Changes the epoch of the counters and empties the one that was live. When a CPU is stuck in the
  // middle of counting, what was counted comes with a later call.
  virtual absl::StatusOr<std::vector<CounterEntry>> DrainSwitchStacks() = 0;
  virtual profd_switch_stack_cost SwitchStackCost() const = 0;  // totals since start
};

// Looks at what all threads of the targets do now.
class LookKernel {
 public:
  virtual ~LookKernel() = default;
  // Thread-safe: one look at a time, beside everything else. Writes each thread (struct profd_look,
  // followed by a struct profd_stack_record) to `sink`. Unimplemented: the kernel took no such
  // program.
  virtual absl::Status Look(const RecordSink& sink) = 0;
};

// Programs at probes, and what they count. Costs are totals since start.
class ProbeKernel {
 public:
  virtual ~ProbeKernel() = default;
  // Writes the heap totals of every thread that had an event (struct profd_heap_record) to `sink`;
  // without `all` of those that ran since they were written.
  virtual absl::Status DrainHeap(const RecordSink& sink, bool all = true) = 0;
  // Changes the epoch of the heap's counters and empties the one that was live. When a thread is
  // stuck in the middle of counting, what was counted comes with a later call.
  virtual absl::StatusOr<std::vector<CounterEntry>> DrainHeapCounters() = 0;
  // Takes the stack of one heap event in `one_in` only, a power of two, at random.
  virtual void SetHeapSampling(uint32_t one_in) = 0;
  // Thread-safe. Whether all probes of a process's allocator stand. While they do not nothing
  // counts; of a process of which it was never said all counts, but nothing tells of gaps.
  virtual void SetHeapSettled(int32_t pid, WatchId module, bool settled) = 0;
  virtual void ForgetHeapSettled(int32_t pid, WatchId module) = 0;
  // Thread-safe. What came by at the places of probes that was no event, of all of them since
  // start.
  virtual uint64_t HeapRefusals() const = 0;
  // Thread-safe. The same by place, with what was one.
  virtual std::vector<HeapTally> HeapTallies() const = 0;
  // Thread-safe. Makes room for others in that table, once no probe stands in the module any more.
  virtual void ForgetHeapTallies(WatchId module) = 0;
  virtual profd_probe_cost HeapCost() const = 0;
  // Counts one call that changes an address space in `one_in` only, a power of two, at random; 0:
  // none.
  virtual void SetMapSampling(uint32_t one_in) = 0;
  // False when it was not asked for, or the kernel takes no such program.
  virtual bool has_map_layer() const = 0;
  virtual profd_probe_cost MapCost() const = 0;
  // Thread-safe. Calls count from `begin_ns` (monotonic) on, for so long; between bursts no probe
  // stands.
  virtual void SetMallocBurst(int64_t begin_ns, int64_t length_ns) = 0;
  // For one thread, between bursts. Takes out what the last one found.
  virtual absl::StatusOr<MallocCounts> DrainMalloc() = 0;
  virtual profd_malloc_cost MallocCost() const = 0;  // thread-safe

  // Thread-safe. Puts probes of the heap's program into a file; for one process, or every one with
  // 0.
  virtual absl::StatusOr<Probe> AttachHeapProbe(int file, int32_t pid,
                                                std::span<const ProbePlace> places) = 0;
  // The same for the program that follows the objects which an allocator samples.
  virtual absl::StatusOr<Probe> AttachLiveProbe(int file, int32_t pid,
                                                std::span<const ProbePlace> places) = 0;
  // The same for the program that counts calls which change an address space.
  virtual absl::StatusOr<Probe> AttachMapProbe(int file, int32_t pid,
                                               std::span<const ProbePlace> places) = 0;
  // The same for the program at USDT probes by which an allocator tells of its objects.
  virtual absl::StatusOr<Probe> AttachToldProbe(int file, int32_t pid,
                                                std::span<const ProbePlace> places) = 0;
  // The same for the program that counts calls of glibc's malloc.
  virtual absl::StatusOr<Probe> AttachMallocProbe(int file, int32_t pid,
                                                  std::span<const ProbePlace> places) = 0;
  // The number by which the program at USDT probes finds such arguments, the same for the same.
  // ResourceExhausted after PROFD_MAX_USDT_SPECS.
  virtual absl::StatusOr<uint32_t> NumberOfArguments(const profd_usdt_spec& spec) = 0;
};

// Modules and their unwind rules. AnnounceMappings and AdvanceModuleClock are for the drainer's
// thread, counts for any, the rest for one other thread, the publisher.
class ModuleKernel {
 public:
  virtual ~ModuleKernel() = default;
  // Announces the executable mappings of all targets whose file is not known yet, and the processes
  // that map a watched one. It takes the lock of each process's memory map, so it waits if one is
  // held.
  virtual absl::Status AnnounceMappings() = 0;
  // The same for the targets among `pids`; other processes are not touched. Processes that ended
  // are skipped.
  virtual absl::Status AnnounceMappings(std::span<const int32_t> pids) = 0;
  // The processes of all targets, and whose memory map is locked. Takes no lock itself. For the
  // drainer's thread, too.
  virtual absl::StatusOr<std::vector<profd_mapping_process>> MappingProcesses() = 0;
  // Gives modules their rules; one with empty rows has none. A call takes some 10 ms however many
  // there are: the kernel waits for all running programs. Returns a status for each.
  virtual std::vector<absl::Status> PublishRules(std::span<const ModuleRules> modules) = 0;
  // AnnounceMappings is to tell which processes map the module.
  virtual absl::Status WatchModule(const profd_module_key& key, WatchId watch) = 0;
  // Asks to be told of the module again.
  virtual absl::Status ForgetModule(const profd_module_key& key) = 0;
  // The id the kernel gave to a module.
  virtual absl::StatusOr<ModuleId> ModuleIdOf(const profd_module_key& key) const = 0;
  // The time that entries of modules get from now on when they are looked up.
  virtual uint32_t AdvanceModuleClock() = 0;
  virtual absl::StatusOr<std::vector<KnownModule>> ListModules() const = 0;
  // Takes modules and their rules out of the tables. Their files get other ids when they are seen
  // again; stacks keep the old ones. A walk in progress may still use what it has found.
  virtual void RemoveModules(std::span<const KnownModule> modules) = 0;
  virtual size_t ModulesInUse() const = 0;
  virtual uint64_t RuleBytes() const = 0;
};

// Not thread-safe, except where a function says so: one thread drains, and another one ticks.
class Kernel : public TickKernel,
               public DrainKernel,
               public EventKernel,
               public CpuKernel,
               public DiskKernel,
               public WakerKernel,
               public SwitchStackKernel,
               public LookKernel,
               public ProbeKernel,
               public ModuleKernel {
 public:
  // Loads and attaches everything to the running kernel. A layer that it refuses is left out.
  // Errors name the program and what is likely missing.
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelOptions& options);

  // Why the kernel did not take the programs of a layer; empty when it did, or was not asked to.
  virtual const std::string& refusal(KernelLayer layer) const = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_KERNEL_H_
