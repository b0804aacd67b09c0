// The collector without a kernel: hours of load in virtual time, and what goes wrong meanwhile.
#include "daemon/collect/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sanitizer/allocator_interface.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/support/end_with.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/toy_source.h"

namespace profd {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;
constexpr int64_t kHour = 3'600 * kSecond;
constexpr uint32_t kTarget = 1;
// Above all PIDs that Linux gives: /proc knows none of them.
constexpr int32_t kNoPid = 1 << 23;

// By how much tables and buffers may be fuller at one instant than at another, bytes.
constexpr size_t kSlack = 64 * 1024;

// Bytes on the heap. Under the address sanitizer malloc is its own.
size_t AllocatedBytes() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return __sanitizer_get_current_allocated_bytes();
#endif
#endif
  return mallinfo2().uordblks;
}

profd_exec_record Exec(int32_t pid) {
  profd_exec_record record{};
  record.type = PROFD_RECORD_EXEC;
  record.pid = pid;
  record.target_id = kTarget;
  return record;
}

profd_module_record NewModule() {
  profd_module_record record{};
  record.type = PROFD_RECORD_MODULE;
  record.pid = kNoPid;
  return record;
}

// A process that did something and then waits to be killed.
class DoneChild {
 public:
  explicit DoneChild(const std::function<void()>& what) {
    int done[2];
    EXPECT_EQ(pipe(done), 0);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      EndWith(parent);
      what();
      if (write(done[1], "d", 1) != 1) _exit(1);
      while (true) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(done[0], &byte, 1), 1);
    for (const int end : done) close(end);
  }
  DoneChild(const DoneChild&) = delete;
  DoneChild& operator=(const DoneChild&) = delete;
  ~DoneChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Keeps sums of what it gets.
class SumStore final : public Store {
 public:
  absl::Status Append(ProfileDelta delta) override {
    EXPECT_EQ(delta.begin_ns, end_ns == 0 ? delta.begin_ns : end_ns) << "a hole between drains";
    end_ns = delta.end_ns;
    disk_on = delta.disk_on;
    ++deltas;
    for (const Sample& sample : delta.samples) {
      if (delta.tick_on) weights[sample.key.thread] += sample.weight;
      ticks[sample.key.thread] += sample.ticks;
    }
    for (const RestingThread& rest : delta.resting) wall[rest.thread] += rest.wall_ns;
    for (const ThreadLedger& ledger : delta.ledgers) {
      wall[ledger.thread] += ledger.delta.wall_ns;
      on_cpu[ledger.thread] += ledger.delta.on_cpu_ns;
    }
    for (size_t i = 0; i < kLossCount; ++i) losses[i] += delta.losses[i];
    lost_weight_ns += delta.lost_weight_ns;
    tick_ns += delta.ticks * delta.tick_interval_ns;
    in_path_ns += delta.cost.in_path_ns;
    return absl::OkStatus();
  }
  absl::StatusOr<MergedProfile> Merge(
      Window, const std::function<bool(const ThreadInfo&)>&) const override {
    return MergedProfile();
  }
  absl::StatusOr<MergedProfile> MergeLevels(
      Window, const std::function<bool(const ThreadInfo&)>&) const override {
    return MergedProfile();
  }
  absl::flat_hash_set<ModuleId> NamedModules() const override { return {}; }
  int64_t OldestNs() const override { return 0; }
  size_t Bytes() const override { return 0; }

  void Forget() {
    for (auto* sums : {&weights, &ticks, &wall, &on_cpu}) sums->clear();
  }

  int64_t end_ns = 0;
  bool disk_on = false;  // in the last delta
  int deltas = 0;
  std::map<ThreadId, int64_t> weights, ticks, wall, on_cpu;
  LossCounts losses{};
  int64_t lost_weight_ns = 0;
  int64_t tick_ns = 0;
  int64_t in_path_ns = 0;
};

