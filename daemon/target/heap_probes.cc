#include "daemon/target/heap_probes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/target/jemalloc_settings.h"
#include "daemon/target/trap.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// Processes whose calls are watched at a time. Putting probes into one takes the locks of all
// processes that map the same file.
constexpr size_t kMostMapCalls = 256;
// Probes that go together. The kernel waits for all programs at each; side by side they wait once.
constexpr size_t kRemovedTogether = 32;
// Of a place that looks like an event's, until it is known for one or for none.
constexpr uint64_t kHitsThatTell = 8;
constexpr char kNoEvents[] =
    "jemalloc's event function was not found: what looks like it has other arguments; keep the "
    "module's "
    "symbols or install its debug file";
constexpr char kNothingTold[] =
    "no object was told of yet: whether it samples is for the program to say";
constexpr char kLeftToTold[] =
    "the process tells of the objects that it samples (otel_memory): these are watched instead";

// Where the registers of an instruction, by their numbers there, lie in struct pt_regs.
constexpr std::array<uint8_t, 16> kPtRegsWords = {10, 11, 12, 5, 19, 4, 13, 14,
                                                  9,  8,  7,  6, 3,  2, 1,  0};

// Whether a copy of the event counts what is freed; empty when it does not tell.
std::optional<bool> Frees(const InlinedEvent& event, const std::set<int32_t>& fields) {
  // Of the two counts in a thread's data that of allocations lies first.
  if (fields.size() == 2) return event.last_event != *fields.begin();
  if (event.last_event == kAllocatedAtLastEvent) return false;
  if (event.last_event == kFreedAtLastEvent) return true;
  return std::nullopt;
}

// All places that look like an event's. A place's number is where it stands here.
std::vector<HeapPlace> PlacesOf(const JemallocInfo& info, ModuleId module) {
  const auto id = static_cast<uint64_t>(module);
  std::vector<HeapPlace> places;
  const auto add = [&places](uint64_t offset, uint64_t cookie) {
    if (places.size() == PROFD_HEAP_NUMBERS) return;
    places.push_back({.offset = offset, .cookie = PROFD_HEAP_NUMBERED(cookie, places.size())});
  };
  for (const EventFunction& event : info.events) {
    add(event.offset + event.point.skip,
        PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, event.point.stepped, id));
  }
  std::set<int32_t> fields;
  for (const InlinedEvent& event : info.inlined) fields.insert(event.last_event);
  const auto word = [](uint8_t number) { return kPtRegsWords.at(number & 15); };
  for (const InlinedEvent& event : info.inlined) {
    const std::optional<bool> frees = Frees(event, fields);
    if (!frees) continue;
    const auto place =
        *frees ? PROFD_HEAP_JEMALLOC_INLINED_FREE : PROFD_HEAP_JEMALLOC_INLINED_ALLOC;
    const std::optional<uint8_t> growth = event.growth_register;
    add(event.offset, PROFD_HEAP_INLINED_COOKIE(place, !growth, id, word(event.value_register),
                                                growth ? word(*growth) : PROFD_NO_REGISTER,
                                                word(event.thread_register), event.last_event));
  }
  return places;
}

std::vector<HeapPlace> SlowPlacesOf(const JemallocInfo& info, ModuleId module) {
  std::vector<HeapPlace> places;
  for (const SlowPath& path : info.slow_paths) {
    const auto place = path.frees ? PROFD_HEAP_JEMALLOC_SLOW_FREE : PROFD_HEAP_JEMALLOC_SLOW_ALLOC;
    const int32_t field = path.frees ? kFreedAtLastEvent : kAllocatedAtLastEvent;
    places.push_back({.offset = path.offset + path.point.skip,
                      .cookie = PROFD_HEAP_SLOW_COOKIE(place, path.point.stepped,
                                                       static_cast<uint64_t>(module), field)});
  }
  return places;
}

