#include "client/render/findings.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/render/estimate.h"
#include "client/render/occupants.h"
#include "client/render/stacks.h"
#include "client/render/syncs.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr double kLeastShare = 0.2;  // of the whole, for a place to stand out
constexpr size_t kMostPlaces = 3;
constexpr double kLeastGrowth = 0.05;    // of all bytes at the end
constexpr double kLeastDelay = 0.1;      // of the time in which threads could run
constexpr double kLeastThrottled = 0.2;  // of the periods of a CPU quota
constexpr int64_t kLeastPeriods = 5;
constexpr double kBusy = 0.9;  // of a thread's time
constexpr double kLeastBusyWindow = 0.5;
constexpr size_t kMostBusyThreads = 3;
// Below this share of the time of all threads, waits that are not idle are not worth a sentence.
constexpr double kLeastWaiting = 0.01;
// Threads that hand something to each other in short turns.
constexpr size_t kLeastInTurn = 4;
constexpr double kLeastTurns = 1000;  // a second, together
constexpr double kLongestTurnNs = 200'000;
constexpr double kMostOfCpu = 0.5;  // of the time on a CPU
constexpr double kCertain = 2;      // standard errors
constexpr double kVague = 0.25;     // a standard error, of the value

// Where something is done, and what for.
struct PlaceKey {
  Reason reason{};
  std::string function;
  std::string lock_kind;  // empty: not known, or no wait for a lock

  auto operator<=>(const PlaceKey&) const = default;
};

// The samples of a key.
struct Place {
  Estimate estimate;
  std::map<uint32_t, int64_t> groups;  // value by group
  std::set<uint32_t> threads;
  std::set<std::string> locks;  // of waits for locks
  std::set<std::string> tasks;  // what these waits keep from going on
};

struct Totals {
  int64_t wall_ns = 0;
  int64_t on_cpu_ns = 0;
  int64_t run_queue_ns = 0;
};

int64_t RunQueueOf(const Thread& thread) {
  int64_t sum = 0;
  for (const profd::v1::ReasonTotal& off : thread.ledger.off()) {
    if (off.reason() == profd::v1::REASON_RUNQUEUE) sum += off.time_ns();
  }
  return sum;
}

Totals TotalsOf(const Profile& profile) {
  Totals totals;
  for (const Thread& thread : profile.threads) {
    totals.wall_ns += thread.ledger.wall_ns();
    totals.on_cpu_ns += thread.ledger.on_cpu_ns();
    totals.run_queue_ns += RunQueueOf(thread);
  }
  return totals;
}

// Names of the groups of an answer and, by thread, of threads of like names.
struct Names {
  std::vector<std::string> groups;
  std::vector<std::string> threads;
};

// The name that all threads of a place share; empty if there is none.
std::string NameOfAll(const std::vector<std::string>& names, const Place& place) {
  std::set<std::string> found;
  for (const uint32_t thread : place.threads) found.insert(names[thread]);
  return found.size() == 1 ? *found.begin() : "";
}

