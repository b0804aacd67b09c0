// Steps of a plan: how the next one is chosen, begun and ended.
#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/probes/plan.h"

namespace profd {
namespace {

// One in so many steps is for the key that has waited longest, regardless of priority.
constexpr uint64_t kFairTurn = 8;

}  // namespace

void ProbePlan::MoveDue(int64_t now_ns) {
  while (!retries_.empty() && retries_.begin()->first <= now_ns) {
    const auto at = entries_.find(retries_.begin()->second);
    at->second.due = true;
    Update(at);
  }
}

std::optional<ProbeStep> ProbePlan::Next(int64_t now_ns) {
  if (under_way_.any()) return std::nullopt;
  MoveDue(now_ns);
  constexpr ProbeSet kBurst = ProbeSet::kBurst, kFirst = ProbeSet::kTold,
                     kLast = ProbeSet::kMapCalls;
  for (const Work work : {Work::kRemove, Work::kForget}) {
    if (std::optional<ProbeStep> step = TakeOut(work, kBurst, kBurst)) return step;
  }
  for (const Work work : {Work::kReplace, Work::kAttach}) {
    const Waiting& bursts = WaitingFor(kBurst, work);
    if (!bursts.empty()) return Begin(bursts.begin()->second, now_ns);
  }
  if (!bursting_.empty() && now_ns < reserved_until_ns_) return std::nullopt;
  // Probes in live processes that are not wanted cost them something, so they go first. Those of
  // processes that are gone alternate with attaching, so that neither starves.
  if (std::optional<ProbeStep> step = TakeOut(Work::kRemove, kFirst, kLast)) return step;
  const ProbeKey* const next = Choose();
  if (next == nullptr || !forgot_last_) {
    if (std::optional<ProbeStep> step = TakeOut(Work::kForget, kFirst, kLast)) {
      forgot_last_ = true;
      return step;
    }
  }
  forgot_last_ = false;
  if (next != nullptr) return Begin(*next, now_ns);
  return DropGuards();
}

std::optional<ProbeStep> ProbePlan::TakeOut(Work work, ProbeSet first, ProbeSet last) {
  ProbeStep step = {.action = ProbeStep::Action::kDetach, .keys = {}, .places = {}, .guards = {}};
  for (size_t set = IndexOf(first); set <= IndexOf(last); ++set) {
    for (const auto& [turn, key] : WaitingFor(SetOf(set), work)) {
      if (step.keys.size() == kRemovedTogether) break;
      step.keys.push_back(key);
    }
  }
  if (step.keys.empty()) return std::nullopt;
  for (const ProbeKey& key : step.keys) {
    const auto at = entries_.find(key);
    at->second.phase = Phase::kDetaching;
    at->second.since_ns = 0;
    under_way_.set(IndexOf(key.set));
    Update(at);
  }
  return step;
}

const ProbeKey* ProbePlan::Choose() {
  const bool by_age = put_in_ % kFairTurn == kFairTurn - 1;
  const Waiting::value_type* chosen = nullptr;
  const auto consider = [&](ProbeSet set, Work work) {
    const Waiting& waiting = WaitingFor(set, work);
    if (waiting.empty() || (work == Work::kAttach && IsFull(set))) return;
    if (chosen == nullptr || (by_age && waiting.begin()->first < chosen->first)) {
      chosen = &*waiting.begin();
    }
  };
  for (size_t set = 0; set < kProbeSets; ++set) consider(SetOf(set), Work::kReplace);
  for (size_t set = 0; set < kProbeSets; ++set) {
    consider(SetOf(set), Work::kLook);
    consider(SetOf(set), Work::kAttach);
  }
  return chosen == nullptr ? nullptr : &chosen->second;
}

ProbeStep ProbePlan::Begin(const ProbeKey& key, int64_t now_ns) {
  const auto at = entries_.find(key);
  Entry& entry = at->second;
  ProbeStep step = {.keys = {key}, .places = entry.probes.places, .guards = {}};
  if (entry.work == Work::kLook) {
    step.action = ProbeStep::Action::kLook;
    entry.phase = Phase::kLooking;
    entry.looked = true;
  } else if (entry.stands) {
    step.action = ProbeStep::Action::kReplace;
    entry.phase = Phase::kReplacing;
  } else {
    step.action = ProbeStep::Action::kAttach;
    entry.phase = Phase::kAttaching;
    entry.since_ns = now_ns;  // before the first hit
    entry.standing_program = entry.program;
  }
  entry.due = false;
  under_way_.set(IndexOf(key.set));
  ++put_in_;
  Update(at);
  return step;
}

std::optional<ProbeStep> ProbePlan::DropGuards() {
  if (!std::exchange(may_drop_, false)) return std::nullopt;
  ProbeStep step = {
      .action = ProbeStep::Action::kDropGuards, .keys = {}, .places = {}, .guards = {}};
  for (auto it = uses_.begin(); it != uses_.end();) {
    auto& [key, use] = *it;
    if (use.standing == 0) {
      const bool off = !on_ || presence_[IndexOf(key.first)] == Presence::kOff;
      if (use.guard && (use.wanted == 0 || off)) {
        step.guards.push_back(key);
        use.guard = false;
      }
    }
    const bool unused = use.standing == 0 && use.wanted == 0;
    it = unused ? uses_.erase(it) : std::next(it);
  }
  if (step.guards.empty()) return std::nullopt;
  for (const auto& [set, module] : step.guards) under_way_.set(IndexOf(set));
  return step;
}

std::optional<std::pair<ProbeKey, std::string>> ProbePlan::Fail(const ProbeKey& key, Entry& entry,
                                                                std::string reason,
                                                                int64_t next_try_ns) {
  const bool is_new = std::exchange(entry.failure, reason) != reason;
  entry.next_try_ns = next_try_ns;
  if (!is_new) return std::nullopt;
  return std::pair(key, std::move(reason));
}

std::optional<std::pair<ProbeKey, std::string>> ProbePlan::Done(const ProbeStep& step,
                                                                const absl::Status& status,
                                                                int64_t now_ns) {
  under_way_.reset();
  if (step.action == ProbeStep::Action::kDropGuards) return std::nullopt;
  std::optional<std::pair<ProbeKey, std::string>> failed;
  for (const ProbeKey& key : step.keys) {
    const auto at = entries_.find(key);
    Entry& entry = at->second;
    entry.phase = Phase::kIdle;
    // Still wanted, and no exec since the step began.
    const bool is_same = entry.wanted && entry.standing_program == entry.program;
    if (step.action == ProbeStep::Action::kDetach) {
      SetStands(key, entry, false);
    } else if (step.action == ProbeStep::Action::kLook) {
      entry.needed = status.ok();
      if (status.ok()) {
        if (entry.next_try_ns == INT64_MAX) entry.failure.clear();
      } else if (entry.wanted) {
        failed = Fail(key, entry, std::string(status.message()), INT64_MAX);
      }
    } else if (status.ok()) {
      SetStands(key, entry, true);
      entry.standing = step.places;
      entry.stood = is_same;
      if (is_same) entry.failure.clear();
      if (is_same) entry.failures = 0;
    } else {
      if (!entry.stands) entry.since_ns = 0;
      if (!entry.stands) entry.stood = false;
      if (is_same) {
        const int shift = std::min(entry.failures++, kMostDoublings);
        failed = Fail(key, entry, std::string(status.message()), now_ns + (kFirstRetryNs << shift));
      }
    }
    Update(at);
  }
  return failed;
}

}  // namespace profd