std::array<HeapPlace, 2> LivePlacesOf(const SampledObjects& objects, ModuleId module) {
  const auto id = static_cast<uint64_t>(module);
  const profd_live_place born = objects.is_5_2 ? PROFD_LIVE_BORN_5_2 : PROFD_LIVE_BORN_5_3;
  const profd_live_place gone = objects.is_5_2 ? PROFD_LIVE_GONE_5_2 : PROFD_LIVE_GONE_5_3;
  return {{{.offset = objects.born + objects.born_point.skip,
            .cookie = PROFD_LIVE_COOKIE(born, objects.born_point.stepped, id)},
           {.offset = objects.gone + objects.gone_point.skip,
            .cookie = PROFD_LIVE_COOKIE(gone, objects.gone_point.stepped, id)}}};
}

}  // namespace

HeapProbes::HeapProbes(Kernel* kernel, const Modules* modules)
    : kernel_(kernel), modules_(modules) {
  {
    absl::MutexLock lock(&mutex_);
    map_calls_.most = kMostMapCalls;
  }
  worker_ = std::thread([this] { Work(); });
}

HeapProbes::~HeapProbes() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
  absl::MutexLock lock(&mutex_);
  for (Group* group : {&events_, &slow_paths_, &map_calls_}) {
    while (!group->probes.empty()) RemoveProbes(group->TakeStale(false), kRemovedTogether);
  }
}

void HeapProbes::OnMapped(int32_t pid, ModuleId module) {
  if (pid <= 0) return;  // not visible in our PID namespace
  const bool allocator = modules_->AllocatorIn(module).has_value();
  const bool tells = modules_->OtelMemoryIn(module).has_value();
  const bool libc = !modules_->MapCallsIn(module).empty();
  const Place place(pid, module);
  absl::MutexLock lock(&mutex_);
  if ((allocator || tells) && events_.wanted.insert(place).second) {
    if (tells) told_.try_emplace(place).first->second.only = !allocator;
    if (!allocator || heard_.contains(pid)) events_.left.insert(place);
    if (slow_modules_.contains(module)) AddSlowPaths(place);
    Wake();
  }
  if (libc && !map_calls_.wanted.contains(place)) young_.emplace(place, false);
}

void HeapProbes::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  Forget([&](int32_t pid) { return !pids.contains(pid); });
  for (auto it = young_.begin(); it != young_.end();) {
    if (!std::exchange(it->second, true)) {
      ++it;
      continue;
    }
    map_calls_.wanted.insert(it->first);
    it = young_.erase(it);
    Wake();
  }
}

void HeapProbes::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  Forget([pid](int32_t other) { return other == pid; });
}

void HeapProbes::Forget(absl::FunctionRef<bool(int32_t pid)> gone) {
  const auto at = [&](const Place& place) { return gone(place.first); };
  for (const Place& place : events_.wanted) {
    // Of others when their probes have gone.
    if (at(place) && !events_.probes.contains(place)) {
      kernel_->ForgetHeapSettled(place.first, place.second);
    }
  }
  if (events_.Forget(at)) Wake();
  if (slow_paths_.Forget(at)) Wake();
  if (map_calls_.Forget(at)) Wake();
  std::erase_if(closed_, at);
  std::erase_if(heard_, gone);
  std::erase_if(young_, [&](const auto& entry) { return at(entry.first); });
}

bool HeapProbes::Group::Forget(absl::FunctionRef<bool(const Place&)> gone) {
  std::erase_if(stood, gone);
  std::erase_if(left, gone);
  std::erase_if(renewed, gone);
  std::erase_if(failed, [&](const auto& entry) { return gone(entry.first); });
  return std::erase_if(wanted, gone) != 0;
}

std::vector<Probe> HeapProbes::Group::TakeStale(bool all_on, std::vector<Place>* places) {
  std::vector<Probe> stale;
  for (auto it = probes.begin(); it != probes.end() && stale.size() < kRemovedTogether;) {
    const bool is_wanted = wanted.contains(it->first) && !left.contains(it->first);
    // One that did not stand is of the program before this one.
    if (all_on && on && is_wanted && stood.contains(it->first)) {
      ++it;
      continue;
    }
    if (places) places->push_back(it->first);
    renewed.erase(it->first);
    stale.push_back(std::move(it->second));
    it = probes.erase(it);
  }
  return stale;
}

