#include "daemon/source/malloc_bursts.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/priority.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMillisecond = 1'000'000;
// Putting probes into a process and taking them out takes a millisecond of CPU: of more processes
// than this some are chosen at random for each burst.
constexpr size_t kMostProcesses = 16;
constexpr int64_t kFirstLead = 20 * kMillisecond;
constexpr int64_t kLeastLead = 5 * kMillisecond;
constexpr int64_t kMostLead = 500 * kMillisecond;
// Between attaching the last probe and the begin. Attaching disturbs the process.
constexpr int64_t kSettle = 3 * kMillisecond;

void SleepUntil(int64_t instant_ns) {
  const timespec until{.tv_sec = instant_ns / kSecond, .tv_nsec = instant_ns % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

Traps MeanOf(const Traps& a, const Traps& b) {
  return {.emulated = (a.emulated + b.emulated) / 2, .stepped = (a.stepped + b.stepped) / 2};
}

}  // namespace

MallocBursts::MallocBursts(ProbeKernel* kernel, const Modules* modules, MallocBurstProbes* probes,
                           BurstPlan plan, uint64_t seed)
    : kernel_(kernel),
      modules_(modules),
      probes_(probes),
      plan_(plan),
      schedule_(std::max<int64_t>(plan.interval_ns, 1), MonotonicNs(), seed),
      random_(seed),
      lead_ns_(kFirstLead),
      worker_([this] { Work(); }) {}

MallocBursts::~MallocBursts() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
}

void MallocBursts::OnMapped(int32_t pid, WatchId module) {
  if (pid <= 0) return;  // not visible in our PID namespace
  absl::MutexLock lock(&mutex_);
  if (places_.emplace(pid, module).second) changed_ = true;
}

void MallocBursts::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  Forget([pid](int32_t other) { return other == pid; });
}

void MallocBursts::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  Forget([&](int32_t pid) { return !pids.contains(pid); });
}

void MallocBursts::Forget(absl::FunctionRef<bool(int32_t pid)> gone) {
  std::erase_if(places_, [&](const Place& place) { return gone(place.first); });
}

void MallocBursts::SetPlan(BurstPlan plan) {
  absl::MutexLock lock(&mutex_);
  if (plan == plan_) return;
  plan_ = plan;
  if (plan.interval_ns > 0) schedule_.SetInterval(plan.interval_ns);
  changed_ = true;
}

void MallocBursts::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == on_) return;
  on_ = on;
  changed_ = true;
}

std::vector<BurstResult> MallocBursts::TakeSlice() {
  absl::MutexLock lock(&mutex_);
  return results_.TakeSlice();
}

bool MallocBursts::ArePlenty() const {
  absl::MutexLock lock(&mutex_);
  return results_.ArePlenty();
}

bool MallocBursts::Runs() const { return on_ && plan_.interval_ns > 0 && !places_.empty(); }

bool MallocBursts::watching() const {
  absl::MutexLock lock(&mutex_);
  return Runs();
}

BurstPlan MallocBursts::plan() const {
  absl::MutexLock lock(&mutex_);
  return plan_;
}

Traps MallocBursts::traps() const {
  absl::MutexLock lock(&mutex_);
  return traps_;
}

uint64_t MallocBursts::bursts() const {
  absl::MutexLock lock(&mutex_);
  return bursts_;
}

void MallocBursts::Work() {
  RaisePriority(kBurstNice, "bursts");
  while (const std::optional<Burst> burst = Next()) {
    const bool told = Run(*burst);
    absl::MutexLock lock(&mutex_);
    const int64_t missed = schedule_.missed();
    schedule_.Advance(MonotonicNs());
    // Bursts are missed when attaching takes long, and that depends on what the targets do. If the
    // next burst did not stand for that time, too, such times would weigh too little.
    skipped_ns_ += (schedule_.missed() - missed) * schedule_.interval_ns();
    if (!told) skipped_ns_ += burst->span_ns;
  }
}

