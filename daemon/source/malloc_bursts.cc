#include "daemon/source/malloc_bursts.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "spdlog/spdlog.h"

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
// Between the last probe that is put in and the begin.
constexpr int64_t kSettle = kMillisecond / 10;
// Threads that take probes out.
constexpr size_t kTakers = 8;
// A collector that takes one each second never lets so many wait.
constexpr size_t kMostResults = 8;

void SleepUntil(int64_t instant_ns) {
  const timespec until{.tv_sec = instant_ns / kSecond, .tv_nsec = instant_ns % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

std::vector<HeapPlace> PlacesOf(const GlibcInfo& info, ModuleId module) {
  std::vector<HeapPlace> places;
  places.reserve(info.functions.size());
  for (const GlibcFunction& function : info.functions) {
    places.push_back({.offset = function.offset,
                      .cookie = PROFD_MALLOC_COOKIE(function.place, function.stepped ? 1 : 0,
                                                    static_cast<uint64_t>(module))});
  }
  return places;
}

Traps MeanOf(const Traps& a, const Traps& b) {
  return {.emulated = (a.emulated + b.emulated) / 2, .stepped = (a.stepped + b.stepped) / 2};
}

}  // namespace

MallocBursts::MallocBursts(Kernel* kernel, const Modules* modules, BurstPlan plan, uint64_t seed)
    : kernel_(kernel),
      modules_(modules),
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

void MallocBursts::OnMapped(int32_t pid, ModuleId module) {
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
  std::erase_if(failed_, [&](const auto& entry) { return gone(entry.first.first); });
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

std::optional<BurstResult> MallocBursts::Take() {
  absl::MutexLock lock(&mutex_);
  if (results_.empty()) return std::nullopt;
  BurstResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

size_t MallocBursts::pending() const {
  absl::MutexLock lock(&mutex_);
  return results_.size();
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
  while (const std::optional<Burst> burst = Next()) {
    Run(*burst);
    absl::MutexLock lock(&mutex_);
    schedule_.Advance(MonotonicNs());
  }
}

std::optional<MallocBursts::Burst> MallocBursts::Next() {
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || changed_; };
  while (true) {
    DropGuards();
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return std::nullopt;
      changed_ = false;
      if (!Runs()) {
        mutex_.Await(absl::Condition(&woken));
        // What lies behind is no time without bursts that were due.
        if (Runs()) schedule_.Resume(MonotonicNs());
        continue;
      }
      if (emulated_) {
        const int64_t wait = schedule_.next_ns() - lead_ns_ - MonotonicNs();
        if (wait <= 0) return Choose();
        mutex_.AwaitWithTimeout(absl::Condition(&woken), absl::Nanoseconds(wait));
        continue;
      }
    }
    const Traps traps = MeasureTraps();
    absl::MutexLock lock(&mutex_);
    traps_ = traps;
  }
}

void MallocBursts::DropGuards() {
  std::vector<ProbeGuard> unused;  // outlive the lock: the kernel takes its time
  absl::MutexLock lock(&mutex_);
  const bool runs = Runs();
  unused = TakeUnused(guards_, [&](ModuleId module) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return runs && std::any_of(places_.begin(), places_.end(),
                               [module](const Place& place) { return place.second == module; });
  });
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
      .span_ns = schedule_.interval_ns(),
      .process_weight = static_cast<double>(pids.size()) / static_cast<double>(chosen.size()),
      .places = {}};
  for (const Place& place : places_) {
    if (chosen.contains(place.first)) burst.places.push_back(place);
  }
  return burst;
}

void MallocBursts::Run(const Burst& burst) {
  const int64_t started = MonotonicNs();
  const bool twice = met_;
  const Traps before = twice ? MeasureTraps() : Traps{};
  const int64_t first_in = MonotonicNs();
  std::vector<Probe> probes;
  std::map<Place, std::string> failed;
  for (const Place& place : burst.places) {
    absl::StatusOr<Probe> probe = Attach(place);
    if (probe.ok()) {
      guards_.insert_or_assign(place.second, probe->guard);
      probes.push_back(*std::move(probe));
    } else {
      failed.emplace(place, std::string(probe.status().message()));
    }
  }
  const int64_t last_in = MonotonicNs();
  const bool traced = !probes.empty();
  absl::StatusOr<MallocCounts> counts = MallocCounts();
  Traps traps;
  if (traced) {
    const int64_t begin_ns = std::max(burst.begin_ns, last_in + kSettle);
    kernel_->SetMallocBurst(begin_ns, burst.length_ns);
    SleepUntil(begin_ns + burst.length_ns);
    RemoveProbes(std::move(probes), kTakers);
    kernel_->SetMallocBurst(0, 0);
    counts = kernel_->DrainMalloc();
    if (!counts.ok()) spdlog::error("burst: {}", std::string(counts.status().message()));
    met_ = counts.ok() && !counts->threads.empty();
    if (met_) {
      const Traps after = MeasureTraps();
      traps = twice ? MeanOf(before, after) : after;
    }
  }
  const int64_t standing_ns = MonotonicNs() - first_in;
  absl::MutexLock lock(&mutex_);
  lead_ns_ = std::clamp((last_in - started) * 3 / 2, kLeastLead, kMostLead);
  for (const auto& [place, why] : failed) {
    if (places_.contains(place) && !failed_.contains(place)) {
      spdlog::debug("no burst in PID {}: {}", place.first, why);
    }
  }
  failed_ = std::move(failed);
  std::erase_if(failed_, [&](const auto& entry) { return !places_.contains(entry.first); });
  if (!traced || !counts.ok()) return;
  ++bursts_;
  if (results_.size() == kMostResults) results_.pop_front();
  results_.push_back({.length_ns = burst.length_ns,
                      .span_ns = burst.span_ns,
                      .standing_ns = standing_ns,
                      .process_weight = burst.process_weight,
                      .traps = traps,
                      .counts = *std::move(counts)});
}

absl::StatusOr<Probe> MallocBursts::Attach(const Place& place) const {
  const auto& [pid, module] = place;
  const std::optional<GlibcInfo> info = modules_->GlibcIn(module);
  if (!info) return absl::NotFoundError("no malloc is known of the module");
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(module));
  return kernel_->AttachMallocProbe(file.get(), pid, PlacesOf(*info, module));
}

Traps MallocBursts::MeasureTraps() {
  const auto attach = [this](int file, uint64_t offset) {
    const HeapPlace place = {.offset = offset,
                             .cookie = PROFD_MALLOC_COOKIE(PROFD_MALLOC_MALLOC, 0, 0)};
    return kernel_->AttachMallocProbe(file, getpid(), {&place, 1});
  };
  if (!emulated_) emulated_.emplace(FirstInstruction::kEmulated, attach);
  if (!stepped_) stepped_.emplace(FirstInstruction::kStepped, attach);
  return {.emulated = emulated_->Measure(), .stepped = stepped_->Measure()};
}

std::vector<AllocatorState> MallocBursts::States() const {
  std::map<ModuleId, AllocatorState> states;
  absl::MutexLock lock(&mutex_);
  for (const Place& place : places_) {
    AllocatorState& state = states[place.second];
    state.pids.push_back(place.first);
    if (const auto failed = failed_.find(place); failed != failed_.end()) {
      state.note = failed->second;
    }
  }
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