class EngineTest : public ::testing::Test {
 protected:
  // Accounts and ticks alone: the other sources have threads that live in real time.
  EngineTest() {
    options_.sources.per_switch = false;
    options_.sources.heap = false;
    options_.sources.faults = false;
    options_.sources.mappings = false;
    options_.sources.cpu.interval_ns = 0;
    options_.sources.disk = false;
    options_.sources.bursts.interval_ns = 0;
    options_.sources.tick_interval_ns = 100 * kMs;
    options_.seed = 1;
  }

  // `more`: a source beside those of the list.
  void Start(std::unique_ptr<Source> more = nullptr) {
    Begin(std::move(more));
    ASSERT_TRUE(engine_->AwaitFiles([] { return true; }).ok());
  }
  // Up to where files are read.
  void Begin(std::unique_ptr<Source> more = nullptr) {
    engine_ = std::make_unique<Engine>(options_, EngineParts{.kernel = &kernel_,
                                                             .clock = &clock_,
                                                             .store = &store_,
                                                             .memory = &memory_,
                                                             .cpu_use = &cpu_use_});
    if (more) engine_->sources().all.push_back(std::move(more));
    ASSERT_TRUE(engine_->Start().ok());
  }

  // A file is read when the result is notified.
  std::shared_ptr<absl::Notification> BeginWithAFileThatWaits() {
    auto gate = std::make_shared<absl::Notification>();
    kernel_.on_module = [gate] { gate->WaitForNotification(); };
    kernel_.Emit(NewModule());
    kernel_.Start(1, 100);
    Begin();
    return gate;
  }

