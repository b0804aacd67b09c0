#include "client/render/findings.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "client/analysis/telling_frames.h"
#include "client/render/estimate.h"
#include "client/render/finding_text.h"
#include "client/render/ledger_findings.h"
#include "client/render/new_finding.h"
#include "client/render/syncs.h"

namespace profctl {
namespace {

using profd::v1::Finding;
using profd::v1::FindingRule;

constexpr double kLeastShare = 0.2;  // of the whole, for a place to stand out
constexpr size_t kMostPlaces = 3;
constexpr double kLeastGrowth = 0.05;  // of all bytes at the end
// Below this share of the time of all threads, waits that are not idle are not worth a finding.
constexpr double kLeastWaiting = 0.01;
// Threads that hand something to each other in short turns.
constexpr size_t kLeastInTurn = 4;
constexpr double kLeastTurns = 1000;  // a second, together
constexpr double kLongestTurnNs = 200'000;
constexpr double kCertain = 2;   // standard errors
constexpr double kVague = 0.25;  // a standard error, of the value

// Where something is done, and what for.
struct PlaceKey {
  Reason reason{};
  std::string function;
  std::string lock_kind;  // empty: it says no more than the reason does

  auto operator<=>(const PlaceKey&) const = default;
};

// The samples of a key.
struct Place {
  Estimate estimate;
  std::map<uint32_t, int64_t> groups;  // value by group
  std::set<uint32_t> threads;
  std::set<std::string> lock_kinds;  // "lock" and "", which the key does not tell apart, are two
  std::set<std::pair<std::string, std::string>> locks;  // with kinds
  std::set<std::string> tasks;                          // what these waits keep from going on
};

using Places = std::map<PlaceKey, Place>;

// Names of the groups of an answer and, by thread, of threads of like names.
struct Names {
  std::vector<std::string> groups;
  std::vector<std::string> threads;
};

// The one string of a set; empty if there are none or several.
std::string OnlyOf(const std::set<std::string>& all) {
  return all.size() == 1 ? *all.begin() : std::string();
}

// The name that all threads of a place share; empty if there is none.
std::string NameOfAll(const std::vector<std::string>& names, const Place& place) {
  std::set<std::string> found;
  for (const uint32_t thread : place.threads) found.insert(names[thread]);
  return OnlyOf(found);
}

// Whose place it is.
void SetThreads(const Names& names, const Place& place, Finding* finding) {
  const auto most =
      std::max_element(place.groups.begin(), place.groups.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string group = names.groups[most->first];
  // The answer was not asked to tell threads apart.
  if (group.empty()) group = NameOfAll(names.threads, place);
  finding->set_group(group);
  finding->set_more_groups(static_cast<uint32_t>(place.groups.size() - 1));
  finding->set_threads(static_cast<uint32_t>(place.threads.size()));
}

// A sample's kind of lock; empty if that says no more than the reason does.
std::string NamedLockKind(const std::string& kind) {
  return kind == "lock" || kind == "other futex wait" ? "" : kind;
}

// Where each wait is short and the thread does little before the next one, the handover may cost
// more than the work. From the exact counts of the switch layer.
void SetShortTurns(const Profile& profile, Reason reason, const Place& place, Finding* finding) {
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
    return;
  }
  finding->set_turns_per_second(static_cast<uint64_t>(rate));
  finding->set_turn_ns(on_cpu_ns / static_cast<int64_t>(waits));
}

Finding PlaceFinding(const View& view, FindingRule rule, const Places::value_type& found,
                     const Names& names) {
  const auto& [key, place] = found;
  Finding finding = NewFinding(view, rule);
  SetShare(place.estimate.value, view.shown_value, &finding);
  finding.set_error(std::llround(place.estimate.Error()));
  finding.set_function(key.function);
  finding.set_reason(key.reason);
  finding.set_lock_kind(OnlyOf(place.lock_kinds));
  if (place.locks.size() == 1) finding.set_lock(place.locks.begin()->first);
  finding.set_locks(static_cast<uint32_t>(place.locks.size()));
  SetThreads(names, place, &finding);
  return finding;
}

Places PlacesOf(const View& view) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> askers = Askers(profile);
  Places places;
  for (const Sample* sample : view.shown) {
    // Time in the run queue has a rule of its own. What has no stack says nothing.
    const bool queues = sample->reason == profd::v1::REASON_RUNQUEUE;
    const bool queues_count =
        profile.kind->kind == profd::Kind::kRunQueue || profile.kind->kind == profd::Kind::kSwitch;
    if (sample->stack == kUnsampled || (queues && !queues_count)) continue;
    if (profile.stacks[sample->stack].origin == kUnsampled) continue;
    Place& place =
        places[{sample->reason, askers[sample->stack], NamedLockKind(sample->lock_kind)}];
    place.estimate.Add(*sample);
    place.groups[sample->group] += sample->value;
    place.threads.insert(sample->threads.begin(), sample->threads.end());
    place.lock_kinds.insert(sample->lock_kind);
    if (!sample->lock.empty()) place.locks.emplace(sample->lock, sample->lock_kind);
    place.tasks.insert(sample->task);
  }
  return places;
}

// The places with most of the shown time or bytes. If samples are too few to be certain of any,
// what is likely, as what else stands out would be taken for the main thing.
void FindLargest(const View& view, const Places& places, const Names& names,
                 std::vector<Finding>& findings) {
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
    findings.push_back(PlaceFinding(view, profd::v1::FINDING_RULE_LIKELY_PLACE, *likely, names));
  }
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) {
    return a->second.estimate.value > b->second.estimate.value;
  });
  if (largest.size() > kMostPlaces) largest.resize(kMostPlaces);
  for (const auto* place : largest) {
    Finding finding = PlaceFinding(view, profd::v1::FINDING_RULE_PLACE, *place, names);
    finding.set_task(OnlyOf(place->second.tasks));
    SetShortTurns(*view.profile, place->first.reason, place->second, &finding);
    findings.push_back(std::move(finding));
  }
}