std::vector<ProbeGuard> HeapProbes::Group::TakeUnusedGuards(bool all_on) {
  return TakeUnused(guards, [&](ModuleId module) {
    return all_on && std::any_of(wanted.begin(), wanted.end(),
                                 [module](const Place& place) { return place.second == module; });
  });
}

std::optional<HeapProbes::Place> HeapProbes::Group::FindMissing() const {
  if (!on || probes.size() >= most) return std::nullopt;
  const auto missing = std::find_if(wanted.begin(), wanted.end(), [&](const Place& place) {
    return !probes.contains(place) && !failed.contains(place) && !left.contains(place);
  });
  if (missing == wanted.end()) return std::nullopt;
  return *missing;
}

void HeapProbes::SetEventsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == events_.on) return;
  events_.on = on;
  // At once, for all places alike: probes go one by one.
  for (const Group* group : {&events_, &slow_paths_}) {
    if (on) break;
    for (const auto& [place, probe] : group->probes) Close(place);
  }
  Wake();
}

void HeapProbes::SetSlowPathsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == slow_paths_.on) return;
  slow_paths_.on = on;
  if (!slow_paths_.wanted.empty()) Wake();
}

void HeapProbes::WatchSlowPaths(ModuleId module) {
  absl::MutexLock lock(&mutex_);
  if (!slow_modules_.insert(module).second) return;
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  if (!info || info->slow_paths.empty()) return;
  for (const Place& place : events_.wanted) {
    if (place.second == module) AddSlowPaths(place);
  }
  Wake();
}

void HeapProbes::JudgePlaces() {
  const uint64_t refusals = kernel_->HeapRefusals();
  {
    absl::MutexLock lock(&mutex_);
    if (refusals < refusals_ + kHitsThatTell) return;
    refusals_ = refusals;
  }
  const std::vector<HeapTally> tallies = kernel_->HeapTallies();
  absl::MutexLock lock(&mutex_);
  for (const HeapTally& tally : tallies) {
    // So many events are none by chance: where they come by is the right place, whatever else does.
    if (tally.refused < kHitsThatTell || tally.held >= kHitsThatTell) continue;
    Numbers& wrong = wrong_[tally.module];
    if (wrong.test(tally.number)) continue;
    wrong.set(tally.number);
    spdlog::info("what looked like an event of jemalloc in module {} is none: its probe goes",
                 static_cast<uint32_t>(tally.module));
    for (const auto& [place, probe] : events_.probes) {
      if (place.second == tally.module) events_.renewed.insert(place);
    }
    Wake();
  }
}

void HeapProbes::AddSlowPaths(const Place& place) {
  slow_paths_.wanted.insert(place);
  if (events_.left.contains(place)) slow_paths_.left.insert(place);
}

void HeapProbes::SetMapCallsOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == map_calls_.on) return;
  map_calls_.on = on;
  Wake();
}

void HeapProbes::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == on_) return;
  on_ = on;
  Wake();
  // What came to life or went meanwhile is not known: counted anew.
  for (auto& [place, live] : live_) {
    live.source.reset();
    live.stale = true;
  }
}

void HeapProbes::SetToldOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (on == told_on_) return;
  told_on_ = on;
  Wake();
}

void HeapProbes::Refresh() {
  absl::MutexLock lock(&mutex_);
  for (auto& [place, live] : live_) live.stale = true;
  if (!live_.empty()) Wake();
}

void HeapProbes::WaitIdle(int64_t deadline_ns, int64_t map_calls_ns) {
  const auto left = [](int64_t until_ns) {
    return absl::Nanoseconds(std::max<int64_t>(0, until_ns - MonotonicNs()));
  };
  absl::MutexLock lock(&mutex_);
  if (!young_.empty()) Wake();
  for (const auto& [place, seen] : young_) map_calls_.wanted.insert(place);
  young_.clear();
  mutex_.AwaitWithTimeout(absl::Condition(&settled_), left(deadline_ns));
  mutex_.AwaitWithTimeout(absl::Condition(&idle_), left(map_calls_ns));
}

bool HeapProbes::watching() const {
  absl::MutexLock lock(&mutex_);
  return !events_.stood.empty() ||
         std::any_of(told_.begin(), told_.end(),
                     [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                       return entry.second.stood && events_.wanted.contains(entry.first);
                     });
}