// "in tokio-rt-worker (4 threads)"; the group with the most of it.
std::string Who(const Names& names, const Place& place) {
  const auto most =
      std::max_element(place.groups.begin(), place.groups.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string group = names.groups[most->first];
  // The answer was not asked to tell threads apart.
  if (group.empty()) group = NameOfAll(names.threads, place);
  std::string text = group.empty() ? "" : absl::StrCat(", in ", group);
  if (place.groups.size() > 1) {
    absl::StrAppend(&text, text.empty() ? ", in " : " and ", place.groups.size() - 1, " more");
  } else if (place.threads.size() > 1) {
    absl::StrAppend(&text, text.empty() ? ", in " : " (", FormatCount(place.threads.size()),
                    text.empty() ? " threads" : " threads)");
  }
  return text;
}

// What the shares are of.
std::string WholeOf(const SampleTypeInfo& kind, bool idle_shown) {
  switch (kind.kind) {
    case profd::Kind::kWait:
    case profd::Kind::kWaker:
      return idle_shown ? "of the waiting" : "of the non-idle waiting";
    case profd::Kind::kLocks:
      return idle_shown ? "of the waits for locks" : "of the contention";
    case profd::Kind::kRunQueue:
      return "of the time in the run queue";
    case profd::Kind::kWall:
      return idle_shown ? "of the time" : "of the non-idle time";
    case profd::Kind::kCpu:
      return "of the time on a CPU";
    case profd::Kind::kInuse:
      return "of the bytes in use";
    case profd::Kind::kResident:
      return "of the resident bytes";
    case profd::Kind::kDisk:
    case profd::Kind::kDiskQueue:
    case profd::Kind::kDiskBytes:
      return absl::StrCat(kind.unit == Unit::kBytes ? "of the bytes" : "of the time",
                          " of disk requests");
    case profd::Kind::kSync:
      return "of the time of file syncs";
    default:
      return "of the bytes";
  }
}

std::string DoneTo(const SampleTypeInfo& kind) {
  if (kind.kind == profd::Kind::kInuse) return "allocated";
  return kind.kind == profd::Kind::kResident ? "touched first" : std::string(kind.done);
}

// A sample's kind of lock; empty if that says no more than the reason does.
std::string NamedLockKind(const std::string& kind) {
  return kind == "lock" || kind == "other futex wait" ? "" : kind;
}

// What the waits of a place are for.
std::string SoughtBy(const PlaceKey& key) {
  const std::string& kind = key.lock_kind;
  if (kind.empty()) return std::string(DescribeReason(key.reason).meaning);
  if (kind == "full channel") return "room in a full channel";
  if (kind == "thread join") return "a thread to end";
  if (kind == "parked thread") return "another thread to unpark it";
  return absl::StrCat(kind.starts_with('a') ? "an " : "a ", CleanName(kind));
}

// What waits of the place do to others.
std::string Harm(const Place& place) {
  const std::string task = place.tasks.size() == 1 ? *place.tasks.begin() : "";
  if (task == "async task") {
    return " They are in async tasks: a worker that waits runs no other task.";
  }
  if (task == "pool job")
    return " They are in jobs of a pool: a worker that waits runs no other job.";
  return "";
}

// Where each wait is short and the thread does little before the next one, the handover may cost
// more than the work. From the exact counts of the switch layer.
std::string ShortTurns(const Profile& profile, Reason reason, const Place& place) {
  uint64_t waits = 0;
  int64_t on_cpu_ns = 0;
  for (const uint32_t number : place.threads) {
    const profd::v1::Thread& ledger = profile.threads[number].ledger;
    for (const profd::v1::ReasonTotal& off : ledger.off()) {
      if (off.reason() == reason) waits += off.waits();
    }
    on_cpu_ns += ledger.on_cpu_ns();
  }
  const double seconds = static_cast<double>(WindowNs(profile)) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(waits) / seconds : 0;
  if (place.threads.size() < kLeastInTurn || rate < kLeastTurns ||
      static_cast<double>(on_cpu_ns) > kLongestTurnNs * static_cast<double>(waits)) {
    return "";
  }
  return absl::StrCat(" These threads wait ", FormatCount(static_cast<uint64_t>(rate)),
                      " times a second, and run for ",
                      FormatDuration(on_cpu_ns / static_cast<int64_t>(waits)), " in between.");
}

// What is done there, without who does it.
std::string DescribePlace(const View& view, const PlaceKey& key, const Place& place) {
  const Profile& profile = *view.profile;
  const SampleTypeInfo& kind = *profile.kind;
  std::string does;
  if (kind.kind == profd::Kind::kCpu || key.reason == profd::v1::REASON_ON_CPU) {
    does = "is spent running ";
  } else if (!place.locks.empty()) {
    does = absl::StrCat("is for ",
                        place.locks.size() == 1
                            ? FittingName(*place.locks.begin())
                            : absl::StrCat(FormatCount(place.locks.size()), " locks"),
                        ", by ");
  } else if (kind.kind == profd::Kind::kRunQueue) {
    does = "is that of ";
  } else if (kind.HasReasons()) {
    does = absl::StrCat(kind.kind == profd::Kind::kWall ? "is spent waiting for " : "is for ",
                        SoughtBy(key), ", by ");
  } else {
    does = absl::StrCat(kind.unit == Unit::kBytes ? "were " : "was ", DoneTo(kind), " by ");
  }
  return absl::StrCat(place.estimate.Share(static_cast<double>(view.shown_value)), " ",
                      WholeOf(kind, view.idle_shown), " (",
                      FormatValue(place.estimate.value, profile.unit), ") ", does,
                      FittingName(key.function));
}

using Places = std::map<PlaceKey, Place>;

Places PlacesOf(const View& view) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> askers = Askers(profile);
  Places places;
  for (const Sample* sample : view.shown) {
    // The run queue has a rule of its own. What has no stack says nothing.
    const bool queues = sample->reason == profd::v1::REASON_RUNQUEUE;
    if (sample->stack == kUnsampled || (queues && profile.kind->kind != profd::Kind::kRunQueue)) {
      continue;
    }
    if (profile.stacks[sample->stack].origin == kUnsampled) continue;
    Place& place =
        places[{sample->reason, askers[sample->stack], NamedLockKind(sample->lock_kind)}];
    place.estimate.Add(*sample);
    place.groups[sample->group] += sample->value;
    place.threads.insert(sample->threads.begin(), sample->threads.end());
    if (!sample->lock.empty()) place.locks.insert(DescribeLock(*sample));
    place.tasks.insert(sample->task);
  }
  return places;
}

