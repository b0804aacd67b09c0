#include "daemon/probes/plan.h"

#include <algorithm>

namespace profd {
namespace {

bool IsEmpty(const ProbePlaces& places) { return !places || places->empty(); }

}  // namespace

const ProbePlan::Entry* ProbePlan::Find(const ProbeKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

bool ProbePlan::MayStand(const ProbeKey& key, const Entry& entry) const {
  return entry.wanted && IsPresent(key.set) && entry.probes.present &&
         !IsEmpty(entry.probes.places);
}

bool ProbePlan::ShouldStand(const ProbeKey& key, const Entry& entry) const {
  return MayStand(key, entry) && (!entry.probes.looks_first || !entry.looked || entry.needed);
}

ProbePlan::Work ProbePlan::WorkOf(const ProbeKey& key, const Entry& entry) const {
  if (entry.phase != Phase::kIdle) return Work::kNone;
  const bool unseen = entry.probes.looks_first && !entry.looked;
  const bool waits = !entry.failure.empty() && !entry.due;
  const Work retry = entry.next_try_ns == INT64_MAX ? Work::kNone : Work::kRetry;
  if (entry.stands) {
    if (!entry.wanted) return Work::kForget;
    if (entry.standing_program != entry.program || !ShouldStand(key, entry)) return Work::kRemove;
    if (unseen) return Work::kLook;
    if (entry.standing == entry.probes.places) return Work::kNone;
    return waits ? retry : Work::kReplace;
  }
  if (!MayStand(key, entry)) return Work::kNone;
  if (unseen) return Work::kLook;
  if (!ShouldStand(key, entry)) return Work::kNone;
  return waits ? retry : Work::kAttach;
}

void ProbePlan::Enter(const ProbeKey& key, Entry& entry, Work work) {
  if (entry.work == Work::kRetry) retries_.erase({entry.next_try_ns, key});
  if (entry.work < Work::kRetry) WaitingFor(key.set, entry.work).erase({entry.turn, key});
  entry.work = work;
  if (work == Work::kRetry) retries_.insert({entry.next_try_ns, key});
  if (work >= Work::kRetry) return;
  entry.turn = ++turns_;
  WaitingFor(key.set, work).insert({entry.turn, key});
}

void ProbePlan::Update(Entries::iterator at) {
  const ProbeKey key = at->first;
  Entry& entry = at->second;
  const Work work = WorkOf(key, entry);
  if (key.set == ProbeSet::kBurst) {
    if (entry.wanted && entry.probes.present) {
      bursting_.insert(key);
    } else {
      bursting_.erase(key);
    }
  }
  if (work != entry.work) Enter(key, entry, work);
  if (!entry.wanted && !entry.stands && entry.phase == Phase::kIdle) entries_.erase(at);
  if (RulesOf(key.set).all_or_none) UpdateGate({key.pid, key.module});
}

void ProbePlan::UpdateSet(ProbeSet set) {
  for (auto it = entries_.lower_bound({.set = set, .pid = INT32_MIN, .module = {}});
       it != entries_.end() && it->first.set == set;) {
    Update(it++);
  }
}

void ProbePlan::SetWanted(const ProbeKey& key, Entry& entry, bool wanted) {
  if (entry.wanted == wanted) return;
  entry.wanted = wanted;
  size_t& count = uses_[{key.set, key.module}].wanted;
  wanted ? ++count : --count;
  if (count == 0) may_drop_ = true;
}

void ProbePlan::SetStands(const ProbeKey& key, Entry& entry, bool stands) {
  if (entry.stands == stands) return;
  entry.stands = stands;
  ModuleUse& use = uses_[{key.set, key.module}];
  size_t& all = standing_[IndexOf(key.set)];
  stands ? ++use.standing : --use.standing;
  stands ? ++all : --all;
  if (stands && RulesOf(key.set).keeps_guard) use.guard = true;
  if (use.standing == 0) may_drop_ = true;
}

bool ProbePlan::Want(const ProbeKey& key, WantedProbes wanted) {
  const auto at = entries_.try_emplace(key).first;
  Entry& entry = at->second;
  if (entry.wanted && entry.probes.places == wanted.places &&
      entry.probes.why_none == wanted.why_none) {
    return false;
  }
  Enter(key, entry, Work::kNone);  // next_try_ns is the key in retries_
  if (entry.wanted) wanted.present = entry.probes.present;
  entry.probes = std::move(wanted);
  SetWanted(key, entry, true);
  entry.failures = 0;
  entry.due = false;
  entry.failure = IsEmpty(entry.probes.places) ? entry.probes.why_none : "";
  entry.next_try_ns = entry.failure.empty() ? 0 : INT64_MAX;
  entry.stood =
      entry.stands && entry.standing_program == entry.program && !IsEmpty(entry.probes.places);
  Update(at);
  return true;
}

void ProbePlan::Unwant(const ProbeKey& key) {
  const auto at = entries_.find(key);
  if (at == entries_.end() || !at->second.wanted) return;
  Entry& entry = at->second;
  SetWanted(key, entry, false);
  entry.stood = entry.looked = entry.due = false;
  Enter(key, entry, Work::kNone);  // next_try_ns is the key in retries_
  entry.failure.clear();
  entry.failures = 0;
  Update(at);
}

void ProbePlan::Forget(Entries::iterator at) {
  ++at->second.program;
  Unwant(at->first);
}

void ProbePlan::Forget(int32_t pid) {
  for (size_t set = 0; set < kProbeSets; ++set) {
    for (auto it = entries_.lower_bound({.set = SetOf(set), .pid = pid, .module = {}});
         it != entries_.end() && it->first.set == SetOf(set) && it->first.pid == pid;) {
      Forget(it++);
    }
  }
}

void ProbePlan::KeepOnly(const std::set<int32_t>& pids) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto at = it++;
    if (!pids.contains(at->first.pid)) Forget(at);
  }
}