MapCallState HeapProbes::MapCalls() const {
  absl::MutexLock lock(&mutex_);
  MapCallState state = {
      .processes = map_calls_.wanted.size(), .watched = map_calls_.stood.size(), .failed = {}};
  if (!map_calls_.failed.empty()) state.failed = map_calls_.failed.begin()->second;
  return state;
}

Traps HeapProbes::traps() const {
  absl::MutexLock lock(&mutex_);
  return traps_;
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
  std::vector<Probe> stale;
  std::vector<ProbeGuard> unused;
  Live gone;  // outlive the lock: removing them takes long
  std::optional<Probe> untold;
  std::optional<Place> renew, events, slow_paths, unread_place, tell, map_calls;
  std::vector<Place> closing;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    stale = events_.TakeStale(on_, &closing);
    if (stale.empty()) stale = slow_paths_.TakeStale(on_ && events_.on);
    if (stale.empty()) stale = map_calls_.TakeStale(on_);
    for (const Place& place : closing) Close(place);
  }
  if (!stale.empty()) {
    RemoveProbes(std::move(stale), kRemovedTogether);
    absl::MutexLock lock(&mutex_);
    for (const Place& place : closing) {
      if (events_.wanted.contains(place)) continue;
      closed_.erase(place);
      kernel_->ForgetHeapSettled(place.first, place.second);
    }
    return true;
  }
  {
    absl::MutexLock lock(&mutex_);
    unused = events_.TakeUnusedGuards(on_);
    if (unused.empty()) unused = slow_paths_.TakeUnusedGuards(on_);
    if (!unused.empty()) return true;
    const auto unfollowed = std::find_if(
        live_.begin(), live_.end(), [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !on_ || events_.left.contains(entry.first) ||
                 !events_.wanted.contains(entry.first);
        });
    if (unfollowed != live_.end()) {
      gone = std::move(unfollowed->second);
      live_.erase(unfollowed);
      return true;
    }
    const auto told = std::find_if(told_.begin(), told_.end(),
                                   [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                     return !events_.wanted.contains(entry.first) ||
                                            (entry.second.probe && (!on_ || !told_on_));
                                   });
    if (told != told_.end()) {
      untold = std::exchange(told->second.probe, std::nullopt);
      told->second.tried = false;
      told->second.since_ns = 0;
      if (!events_.wanted.contains(told->first)) told_.erase(told);
      return true;
    }
    const auto silent = std::find_if(told_.begin(), told_.end(),
                                     [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                       return on_ && told_on_ && !entry.second.tried;
                                     });
    if (silent != told_.end()) tell = silent->first;
    const auto unread = std::find_if(events_.wanted.begin(), events_.wanted.end(),
                                     [&](const Place& p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                       const auto live = live_.find(p);
                                       return !events_.left.contains(p) &&
                                              (live == live_.end() || live->second.stale);
                                     });
    if (!events_.renewed.empty()) renew = *events_.renewed.begin();
    events = events_.FindMissing();
    if (unread != events_.wanted.end()) unread_place = *unread;
    settled_ = !on_ || !(renew || events || unread_place || tell);
    if (events_.on) slow_paths = slow_paths_.FindMissing();
    OpenAll();
    // Last: there may be many.
    map_calls = map_calls_.FindMissing();
    if (!on_ || !(renew || events || slow_paths || unread_place || tell || map_calls)) {
      idle_ = true;
      return false;
    }
    first = traps_.emulated == 0;
  }
  if (renew) {
    Renew(*renew);
    return true;
  }
  if (!tell && !events && unread_place) {
    FollowObjects(*unread_place);
    return true;
  }
  // A probe is many, which come one by one.
  if (!tell && (events || slow_paths)) {
    absl::MutexLock lock(&mutex_);
    const Place& place = events ? *events : *slow_paths;
    Close(place);
    // One by one, before Linux 6.6, may take longer than a slice: then those count that stand.
    if (!HasMultiProbes()) kernel_->ForgetHeapSettled(place.first, place.second);
  }
  const Traps traps = first ? MeasureTraps() : Traps{};
  if (tell) {
    FollowTold(*tell);
    absl::MutexLock lock(&mutex_);
    if (first) traps_ = traps;
    return true;
  }
  absl::StatusOr<Probe> probe = events       ? AttachEvents(*events)
                                : slow_paths ? AttachSlowPaths(*slow_paths)
                                             : AttachMapCalls(*map_calls);
  absl::MutexLock lock(&mutex_);
  if (first) traps_ = traps;
  if (events) {
    Settle(*events, std::move(probe), "allocations", events_);
  } else if (slow_paths) {
    Settle(*slow_paths, std::move(probe), "slow path", slow_paths_);
  } else {
    Settle(*map_calls, std::move(probe), "mapping calls", map_calls_);
  }
  OpenAll();
  return true;
}

