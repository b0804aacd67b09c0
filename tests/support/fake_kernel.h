// A kernel of threads that wait, in virtual time, and that fails where a test wants it to.
#ifndef PROFD_TESTS_SUPPORT_FAKE_KERNEL_H_
#define PROFD_TESTS_SUPPORT_FAKE_KERNEL_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_module_table.h"

namespace profd {

// Every thread waits for ever, unless told otherwise: one sample a visit, no time on a CPU.
class FakeKernel final : public Kernel {
 public:
  // `clock` must outlive this.
  explicit FakeKernel(FakeClock* clock) : clock_(clock) { losses_.resize(PROFD_LOSS_COUNT); }

  // What the threads do.
  void Start(uint64_t id, int32_t pid) {
    threads_[id] = {.pid = pid, .begin_ns = clock_->MonotonicNs()};
    if (!by_list) return;  // nobody takes them
    born_.push_back(
        {.number = id, .thread_id = id, .kernel_tid = static_cast<int32_t>(id), .pad = 0});
  }
  // Threads that ended and were never read.
  void Fold(const profd_exited_key& key, const profd_exited& sums) {
    exited_.emplace_back(key, sums);
  }
  void ExecUntold() { untold_execs_ = true; }
  // Gone, with a last account.
  void End(uint64_t id) {
    profd_thread_record record = Account(id, threads_.at(id));
    record.type = PROFD_RECORD_DEAD;
    Emit(record);
    threads_.erase(id);
  }
  // Gone without a last account, as when the ring was full.
  void Vanish(uint64_t id) { threads_.erase(id); }
  // It was on a CPU for so long since the last call.
  void Run(uint64_t id, int64_t ns) {
    Thread& thread = threads_.at(id);
    thread.on_cpu_ns += ns;
    ++thread.switches;
  }
  template <typename T>
  void Emit(const T& record) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    ring_.emplace_back(bytes, bytes + sizeof(record));
  }

  // False: as a kernel that rejects the program tick_list. Not to be changed once it is used.
  bool by_list = true;

  // Called when the reading of the threads begins.
  std::function<void()> on_drain_threads;
  // Called by the thread that reads files, before each.
  std::function<void()> on_module;
  // Called with the pidfd of a process that is to be a target; false: it is one already.
  std::function<bool(int)> on_mark;

  // Faults. A function fails so many times, and how.
  struct Failure {
    int times = 0;
    absl::Status status;
  };
  Failure drain_threads, visit, set_faults, announce_mappings, set_cpu_clock, set_disk, set_wakers,
      set_switch_stacks, look;
  // The clocks of CPUs.
  std::vector<uint32_t> online_cpus = {0, 1};
  std::map<uint32_t, int64_t> cpu_periods;
  std::vector<CounterEntry> cpu_counters;
  profd_cpu_cost cpu_cost{};
  uint32_t disk_one_in = 0;
  std::vector<DiskEntry> disk_entries;
  profd_disk_cost disk_cost{};
  std::string syncs_note;
  // The program at wake-ups.
  uint32_t waker_one_in = 0;
  std::vector<CounterEntry> waker_counters;
  profd_waker_cost waker_cost{};
  // The program at context switches that counts stacks.
  uint32_t switch_stack_one_in = 0;
  std::vector<CounterEntry> switch_stacks;
  profd_switch_stack_cost switch_stack_cost{};
  LayerRefusals refusals;
  // The processes of the last AnnounceMappings.
  std::vector<int32_t> looked_at;
  std::set<int32_t> locked_maps;  // of processes
  // What came by at places of probes.
  uint64_t heap_refusals = 0;
  std::vector<HeapTally> heap_tallies;
  profd_fault_cost fault_cost{};
  int64_t tick_ns = 0;   // what a tick costs the daemon
  int64_t drain_ns = 0;  // what reading the accounts does

  size_t visits() const { return visits_; }
  uint32_t fault_one_in() const { return fault_one_in_; }

  const std::string& refusal(KernelLayer layer) const override {
    return refusals[static_cast<size_t>(layer)];
  }