double WallNs(const Profile& profile) {
  double sum = 0;
  for (const Thread& thread : profile.threads) {
    sum += static_cast<double>(thread.ledger.wall_ns());
  }
  return sum;
}

// What is shown is time of which file syncs are a part.
bool TellsSyncs(profd::Kind kind) {
  return kind == profd::Kind::kWait || kind == profd::Kind::kWall || kind == profd::Kind::kSync;
}

// The file that took the longest to sync.
void FindSync(const View& view, std::vector<Finding>& findings) {
  const Profile& profile = *view.profile;
  const profd::v1::FileSync* sync =
      LongestSync(profile, kLeastShare * static_cast<double>(view.shown_value));
  if (sync == nullptr) return;
  Finding finding = NewFinding(view, profd::v1::FINDING_RULE_FILE_SYNC);
  SetShare(sync->total_ns(), view.shown_value, &finding);
  if (sync->stack() != 0) finding.set_function(Askers(profile)[sync->stack()]);
  *finding.mutable_sync() = *sync;
  findings.push_back(std::move(finding));
}

// The place that grew most.
void FindGrowth(const View& view, const Places& places, const Names& names,
                std::vector<Finding>& findings) {
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
  Finding finding = NewFinding(view, profd::v1::FINDING_RULE_GROWTH);
  SetShare(estimate.growth, view.shown_value, &finding);
  finding.set_error(std::llround(estimate.Error()));
  finding.set_function(most->first.function);
  finding.set_level(estimate.value);
  SetThreads(names, most->second, &finding);
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> Findings(const View& view) {
  const Profile& profile = *view.profile;
  std::vector<Finding> findings;
  if (profile.threads.empty()) return findings;
  const bool ledger = profile.kind->formula == profd::ErrorFormula::kLedgerShare;
  if (ledger) FindThrottling(view, findings);
  // Time of threads.
  const bool time = profile.unit == Unit::kNanoseconds;
  const bool little =
      time && static_cast<double>(view.shown_value) < kLeastWaiting * WallNs(profile);
  if (view.shown_value > 0 && !little) {
    const Places places = PlacesOf(view);
    const Names names = {GroupNames(profile), ThreadGroupNames(profile)};
    FindLargest(view, places, names, findings);
    if (TellsSyncs(profile.kind->kind)) FindSync(view, findings);
    if (profile.kind->level) FindGrowth(view, places, names, findings);
  }
  // The time of disk requests is no time of threads.
  if (ledger) {
    FindDelay(view, findings);
    FindBusy(view, findings);
  }
  for (Finding& finding : findings) finding.set_text(DescribeFinding(finding, NameWidth::kWhole));
  return findings;
}

profd::v1::Profile WithFindings(const Answer& answer, const std::vector<View>& views) {
  profd::v1::Profile message = answer.message();
  for (const View& view : views) {
    for (Finding& finding : Findings(view)) message.mutable_findings()->Add(std::move(finding));
  }
  return message;
}

}  // namespace profctl