  // Goes from one instant at which something is due to the next, as the collector's two threads
  // do. `each`: after each of them.
  void Live(int64_t ns, const std::function<void()>& each = [] {}) {
    const int64_t end = clock_.MonotonicNs() + ns;
    while (true) {
      const int64_t next = std::min(engine_->next_ns(), NextTick());
      if (next >= end) break;
      clock_.MoveTo(std::max(clock_.MonotonicNs(), next));
      bool news = false;
      if (NextTick() <= clock_.MonotonicNs()) news = Tick();
      if (news || engine_->next_ns() <= clock_.MonotonicNs()) {
        absl::Status drained;
        (void)engine_->Round(false, &drained);
      }
      each();
    }
    clock_.MoveTo(std::max(clock_.MonotonicNs(), end));
  }
  // What the sampler's thread does when it wakes.
  bool Tick() {
    clock_.RunThread(1);
    const bool news = engine_->sampler()->Tick();
    clock_.RunThread(0);
    return news;
  }
  int64_t NextTick() {
    if (engine_->sampler()->next_ns() == INT64_MAX) Tick();  // it is woken where it may begin
    return engine_->sampler()->next_ns();
  }
  void Drain() {
    absl::Status drained;
    ASSERT_TRUE(engine_->Round(true, &drained));
    EXPECT_TRUE(drained.ok()) << drained;
  }
  // Every 400 s a process begins, calls exec and works, and the one before it has ended.
  static constexpr int64_t kChurnPause = 400 * kSecond;
  static constexpr uint64_t kProcessesADay = 24 * kHour / kChurnPause;
  struct Churn {
    std::function<void(uint64_t id)> end;
    std::function<void(uint64_t id, int32_t pid)> work = [](uint64_t, int32_t) {};
    int drains = 0;  // after the last one
  };
  void Rotate(uint64_t processes, const Churn& churn) {
    for (const uint64_t last = churned_ + processes; churned_ < last;) {
      if (churned_ != 0) churn.end(churned_);
      ++churned_;
      const auto pid = kNoPid + static_cast<int32_t>(churned_ % 32'768);
      kernel_.Start(churned_, pid);
      kernel_.Emit(Exec(pid));
      churn.work(churned_, pid);
      clock_.MoveTo(clock_.MonotonicNs() + kChurnPause);
      if (NextTick() <= clock_.MonotonicNs()) Tick();
      Drain();
    }
    for (int drain = 0; drain < churn.drains; ++drain) {
      clock_.MoveTo(clock_.MonotonicNs() + kSecond);
      Drain();
    }
    store_.Forget();
  }
  // After the first day.
  void ExpectDaysLeaveNothing(uint64_t days, const Churn& churn) {
    Rotate(kProcessesADay, churn);
    const size_t before = AllocatedBytes();
    Rotate(days * kProcessesADay, churn);
    EXPECT_LE(engine_->state()->threads, 2U);
    EXPECT_LE(AllocatedBytes(), before + kSlack);
  }
  // Pages that a process touches, bytes that it allocates, and samples of its thread by every
  // source.
  void BeBusy(uint64_t id, int32_t pid) {
    for (uint64_t page = 1; page <= 64; ++page) {
      profd_page_record touched{};
      touched.type = PROFD_RECORD_PAGE;
      touched.pid = pid;
      touched.process_id = touched.thread_id = touched.stack = id;
      touched.address = page << 12;
      touched.size = 4096;
      kernel_.Emit(touched);
    }
    profd_heap_record heap{};
    heap.type = PROFD_RECORD_HEAP;
    heap.thread_id = id;
    heap.pid = pid;
    heap.heap.counters[0].address = 0x1000;
    heap.heap.counters[0].total = heap.heap.counters[0].seen = 1 << 16;
    heap.heap.counters[0].events = 1;
    heap.heap.counters[0].kind = PROFD_KIND_ALLOC;
    heap.heap.counters[0].watch_id = 1;
    kernel_.Emit(heap);
    profd_sample_key key{};
    key.thread_id = key.stack = id;
    key.sysno = -1;
    key.kind = PROFD_KIND_CPU;
    kernel_.cpu_counters = {{key, {.weight = 1000, .count = 1}}};
    key.kind = PROFD_KIND_WAKER;
    kernel_.waker_counters = {{key, {.weight = 1000, .count = 1}}};
    kernel_.disk_entries = {{{.thread_id = id, .stack = id, .argument = 1},
                             {.requests = 1, .bytes = 4096, .queue_ns = 1000, .service_ns = 1000}}};
  }
  uint64_t Lost(size_t loss) const { return store_.losses.at(loss); }
  const LayerState& Layer(const std::string& name) const {
    for (const LayerState& layer : engine_->state()->layers) {
      if (layer.name == name) return layer;
    }
    ADD_FAILURE() << "no layer " << name;
    static const LayerState none;
    return none;
  }

  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  CpuUse cpu_use_;
  MemoryWatch memory_{&cpu_use_, {.proc = ::testing::TempDir() + "/no-proc"}};
  SumStore store_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  uint64_t churned_ = 0;  // processes of Rotate
};

TEST_F(EngineTest, HoursOfWaitingAddUp) {
  options_.sources.tick_interval_ns = kSecond;
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id, 100);
  Start();
  const int64_t begin = store_.end_ns;
  Live(2 * kHour);
  Drain();
  const int64_t watched = store_.end_ns - begin;
  EXPECT_GE(watched, 2 * kHour);
  EXPECT_GE(store_.deltas, 2 * 3'600) << "a drain a second";
  for (const uint64_t id : {1, 2, 3}) {
    EXPECT_EQ(store_.wall[ThreadId{id}], watched);
    // Each stratum of the time has one tick, but for the one that goes on.
    EXPECT_NEAR(static_cast<double>(store_.weights[ThreadId{id}]), static_cast<double>(watched),
                static_cast<double>(options_.sources.tick_interval_ns));
  }
  for (size_t loss = 0; loss < kLossCount; ++loss) EXPECT_EQ(Lost(loss), 0U) << loss;
}

// Whoever asks for what happened while threads were read is to wait for the next drain.
TEST_F(EngineTest, ADrainReachesUpToItsBegin) {
  kernel_.Start(1, 100);
  Start();
  Live(kSecond);
  kernel_.drain_ns = 150 * kMs;
  const int64_t begin = clock_.MonotonicNs();
  Drain();
  EXPECT_EQ(engine_->reached_ns(), begin);
  EXPECT_GE(store_.end_ns, begin + kernel_.drain_ns);
}

// It is not read any more, and the ring has its account.
TEST_F(EngineTest, WhoEndsDuringADrainIsPartOfIt) {
  kernel_.Start(1, 100);
  kernel_.Start(2, 100);
  Start();
  Live(kSecond);
  Drain();
  const int64_t before = store_.wall[ThreadId{1}];
  clock_.MoveTo(clock_.MonotonicNs() + 300 * kMs);
  kernel_.on_drain_threads = [this] {
    kernel_.End(1);
    kernel_.on_drain_threads = nullptr;
  };
  Drain();
  EXPECT_EQ(store_.wall[ThreadId{1}], before + 300 * kMs);
}

// What threads did while sources measured their costs lies before the first slice.
TEST_F(EngineTest, MeasuringComesBeforeTheFirstSlice) {
  class CostlySource final : public Source {
   public:
    explicit CostlySource(std::function<void()> measure) : measure_(std::move(measure)) {}
    const char* name() const override { return "costly"; }
    void Calibrate() override { measure_(); }

   private:
    const std::function<void()> measure_;
  };
  kernel_.Start(1, 100);
  Start(std::make_unique<CostlySource>([this] {
    clock_.MoveTo(clock_.MonotonicNs() + kSecond);
    kernel_.Run(1, 900 * kMs);
  }));
  const int64_t begin = clock_.MonotonicNs();
  Live(10 * kSecond);
  Drain();
  EXPECT_EQ(store_.wall[ThreadId{1}], store_.end_ns - begin);
  EXPECT_EQ(store_.on_cpu[ThreadId{1}], 0);
}

// What the daemon computes, it may spend; a tick that costs more than that comes less often.
TEST_F(EngineTest, TicksKeepToTheBudget) {
  options_.sources.tick_interval_ns = 10 * kMs;
  options_.sources.budget.share = 0.005;
  kernel_.tick_ns = kMs / 5;
  kernel_.Start(1, 100);
  Start();
  Live(60 * kSecond);
  const int64_t before = clock_.ProcessCpuNs();
  Live(600 * kSecond);
  const double share =
      static_cast<double>(clock_.ProcessCpuNs() - before) / static_cast<double>(600 * kSecond);
  EXPECT_LE(share, 0.005);
  EXPECT_GE(share, 0.002) << "the budget is there to be used";
  EXPECT_GT(engine_->state()->tick_interval_ns, 10 * kMs);
}

// Without the kernel's books only the program at each fault counts them.
TEST_F(EngineTest, FaultsAreGivenUpWithoutBooksToo) {
  options_.sources.faults = true;
  options_.sources.books = false;
  kernel_.Start(1, 100);
  Start();
  const uint32_t finest = kernel_.fault_one_in();
  ASSERT_NE(finest, 0U);
  for (int second = 0; second < 300; ++second) {
    kernel_.Run(1, 900 * kMs);
    // A tenth of a CPU.
    kernel_.fault_cost.faults += 100'000;
    kernel_.fault_cost.timed += 1'000;
    kernel_.fault_cost.timed_ns += kMs;
    Live(kSecond);
  }
  EXPECT_NE(kernel_.fault_one_in(), finest);
  // Once there are few faults, they are told again.
  Live(3600 * kSecond);
  EXPECT_EQ(kernel_.fault_one_in(), finest);
}

TEST_F(EngineTest, FullTableIsLostWeight) {
  options_.sources.limits.counters = 1;
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id, 100);
  Start();
  Live(60 * kSecond);
  Drain();
  EXPECT_GT(Lost(PROFD_LOSS_COUNTERS_FULL), 0U);
  EXPECT_EQ(Lost(PROFD_LOSS_COUNTERS_FULL_NS), static_cast<uint64_t>(store_.lost_weight_ns));
  int64_t counted = 0;
  for (const auto& [thread, weight] : store_.weights) counted += weight;
  EXPECT_EQ(counted + store_.lost_weight_ns, 3 * store_.tick_ns) << "neither lost nor told";
}