  bool ticks_by_list() const override { return by_list; }
  std::span<profd_visit> VisitTable() override { return visit_table_; }
  absl::Status VisitAll(int64_t, const RecordSink& sink) override {
    if (by_list) return absl::UnimplementedError("by list only");
    clock_->Compute(tick_ns);
    if (absl::Status status = Fail(visit); !status.ok()) return status;
    for (auto& [id, thread] : threads_) {
      profd_visit entry{};
      entry.thread_id = id;
      entry.kernel_tid = static_cast<int32_t>(id);
      VisitThread(thread, entry);
      sink({reinterpret_cast<const uint8_t*>(&entry), sizeof(entry)});
    }
    return absl::OkStatus();
  }
  void TakeBorn(absl::FunctionRef<void(const profd_born&)> sink) override {
    for (const profd_born& born : std::exchange(born_, {})) sink(born);
  }
  bool RingHasNews() const override { return !ring_.empty(); }
  absl::Status Visit(size_t count, int64_t) override {
    if (!by_list) return absl::UnimplementedError("not by list");
    clock_->Compute(tick_ns);
    if (absl::Status status = Fail(visit); !status.ok()) return status;
    for (profd_visit& entry : std::span(visit_table_).first(count)) {
      const auto thread = threads_.find(entry.thread_id);
      if (thread == threads_.end()) {
        ++visits_;
        entry.outcome = PROFD_VISIT_GONE;
        continue;
      }
      VisitThread(thread->second, entry);
    }
    return absl::OkStatus();
  }
  profd_tick_stats TickStats() const override { return stats_; }

