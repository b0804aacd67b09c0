#include "daemon/probes/target_probes.h"

namespace profd {

TargetProbes::TargetProbes(ProbeKernel* kernel, const Modules* modules, const Clock* clock)
    : modules_(modules),
      settings_(modules),
      hands_(kernel, modules,
             [this](const ProbeKey& key) { return settings_.Read({key.pid, key.module}); }),
      reconciler_(&hands_, clock, HasMultiProbes()),
      bursts_(kernel, &reconciler_),
      events_(kernel, &reconciler_),
      slow_paths_(&reconciler_),
      live_(&reconciler_, &settings_),
      told_(kernel, &reconciler_),
      map_calls_(&reconciler_) {}

void TargetProbes::OnMapped(int32_t pid, WatchId module) {
  if (pid <= 0) return;  // not visible in our PID namespace
  const std::optional<JemallocInfo> jemalloc = modules_->AllocatorIn(module);
  const std::optional<OtelMemory> told = modules_->OtelMemoryIn(module);
  const std::optional<GlibcInfo> glibc = modules_->GlibcIn(module);
  const std::vector<MapCall> calls = modules_->MapCallsIn(module);
  const ProbedModule where(pid, module);
  if (glibc) bursts_.OnMapped(where, *glibc);
  absl::MutexLock lock(&mutex_);
  map_calls_.OnMapped(where, calls);
  if (!jemalloc && !told) return;
  if (!allocators_
           .try_emplace(where, Uses{.jemalloc = jemalloc.has_value(), .told = told.has_value()})
           .second) {
    return;
  }
  if (told) told_.Want(where, *told);
  if (jemalloc && !heard_.contains(pid)) WantJemalloc(where, *jemalloc);
}

void TargetProbes::WantJemalloc(const ProbedModule& where, const JemallocInfo& info) {
  events_.Want(where, info);
  slow_paths_.Want(where);
  live_.Want(where, info);
}

void TargetProbes::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  EraseProcess(pid, allocators_);
  heard_.erase(pid);
  map_calls_.Forget(pid);
  settings_.Forget(pid);
  reconciler_.Forget(pid);
}

void TargetProbes::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(allocators_, [&](const auto& entry) { return !pids.contains(entry.first.first); });
  std::erase_if(heard_, [&](int32_t pid) { return !pids.contains(pid); });
  settings_.KeepOnly(pids);
  reconciler_.KeepOnly(pids);
  map_calls_.KeepOnly(pids);
}

void TargetProbes::KeepKnownModules() {
  absl::MutexLock lock(&mutex_);
  const auto is_known = [this](WatchId id) { return modules_->Knows(id); };
  events_.KeepOnly(is_known);
  slow_paths_.KeepOnly(is_known);
}

void TargetProbes::SetEventsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  reconciler_.SetPresence(ProbeSet::kEvents, on ? Presence::kPresent : Presence::kBetween);
  slow_paths_.SetEventsOn(on);
}

void TargetProbes::SetSlowPathsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  slow_paths_.SetOn(on);
}

void TargetProbes::SetMapCallsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  map_calls_.SetOn(on);
}

void TargetProbes::SetToldOn(bool on) {
  absl::MutexLock lock(&mutex_);
  told_.SetOn(on);
}

void TargetProbes::WatchSlowPaths(WatchId module) {
  absl::MutexLock lock(&mutex_);
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  if (!info || !slow_paths_.Watch(module, *info)) return;
  for (const auto& [where, uses] : allocators_) {
    if (where.second == module && uses.jemalloc && !heard_.contains(where.first)) {
      slow_paths_.Want(where);
    }
  }
}

void TargetProbes::JudgePlaces() {
  absl::MutexLock lock(&mutex_);
  events_.Judge();
}

void TargetProbes::Refresh() {
  absl::MutexLock lock(&mutex_);
  live_.Refresh();
}

void TargetProbes::GrowUp() {
  absl::MutexLock lock(&mutex_);
  map_calls_.GrowUp();
}

bool TargetProbes::watching() const {
  absl::MutexLock lock(&mutex_);
  return reconciler_.Count(ProbeSet::kEvents).stood > 0 || told_.watching();
}

MapCallState TargetProbes::MapCalls() const {
  absl::MutexLock lock(&mutex_);
  return map_calls_.State();
}

std::optional<LiveSampling> TargetProbes::LiveSourceOf(const ProbedModule& where) const {
  absl::MutexLock lock(&mutex_);
  return live_.SourceOf(where);
}

std::map<ProbedModule, LiveSampling> TargetProbes::LiveSources() const {
  absl::MutexLock lock(&mutex_);
  return live_.Sources();
}

std::optional<LiveSampling> TargetProbes::OnTold(const ProbedModule& where) {
  absl::MutexLock lock(&mutex_);
  const std::optional<LiveSampling> source = told_.SourceOf(where);
  if (!source) return std::nullopt;
  if (heard_.insert(where.first).second) {
    for (const auto& [other, uses] : allocators_) {
      if (other.first != where.first || !uses.jemalloc) continue;
      events_.Unwant(other);
      slow_paths_.Unwant(other);
      live_.Unwant(other);
    }
  }
  return source;
}

std::map<ProbedModule, LiveSampling> TargetProbes::ToldSources() const {
  absl::MutexLock lock(&mutex_);
  return told_.Sources();
}

bool TargetProbes::HasTold(int32_t pid) const {
  absl::MutexLock lock(&mutex_);
  return heard_.contains(pid);
}

}  // namespace profd