// Accounts are totals: what a drain could not read comes with the next.
TEST_F(EngineTest, DrainThatFailsLosesNothing) {
  kernel_.Start(1, 100);
  Start();
  const int64_t begin = store_.end_ns;
  Live(5 * kSecond);
  kernel_.drain_threads = {.times = 1, .status = absl::ResourceExhaustedError("ENOMEM")};
  kernel_.Run(1, 3 * kMs);
  Live(5 * kSecond);
  Drain();
  EXPECT_EQ(Lost(static_cast<size_t>(Loss::kDrainFailed)), 1U);
  EXPECT_EQ(store_.wall[ThreadId{1}], store_.end_ns - begin);
  EXPECT_EQ(store_.on_cpu[ThreadId{1}], 3 * kMs);
  EXPECT_EQ(store_.weights[ThreadId{1}], store_.tick_ns);
}

TEST_F(EngineTest, ThreadThatVanishesIsForgotten) {
  for (const uint64_t id : {1, 2}) kernel_.Start(id, 100);
  Start();
  Live(5 * kSecond);
  kernel_.Vanish(1);
  Live(5 * kSecond);
  EXPECT_EQ(Lost(static_cast<size_t>(Loss::kThreadVanished)), 1U);
  EXPECT_EQ(engine_->state()->threads, 1U);
  const size_t before = kernel_.visits();
  Live(10 * kSecond);
  EXPECT_NEAR(static_cast<double>(kernel_.visits() - before), 100, 2) << "one thread is visited";
}

