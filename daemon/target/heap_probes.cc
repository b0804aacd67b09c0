#include "daemon/target/heap_probes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/target/jemalloc_settings.h"
#include "daemon/target/trap.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// Where the registers of an instruction, by their numbers there, lie in struct pt_regs.
constexpr std::array<uint8_t, 16> kPtRegsWords = {10, 11, 12, 5, 19, 4, 13, 14,
                                                  9,  8,  7,  6, 3,  2, 1,  0};

std::vector<HeapPlace> PlacesOf(const JemallocInfo& info, ModuleId module) {
  const auto id = static_cast<uint64_t>(module);
  std::vector<HeapPlace> places;
  if (info.event_function != 0) {
    places.push_back({.offset = info.event_function,
                      .cookie = PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, id, 0, 0, 0)});
  }
  std::set<int32_t> fields;
  for (const InlinedEvent& event : info.inlined) fields.insert(event.last_event);
  // Of the two counts in a thread's data that of allocations lies first. One alone does not tell.
  if (fields.size() != 2) return places;
  for (const InlinedEvent& event : info.inlined) {
    const auto place = event.last_event == *fields.begin() ? PROFD_HEAP_JEMALLOC_INLINED_ALLOC
                                                           : PROFD_HEAP_JEMALLOC_INLINED_FREE;
    places.push_back(
        {.offset = event.offset,
         .cookie = PROFD_HEAP_COOKIE(place, id, kPtRegsWords.at(event.value_register & 15),
                                     kPtRegsWords.at(event.thread_register & 15),
                                     event.last_event)});
  }
  return places;
}

std::array<HeapPlace, 2> LivePlacesOf(const SampledObjects& objects, ModuleId module) {
  const auto id = static_cast<uint64_t>(module);
  const profd_live_place born = objects.is_5_2 ? PROFD_LIVE_BORN_5_2 : PROFD_LIVE_BORN_5_3;
  const profd_live_place gone = objects.is_5_2 ? PROFD_LIVE_GONE_5_2 : PROFD_LIVE_GONE_5_3;
  return {{{.offset = objects.born, .cookie = PROFD_LIVE_COOKIE(born, id)},
           {.offset = objects.gone, .cookie = PROFD_LIVE_COOKIE(gone, id)}}};
}

}  // namespace

HeapProbes::HeapProbes(Kernel* kernel, const Modules* modules)
    : kernel_(kernel), modules_(modules), worker_([this] { Work(); }) {}

HeapProbes::~HeapProbes() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
}

void HeapProbes::OnMapped(int32_t pid, ModuleId module) {
  if (pid <= 0) return;  // not visible in our PID namespace
  absl::MutexLock lock(&mutex_);
  if (wanted_.emplace(pid, module).second) idle_ = false;
}

void HeapProbes::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  Forget([&](int32_t pid) { return !pids.contains(pid); });
}

void HeapProbes::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  Forget([pid](int32_t other) { return other == pid; });
}

void HeapProbes::Forget(absl::FunctionRef<bool(int32_t pid)> gone) {
  const auto at = [&](const Place& place) { return gone(place.first); };
  if (std::erase_if(wanted_, at) != 0) idle_ = false;
  std::erase_if(stood_, at);
  std::erase_if(failed_, [&](const auto& entry) { return at(entry.first); });
}

void HeapProbes::SetEventsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == events_on_) return;
  events_on_ = on;
  if (on) kernel_->BeginHeapRound();
  idle_ = false;
}

void HeapProbes::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == on_) return;
  on_ = on;
  if (on) kernel_->BeginHeapRound();
  idle_ = false;
  // What came to life or went meanwhile is not known: counted anew.
  for (auto& [place, live] : live_) {
    live.source.reset();
    live.stale = true;
  }
}

void HeapProbes::Refresh() {
  absl::MutexLock lock(&mutex_);
  for (auto& [place, live] : live_) live.stale = true;
  if (!live_.empty()) idle_ = false;
}

void HeapProbes::WaitIdle(int64_t deadline_ns) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&idle_),
                          absl::Nanoseconds(std::max<int64_t>(0, deadline_ns - MonotonicNs())));
}

bool HeapProbes::watching() const {
  absl::MutexLock lock(&mutex_);
  return !stood_.empty();
}

double HeapProbes::trap_ns() const {
  absl::MutexLock lock(&mutex_);
  return trap_ns_;
}

void HeapProbes::Work() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !idle_; };
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
    }
    while (Step()) {
    }
  }
}

