// The kernel side as the daemon sees it: loading, attaching, ticks, drains, epochs.
#ifndef PROFD_DAEMON_KERNEL_KERNEL_H_
#define PROFD_DAEMON_KERNEL_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/status.h"
#include "daemon/kernel/probe.h"
#include "daemon/profile/profile.h"

struct profd_bpf;
struct ring_buffer;

namespace profd {

struct KernelOptions {
  bool switch_layer = true;
  bool heap_layer = true;
  bool fault_layer = true;
  bool map_layer = true;
  bool malloc_layer = true;
  // Every process of our PID namespace belongs to this target; 0: only those that are marked.
  uint32_t default_target = 0;
  Limits limits = {};
};

struct RingDeleter {
  void operator()(ring_buffer* ring) const;
};
using UniqueRing = std::unique_ptr<ring_buffer, RingDeleter>;

// The table through which a tick is told whom to visit, shared with the kernel.
struct VisitTableDeleter {
  void operator()(profd_visit* table) const;
};
using UniqueVisitTable = std::unique_ptr<profd_visit, VisitTableDeleter>;

struct SkeletonDeleter {
  void operator()(profd_bpf* skeleton) const;
};

struct ProgramMisses {
  std::string name;
  uint64_t recursion_misses = 0;
};

struct ModuleRules {
  profd_module_key key{};
  std::vector<profd_rule> rows;
};

using CounterEntry = std::pair<profd_sample_key, profd_sample_value>;

// What a burst found: by thread and stack, and by thread (thread id).
struct MallocCounts {
  std::vector<CounterEntry> samples;
  std::vector<std::pair<uint64_t, profd_malloc_thread>> threads;
};

// Threads of which a drain wrote nothing, because they were in the waits still in which the last
// record of each showed it at rest.
struct LeftOut {
  uint64_t threads = 0;
  int64_t now_ns = 0;    // when the last thread had been looked at, monotonic
  int64_t clock_ns = 0;  // the same by the scheduler's clock
};

// What came by at a place for events: struct profd_heap_tally.
struct HeapTally {
  ModuleId module{};
  uint32_t number = 0;
  uint64_t held = 0, refused = 0;
};

// Whether one link can hold the probes for one process (since Linux 6.6). Before, each is a perf
// event, and those take CAP_SYS_ADMIN.
bool HasMultiProbes();

using RecordSink = std::function<void(std::span<const uint8_t>)>;

// Not thread-safe, except where a function says so: one thread ticks and drains.
class Kernel {
 public:
  // Loads and attaches everything. Errors name the program and what is likely missing.
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelOptions& options);
  ~Kernel();

  // Makes a process a target, through its pidfd. Its threads follow at the next DrainThreads.
  // False when it is one already. NotFound when it is gone.
  absl::StatusOr<bool> Mark(int pidfd, uint32_t target);

  // Turns the per-switch layer off, so that it costs nothing, or on. Ledgers stand still until the
  // next DrainThreads after it came on. No-op without KernelOptions::switch_layer.
  absl::Status SetSwitchLayer(bool on);
  bool switch_on() const { return switch_link_ != nullptr; }
  // False when it was not asked for, or the kernel does not show the scheduler's clock.
  bool has_switch_layer() const { return has_switch_layer_; }

  // Whether this kernel can be told which threads to visit.
  bool ticks_by_list() const { return visit_table_ != nullptr; }
  // Looks at every target thread once; each sample found weighs `weight_ns`. `instant_ns` is when
  // the tick was due (monotonic).
  absl::Status Tick(int64_t weight_ns, int64_t instant_ns);
  // Looks at the listed threads and says what became of it. Needs ticks_by_list().
  absl::Status TickListed(std::span<profd_visit> visits, int64_t instant_ns);

  // Announces the executable mappings of all targets whose file is not known yet, and the processes
  // that map a watched one.
  absl::Status AnnounceMappings();

  // Writes the account of every target thread (struct profd_thread_record) to `sink`; without `all`
  // of those that are not at rest. After an error it is not known what was written: all is to be
  // asked for.
  absl::StatusOr<LeftOut> DrainThreads(const RecordSink& sink, bool all = true);

  // Hands over what programs put into the ring since the last call.
  absl::Status PollEvents(const RecordSink& sink);

  // Changes the epoch and empties the one that was live.
  absl::StatusOr<std::vector<CounterEntry>> DrainCounters();