// The places with most of the shown time or bytes. If samples are too few to be certain of any,
// what is likely, as what else stands out would be taken for the main thing.
void FindLargest(const View& view, const Places& places, const Names& names,
                 std::vector<std::string>& findings) {
  std::vector<const Places::value_type*> largest;
  const Places::value_type* likely = nullptr;
  const double least = kLeastShare * static_cast<double>(view.shown_value);
  for (const auto& place : places) {
    const Estimate& estimate = place.second.estimate;
    const auto value = static_cast<double>(estimate.value);
    if (value < least) continue;
    if (value - kCertain * estimate.Error() >= least) {
      largest.push_back(&place);
    } else if (estimate.Error() >= kVague * value &&
               (likely == nullptr || estimate.value > likely->second.estimate.value)) {
      likely = &place;
    }
  }
  if (largest.empty() && likely != nullptr) {
    findings.push_back(
        absl::StrCat("Too few samples to be certain of any place. It is likely that ",
                     DescribePlace(view, likely->first, likely->second), Who(names, likely->second),
                     ". A longer window has more samples."));
  }
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) {
    return a->second.estimate.value > b->second.estimate.value;
  });
  if (largest.size() > kMostPlaces) largest.resize(kMostPlaces);
  for (const auto* place : largest) {
    findings.push_back(absl::StrCat(DescribePlace(view, place->first, place->second),
                                    Who(names, place->second), ".", Harm(place->second),
                                    ShortTurns(*view.profile, place->first.reason, place->second)));
  }
}

// What is shown is time of which file syncs are a part.
bool TellsSyncs(profd::Kind kind) {
  return kind == profd::Kind::kWait || kind == profd::Kind::kWall || kind == profd::Kind::kSync;
}

