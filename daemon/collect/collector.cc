#include "daemon/collect/collector.h"

#include <pthread.h>

#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/priority.h"
#include "daemon/base/start_thread.h"
#include "daemon/collect/sampler_priority.h"
#include "daemon/source/look.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPausePatience = 10 * kSecond;

absl::Status NoThread(const char* whose) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start the ", whose,
                   "'s thread: too many threads; raise the limit (ulimit -u, pids.max)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collector>> Collector::Create(EngineOptions options, Store* store,
                                                             MemoryWatch* memory, CpuUse* cpu_use) {
  std::unique_ptr<Collector> collector(new Collector());
  const SourceOptions& sources = options.sources;
  ASSIGN_OR_RETURN(
      collector->kernel_,
      Kernel::Create({.switch_layer = sources.per_switch,
                      .heap_layer = sources.heap,
                      .fault_layer = sources.faults,
                      .map_layer = sources.mappings,
                      .malloc_layer = sources.bursts.interval_ns > 0,
                      .cpu_layer = sources.cpu.interval_ns > 0,
                      .disk_layer = sources.disk,
                      .waker_layer = sources.wakers && sources.tick,
                      .switch_stack_layer = sources.switch_stacks && sources.per_switch,
                      .default_target = options.selectors.empty() ? kEveryProcess : 0,
                      .limits = sources.limits}));
  options.seed = std::random_device{}();
  collector->engine_ =
      std::make_unique<Engine>(std::move(options), EngineParts{.kernel = collector->kernel_.get(),
                                                               .clock = SystemClock(),
                                                               .store = store,
                                                               .memory = memory,
                                                               .cpu_use = cpu_use});
  RETURN_IF_ERROR(collector->engine_->Start());
  collector->requests_.Done(collector->engine_->reached_ns(), absl::OkStatus());
  collector->Publish();
  std::optional<std::thread> drainer = StartThread(&Collector::Drain, collector.get());
  if (!drainer) return NoThread("drainer");
  collector->drainer_ = *std::move(drainer);
  if (Sampler* sampler = collector->engine_->sampler(); sampler != nullptr) {
    std::optional<std::thread> thread = StartThread(&Collector::Sample, collector.get(), sampler);
    if (!thread) return NoThread("sampler");
    collector->sampler_ = *std::move(thread);
  }
  return collector;
}

Collector::~Collector() {
  stopping_ = true;
  requests_.Stop();
  if (sampler_.joinable()) {
    engine_->sampler()->Wake();
    sampler_.join();
  }
  if (drainer_.joinable()) {
    wakeup_.Wake();
    drainer_.join();
  }
}

absl::Status Collector::DrainTo(int64_t instant_ns, int64_t deadline_ns) {
  return requests_.Await(instant_ns, deadline_ns, [this] { wakeup_.Wake(); });
}

absl::Status Collector::SetPaused(bool paused) {
  pause_wanted_ = paused;
  return requests_.AwaitNext(MonotonicNs() + kPausePatience, [this] { wakeup_.Wake(); });
}

CollectorState Collector::State() const {
  std::shared_ptr<const CollectorState> published;
  {
    const absl::MutexLock lock(&mutex_);
    published = state_;
  }
  CollectorState state = *published;
  state.modules = modules().States();
  state.module_use = modules().Use();
  return state;
}

absl::StatusOr<Look> Collector::TakeLook(absl::FunctionRef<bool(const ThreadInfo&)> keep) {
  return profd::TakeLook(kernel_.get(), SystemClock(), keep);
}

void Collector::Publish() {
  const absl::MutexLock lock(&mutex_);
  state_ = engine_->state();
}

void Collector::Sample(Sampler* sampler) {
  pthread_setname_np(pthread_self(), "sampler");
  SamplerPriority priority;
  priority.Begin();
  begun_.WaitForNotification();
  while (!stopping_) {
    if (sampler->Tick()) wakeup_.Wake();
    priority.Adapt(sampler->tick_cpu_ns(), sampler->interval_ns());
    sampler->Sleep();
  }
}

void Collector::Drain() {
  pthread_setname_np(pthread_self(), "drainer");
  RaisePriority(kDrainerNice, "drains");
  absl::Status begun =
      engine_->AwaitFiles([this] { return !stopping_ && !hurried_ && !pause_wanted_; });
  engine_->SetPaused(pause_wanted_);
  Publish();
  requests_.Done(engine_->reached_ns(), std::move(begun));
  begun_.Notify();
  while (true) {
    if (!requests_.IsWanted()) wakeup_.SleepUntil(engine_->next_ns());
    if (stopping_) return;
    const bool asked = requests_.IsWanted();
    const bool pause = pause_wanted_;
    absl::Status status;
    if (!engine_->Round(asked, &status)) continue;
    engine_->SetPaused(pause);
    Publish();
    requests_.Done(engine_->reached_ns(), std::move(status));
  }
}

}  // namespace profd
