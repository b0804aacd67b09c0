// The collector: one thread that ticks, drains and hands what it found to the store.
#ifndef PROFD_DAEMON_COLLECT_COLLECTOR_H_
#define PROFD_DAEMON_COLLECT_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/cpu_use.h"
#include "daemon/base/fd.h"
#include "daemon/collect/accounts.h"
#include "daemon/collect/burst_estimate.h"
#include "daemon/collect/control.h"
#include "daemon/collect/governor.h"
#include "daemon/collect/heap_accounts.h"
#include "daemon/collect/live_heap.h"
#include "daemon/collect/malloc_bursts.h"
#include "daemon/collect/mapping_looks.h"
#include "daemon/collect/resident_pages.h"
#include "daemon/collect/slices.h"
#include "daemon/collect/sources.h"
#include "daemon/collect/tick_schedule.h"
#include "daemon/collect/told_heap.h"
#include "daemon/collect/visits.h"
#include "daemon/kernel/kernel.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/store/store.h"
#include "daemon/target/heap_probes.h"
#include "daemon/target/modules.h"
#include "daemon/target/targets.h"

namespace profd {

struct CollectorOptions {
  std::vector<Selector> selectors;  // empty: every process of our PID namespace but ourselves
  int64_t tick_interval_ns = 10'000'000;
  bool books = true;
  bool per_switch = true;
  bool tick = true;
  bool heap = true;
  bool faults = true;
  bool mappings = true;
  BurstPlan bursts = {.length_ns = 20'000'000, .interval_ns = 5'000'000'000};
  Budgets budgets;
  Limits limits;
  std::vector<std::string> missing;  // for `status`: features that do not work, and why
};

class Collector final : public CollectorControl {
 public:
  // Loads the kernel side, marks the targets, waits for the rules of what they run, and starts.
  // `store`, `memory` and `cpu_use` must outlive this. Errors: NotFound for a PID that does not
  // exist, and what the kernel refuses.
  static absl::StatusOr<std::unique_ptr<Collector>> Create(CollectorOptions options, Store* store,
                                                           MemoryWatch* memory, CpuUse* cpu_use);
  ~Collector() override;

  absl::Status DrainNow() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetPaused(bool paused) override ABSL_LOCKS_EXCLUDED(mutex_);
  CollectorState State() const override ABSL_LOCKS_EXCLUDED(mutex_);
  const ModuleSource& modules() const { return *modules_; }

 private:
  // Cumulative figures as of the last drain, to be differenced.
  struct Baseline {
    LossCounts losses{};
    std::vector<ProgramMisses> misses;
    CollectorCost cost;
    int64_t look_cpu_ns = 0;  // of the CPU time of drains: looks between them
    profd_tick_stats tick{};
    int64_t missed = 0;
    int64_t ticks = 0;
    profd_switch_cost switch_cost{};
    profd_heap_cost heap_cost{};
    int64_t heap_events = 0;
    int64_t heap_seen_bytes = 0;
    int64_t heap_bytes = 0;
    int64_t told = 0;
    profd_fault_cost fault_cost{};
    profd_heap_cost map_cost{};
    int64_t faults = 0;
    int64_t idle_ticks = 0;  // ticks at which a thread was in the wait of the tick before
  };

