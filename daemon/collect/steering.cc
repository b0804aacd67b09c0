#include "daemon/collect/steering.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/collect/cost_table.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// A fetch drains between seconds; the governor judges by whole ones.
constexpr int64_t kInterval = kSecond * 9 / 10;
// A load that begins suddenly is answered at once when it costs so many seconds' budget more than
// there is.
constexpr double kOverrun = 1;
constexpr int64_t kLeastInterval = kSecond / 10;

}  // namespace

Steering::Steering(Budget budget, const Clock* clock, const CpuUse* cpu_use,
                   const SourceList* sources)
    : clock_(clock), cpu_use_(cpu_use), sources_(sources), purse_(budget) {
  governor_.AddKnob(&drain_knob_, DrainKnob::kPart);
}

void Steering::AddKnobs() {
  std::vector<Knob*> knobs;
  for (const auto& source : sources_->all) {
    for (Knob* knob : source->knobs()) knobs.push_back(knob);
  }
  const auto rank = [](const Knob* knob) {
    if (knob->payer() == Payer::kDaemon) return 2;
    return knob->sampled_levels() > 1 ? 0 : 1;
  };
  std::stable_sort(knobs.begin(), knobs.end(),
                   [&](const Knob* a, const Knob* b) { return rank(a) < rank(b); });
  for (Knob* knob : knobs) governor_.AddKnob(knob);
}

int64_t Steering::InPathNs() const { return UnplannedInPathNs(CostsOf(sources_->all)); }

Purse::Sums Steering::Spent(int64_t now_ns, int64_t drain_cpu_ns) const {
  const int64_t daemon = clock_->ProcessCpuNs() + cpu_use_->lines;
  int64_t governed = drain_cpu_ns, in_path = 0;
  for (const CostRow& row : CostsOf(sources_->all)) {
    if (row.payer == Payer::kTarget) in_path += row.ns;
    if (row.payer == Payer::kDaemon && row.governed) governed += row.ns;
  }
  return {.now_ns = now_ns,
          .targets_cpu = sources_->threads->cpu_ns(),
          .spent = in_path + daemon,
          .fixed = daemon - governed};
}

void Steering::Begin(int64_t now_ns, int64_t drain_cpu_ns) {
  for (const auto& source : sources_->all) source->Learn({.seconds = 0});
  judged_ns_ = now_ns;
  judged_in_path_ns_ = InPathNs();
  judged_drain_cpu_ns_ = drain_cpu_ns;
  purse_.Begin(Spent(now_ns, drain_cpu_ns));
  drained_ = {};
}

void Steering::AddDrain(const DrainKnob::Work& work) {
  drained_.drains += work.drains;
  drained_.threads += work.threads;
  drained_.resting += work.resting;
  drained_.counters += work.counters;
  drained_.stacks += work.stacks;
  drained_.whole |= work.whole;
}

bool Steering::IsOverrun() {
  const Allowance& allowance = purse_.allowance();
  if (allowance.rate == kNoBudget) return false;  // reading the costs takes system calls
  const int64_t now = clock_->MonotonicNs();
  if (now < next_overrun_look_ns_) return false;
  next_overrun_look_ns_ = now + kLeastInterval;
  const double spent = static_cast<double>(InPathNs() - judged_in_path_ns_) / kSecond;
  // Where drains are rare, what is within the budget over all of that time is no overrun.
  const double seconds = std::max(1.0, static_cast<double>(now - judged_ns_) / kSecond);
  return spent > allowance.rate * (kOverrun + seconds) + allowance.saved;
}

bool Steering::IsDue(int64_t now_ns) const { return now_ns - judged_ns_ >= kInterval; }

absl::Status Steering::Govern(int64_t now_ns, int64_t drain_cpu_ns) {
  const double seconds = static_cast<double>(now_ns - judged_ns_) / kSecond;
  drained_.seconds = seconds;
  drained_.cpu_ns = drain_cpu_ns - std::exchange(judged_drain_cpu_ns_, drain_cpu_ns);
  const Period period = {.seconds = seconds,
                         .drains_for_tick = drain_knob_.Learn(std::exchange(drained_, {})),
                         .allowance = purse_.Add(Spent(now_ns, drain_cpu_ns))};
  for (const auto& source : sources_->all) source->Learn(period);
  for (const Knob* knob : governor_.Step(period.allowance, seconds)) {
    const std::string given_up = knob->GivenUpAt(knob->level());
    if (given_up.empty()) {
      LogInfo("governor: ", knob->name(), ": gives everything again");
    } else {
      LogInfo("governor: ", knob->name(), ": given up: ", given_up);
    }
  }
  absl::Status status = Apply();
  judged_ns_ = now_ns;
  judged_in_path_ns_ = InPathNs();
  next_overrun_look_ns_ = now_ns + kLeastInterval;
  return status;
}

absl::Status Steering::Apply() {
  absl::Status status;
  for (const auto& source : sources_->all) status.Update(source->Apply());
  return status;
}

GovernorState Steering::State() const {
  GovernorState state;
  state.budget = purse_.budget();
  state.allowance = purse_.allowance();
  state.changes = governor_.changes();
  for (const Knob* knob : governor_.knobs()) {
    state.sources.push_back({.name = knob->name(),
                             .in_path = knob->payer() == Payer::kTarget,
                             .level = static_cast<uint32_t>(knob->level()),
                             .given_up = knob->GivenUpAt(knob->level()),
                             .cost = knob->CostNow(),
                             .whole_cost = knob->CostAt(0)});
  }
  return state;
}

}  // namespace profd