// The place that grew most.
void FindGrowth(const View& view, const Places& places, const Names& names,
                std::vector<std::string>& findings) {
  const auto most =
      std::max_element(places.begin(), places.end(), [](const auto& a, const auto& b) {
        return a.second.estimate.growth < b.second.estimate.growth;
      });
  if (most == places.end()) return;
  const Estimate& estimate = most->second.estimate;
  const auto growth = static_cast<double>(estimate.growth);
  if (growth < kLeastGrowth * static_cast<double>(view.shown_value) ||
      growth < kCertain * estimate.Error()) {
    return;
  }
  const Profile& profile = *view.profile;
  findings.push_back(absl::StrCat(
      "What ", FittingName(most->first.function), " ", DoneTo(*profile.kind), " grew most: by ",
      FormatValue(estimate.growth, profile.unit), " in the window, to ",
      FormatValue(estimate.value, profile.unit), Who(names, most->second), "."));
}

// The group that had most of the CPU time; empty if none had half of it.
std::string WhoRan(const Profile& profile, const Totals& totals) {
  const std::vector<std::string> names = ThreadGroupNames(profile);
  std::map<std::string, std::pair<int64_t, size_t>> groups;  // time, threads
  for (size_t i = 0; i < names.size(); ++i) {
    auto& [time_ns, threads] = groups[names[i]];
    time_ns += profile.threads[i].ledger.on_cpu_ns();
    threads++;
  }
  const auto most = std::max_element(
      groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  const auto [time_ns, threads] = most->second;
  if (groups.size() < 2 ||
      static_cast<double>(time_ns) < kMostOfCpu * static_cast<double>(totals.on_cpu_ns)) {
    return "";
  }
  return absl::StrCat(
      " ", FormatShare(static_cast<double>(time_ns), static_cast<double>(totals.on_cpu_ns)),
      " of the time on a CPU went to ", FittingName(most->first),
      threads > 1 ? absl::StrCat(" (", FormatCount(threads), " threads)") : "", ".");
}

// "1 CPU", "0.5 CPUs"
std::string FormatCpus(int64_t millicpus) {
  return absl::StrCat(static_cast<double>(millicpus) / 1000, millicpus == 1000 ? " CPU" : " CPUs");
}

// The CPU quota that held its threads back for longest. Whatever else is slow may be so because of
// it.
void FindThrottling(const Profile& profile, std::vector<std::string>& findings) {
  const profd::v1::Process* worst = nullptr;
  for (const profd::v1::Process& process : profile.message->processes()) {
    const profd::v1::CpuQuota& quota = process.cpu_quota();
    if (quota.periods() < kLeastPeriods ||
        static_cast<double>(quota.throttled_periods()) <
            kLeastThrottled * static_cast<double>(quota.periods())) {
      continue;
    }
    if (worst == nullptr || quota.throttled_ns() > worst->cpu_quota().throttled_ns()) {
      worst = &process;
    }
  }
  if (worst == nullptr) return;
  const profd::v1::CpuQuota& quota = worst->cpu_quota();
  // Processes of one cgroup have the same numbers.
  const std::string numbers = quota.SerializeAsString();
  uint64_t processes = 0;
  for (const profd::v1::Process& process : profile.message->processes()) {
    if (process.cpu_quota().SerializeAsString() == numbers) ++processes;
  }
  const std::string who =
      processes == 1 ? "" : absl::StrCat(" and ", FormatCount(processes - 1), " more");
  findings.push_back(
      absl::StrCat("The CPU quota of ", FittingName(CleanName(worst->name())), " (", worst->pid(),
                   ")", who, ", ", FormatCpus(quota.millicpus()), ", ran out in ",
                   FormatCount(static_cast<uint64_t>(quota.throttled_periods())), " of ",
                   FormatCount(static_cast<uint64_t>(quota.periods())),
                   " periods and held threads back for ", FormatDuration(quota.throttled_ns()),
                   ", all CPUs together. They were in the run queue then."));
}

// Threads that could run and had no CPU.
void FindDelay(const Profile& profile, const Totals& totals, std::vector<std::string>& findings) {
  const int64_t runnable = totals.on_cpu_ns + totals.run_queue_ns;
  const auto delay = static_cast<double>(totals.run_queue_ns);
  if (runnable <= 0 || delay < kLeastDelay * static_cast<double>(runnable) ||
      delay < kLeastWaiting * static_cast<double>(WindowNs(profile))) {
    return;
  }
  const auto worst = std::max_element(
      profile.threads.begin(), profile.threads.end(),
      [](const Thread& a, const Thread& b) { return RunQueueOf(a) < RunQueueOf(b); });
  const std::string meanwhile = DescribeOccupants(profile, kLeastShare);
  findings.push_back(absl::StrCat(
      "Threads could run for ", FormatDuration(runnable), " and had no CPU for ",
      FormatShare(delay, static_cast<double>(runnable)), " of it (",
      FormatDuration(totals.run_queue_ns), "); the most was ", FormatDuration(RunQueueOf(*worst)),
      ", in ", FittingName(CleanName(worst->name)), " (", worst->tid, ").",
      meanwhile.empty() ? WhoRan(profile, totals) : meanwhile));
}

// Threads that cannot do more without a second one.
void FindBusy(const Profile& profile, std::vector<std::string>& findings) {
  std::vector<const Thread*> busy;
  const double least = kLeastBusyWindow * static_cast<double>(WindowNs(profile));
  for (const Thread& thread : profile.threads) {
    const auto wall = static_cast<double>(thread.ledger.wall_ns());
    if (wall > 0 && wall >= least &&
        static_cast<double>(thread.ledger.on_cpu_ns()) >= kBusy * wall) {
      busy.push_back(&thread);
    }
  }
  if (busy.empty()) return;
  std::stable_sort(busy.begin(), busy.end(), [](const Thread* a, const Thread* b) {
    return a->ledger.on_cpu_ns() > b->ledger.on_cpu_ns();
  });
  std::string text;
  for (size_t i = 0; i < std::min(busy.size(), kMostBusyThreads); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", CleanName(busy[i]->name), " (", busy[i]->tid, ", ",
                    FormatShare(static_cast<double>(busy[i]->ledger.on_cpu_ns()),
                                static_cast<double>(busy[i]->ledger.wall_ns())),
                    ")");
  }
  if (busy.size() > kMostBusyThreads) {
    absl::StrAppend(&text, " and ", FormatCount(busy.size() - kMostBusyThreads), " more");
  }
  findings.push_back(
      absl::StrCat("On a CPU nearly all the time: ", text, ". Each can use one CPU only."));
}

}  // namespace