std::optional<MallocBursts::Burst> MallocBursts::Next() {
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || changed_; };
  bool measured = false;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return std::nullopt;
      changed_ = false;
      probes_->SetOn(on_ && plan_.interval_ns > 0);
      if (!Runs()) {
        mutex_.Await(absl::Condition(&woken));
        // What lies behind is no time without bursts that were due.
        if (Runs()) {
          schedule_.Resume(MonotonicNs());
          skipped_ns_ = 0;
        }
        continue;
      }
      if (measured) {
        const int64_t wait = schedule_.next_ns() - lead_ns_ - MonotonicNs();
        if (wait <= 0) return Choose();
        mutex_.AwaitWithTimeout(absl::Condition(&woken), absl::Nanoseconds(wait));
        continue;
      }
    }
    const Traps traps = probes_->MeasureTraps();
    measured = true;
    absl::MutexLock lock(&mutex_);
    traps_ = traps;
  }
}

MallocBursts::Burst MallocBursts::Choose() {
  std::vector<int32_t> pids;
  for (const Place& place : places_) {
    if (pids.empty() || pids.back() != place.first) pids.push_back(place.first);
  }
  std::set<int32_t> chosen;
  std::sample(pids.begin(), pids.end(), std::inserter(chosen, chosen.end()), kMostProcesses,
              random_);
  Burst burst = {
      .begin_ns = schedule_.next_ns(),
      .length_ns = plan_.length_ns,
      .span_ns = schedule_.interval_ns() + skipped_ns_,
      .skipped_ns = std::exchange(skipped_ns_, 0),
      .process_weight = static_cast<double>(pids.size()) / static_cast<double>(chosen.size()),
      .places = {}};
  for (const Place& place : places_) {
    if (chosen.contains(place.first)) burst.places.push_back(place);
  }
  return burst;
}

bool MallocBursts::Run(const Burst& burst) {
  const int64_t started = MonotonicNs();
  const bool twice = met_;
  const Traps before = twice ? probes_->MeasureTraps() : Traps{};
  const int64_t first_in = MonotonicNs();
  const bool traced = probes_->PutIn(burst.places) > 0;
  const int64_t last_in = MonotonicNs();
  // What happens between the drawn instant and a later begin never falls into a burst, and it is
  // not like other times: whatever held up attaching may hold up the targets too.
  const int64_t begin_ns = std::max(burst.begin_ns, last_in + kSettle);
  if (traced) {
    kernel_->SetMallocBurst(begin_ns, burst.length_ns);
    SleepUntil(begin_ns + burst.length_ns);
  }
  // A burst in which probes were out for a pause tells less than it stands for.
  const bool whole = probes_->TakeOut(burst.places) && traced;
  absl::StatusOr<MallocCounts> counts = MallocCounts();
  Traps traps;
  if (traced) {
    kernel_->SetMallocBurst(0, 0);
    counts = kernel_->DrainMalloc();
    if (!counts.ok()) LogError("burst: ", counts.status().message());
    met_ = counts.ok() && !counts->threads.empty();
    if (met_) {
      const Traps after = probes_->MeasureTraps();
      traps = twice ? MeanOf(before, after) : after;
    }
  }
  const int64_t standing_ns = MonotonicNs() - first_in;
  absl::MutexLock lock(&mutex_);
  lead_ns_ = std::clamp((last_in - started) * 3 / 2 + kSettle, kLeastLead, kMostLead);
  if (!whole || !counts.ok()) return false;
  ++bursts_;
  results_.Add({.length_ns = burst.length_ns,
                .span_ns = burst.span_ns,
                .skipped_ns = burst.skipped_ns + begin_ns - burst.begin_ns,
                .standing_ns = standing_ns,
                .process_weight = burst.process_weight,
                .traps = traps,
                .counts = *std::move(counts)});
  return true;
}

std::vector<AllocatorState> MallocBursts::States() const {
  std::map<WatchId, AllocatorState> states;
  for (const auto& [place, failure] : probes_->Places()) {
    AllocatorState& state = states[place.second];
    state.pids.push_back(place.first);
    if (!failure.empty()) state.note = failure;
  }
  absl::MutexLock lock(&mutex_);
  std::vector<AllocatorState> list;
  for (auto& [id, state] : states) {
    state.module = id;
    state.allocator = "glibc";
    state.estimated = true;
    state.watched = Runs() && bursts_ > 0 && state.note.empty();
    if (const auto info = modules_->GlibcIn(id)) {
      state.version = info->version;
      state.found_by = info->found_by;
    }
    if (const auto file = modules_->IdentityOf(id)) state.identity = *file;
    list.push_back(std::move(state));
  }
  return list;
}

}  // namespace profd