  Collector(CollectorOptions options, Store* store, MemoryWatch* memory, CpuUse* cpu_use);
  absl::Status Init();
  void Run();
  // Wakes the collector's thread and waits until it has done what was asked for by then.
  absl::Status Await(uint64_t asked) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Pause(bool paused);
  void Tick();
  // Adds what this thread used since the last charge or the begin of the round: for a tick that is
  // waking up, too, which on a busy machine costs more than the rest of it.
  void ChargeCpu(int64_t* sum);
  absl::Status VisitThreads();
  void PollEvents();
  void OnRecord(std::span<const uint8_t> bytes);
  void OnLiveObject(const profd_live_heap_record& record);
  void OnHeap(const profd_heap_record& record);
  // `govern`: the governor is to look at once, however short the time since it last did.
  absl::Status Drain(bool govern = false);
  // What the programs in the targets' path have cost by now, ns since start.
  int64_t InPathNs() const;
  // The path has cost so much since the governor last looked that it cannot wait for its second.
  bool IsOverrun();
  // There is so much new to count that it cannot wait for the next drain where they are rare.
  bool IsFilling();
  // Puts the probes of allocators in or takes them out, as their slices of the time want it.
  void TurnHeap();
  // Learns what it takes to call the per-switch program at all.
  absl::Status MeasureSwitchEntry();
  absl::Status StartFaults();
  // The instant that they are of.
  int64_t ReadAccounts();
  // Returns how much work it was, in threads that were left out; 0: it failed.
  double ReadAccountsOnce();
  void ReadHeap();
  // Takes the counters of one sort over into `delta`.
  void AddSamples(const absl::StatusOr<std::vector<CounterEntry>>& counters, ProfileDelta& delta);
  // Tells the memory watch what the processes of these threads allocated.
  void SumHeap(const std::vector<ThreadLedger>& ledgers);
  // Follows processes that come and go with the memory watch and with probes in their allocators.
  void FollowProcesses();
  FoundModules FindModules() const;
  // Look who maps what, where probes may wait for it: between drains, and at one.
  void LookEarly();
  void LookIfWanted();
  // Counts and logs a step of a drain that failed. True when it did not.
  bool Expect(const absl::Status& status);
  void Publish(const Baseline& now);
  // Fills in what is live in the allocator of `use`.
  void PublishLive(const LossCounts& losses, AllocatorUse& use) const;
  Baseline Measure();
  // What each target did since the last drain.
  std::vector<TargetActivity> Activity(const std::vector<Sample>& samples) const;
  // Has the governor judge by what comes from here on.
  void GovernFromHere();
  // Once a second: lets the governor see what it cost, and does what it says.
  void Govern(const Baseline& now);
  // Brings all sources to what the governor wants of them.
  void Obey();
  // Has slow paths watched in allocators of which too many events are not seen.
  void WatchSlowPaths();
  GovernorState GovernorNow() const;
  // For `status`: why page faults are not watched, or what is wrong with it.
  std::string AboutFaults() const;
  // The layer of mapping calls.
  LayerState MappingsLayer() const;
  // Adds a burst that is over to `delta`.
  void AddBurst(ProfileDelta& delta);
  Traps heap_traps() const { return heap_probes_ ? heap_probes_->traps() : Traps{}; }
  Traps burst_traps() const { return bursts_ ? bursts_->traps() : Traps{}; }
  std::string AboutBursts() const;
  // For `status`: what went through glibc's malloc.
  void PublishBursts(std::vector<AllocatorUse>& allocators) const;

  const CollectorOptions options_;
  Store* const store_;
  MemoryWatch* const memory_;
  CpuUse* const cpu_use_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<HeapProbes> heap_probes_;        // null: no layer puts probes in
  std::unique_ptr<ResidentPages> resident_pages_;  // null: that layer is off
  std::unique_ptr<MallocBursts> bursts_;           // null: that layer is off
  std::unique_ptr<Targets> targets_;
  UniqueFd wake_;  // eventfd: a drain is asked for, or stop

  // The collector's thread alone.
  std::unique_ptr<TickSchedule> schedule_;
  Visits visits_;
  SwitchSource switch_source_;
  DrainSource drain_source_;
  TickSource tick_source_;
  HeapSource heap_source_;
  FaultSource fault_source_;
  MapSource map_source_;
  BurstSource burst_source_;
  Slices heap_slices_;
  double fault_trap_ns_ = 0;  // of the way into the page faults' program and out of it
  std::string about_faults_;  // why that layer is off
  Governor governor_;
  Baseline governed_;  // as of the governor's last step
  int64_t governed_ns_ = 0;
  DrainSource::Work drained_;  // since then
  int64_t next_overrun_look_ns_ = 0;
  Accounts accounts_;
  HeapAccounts heap_accounts_;
  std::map<int32_t, HeapGrowth> heap_growth_;  // by PID, since the last drain
  std::set<int32_t> execed_;                   // PIDs, since the last drain
  LiveHeap live_heap_;
  ToldHeap told_heap_;
  std::map<ModuleId, AllocatorTotals> burst_totals_;
  std::set<int32_t> processes_;  // of targets, as of the last drain
  std::vector<StackTrace> stacks_;
  Baseline last_;
  int64_t last_drain_ns_ = 0;
  int64_t polled_ns_ = 0;  // when the ring was read
  int64_t next_trim_ns_ = 0;
  int64_t next_map_bytes_ns_ = 0;
  uint64_t map_bytes_ = 0;
  int64_t next_rescan_ns_ = 0;
  MappingLooks looks_;
  bool paused_ = false;
  int64_t ticks_ = 0;
  int64_t charged_cpu_ns_ = 0;
  bool read_all_ = true;  // it is not known which threads are at rest
  bool read_whole_heap_ = true;
  int64_t next_whole_reading_ns_ = 0;
  double quick_unit_ns_ = 0;  // what reading takes, a unit of work, when nothing comes in between
  int64_t tick_cpu_ns_ = 0;
  int64_t drain_cpu_ns_ = 0;
  int64_t look_cpu_ns_ = 0;  // of looks between drains
  int64_t switches_ = 0;
  int64_t faults_ = 0;
  CollectorCost cost_;  // since start, with the targets' parts
  uint64_t drain_failures_ = 0;
  uint64_t bad_records_ = 0;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t drains_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t drains_done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool pause_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status drain_status_ ABSL_GUARDED_BY(mutex_);
  CollectorState state_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_COLLECTOR_H_
