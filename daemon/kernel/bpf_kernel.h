// The kernel side in the running kernel: what Kernel::Create makes.
#ifndef PROFD_DAEMON_KERNEL_BPF_KERNEL_H_
#define PROFD_DAEMON_KERNEL_BPF_KERNEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "bpf/abi.h"
#include "daemon/base/fd.h"
#include "daemon/kernel/exited_table.h"
#include "daemon/kernel/kernel.h"
#include "daemon/kernel/probe.h"

struct profd_bpf;
struct ring_buffer;

namespace profd {

struct RingDeleter {
  void operator()(ring_buffer* ring) const;
};
using UniqueRing = std::unique_ptr<ring_buffer, RingDeleter>;

// A table that is shared with the kernel programs.
struct SharedTableDeleter {
  size_t bytes = 0;
  void operator()(void* table) const;
};
template <typename T>
using UniqueSharedTable = std::unique_ptr<T, SharedTableDeleter>;

struct SkeletonDeleter {
  void operator()(profd_bpf* skeleton) const;
};

class BpfKernel final : public Kernel {
 public:
  explicit BpfKernel(profd_bpf* skeleton);
  ~BpfKernel() override;
  // Attaches what was loaded; once.
  absl::Status Init(const KernelOptions& options, LayerRefusals refusals);

  const std::string& refusal(KernelLayer layer) const override;

  bool ticks_by_list() const override { return visit_table_ != nullptr; }
  std::span<profd_visit> VisitTable() override;
  WokenMarks Woken() override;
  void SetTickSums(const TickSum& before, const TickSum& now) override;
  absl::Status Visit(size_t count, int64_t instant_ns) override;
  absl::Status VisitAll(int64_t instant_ns, const RecordSink& sink) override;
  void SetTickWeight(int64_t ns) override;
  void TakeBorn(absl::FunctionRef<void(const profd_born&)> sink) override;
  bool RingHasNews() const override;
  profd_tick_stats TickStats() const override;

  absl::StatusOr<bool> Mark(int pidfd, uint32_t target) override;
  absl::Status PollEvents(const RecordSink& sink) override;
  absl::StatusOr<LeftOut> DrainThreads(const RecordSink& sink, bool all) override;
  absl::StatusOr<std::vector<ExitedEntry>> DrainExited() override;
  bool TakeUntoldExecs() override;
  absl::Status TrimKnownStacks(bool all) override;
  std::vector<uint64_t> Losses() const override;
  std::vector<ProgramMisses> Misses() const override;
  std::vector<CodeRange> OwnCode() const override;
  uint64_t MapBytes(uint64_t threads, uint64_t heap_threads) const override;

  absl::Status SetSwitchLayer(bool on) override;
  void SetLongWaits(const std::array<int64_t, PROFD_LONG_WAIT_CLASSES>& least_ns) override;
  bool switch_on() const override { return switch_link_ != nullptr; }
  bool has_switch_layer() const override { return has_switch_layer_; }
  profd_switch_cost SwitchCost() const override;
  absl::Status SetFaults(uint32_t one_in) override;
  bool faults_on() const override { return !fault_links_.empty(); }
  uint64_t fault_seed() const override { return fault_seed_; }
  profd_fault_cost FaultCost() const override;

  absl::StatusOr<std::vector<uint32_t>> ClockedCpus() const override;
  absl::Status SetCpuClock(uint32_t cpu, int64_t period_ns) override;
  absl::StatusOr<std::vector<CounterEntry>> DrainCpuCounters() override;
  profd_cpu_cost CpuCost() const override;
  absl::StatusOr<double> MeasureCpuInterrupt() const override;

  absl::Status SetDisk(uint32_t one_in) override;
  bool disk_on() const override { return !disk_links_.empty(); }
  absl::StatusOr<std::vector<DiskEntry>> DrainDisk() override;
  profd_disk_cost DiskCost() const override;
  std::string SyncsNote() const override { return syncs_note_; }
  absl::Status SetWakers(uint32_t one_in) override;
  bool wakers_on() const override { return waker_link_ != nullptr; }
  absl::StatusOr<std::vector<CounterEntry>> DrainWakerCounters() override;
  profd_waker_cost WakerCost() const override;
  absl::Status SetSwitchStacks(uint32_t one_in) override;
  bool switch_stacks_on() const override;
  absl::StatusOr<std::vector<CounterEntry>> DrainSwitchStacks() override;
  profd_switch_stack_cost SwitchStackCost() const override;
  absl::Status Look(const RecordSink& sink) override ABSL_LOCKS_EXCLUDED(look_mutex_);

  absl::Status DrainHeap(const RecordSink& sink, bool all) override;
  absl::StatusOr<std::vector<CounterEntry>> DrainHeapCounters() override;
  void SetHeapSampling(uint32_t one_in) override;
  void SetHeapSettled(int32_t pid, WatchId module, bool settled) override;
  void ForgetHeapSettled(int32_t pid, WatchId module) override;
  uint64_t HeapRefusals() const override;
  std::vector<HeapTally> HeapTallies() const override;
  void ForgetHeapTallies(WatchId module) override;
  profd_probe_cost HeapCost() const override;
  void SetMapSampling(uint32_t one_in) override;
  bool has_map_layer() const override;
  profd_probe_cost MapCost() const override;
  void SetMallocBurst(int64_t begin_ns, int64_t length_ns) override;
  absl::StatusOr<MallocCounts> DrainMalloc() override;
  profd_malloc_cost MallocCost() const override;