  // Writes the heap totals of every thread that had an event (struct profd_heap_record) to `sink`;
  // without `all` of those that ran since they were written.
  absl::Status DrainHeap(const RecordSink& sink, bool all = true);
  // Changes the epoch of the heap's counters and empties the one that was live. When a thread is
  // stuck in the middle of counting, what was counted comes with a later call.
  absl::StatusOr<std::vector<CounterEntry>> DrainHeapCounters();
  // Takes the stack of one heap event in `one_in` only, a power of two, at random.
  void SetHeapSampling(uint32_t one_in);
  // Thread-safe. Whether all probes of a process's allocator stand. While they do not nothing
  // counts; of a process of which it was never said all counts, but nothing tells of gaps.
  void SetHeapSettled(int32_t pid, ModuleId module, bool settled);
  void ForgetHeapSettled(int32_t pid, ModuleId module);
  // Thread-safe. What came by at the places of probes that was no event, of all of them since
  // start.
  uint64_t HeapRefusals() const;
  // Thread-safe. The same by place, with what was one.
  std::vector<HeapTally> HeapTallies() const;
  // From now on the pages whose profd_page_hash lies below 2^32 / one_in are told of when somebody
  // touches them first (struct profd_page_record); 0: none, and page faults cost nothing.
  absl::Status SetFaults(uint32_t one_in);
  bool faults_on() const { return !fault_links_.empty(); }
  uint64_t fault_seed() const { return fault_seed_; }
  // Thread-safe. Puts probes of the heap's program into a file; for one process, or every one with
  // 0.
  absl::StatusOr<Probe> AttachHeapProbe(int file, int32_t pid, std::span<const HeapPlace> places);
  // The same for the program that follows the objects which an allocator samples.
  absl::StatusOr<Probe> AttachLiveProbe(int file, int32_t pid, std::span<const HeapPlace> places);
  // The same for the program that counts calls which change an address space.
  absl::StatusOr<Probe> AttachMapProbe(int file, int32_t pid, std::span<const HeapPlace> places);
  // Counts one of these calls in `one_in` only, a power of two, at random; 0: none.
  void SetMapSampling(uint32_t one_in);
  // False when it was not asked for, or the kernel takes no such program.
  bool has_map_layer() const;
  // The same for the program at USDT probes by which an allocator tells of its objects.
  absl::StatusOr<Probe> AttachToldProbe(int file, int32_t pid, std::span<const HeapPlace> places);
  // For one other thread, the one that puts these in. The number by which that program finds such
  // arguments, the same for the same. ResourceExhausted after PROFD_MAX_USDT_SPECS.
  absl::StatusOr<uint32_t> NumberOfArguments(const profd_usdt_spec& spec);
  // The same for the program that counts calls of glibc's malloc.
  absl::StatusOr<Probe> AttachMallocProbe(int file, int32_t pid, std::span<const HeapPlace> places);
  // Thread-safe. Calls count from `begin_ns` (monotonic) on, for so long; between bursts no probe
  // stands.
  void SetMallocBurst(int64_t begin_ns, int64_t length_ns);
  // For one thread, between bursts. Takes out what the last one found.
  absl::StatusOr<MallocCounts> DrainMalloc();
  // Forgets which stacks were handed over, so that they are sent again: when the map of them is
  // nearly full, or when `all` says so.
  absl::Status TrimKnownStacks(bool all);

  // For one other thread, the publisher. Gives modules their rules; one with empty rows has none.
  // A call takes some 10 ms however many there are: the kernel waits for all running programs.
  // Returns a status for each.
  std::vector<absl::Status> PublishRules(std::span<const ModuleRules> modules);
  // For the publisher. AnnounceMappings is to tell which processes map the module.
  absl::Status WatchModule(const profd_module_key& key);
  // For the publisher. Asks to be told of the module again.
  absl::Status ForgetModule(const profd_module_key& key);
  // For the publisher. The id the kernel gave to a module.
  absl::StatusOr<uint32_t> ModuleIdOf(const profd_module_key& key) const;

  // Totals since start.
  std::vector<uint64_t> Losses() const;  // indexed by enum profd_loss
  profd_tick_stats TickStats() const;
  profd_switch_cost SwitchCost() const;
  profd_heap_cost HeapCost() const;
  profd_fault_cost FaultCost() const;
  profd_heap_cost MapCost() const;
  profd_malloc_cost MallocCost() const;  // thread-safe
  std::vector<ProgramMisses> Misses() const;

  // Thread-safe. Bytes the kernel charges for our maps, rule tables included; thread accounts are
  // estimated from `threads`.
  uint64_t MapBytes(uint64_t threads) const;
  uint64_t RuleBytes() const { return rule_bytes_; }

 private:
  explicit Kernel(profd_bpf* skeleton);
  absl::Status Init(const KernelOptions& options);
  absl::Status AttachAll();
  // Waits until the distance of the two clocks is known. False when the kernel does not show it.
  // The calling thread was marked as the clock by a drain of its own.
  bool LearnClock();
  absl::Status RunIterator(const UniqueLink& link, const char* name, size_t record_size,
                           const RecordSink& sink);

  std::unique_ptr<profd_bpf, SkeletonDeleter> skeleton_;
  std::atomic<uint16_t> heap_rounds_ = 0;
  std::vector<UniqueLink> links_;
  UniqueLink switch_link_;
  bool has_switch_layer_ = false;
  uint32_t switch_epoch_ = 0;
  UniqueVisitTable visit_table_;
  UniqueLink tick_link_;
  UniqueLink drain_link_;
  UniqueLink mappings_link_;
  UniqueLink heap_link_;
  std::vector<UniqueLink> fault_links_;  // empty: off
  uint64_t fault_seed_ = 0;
  UniqueRing ring_;
  const RecordSink* ring_sink_ = nullptr;
  uint64_t stacks_seen_ = 0;
  uint64_t known_stacks_trim_ = 0;
  // Kept open for life: a rule table is never freed while a walk may be using it.
  std::vector<UniqueFd> rule_tables_;
  std::atomic<uint64_t> rule_bytes_ = 0;
  std::vector<profd_usdt_spec> usdt_specs_;  // by their numbers
  Probes probes_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_KERNEL_H_
