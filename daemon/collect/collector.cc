#include "daemon/collect/collector.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kTickNice = -11;
constexpr absl::Duration kDrainTimeout = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<Collector>> Collector::Create(EngineOptions options, Store* store,
                                                             MemoryWatch* memory, CpuUse* cpu_use) {
  std::unique_ptr<Collector> collector(new Collector());
  collector->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!collector->wake_.ok()) return ErrnoStatus("eventfd", errno);
  const SourceOptions& sources = options.sources;
  ASSIGN_OR_RETURN(collector->kernel_,
                   Kernel::Create({.switch_layer = sources.per_switch,
                                   .heap_layer = sources.heap,
                                   .fault_layer = sources.faults,
                                   .map_layer = sources.mappings,
                                   .malloc_layer = sources.bursts.interval_ns > 0,
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
  {
    absl::MutexLock lock(&collector->mutex_);
    collector->state_ = collector->engine_->state();
  }
  collector->thread_ = std::thread([self = collector.get()] { self->Run(); });
  return collector;
}

Collector::~Collector() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    Wake();
    thread_.join();
  }
}

void Collector::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

absl::Status Collector::DrainNow() {
  uint64_t mine = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the collector is stopping");
    mine = ++drains_asked_;
  }
  return Await(mine);
}

absl::Status Collector::SetPaused(bool paused) {
  uint64_t mine = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the collector is stopping");
    pause_wanted_ = paused;
    mine = ++drains_asked_;
  }
  return Await(mine);
}

absl::Status Collector::Await(uint64_t asked) {
  Wake();
  const auto done = [this, asked]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || drains_done_ >= asked;
  };
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done), kDrainTimeout)) {
    return absl::DeadlineExceededError("the collector did not drain in time");
  }
  if (drains_done_ < asked) return absl::UnavailableError("the collector is stopping");
  return drain_status_;
}

CollectorState Collector::State() const {
  CollectorState state;
  {
    absl::MutexLock lock(&mutex_);
    state = state_;
  }
  state.modules = modules().States();
  return state;
}

void Collector::Wait() {
  engine_->BeginRound();
  const int64_t wait = std::max<int64_t>(0, engine_->next_ns() - MonotonicNs());
  const timespec timeout{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
  pollfd waiting{.fd = wake_.get(), .events = POLLIN, .revents = 0};
  if (ppoll(&waiting, 1, engine_->paused() ? nullptr : &timeout, nullptr) > 0) {
    uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof(count));
  }
}

void Collector::Run() {
  // A late tick is late when the machine is busy, which is when the target's state is special.
  if (setpriority(PRIO_PROCESS, 0, kTickNice) != 0) {
    spdlog::warn(
        "ticks may come late on a busy machine: cannot raise priority ({}); needs "
        "CAP_SYS_NICE",
        std::strerror(errno));
  }
  while (true) {
    Wait();
    uint64_t asked = 0;
    bool pause = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      asked = drains_asked_ != drains_done_ ? drains_asked_ : 0;
      pause = pause_wanted_;
    }
    absl::Status status;
    if (!engine_->Round(asked != 0, &status)) continue;
    engine_->SetPaused(pause);
    absl::MutexLock lock(&mutex_);
    state_ = engine_->state();
    if (asked == 0) continue;
    drains_done_ = asked;
    drain_status_ = status;
  }
}

}  // namespace profd