// A process dies between two steps, and a thread of the next one has come: churn for an hour.
TEST_F(EngineTest, ThreadsThatComeAndGoLeaveNothing) {
  options_.sources.tick_interval_ns = 500 * kMs;
  Start();
  uint64_t id = 0;
  int64_t next = clock_.MonotonicNs();
  Live(kHour, [&] {
    if (clock_.MonotonicNs() < next) return;
    next += 10 * kSecond;
    if (id != 0) kernel_.Vanish(id);
    ++id;
    kernel_.Start(id, static_cast<int32_t>(id));
  });
  EXPECT_GE(id, 350U);
  EXPECT_EQ(engine_->state()->threads, 1U);
  const size_t before = kernel_.visits();
  Live(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(kernel_.visits() - before), 10, 2);
}

// They were never read, and are stored all the same.
TEST_F(EngineTest, ThreadsThatNobodyKnewAreStored) {
  Start();
  profd_exited_key key{};
  key.target_id = 1;
  std::strcpy(key.process, "sh");
  profd_exited sums{};
  sums.threads = 100;
  sums.on_cpu = sums.exec_runtime = kSecond;
  for (int i = 0; i < 2; ++i) {
    kernel_.Fold(key, sums);
    Live(10 * kSecond);
  }
  Drain();
  int64_t wall_ns = 0;
  for (const auto& [id, wall] : store_.wall) wall_ns += wall;
  EXPECT_EQ(wall_ns, 2 * kSecond);
  EXPECT_EQ(store_.wall.size(), 1U);
}

TEST_F(EngineTest, ProgramThatIsRefusedCostsItsSourceOnly) {
  options_.sources.heap = options_.sources.mappings = true;
  kernel_.refusals[static_cast<size_t>(KernelLayer::kHeap)] =
      "this kernel rejects program on_heap_event";
  kernel_.refusals[static_cast<size_t>(KernelLayer::kMap)] =
      "this kernel rejects program on_map_call";
  kernel_.Start(1, 100);
  Start();
  Live(10 * kSecond);
  Drain();
  EXPECT_FALSE(Layer("heap").on);
  EXPECT_EQ(Layer("heap").note, "this kernel rejects program on_heap_event");
  EXPECT_FALSE(Layer("mappings").on);
  EXPECT_EQ(Layer("mappings").note, "this kernel rejects program on_map_call");
  EXPECT_FALSE(Layer("faults").on);
  EXPECT_EQ(Layer("faults").note, "disabled by --disable");
  EXPECT_TRUE(Layer("tick").on);
  EXPECT_GT(store_.weights[ThreadId{1}], 9 * kSecond);
}