  absl::StatusOr<bool> Mark(int pidfd, uint32_t) override {
    return on_mark ? on_mark(pidfd) : true;
  }
  absl::Status PollEvents(const RecordSink& sink) override {
    while (!ring_.empty()) {
      const std::vector<uint8_t> record = std::move(ring_.front());
      ring_.pop_front();
      sink(record);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<LeftOut> DrainThreads(const RecordSink& sink, bool) override {
    clock_->Compute(drain_ns);
    if (on_drain_threads) on_drain_threads();
    if (absl::Status status = Fail(drain_threads); !status.ok()) return status;
    for (const auto& [id, thread] : threads_) {
      const profd_thread_record record = Account(id, thread);
      sink({reinterpret_cast<const uint8_t*>(&record), sizeof(record)});
    }
    return LeftOut{.threads = 0, .now_ns = clock_->MonotonicNs(), .clock_ns = 0};
  }
  absl::StatusOr<std::vector<ExitedEntry>> DrainExited() override {
    return std::exchange(exited_, {});
  }
  bool TakeUntoldExecs() override { return std::exchange(untold_execs_, false); }
  absl::Status TrimKnownStacks(bool) override { return absl::OkStatus(); }
  std::vector<uint64_t> Losses() const override { return losses_; }
  std::vector<ProgramMisses> Misses() const override { return {}; }
  std::vector<CodeRange> OwnCode() const override { return {}; }
  uint64_t MapBytes(uint64_t, uint64_t) const override { return 0; }

  absl::Status SetSwitchLayer(bool on) override {
    switch_on_ = on;
    return absl::OkStatus();
  }
  bool switch_on() const override { return switch_on_; }
  bool has_switch_layer() const override { return false; }
  profd_switch_cost SwitchCost() const override { return {}; }
  absl::Status SetFaults(uint32_t one_in) override {
    if (one_in != 0) {
      if (absl::Status status = Fail(set_faults); !status.ok()) return status;
    }
    fault_one_in_ = one_in;
    return absl::OkStatus();
  }
  bool faults_on() const override { return fault_one_in_ != 0; }
  uint64_t fault_seed() const override { return 1; }
  profd_fault_cost FaultCost() const override { return fault_cost; }

  absl::StatusOr<std::vector<uint32_t>> ClockedCpus() const override { return online_cpus; }
  absl::Status SetCpuClock(uint32_t cpu, int64_t period_ns) override {
    if (period_ns == 0) {
      cpu_periods.erase(cpu);
      return absl::OkStatus();
    }
    if (absl::Status status = Fail(set_cpu_clock); !status.ok()) return status;
    cpu_periods[cpu] = period_ns;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<CounterEntry>> DrainCpuCounters() override {
    return std::exchange(cpu_counters, {});
  }
  profd_cpu_cost CpuCost() const override { return cpu_cost; }
  absl::StatusOr<double> MeasureCpuInterrupt() const override { return 1000; }

  absl::Status SetDisk(uint32_t one_in) override {
    if (one_in != 0) {
      if (absl::Status status = Fail(set_disk); !status.ok()) return status;
    }
    disk_one_in = one_in;
    return absl::OkStatus();
  }
  bool disk_on() const override { return disk_one_in != 0; }
  absl::StatusOr<std::vector<DiskEntry>> DrainDisk() override {
    return std::exchange(disk_entries, {});
  }
  profd_disk_cost DiskCost() const override { return disk_cost; }
  std::string SyncsNote() const override { return syncs_note; }

  absl::Status SetWakers(uint32_t one_in) override {
    if (one_in != 0) {
      if (absl::Status status = Fail(set_wakers); !status.ok()) return status;
    }
    waker_one_in = one_in;
    return absl::OkStatus();
  }
  bool wakers_on() const override { return waker_one_in != 0; }
  absl::StatusOr<std::vector<CounterEntry>> DrainWakerCounters() override {
    return std::exchange(waker_counters, {});
  }
  profd_waker_cost WakerCost() const override { return waker_cost; }

  absl::Status SetSwitchStacks(uint32_t one_in) override {
    if (one_in != 0) {
      if (absl::Status status = Fail(set_switch_stacks); !status.ok()) return status;
    }
    switch_stack_one_in = one_in;
    return absl::OkStatus();
  }
  bool switch_stacks_on() const override { return switch_stack_one_in != 0 && switch_on(); }
  absl::StatusOr<std::vector<CounterEntry>> DrainSwitchStacks() override {
    return std::exchange(switch_stacks, {});
  }
  profd_switch_stack_cost SwitchStackCost() const override { return switch_stack_cost; }

  // What a look finds: every thread sleeps in a futex, but those in `running`, and has a stack of
  // its own, but those that are `torn`.
  std::set<uint64_t> running, torn;
  absl::Status Look(const RecordSink& sink) override {
    if (absl::Status status = Fail(look); !status.ok()) return status;
    for (const auto& [id, thread] : threads_) {
      struct {
        profd_look look{};
        profd_stack_record stack{};
      } record;
      record.look.visit = {
          .thread_id = id,
          .stack = 0,
          .arg0 = 0x1000,
          .kernel_tid = static_cast<int32_t>(id),
          .sysno = 202,
          .reason = PROFD_REASON_LOCK,
          .outcome = running.contains(id) ? uint8_t{PROFD_VISIT_RUNNING} : uint8_t{PROFD_VISIT_NEW},
          .known = 0,
          .followed = 0,
          .stride = 0,
          .slot = 0,
          .quiet = 0,
          .since = 0};
      record.look.now = static_cast<uint64_t>(clock_->MonotonicNs());
      record.look.since = static_cast<uint64_t>(thread.begin_ns);
      record.look.pid = thread.pid;
      record.look.tid = static_cast<int32_t>(id);
      record.look.target_id = 1;
      record.look.names_object = 1;
      std::strcpy(record.look.comm, "worker");
      std::strcpy(record.look.process, "server");
      record.stack.walk = torn.contains(id) ? PROFD_WALK_TORN : PROFD_WALK_COMPLETE;
      record.stack.user_frames = 1;
      record.stack.hash = id;
      record.stack.frames[0] = id;
      sink({reinterpret_cast<const uint8_t*>(&record),
            sizeof(profd_look) + PROFD_STACK_HEADER_SIZE + sizeof(uint64_t)});
    }
    return absl::OkStatus();
  }

  absl::Status DrainHeap(const RecordSink&, bool) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<CounterEntry>> DrainHeapCounters() override {
    return std::vector<CounterEntry>();
  }
  void SetHeapSampling(uint32_t) override {}
  void SetHeapSettled(int32_t, WatchId, bool) override {}
  void ForgetHeapSettled(int32_t, WatchId) override {}
  uint64_t HeapRefusals() const override { return heap_refusals; }
  std::vector<HeapTally> HeapTallies() const override { return heap_tallies; }
  void ForgetHeapTallies(WatchId module) override {
    std::erase_if(heap_tallies, [&](const HeapTally& tally) { return tally.module == module; });
  }
  profd_probe_cost HeapCost() const override { return {}; }
  void SetMapSampling(uint32_t) override {}
  bool has_map_layer() const override { return refusal(KernelLayer::kMap).empty(); }
  profd_probe_cost MapCost() const override { return {}; }
  void SetMallocBurst(int64_t, int64_t) override {}
  absl::StatusOr<MallocCounts> DrainMalloc() override { return MallocCounts(); }
  profd_malloc_cost MallocCost() const override { return {}; }

  using Places = std::span<const ProbePlace>;
  absl::StatusOr<Probe> AttachHeapProbe(int, int32_t, Places) override { return NoProbe(); }
  absl::StatusOr<Probe> AttachLiveProbe(int, int32_t, Places) override { return NoProbe(); }
  absl::StatusOr<Probe> AttachMapProbe(int, int32_t, Places) override { return NoProbe(); }
  absl::StatusOr<Probe> AttachToldProbe(int, int32_t, Places) override { return NoProbe(); }
  absl::StatusOr<Probe> AttachMallocProbe(int, int32_t, Places) override { return NoProbe(); }
  absl::StatusOr<uint32_t> NumberOfArguments(const profd_usdt_spec&) override { return 0; }

  absl::Status AnnounceMappings() override {
    modules.UseMapped();
    return Fail(announce_mappings);
  }
  absl::StatusOr<std::vector<profd_mapping_process>> MappingProcesses() override {
    std::map<int32_t, profd_mapping_process> processes;
    for (const auto& [id, thread] : threads_) {
      processes[thread.pid] = {.pid = thread.pid, .locked = locked_maps.contains(thread.pid)};
    }
    std::vector<profd_mapping_process> listed;
    for (const auto& [pid, process] : processes) listed.push_back(process);
    return listed;
  }
  absl::Status AnnounceMappings(std::span<const int32_t> pids) override {
    looked_at.assign(pids.begin(), pids.end());
    return AnnounceMappings();
  }
  std::vector<absl::Status> PublishRules(std::span<const ModuleRules> rules) override {
    return modules.Publish(rules);
  }
  absl::Status WatchModule(const profd_module_key&, WatchId) override { return absl::OkStatus(); }
  absl::Status ForgetModule(const profd_module_key&) override { return absl::OkStatus(); }
  absl::StatusOr<ModuleId> ModuleIdOf(const profd_module_key& key) const override {
    if (on_module) on_module();
    return modules.IdOf(key);
  }
  uint32_t AdvanceModuleClock() override { return modules.Advance(); }
  absl::StatusOr<std::vector<KnownModule>> ListModules() const override { return modules.List(); }
  void RemoveModules(std::span<const KnownModule> gone) override { modules.Remove(gone); }
  size_t ModulesInUse() const override { return modules.size(); }
  uint64_t RuleBytes() const override { return modules.rule_bytes(); }
  FakeModuleTable modules;

 private:
  bool switch_on_ = false;
  struct Thread {
    int32_t pid = 0;
    int64_t begin_ns = 0;
    int64_t on_cpu_ns = 0;
    uint64_t switches = 1;
    uint64_t visited = 0;  // switches at the last visit
  };

  void VisitThread(Thread& thread, profd_visit& entry) {
    ++visits_;
    const bool same = std::exchange(thread.visited, thread.switches) == thread.switches;
    entry.outcome = same ? PROFD_VISIT_SAME : PROFD_VISIT_NEW;
    entry.stack = entry.thread_id;
    entry.reason = PROFD_REASON_LOCK;
    ++(same ? stats_.repeats : stats_.walks);
  }
  static absl::Status Fail(Failure& failure) {
    if (failure.times == 0) return absl::OkStatus();
    --failure.times;
    return failure.status;
  }
  static absl::Status NoProbe() { return absl::UnimplementedError("no probes in the fake kernel"); }

  profd_thread_record Account(uint64_t id, const Thread& thread) const {
    profd_thread_record record{};
    record.type = PROFD_RECORD_THREAD;
    record.target_id = 1;
    record.now = record.clock = static_cast<uint64_t>(clock_->MonotonicNs());
    record.thread_id = id;
    record.begin = record.begin_clock = static_cast<uint64_t>(thread.begin_ns);
    record.pid = thread.pid;
    record.tid = record.kernel_tid = static_cast<int32_t>(id);
    record.born = 1;
    record.state = 1;
    std::strcpy(record.comm, "worker");
    std::strcpy(record.process, "server");
    record.books.exec_runtime = static_cast<uint64_t>(thread.on_cpu_ns);
    record.books.nvcsw = thread.switches;
    return record;
  }

  FakeClock* const clock_;
  std::map<uint64_t, Thread> threads_;
  std::deque<std::vector<uint8_t>> ring_;
  std::vector<profd_born> born_;
  std::vector<profd_visit> visit_table_ = std::vector<profd_visit>(16);
  std::vector<uint64_t> losses_;
  profd_tick_stats stats_{};
  size_t visits_ = 0;
  uint32_t fault_one_in_ = 0;
  std::vector<ExitedEntry> exited_;
  bool untold_execs_ = false;
};

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_FAKE_KERNEL_H_