bool HeapProbes::Step() {
  Place place;
  Probe removed;  // outlive the lock: removing them takes long
  Live gone;
  bool first = false;
  bool follow = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    const auto stale = std::find_if(probes_.begin(), probes_.end(), [&](const auto& entry)
                                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                          return !on_ || !events_on_ ||
                                                 !wanted_.contains(entry.first);
                                        });
    if (stale != probes_.end()) {
      removed = std::move(stale->second);
      probes_.erase(stale);
      return true;
    }
    const auto unfollowed = std::find_if(live_.begin(), live_.end(), [&](const auto& entry)
                                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                               return !on_ || !wanted_.contains(entry.first);
                                             });
    if (unfollowed != live_.end()) {
      gone = std::move(unfollowed->second);
      live_.erase(unfollowed);
      return true;
    }
    const auto missing = std::find_if(
        wanted_.begin(), wanted_.end(), [&](const Place& p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return events_on_ && !probes_.contains(p) && !failed_.contains(p);
        });
    const auto unread = std::find_if(
        wanted_.begin(), wanted_.end(), [&](const Place& p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          const auto live = live_.find(p);
          return live == live_.end() || live->second.stale;
        });
    if (!on_ || (missing == wanted_.end() && unread == wanted_.end())) {
      idle_ = true;
      return false;
    }
    follow = missing == wanted_.end();
    place = follow ? *unread : *missing;
    first = trap_ns_ == 0;
  }
  if (follow) {
    FollowObjects(place);
    return true;
  }
  const double trap = first ? MeasureTrap() : 0;
  absl::StatusOr<Probe> probe = Attach(place);
  absl::MutexLock lock(&mutex_);
  if (first) trap_ns_ = trap;
  if (probe.ok()) {
    probes_.emplace(place, *std::move(probe));
    stood_.insert(place);
  } else if (absl::IsUnavailable(probe.status())) {
    wanted_.erase(place);  // until it is told of again
  } else {
    failed_.emplace(place, std::string(probe.status().message()));
    spdlog::warn("allocations of PID {}: {}", place.first, failed_.at(place));
  }
  return true;
}

absl::StatusOr<Probe> HeapProbes::Attach(const Place& place) {
  const auto& [pid, module] = place;
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  if (!info) return absl::UnavailableError("the module was not looked into yet");
  const std::vector<HeapPlace> places = PlacesOf(*info, module);
  if (places.empty()) return absl::NotFoundError(info->note);
  const std::optional<ModuleFile> file = modules_->Find(module);
  if (!file || !file->fd.ok()) return absl::NotFoundError("the allocator's file is not open");
  return kernel_->AttachHeapProbe(file->fd.get(), pid, places);
}

void HeapProbes::FollowObjects(const Place& place) {
  const auto& [pid, module] = place;
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  const std::optional<ModuleFile> file = modules_->Find(module);
  std::string note;
  std::optional<LiveSource> source;
  if (info && info->objects.born == 0) {
    note = info->objects.note;
  } else if (info && file && file->fd.ok()) {
    const JemallocSettings settings = ReadJemallocSettings(pid, file->fd.get(), *info);
    note = DescribeMissing(settings, *info);
    // Taken before the first object can be seen.
    if (settings.profiling.value_or(true)) {
      source = LiveSource{.since_ns = MonotonicNs(),
                          .sample_bytes = uint64_t{1} << settings.lg_sample};
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    Live& live = live_[place];
    live.stale = false;
    live.note = note;
    // What is counted goes on.
    if (source && live.source) source->since_ns = live.source->since_ns;
    live.source = source;
    if (!source || live.probe) return;
  }
  absl::StatusOr<Probe> probe =
      kernel_->AttachLiveProbe(file->fd.get(), pid, LivePlacesOf(info->objects, module));
  absl::MutexLock lock(&mutex_);
  Live& live = live_[place];
  if (probe.ok()) {
    live.probe = *std::move(probe);
    return;
  }
  live.source.reset();
  live.note = absl::StrCat("the live heap is not known: ", probe.status().message());
}

bool HeapProbes::Counts(const Place& place, const Live& live) const {
  return live.source && wanted_.contains(place);
}

std::optional<LiveSource> HeapProbes::LiveSourceOf(const Place& place) const {
  absl::MutexLock lock(&mutex_);
  const auto live = live_.find(place);
  if (live == live_.end() || !Counts(place, live->second)) return std::nullopt;
  return live->second.source;
}

std::map<HeapProbes::Place, LiveSource> HeapProbes::LiveSources() const {
  std::map<Place, LiveSource> sources;
  absl::MutexLock lock(&mutex_);
  for (const auto& [place, live] : live_) {
    if (Counts(place, live)) sources.emplace(place, *live.source);
  }
  return sources;
}

double HeapProbes::MeasureTrap() {
  return profd::MeasureTrap(FirstInstruction::kEmulated, [this](int file, uint64_t offset) {
    const HeapPlace place = {.offset = offset, .cookie = PROFD_HEAP_JEMALLOC_EVENT};
    return kernel_->AttachHeapProbe(file, getpid(), {&place, 1});
  });
}

std::vector<AllocatorState> HeapProbes::States() const {
  std::map<ModuleId, AllocatorState> states;
  absl::MutexLock lock(&mutex_);
  for (const Place& place : wanted_) {
    AllocatorState& state = states[place.second];
    const bool fresh = state.pids.empty();
    state.pids.push_back(place.first);
    state.watched = (fresh || state.watched) && stood_.contains(place);
    if (const auto failed = failed_.find(place); failed != failed_.end() && state.note.empty()) {
      state.note = failed->second;
    }
    const auto live = live_.find(place);
    if (live == live_.end()) continue;
    if (state.live_note.empty()) state.live_note = live->second.note;
    if (!Counts(place, live->second)) continue;
    state.live_since_ns = std::max(state.live_since_ns, live->second.source->since_ns);
    state.sample_bytes = std::max(state.sample_bytes, live->second.source->sample_bytes);
  }
  std::vector<AllocatorState> list;
  for (auto& [id, state] : states) {
    state.module = id;
    state.allocator = "jemalloc";
    if (const auto info = modules_->AllocatorIn(id)) {
      state.version = info->version;
      state.found_by = info->found_by;
    }
    if (const auto file = modules_->IdentityOf(id)) state.identity = *file;
    list.push_back(std::move(state));
  }
  return list;
}

}  // namespace profd