  absl::StatusOr<Probe> AttachHeapProbe(int file, int32_t pid,
                                        std::span<const ProbePlace> places) override;
  absl::StatusOr<Probe> AttachLiveProbe(int file, int32_t pid,
                                        std::span<const ProbePlace> places) override;
  absl::StatusOr<Probe> AttachMapProbe(int file, int32_t pid,
                                       std::span<const ProbePlace> places) override;
  absl::StatusOr<Probe> AttachToldProbe(int file, int32_t pid,
                                        std::span<const ProbePlace> places) override;
  absl::StatusOr<uint32_t> NumberOfArguments(const profd_usdt_spec& spec) override;
  absl::StatusOr<Probe> AttachMallocProbe(int file, int32_t pid,
                                          std::span<const ProbePlace> places) override;

  absl::StatusOr<std::vector<profd_mapping_process>> MappingProcesses() override;
  absl::Status AnnounceMappings() override;
  absl::Status AnnounceMappings(std::span<const int32_t> pids) override;
  std::vector<absl::Status> PublishRules(std::span<const ModuleRules> modules) override;
  absl::Status WatchModule(const profd_module_key& key, WatchId watch) override;
  absl::Status ForgetModule(const profd_module_key& key) override;
  absl::StatusOr<ModuleId> ModuleIdOf(const profd_module_key& key) const override;
  uint32_t AdvanceModuleClock() override;
  absl::StatusOr<std::vector<KnownModule>> ListModules() const override;
  void RemoveModules(std::span<const KnownModule> modules) override;
  size_t ModulesInUse() const override;
  uint64_t RuleBytes() const override { return rule_bytes_; }

 private:
  absl::Status AttachAll();
  // A program could not be attached: its layer is refused, or without it nothing works.
  // Notes which syncs are not seen then.
  void AttachSyncs();
  absl::Status GiveUp(const bpf_program* program, int error);
  // Waits until the distance of the two clocks is known. False when the kernel does not show it.
  // The calling thread was marked as the clock by a drain of its own.
  bool LearnClock();
  // Hands over the records that had no place in the ring.
  absl::Status PollLate(const RecordSink& sink);
  absl::Status RunIterator(const UniqueLink& link, const char* name, size_t record_size,
                           const RecordSink& sink);
  // The same for records of any size. `size_of` says how long the one is that the bytes begin with;
  // 0: they do not tell yet.
  using RecordSize = size_t (*)(std::span<const uint8_t> bytes);
  absl::Status RunSizedIterator(const UniqueLink& link, const char* name, RecordSize size_of,
                                const RecordSink& sink);

  std::unique_ptr<profd_bpf, SkeletonDeleter> skeleton_;
  LayerRefusals refusals_;
  std::atomic<uint32_t> heap_rounds_ = 0;
  std::vector<UniqueLink> links_;
  UniqueLink switch_link_;
  UniqueLink waker_link_;
  uint32_t waker_turns_ = 0;              // how often it was attached
  std::atomic<uint32_t> woken_turn_ = 0;  // WokenMarks::turn, for the sampler's thread
  bool has_switch_layer_ = false;
  uint32_t switch_epoch_ = 0;
  UniqueSharedTable<profd_visit> visit_table_;  // null: ticks are not by list
  UniqueSharedTable<profd_born> born_table_;
  uint64_t born_taken_ = 0;  // number of the last thread that TakeBorn gave
  uint64_t ring_bytes_ = 0;
  UniqueLink tick_link_;
  UniqueLink drain_link_;
  UniqueLink find_modules_link_;
  UniqueLink mapping_processes_link_;
  UniqueLink heap_link_;
  absl::Mutex look_mutex_;
  UniqueLink look_link_;                 // null: refused
  std::vector<UniqueLink> fault_links_;  // empty: off
  struct CpuClock {
    int event = -1;        // the link closes it
    uint64_t counted = 0;  // by the event, when it was last looked at
    UniqueLink link;
  };
  // Whether it counted since the last call.
  static bool Runs(CpuClock& clock);
  std::map<uint32_t, CpuClock> cpu_clocks_;  // by CPU
  std::vector<UniqueLink> disk_links_;       // empty: off
  std::string syncs_note_;
  uint64_t fault_seed_ = 0;
  UniqueRing ring_;
  const RecordSink* ring_sink_ = nullptr;
  size_t ring_bytes_left_ = 0;  // of the present PollEvents
  // Records that had no place in the ring, as of the last PollEvents.
  uint64_t last_records_seen_ = 0;
  uint64_t late_execs_seen_ = 0;
  ExitedTable exited_;
  uint64_t stacks_seen_ = 0;
  uint64_t known_stacks_trim_ = 0;
  struct RuleTable {
    UniqueFd fd;
    uint64_t bytes = 0;
  };
  absl::flat_hash_map<ModuleId, RuleTable> rule_tables_;
  // Removed, and kept open for a while: before 6.8 a kernel may free a table that a sleepable
  // program is reading. With the time of removal, monotonic ns.
  std::deque<std::pair<int64_t, UniqueFd>> removed_tables_;
  std::atomic<uint64_t> rule_bytes_ = 0;
  std::vector<profd_usdt_spec> usdt_specs_;  // by their numbers
  Probes probes_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_BPF_KERNEL_H_
