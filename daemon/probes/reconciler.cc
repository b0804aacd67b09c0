#include "daemon/probes/reconciler.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/base/priority.h"

namespace profd {
namespace {

// Failures already logged; the set is cleared when it gets larger.
constexpr size_t kMostKnown = 64;

bool HasEnded(int32_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

Reconciler::Reconciler(ProbeHands* hands, const Clock* clock, bool at_once)
    : hands_(hands), clock_(clock), plan_(at_once), worker_([this] { Work(); }) {}

Reconciler::~Reconciler() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
  absl::MutexLock lock(&mutex_);
  plan_.SetOn(false);
  // Only detaches: everything is off.
  while (const std::optional<ProbeStep> step = plan_.Next(INT64_MAX)) {
    ApplyGates();
    if (step->action == ProbeStep::Action::kDetach) hands_->Detach(step->keys);
    if (step->action == ProbeStep::Action::kDropGuards) hands_->DropGuards(step->guards);
    plan_.Done(*step, absl::OkStatus(), INT64_MAX);
  }
}

void Reconciler::Want(const ProbeKey& key, WantedProbes wanted) {
  absl::MutexLock lock(&mutex_);
  const bool none = wanted.places == nullptr || wanted.places->empty();
  const std::string why_none = wanted.why_none;
  const bool is_new = plan_.Want(key, std::move(wanted));
  if (is_new && none && !why_none.empty()) Log(key, why_none);
  Changed();
}

void Reconciler::Unwant(const ProbeKey& key) {
  absl::MutexLock lock(&mutex_);
  plan_.Unwant(key);
  Changed();
}

void Reconciler::Forget(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  plan_.Forget(pid);
  Changed();
}

void Reconciler::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  plan_.KeepOnly(pids);
  Changed();
}

void Reconciler::SetPresent(std::span<const ProbeKey> keys, bool present) {
  absl::MutexLock lock(&mutex_);
  for (const ProbeKey& key : keys) plan_.SetPresent(key, present, clock_->MonotonicNs());
  Changed();
}

void Reconciler::SetPresence(ProbeSet set, Presence presence) {
  absl::MutexLock lock(&mutex_);
  if (!plan_.SetPresence(set, presence)) return;
  ++breaks_[static_cast<size_t>(set)];
  Changed();
}

void Reconciler::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  if (!plan_.SetOn(on)) return;
  for (uint64_t& breaks : breaks_) ++breaks;
  Changed();
}

void Reconciler::LookAgain(ProbeSet set) {
  absl::MutexLock lock(&mutex_);
  plan_.LookAgain(set);
  Changed();
}

bool Reconciler::Await(ProbeSet last, int64_t deadline_ns) const {
  const auto is_idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t set = 0; set <= static_cast<size_t>(last); ++set) {
      if (plan_.HasWork(static_cast<ProbeSet>(set))) return false;
    }
    return true;
  };
  const int64_t left = std::max<int64_t>(0, deadline_ns - clock_->MonotonicNs());
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&is_idle), absl::Nanoseconds(left));
}

std::optional<ProbeState> Reconciler::StateOf(const ProbeKey& key) const {
  absl::MutexLock lock(&mutex_);
  return plan_.StateOf(key);
}

void Reconciler::ForEach(
    ProbeSet set,
    absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const {
  absl::MutexLock lock(&mutex_);
  plan_.ForEach(set, visit);
}

ProbeCounts Reconciler::Count(ProbeSet set) const {
  absl::MutexLock lock(&mutex_);
  return plan_.Count(set);
}

uint64_t Reconciler::breaks(ProbeSet set) const {
  absl::MutexLock lock(&mutex_);
  return breaks_[static_cast<size_t>(set)];
}

void Reconciler::Changed() {
  ApplyGates();
  // There may be thousands of execs a second, and most concern no probe.
  if (plan_.HasWork()) changed_ = true;
}

void Reconciler::ApplyGates() {
  for (const GateChange& change : plan_.TakeGateChanges()) {
    hands_->SetGate(change.where, change.gate);
  }
}

void Reconciler::Work() {
  RaisePriority(kBurstNice, "bursts");
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || changed_; };
  while (true) {
    std::optional<ProbeStep> step;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      changed_ = false;
      const int64_t now = clock_->MonotonicNs();
      step = plan_.Next(now);
      ApplyGates();
      if (!step) {
        const int64_t next = plan_.next_ns();
        const absl::Duration wait = next == INT64_MAX
                                        ? absl::InfiniteDuration()
                                        : absl::Nanoseconds(std::max<int64_t>(0, next - now));
        mutex_.AwaitWithTimeout(absl::Condition(&woken), wait);
        continue;
      }
    }
    const absl::Status status = Perform(*step);
    absl::MutexLock lock(&mutex_);
    const Failure failure = plan_.Done(*step, status, clock_->MonotonicNs());
    ApplyGates();
    if (failure && !HasEnded(failure->first.pid)) Log(failure->first, failure->second);
  }
}

absl::Status Reconciler::Perform(const ProbeStep& step) {
  switch (step.action) {
    case ProbeStep::Action::kAttach:
      return hands_->Attach(step.keys.front(), *step.places);
    case ProbeStep::Action::kReplace:
      return hands_->Replace(step.keys.front(), *step.places);
    case ProbeStep::Action::kLook:
      return hands_->Look(step.keys.front());
    case ProbeStep::Action::kDetach:
      hands_->Detach(step.keys);
      break;
    case ProbeStep::Action::kDropGuards:
      hands_->DropGuards(step.guards);
      break;
  }
  return absl::OkStatus();
}

void Reconciler::Log(const ProbeKey& key, const std::string& reason) {
  const ProbeSetRules rules = RulesOf(key.set);
  // A process without profiling is no failure. What fails in one libc often fails in all.
  bool known = key.set == ProbeSet::kLive;
  if (rules.in_every_process) known = !known_.emplace(key.set, reason).second;
  if (known_.size() > kMostKnown) known_.clear();
  profd::Log(known ? LogLevel::kDebug : LogLevel::kWarning, rules.what, " of PID ", key.pid, ": ",
             reason);
}

}  // namespace profd