TEST_F(EngineTest, SourceThatCannotAttachIsLostAlone) {
  options_.sources.faults = true;
  kernel_.set_faults = {.times = 1, .status = absl::PermissionDeniedError("needs CAP_PERFMON")};
  kernel_.Start(1, 100);
  Start();
  Live(10 * kSecond);
  Drain();
  EXPECT_FALSE(Layer("faults").on);
  EXPECT_EQ(Layer("faults").note, "needs CAP_PERFMON");
  EXPECT_EQ(kernel_.fault_one_in(), 0U);
  EXPECT_TRUE(Layer("tick").on);
  EXPECT_GT(store_.weights[ThreadId{1}], 9 * kSecond);
}

TEST_F(EngineTest, PauseIsNoLoadAndNoHole) {
  kernel_.Start(1, 100);
  Start();
  const int64_t begin = store_.end_ns;
  Live(10 * kSecond);
  Drain();
  engine_->SetPaused(true);
  EXPECT_EQ(Layer("tick").note, "paused; send SIGUSR2 to profd to resume");
  const int64_t weight = store_.weights[ThreadId{1}];
  clock_.MoveTo(clock_.MonotonicNs() + kHour);
  Drain();
  engine_->SetPaused(false);
  EXPECT_EQ(store_.weights[ThreadId{1}], weight);
  EXPECT_EQ(store_.wall[ThreadId{1}], store_.end_ns - begin) << "accounts go on";
  EXPECT_TRUE(Layer("tick").on);
  Live(10 * kSecond);
  Drain();
  EXPECT_NEAR(static_cast<double>(store_.weights[ThreadId{1}] - weight),
              static_cast<double>(10 * kSecond), 200.0 * kMs);
}

// Forks, execs and exits go on during a pause. If nobody read the ring, it would soon be full.
TEST_F(EngineTest, RingIsReadDuringAPause) {
  kernel_.Start(1, 100);
  Start();
  Live(kSecond);
  const size_t visits = kernel_.visits();
  engine_->SetPaused(true);
  for (int i = 0; i < 10; ++i) {
    kernel_.Emit(Exec(100));
    Live(kSecond);
    EXPECT_FALSE(kernel_.RingHasNews());
  }
  EXPECT_EQ(kernel_.visits(), visits) << "nothing is sampled";
}

// Only the targets' memory maps are looked at: another process may hold the lock of its own.
TEST_F(EngineTest, LooksAtMappingsOfTargetsOnly) {
  auto selector = Selector::Parse("^no-such-process$");
  ASSERT_TRUE(selector.ok());
  options_.selectors = {*std::move(selector)};
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id, id < 3 ? 100 : 200);
  Start();
  EXPECT_THAT(kernel_.looked_at, testing::ElementsAre(100, 200));
}

// Files are read meanwhile: clients need not wait for the largest.
TEST_F(EngineTest, FilesAreAwaitedAfterTheStart) {
  const auto gate = BeginWithAFileThatWaits();
  EXPECT_EQ(store_.deltas, 0);
  const int64_t begin = MonotonicNs();
  int asked = 0;
  const auto release_at_third = [&] {
    if (++asked == 3) gate->Notify();
    return true;
  };
  EXPECT_TRUE(engine_->AwaitFiles(release_at_third).ok());
  EXPECT_TRUE(engine_->knew_files());
  EXPECT_GE(MonotonicNs() - begin, 90 * kMs) << "two steps that were in vain";
  EXPECT_EQ(store_.deltas, 1);
}

TEST_F(EngineTest, FilesAreNotAwaitedByOneThatStops) {
  const auto gate = BeginWithAFileThatWaits();
  EXPECT_TRUE(engine_->AwaitFiles([] { return false; }).ok());
  EXPECT_FALSE(engine_->knew_files());
  EXPECT_EQ(store_.deltas, 1);
  gate->Notify();
}