void ProbePlan::SetPresent(const ProbeKey& key, bool present, int64_t now_ns) {
  const auto at = entries_.find(key);
  if (at == entries_.end() || !at->second.wanted || at->second.probes.present == present) return;
  at->second.probes.present = present;
  if (bursting_.empty()) reserved_until_ns_ = now_ns + kMostReservedNs;
  Update(at);
}

bool ProbePlan::SetPresence(ProbeSet set, Presence presence) {
  if (std::exchange(presence_[IndexOf(set)], presence) == presence) return false;
  may_drop_ = true;
  UpdateSet(set);
  return true;
}

bool ProbePlan::SetOn(bool on) {
  if (std::exchange(on_, on) == on) return false;
  may_drop_ = true;
  // The process may change in between.
  for (auto& [key, entry] : entries_) entry.looked = false;
  for (size_t set = 0; set < kProbeSets; ++set) UpdateSet(SetOf(set));
  return true;
}

void ProbePlan::LookAgain(ProbeSet set) {
  for (auto& [key, entry] : entries_) {
    if (key.set == set) entry.looked = false;
  }
  UpdateSet(set);
}

int64_t ProbePlan::next_ns() const {
  int64_t next = retries_.empty() ? INT64_MAX : retries_.begin()->first;
  if (!bursting_.empty() && HasWork()) next = std::min(next, reserved_until_ns_);
  return next;
}

bool ProbePlan::HasWork(ProbeSet set) const {
  if (under_way_.test(IndexOf(set))) return true;
  for (const Work work : {Work::kRemove, Work::kForget, Work::kReplace, Work::kLook}) {
    if (!WaitingFor(set, work).empty()) return true;
  }
  return !WaitingFor(set, Work::kAttach).empty() && !IsFull(set);
}

bool ProbePlan::HasWork() const {
  if (may_drop_) return true;
  for (size_t set = 0; set < kProbeSets; ++set) {
    if (HasWork(SetOf(set))) return true;
  }
  return false;
}

Gate ProbePlan::GateOf(const ProbedModule& where, Gate now) const {
  const auto& [pid, module] = where;
  const Entry* const events = Find({.set = ProbeSet::kEvents, .pid = pid, .module = module});
  const Entry* const slow = Find({.set = ProbeSet::kSlowPaths, .pid = pid, .module = module});
  bool wanted = false, stands = false, coming = false, going = false;
  for (const Entry* entry : {events, slow}) {
    if (entry == nullptr) continue;
    wanted |= entry->wanted;
    stands |= entry->stands;
    coming |= entry->phase == Phase::kAttaching;
    going |= entry->phase == Phase::kDetaching;
  }
  // Attaching one by one may take longer than a slice. Then those that are attached count.
  if (coming) return at_once_ ? Gate::kClosed : Gate::kUnknown;
  if (going) return Gate::kClosed;
  if (!wanted) return stands ? now : Gate::kUnknown;
  // Without probes at events, those in the slow path are all there are.
  const bool by_events =
      events != nullptr && events->wanted && (events->stands || events->failure.empty());
  const Entry* const main = by_events ? events : slow;
  const ProbeKey key = {
      .set = by_events ? ProbeSet::kEvents : ProbeSet::kSlowPaths, .pid = pid, .module = module};
  if (main != nullptr && main->stands && main->standing_program == main->program &&
      IsPresent(ProbeSet::kEvents) && ShouldStand(key, *main)) {
    return Gate::kOpen;
  }
  return stands || now != Gate::kUnknown ? Gate::kClosed : Gate::kUnknown;
}

void ProbePlan::UpdateGate(const ProbedModule& where) {
  const auto known = gates_.find(where);
  const Gate now = known == gates_.end() ? Gate::kUnknown : known->second;
  const Gate gate = GateOf(where, now);
  if (gate == now) return;
  changes_.push_back({.where = where, .gate = gate});
  if (gate == Gate::kUnknown) {
    gates_.erase(known);
  } else {
    gates_.insert_or_assign(where, gate);
  }
}

ProbeState ProbePlan::StateOf(const Entry& entry) {
  return {.stands = entry.stands,
          .stood = entry.stood,
          .since_ns = entry.since_ns,
          .failure = entry.failure,
          .next_try_ns = entry.next_try_ns};
}

std::optional<ProbeState> ProbePlan::StateOf(const ProbeKey& key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr || !entry->wanted) return std::nullopt;
  return StateOf(*entry);
}

void ProbePlan::ForEach(
    ProbeSet set,
    absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const {
  for (auto it = entries_.lower_bound({.set = set, .pid = INT32_MIN, .module = {}});
       it != entries_.end() && it->first.set == set; ++it) {
    if (it->second.wanted) visit(it->first, StateOf(it->second));
  }
}

ProbeCounts ProbePlan::Count(ProbeSet set) const {
  ProbeCounts counts;
  ForEach(set, [&](const ProbeKey&, const ProbeState& state) {
    ++counts.wanted;
    if (state.stood) ++counts.stood;
    if (counts.failure.empty()) counts.failure = state.failure;
  });
  return counts;
}

}  // namespace profd