std::vector<std::string> Findings(const View& view) {
  const Profile& profile = *view.profile;
  std::vector<std::string> findings;
  if (profile.threads.empty()) return findings;
  const Totals totals = TotalsOf(profile);
  const bool ledger = profile.kind->formula == profd::ErrorFormula::kLedgerShare;
  if (ledger) FindThrottling(profile, findings);
  // Time of threads.
  const bool time = profile.unit == Unit::kNanoseconds;
  const bool little = time && static_cast<double>(view.shown_value) <
                                  kLeastWaiting * static_cast<double>(totals.wall_ns);
  if (view.shown_value > 0 && !little) {
    const Places places = PlacesOf(view);
    const Names names = {GroupNames(profile), ThreadGroupNames(profile)};
    FindLargest(view, places, names, findings);
    if (TellsSyncs(profile.kind->kind)) {
      const std::string sync =
          DescribeLongestSync(profile, kLeastShare * static_cast<double>(view.shown_value));
      if (!sync.empty()) findings.push_back(sync);
    }
    if (profile.kind->level) FindGrowth(view, places, names, findings);
  }
  // The time of disk requests is no time of threads.
  if (ledger) {
    FindDelay(profile, totals, findings);
    FindBusy(profile, findings);
  }
  return findings;
}

}  // namespace profctl