// Nothing is taken before: its stacks would end where the rules do.
TEST_F(EngineTest, LayersBeginWhenFilesAreRead) {
  options_.sources.disk = true;
  kernel_.Start(1, 100);
  Begin();
  EXPECT_FALSE(Layer("disk").on);
  EXPECT_EQ(Layer("disk").note, kStartingNote);
  EXPECT_EQ(Layer("faults").note, kDisabledNote);
  ASSERT_TRUE(engine_->AwaitFiles([] { return true; }).ok());
  EXPECT_TRUE(Layer("disk").on);
  EXPECT_FALSE(store_.disk_on) << "in the first delta";
  Drain();
  EXPECT_TRUE(store_.disk_on);
}

// Who runs most needs its unwind rules most.
TEST_F(EngineTest, FilesOfTheLargestUsersAreReadFirst) {
  const DoneChild idle([] {});
  const DoneChild busy([] {
    while (clock() < CLOCKS_PER_SEC / 20) {
    }
  });
  kernel_.Start(1, idle.pid());
  kernel_.Start(2, kNoPid);
  kernel_.Start(3, busy.pid());
  Begin();
  EXPECT_THAT(kernel_.looked_at, testing::ElementsAre(busy.pid(), idle.pid(), kNoPid));
}

// One that holds it for good would hold profd, too.
TEST_F(EngineTest, LeavesOutWhoKeepsItsMemoryMapLocked) {
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id, id < 3 ? 100 : 200);
  kernel_.locked_maps = {200};
  Start();
  EXPECT_THAT(kernel_.looked_at, testing::ElementsAre(100));
}

// The kernel may not say which process called exec. Then mappings are looked at again, and names
// are compared.
TEST_F(EngineTest, AnExecThatIsNotToldIsLookedFor) {
  const std::string name = absl::StrCat("late-", getpid());
  auto selector = Selector::Parse(absl::StrCat("^", name, "$"));
  ASSERT_TRUE(selector.ok());
  options_.selectors = {*std::move(selector)};
  kernel_.Start(1, kNoPid);
  size_t marked = 0;
  kernel_.on_mark = [&](int) { return ++marked == 1; };
  Start();
  // A target that is known runs another program, and maps other files.
  kernel_.looked_at.clear();
  kernel_.ExecUntold();
  Drain();
  EXPECT_THAT(kernel_.looked_at, testing::ElementsAre(kNoPid));
  Live(2 * kSecond);
  kernel_.looked_at.clear();
  // A process that is none becomes one.
  const DoneChild late([&] { prctl(PR_SET_NAME, name.c_str()); });
  Drain();
  EXPECT_EQ(marked, 0U) << "the next search is not due";
  EXPECT_THAT(kernel_.looked_at, testing::IsEmpty());
  kernel_.ExecUntold();
  Drain();
  EXPECT_EQ(marked, 1U);
  EXPECT_THAT(kernel_.looked_at, testing::ElementsAre(kNoPid));
}