void HeapProbes::Close(const Place& place) {
  closed_.insert(place);
  kernel_->SetHeapSettled(place.first, place.second, false);
}

void HeapProbes::OpenAll() {
  if (!on_ || !events_.on) return;
  std::erase_if(closed_, [&](const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Where events have no probe those in the slow path are all.
    const Group& group = events_.failed.contains(place) ? slow_paths_ : events_;
    if (!group.probes.contains(place) || !group.stood.contains(place)) return false;
    kernel_->SetHeapSettled(place.first, place.second, true);
    return true;
  });
}

// The new one before the old one goes, so that no event is missed. One that both see is told once.
void HeapProbes::Renew(const Place& place) {
  {
    absl::MutexLock lock(&mutex_);
    events_.renewed.erase(place);
  }
  absl::StatusOr<Probe> probe = AttachEvents(place);
  Probe old;  // outlives the lock: removing it takes long
  absl::MutexLock lock(&mutex_);
  const auto stands = events_.probes.find(place);
  if (stands == events_.probes.end()) return;
  if (!probe.ok() && !absl::IsNotFound(probe.status())) {
    spdlog::warn("allocations of PID {}: {}", place.first, std::string(probe.status().message()));
    return;  // the old one does, and its wrong places are told to nobody
  }
  if (!probe.ok()) {
    Close(place);
    events_.stood.erase(place);
  }
  old = std::move(stands->second);
  events_.probes.erase(stands);
  Settle(place, std::move(probe), "allocations", events_);
}

void HeapProbes::Settle(const Place& place, absl::StatusOr<Probe> probe, const char* what,
                        Group& group) {
  if (probe.ok()) {
    if (&group != &map_calls_) {
      group.guards.insert_or_assign(place.second, probe->guard);
      // An exec meanwhile may have let it be forgotten.
      closed_.insert(place);
    }
    // The process may be gone by now: then the next step takes it out.
    group.probes.emplace(place, *std::move(probe));
    if (group.wanted.contains(place)) group.stood.insert(place);
  } else if (absl::IsUnavailable(probe.status())) {
    group.wanted.erase(place);  // until it is told of again
  } else if (group.wanted.contains(place)) {
    group.failed.emplace(place, std::string(probe.status().message()));
    // Every process has a libc: some are gone before their turn, and what fails in one does in all.
    const bool known =
        &group == &map_calls_ && (absl::IsNotFound(probe.status()) || group.failed.size() > 1);
    spdlog::log(known ? spdlog::level::debug : spdlog::level::warn, "{} of PID {}: {}", what,
                place.first, group.failed.at(place));
  }
}

absl::StatusOr<Probe> HeapProbes::AttachMapCalls(const Place& place) {
  const auto& [pid, module] = place;
  std::vector<HeapPlace> places;
  for (const MapCall& call : modules_->MapCallsIn(module)) {
    places.push_back({.offset = call.offset, .cookie = PROFD_MAP_COOKIE(call.call, call.stepped)});
  }
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(module));
  return kernel_->AttachMapProbe(file.get(), pid, places);
}

absl::StatusOr<Probe> HeapProbes::AttachEvents(const Place& place) {
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(place.second);
  if (!info) return absl::UnavailableError("the module was not looked into yet");
  const std::vector<HeapPlace> all = PlacesOf(*info, place.second);
  if (all.empty()) return absl::NotFoundError(info->note);
  const Numbers wrong = WrongIn(place.second);
  std::vector<HeapPlace> places;
  for (size_t number = 0; number < all.size(); ++number) {
    if (!wrong.test(number)) places.push_back(all[number]);
  }
  if (places.empty()) return absl::NotFoundError(kNoEvents);
  return AttachHeap(place, places);
}

HeapProbes::Numbers HeapProbes::WrongIn(ModuleId module) const {
  absl::MutexLock lock(&mutex_);
  const auto wrong = wrong_.find(module);
  return wrong == wrong_.end() ? Numbers() : wrong->second;
}

absl::StatusOr<Probe> HeapProbes::AttachSlowPaths(const Place& place) {
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(place.second);
  if (!info) return absl::UnavailableError("the module was not looked into yet");
  return AttachHeap(place, SlowPlacesOf(*info, place.second));
}

absl::StatusOr<Probe> HeapProbes::AttachHeap(const Place& place,
                                             const std::vector<HeapPlace>& places) {
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(place.second));
  return kernel_->AttachHeapProbe(file.get(), place.first, places);
}

void HeapProbes::FollowObjects(const Place& place) {
  const auto& [pid, module] = place;
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  const absl::StatusOr<UniqueFd> file = modules_->FileToProbe(module);
  std::string note;
  std::optional<LiveSampling> source;
  if (info && info->objects.born == 0) {
    note = info->objects.note;
  } else if (info && file.ok()) {
    const JemallocSettings settings = ReadJemallocSettings(pid, file->get(), *info);
    note = DescribeMissing(settings, *info);
    // Taken before the first object can be seen.
    if (settings.profiling.value_or(true)) {
      source = LiveSampling{.since_ns = MonotonicNs(),
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
      kernel_->AttachLiveProbe(file->get(), pid, LivePlacesOf(info->objects, module));
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
  return live.source && events_.wanted.contains(place);
}

std::optional<LiveSampling> HeapProbes::LiveSourceOf(const Place& place) const {
  absl::MutexLock lock(&mutex_);
  const auto live = live_.find(place);
  if (live == live_.end() || !Counts(place, live->second)) return std::nullopt;
  return live->second.source;
}

std::map<HeapProbes::Place, LiveSampling> HeapProbes::LiveSources() const {
  std::map<Place, LiveSampling> sources;
  absl::MutexLock lock(&mutex_);
  for (const auto& [place, live] : live_) {
    if (Counts(place, live)) sources.emplace(place, *live.source);
  }
  return sources;
}

absl::StatusOr<Probe> HeapProbes::AttachTold(const Place& place) {
  const auto& [pid, module] = place;
  const std::optional<OtelMemory> info = modules_->OtelMemoryIn(module);
  if (!info) return absl::NotFoundError("no such probes are known of the module");
  if (info->alloc.empty()) return absl::NotFoundError(info->note);
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(module));
  const auto id = static_cast<uint64_t>(module);
  std::vector<HeapPlace> places;
  for (const auto& [kind, found] :
       {std::pair(PROFD_USDT_ALLOC, &info->alloc), std::pair(PROFD_USDT_FREE, &info->free)}) {
    for (const UsdtPlace& usdt : *found) {
      ASSIGN_OR_RETURN(const uint32_t number, kernel_->NumberOfArguments(usdt.arguments));
      places.push_back({.offset = usdt.offset,
                        .cookie = PROFD_USDT_COOKIE(kind, usdt.stepped, id, number),
                        .semaphore = usdt.semaphore});
    }
  }
  return kernel_->AttachToldProbe(file.get(), pid, places);
}

void HeapProbes::FollowTold(const Place& place) {
  {
    absl::MutexLock lock(&mutex_);
    Told& told = told_[place];
    told.tried = true;
    told.failed.clear();
    // Taken before the first object can be seen.
    told.since_ns = MonotonicNs();
  }
  absl::StatusOr<Probe> probe = AttachTold(place);
  absl::MutexLock lock(&mutex_);
  Told& told = told_[place];
  if (probe.ok()) {
    told.probe = *std::move(probe);
    told.stood = true;
    return;
  }
  told.since_ns = 0;
  told.stood = false;
  told.failed = std::string(probe.status().message());
  spdlog::warn("objects of PID {}: {}", place.first, told.failed);
}

std::optional<LiveSampling> HeapProbes::OnTold(const Place& place) {
  absl::MutexLock lock(&mutex_);
  const auto told = told_.find(place);
  if (told == told_.end() || told->second.since_ns == 0 || !events_.wanted.contains(place)) {
    return std::nullopt;
  }
  if (heard_.insert(place.first).second) {
    for (const Place& other : events_.wanted) {
      if (other.first != place.first) continue;
      events_.left.insert(other);
      slow_paths_.left.insert(other);
    }
    Wake();
  }
  return LiveSampling{.since_ns = told->second.since_ns};
}

std::map<HeapProbes::Place, LiveSampling> HeapProbes::ToldSources() const {
  std::map<Place, LiveSampling> sources;
  absl::MutexLock lock(&mutex_);
  for (const auto& [place, told] : told_) {
    if (told.since_ns == 0 || !events_.wanted.contains(place)) continue;
    sources.emplace(place, LiveSampling{.since_ns = told.since_ns});
  }
  return sources;
}

bool HeapProbes::HasTold(int32_t pid) const {
  absl::MutexLock lock(&mutex_);
  return heard_.contains(pid);
}

void HeapProbes::AddToldState(const Place& place,
                              std::map<ModuleId, AllocatorState>& states) const {
  const auto told = told_.find(place);
  if (told == told_.end()) return;
  AllocatorState& state = states[place.second];
  const bool fresh = state.pids.empty();
  state.pids.push_back(place.first);
  state.watched = (fresh || state.watched) && told->second.stood;
  state.live_since_ns = std::max(state.live_since_ns, told->second.since_ns);
  if (!state.note.empty()) return;
  state.note = told->second.failed;
  if (state.note.empty() && !heard_.contains(place.first)) state.note = kNothingTold;
}

Traps HeapProbes::MeasureTraps() {
  const auto attach = [this](int file, uint64_t offset) {
    const HeapPlace place = {.offset = offset, .cookie = PROFD_HEAP_JEMALLOC_EVENT};
    // We are no target: either program ends at once.
    absl::StatusOr<Probe> probe = kernel_->AttachHeapProbe(file, getpid(), {&place, 1});
    return probe.ok() ? std::move(probe) : kernel_->AttachMapProbe(file, getpid(), {&place, 1});
  };
  return {.emulated = TrapGauge(FirstInstruction::kEmulated, attach).Measure(),
          .stepped = TrapGauge(FirstInstruction::kStepped, attach).Measure()};
}

std::vector<AllocatorState> HeapProbes::States() const {
  std::map<ModuleId, AllocatorState> states, told_states;
  absl::MutexLock lock(&mutex_);
  for (const Place& place : events_.wanted) {
    AddToldState(place, told_states);
    if (const auto told = told_.find(place); told != told_.end() && told->second.only) continue;
    AllocatorState& state = states[place.second];
    const bool fresh = state.pids.empty();
    state.pids.push_back(place.first);
    state.watched = (fresh || state.watched) && events_.stood.contains(place);
    state.slow_paths = state.slow_paths || slow_paths_.stood.contains(place);
    if (heard_.contains(place.first)) {
      state.watched = false;
      if (state.note.empty()) state.note = kLeftToTold;
    }
    const auto failed = events_.failed.find(place);
    if (failed != events_.failed.end() && state.note.empty()) state.note = failed->second;
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
      state.places = PlacesOf(*info, id).size();
    }
    if (const auto wrong = wrong_.find(id); wrong != wrong_.end()) {
      state.wrong_places = wrong->second.count();
    }
    if (const auto file = modules_->IdentityOf(id)) state.identity = *file;
    list.push_back(std::move(state));
  }
  for (auto& [id, state] : told_states) {
    state.module = id;
    state.told = true;
    state.allocator = "otel_memory";
    if (const auto info = modules_->OtelMemoryIn(id)) {
      if (!info->alloc.empty()) state.found_by = "USDT";
      if (!info->note.empty()) state.note = info->note;
    }
    if (const auto file = modules_->IdentityOf(id)) state.identity = *file;
    list.push_back(std::move(state));
  }
  return list;
}

}  // namespace profd