TEST_F(EngineTest, AMonthOfChurnLeavesNoMemory) {
  options_.sources.tick_interval_ns = 20 * kSecond;
  Start();
  // Accounts of threads that vanished are kept for 4,096 drains, unless there are many.
  const Churn churn = {.end = [this](uint64_t id) { kernel_.Vanish(id); }, .drains = 4'200};
  ExpectDaysLeaveNothing(29, churn);
}

// The kernel finds by itself whom to visit, and never says that one of them is gone.
TEST_F(EngineTest, TicksThatAreNotByListCount) {
  kernel_.by_list = false;
  for (const uint64_t id : {1, 2}) kernel_.Start(id, 100);
  Start();
  Live(60 * kSecond);
  Drain();
  EXPECT_GT(store_.tick_ns, 59 * kSecond);
  for (const uint64_t id : {1, 2}) EXPECT_EQ(store_.weights[ThreadId{id}], store_.tick_ns);
  kernel_.Vanish(1);
  const size_t before = kernel_.visits();
  Live(10 * kSecond);
  EXPECT_NEAR(static_cast<double>(kernel_.visits() - before), 100, 2) << "one thread is visited";
}

TEST_F(EngineTest, ChurnLeavesNoMemoryWhereTicksAreNotByList) {
  options_.sources.tick_interval_ns = 20 * kSecond;
  kernel_.by_list = false;
  Start();
  const Churn churn = {.end = [this](uint64_t id) { kernel_.End(id); }};
  ExpectDaysLeaveNothing(4, churn);
}

// Each process does something of which every source keeps an account.
TEST_F(EngineTest, ChurnLeavesNoMemoryWithEverySource) {
  options_.sources.tick_interval_ns = 20 * kSecond;
  options_.sources.heap = options_.sources.faults = options_.sources.mappings = true;
  options_.sources.disk = options_.sources.wakers = true;
  options_.sources.cpu = {};
  Start();
  const auto all_on = [this] {
    for (const char* name : {"heap", "faults", "cpu", "disk", "wakers"}) {
      EXPECT_TRUE(Layer(name).on) << name;
    }
    EXPECT_EQ(Layer("mappings").note, "no process has a supported libc");
  };
  all_on();
  // Totals of threads that are gone are forgotten at every 64th drain.
  const Churn churn = {.end = [this](uint64_t id) { kernel_.End(id); },
                       .work = [this](uint64_t id, int32_t pid) { BeBusy(id, pid); },
                       .drains = 64};
  ExpectDaysLeaveNothing(4, churn);
  all_on();
  EXPECT_LE(engine_->state()->heap_threads, 2U);
}

// The toy is in no file of the daemon: a source is known by its interface alone.
TEST_F(EngineTest, NewSourceTouchesItsOwnFiles) {
  options_.sources.budget.share = 0.010;
  kernel_.Start(1, 100);
  auto owned = std::make_unique<ToySource>();
  const ToySource& toy = *owned;
  Start(std::move(owned));
  EXPECT_TRUE(toy.attached());
  EXPECT_TRUE(Layer("toy").on);
  int64_t next = clock_.MonotonicNs();
  int64_t emitted = 0;
  const auto switches = [&](int64_t interval) {
    return [&, interval] {
      for (; next <= clock_.MonotonicNs(); next += interval, ++emitted) {
        kernel_.Emit(ToyRecord{.lost = 1, .thread_id = 1, .stack = 77});
      }
    };
  };
  // Half of the budget: it stays on, and everything arrives.
  Live(30 * kSecond, switches(200 * kMs));
  Drain();
  EXPECT_TRUE(Layer("toy").on);
  const auto weighed = store_.ticks[ThreadId{1}];
  EXPECT_GE(weighed, emitted);
  EXPECT_EQ(Lost(PROFD_LOSS_RING_FULL_EVENT), static_cast<uint64_t>(emitted));
  EXPECT_EQ(store_.in_path_ns, emitted * ToySource::kNsPerSwitch);
  // Ten times as many are too dear.
  Live(30 * kSecond, switches(10 * kMs));
  Drain();
  EXPECT_FALSE(Layer("toy").on);
  EXPECT_EQ(Layer("toy").note, kShedNote);
}

TEST_F(EngineTest, NewSourceThatFailsSaysWhy) {
  auto toy = std::make_unique<ToySource>();
  toy->attach_status = absl::UnimplementedError("needs Linux 7.0");
  Start(std::move(toy));
  kernel_.Emit(ToyRecord{.lost = 5, .thread_id = 1, .stack = 77});
  Live(5 * kSecond);
  EXPECT_FALSE(Layer("toy").on);
  EXPECT_EQ(Layer("toy").note, "needs Linux 7.0");
  EXPECT_EQ(Lost(PROFD_LOSS_RING_FULL_EVENT), 0U);
}

}  // namespace
}  // namespace profd
