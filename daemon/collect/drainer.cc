#include "daemon/collect/drainer.h"

#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/collect/cost_table.h"
#include "daemon/source/samples.h"

namespace profd {
namespace {

// Shorter than the store's grace for stacks that nothing names: they are sent again in time.
constexpr int64_t kTrimInterval = 120'000'000'000;

}  // namespace

bool Drainer::Expect(const absl::Status& status) {
  if (status.ok()) return true;
  ++failures_;
  LogError("drain: ", status.ToString());
  return false;
}

ProfileDelta Drainer::Drain() {
  context_.cpu->Begin();
  ProfileDelta delta;
  delta.begin_ns = drained_ns_;
  reached_ns_ = context_.clock->MonotonicNs();
  context_.ring->Poll();
  // Nothing returns early: what was taken out of the kernel goes to the store.
  for (const auto& source : sources_->all) Expect(source->Drain(delta));
  drained_ns_ = delta.end_ns;
  DrainOwnCounters(delta);
  // Stacks of what was just counted.
  context_.ring->Poll();
  delta.stacks = context_.ring->TakeStacks();
  const int64_t rests_read = sources_->threads->rests_read();
  steering_->AddDrain({.drains = 1,
                       .threads = static_cast<int64_t>(delta.ledgers.size()) + rests_read,
                       .counters = static_cast<int64_t>(delta.samples.size()),
                       .stacks = static_cast<int64_t>(delta.stacks.size()),
                       .resting = static_cast<int64_t>(delta.resting.size()) - rests_read,
                       .whole = sources_->threads->TookWhole()});
  LookAround();
  context_.cpu->Charge(&cpu_ns_);
  AddLosses(delta);
  AddCosts(delta);
  return delta;
}

void Drainer::DrainOwnCounters(ProfileDelta& delta) {
  // Nothing is counted before the first probe stands.
  const FoundModules& found = sources_->modules->found();
  if (sources_->modules->probes() == nullptr || found.allocators + found.libcs == 0) return;
  Expect(AddSamples(context_.kernel->DrainHeapCounters(), delta));
}

void Drainer::LookAround() {
  sources_->modules->Rescan();
  Follow();
  Expect(sources_->modules->Look());
  const int64_t now = context_.clock->MonotonicNs();
  Expect(context_.kernel->TrimKnownStacks(now >= next_trim_ns_));
  if (now >= next_trim_ns_) next_trim_ns_ = now + kTrimInterval;
  if (sources_->modules->WantsNamed()) sources_->modules->KeepOnly(store_->NamedModules());
}

void Drainer::Follow() {
  const std::set<int32_t> processes = sources_->threads->Processes();
  for (const auto& source : sources_->all) source->OnProcesses(processes);
}

void Drainer::AddLosses(ProfileDelta& delta) {
  LossCounts now{};
  const std::vector<uint64_t> counted = context_.kernel->Losses();
  for (size_t i = 0; i < counted.size() && i < now.size(); ++i) now[i] = counted[i];
  totals_.misses = context_.kernel->Misses();
  uint64_t& misses = now[static_cast<size_t>(Loss::kRecursionMisses)];
  for (const ProgramMisses& program : totals_.misses) misses += program.recursion_misses;
  now[static_cast<size_t>(Loss::kDrainFailed)] = failures_;
  for (size_t i = 0; i < kLossCount; ++i) {
    delta.losses[i] += now[i] - kernel_losses_[i];
    totals_.losses[i] += delta.losses[i];
  }
  kernel_losses_ = now;
  if (delta.losses[PROFD_LOSS_RING_FULL_EXIT] + delta.losses[PROFD_LOSS_HEAP_STORAGE] != 0) {
    context_.memory->DoubtHeaps();
  }
  delta.lost_weight_ns = static_cast<int64_t>(delta.losses[PROFD_LOSS_COUNTERS_FULL_NS]);
}

void Drainer::AddCosts(ProfileDelta& delta) {
  std::vector<CostRow> rows = CostsOf(sources_->all);
  rows.push_back({.account = "drain", .payer = Payer::kDaemon, .ns = cpu_ns_, .governed = true});
  const int64_t lines_ns = context_.cpu_use->lines;
  rows.push_back(
      {.account = "answers", .payer = Payer::kDaemon, .ns = context_.cpu_use->answers + lines_ns});
  CollectorCost now = SumCosts(rows);
  now.daemon_cpu_ns = context_.clock->ProcessCpuNs() + lines_ns;
  now.switches = sources_->threads->switches();
  delta.cost = CostSince(now, std::exchange(cost_, now));
  delta.cost.targets = DivideCost(delta.cost, ActivityIn(delta));
  AddCost(delta.cost, &totals_.cost);
}

std::vector<TargetActivity> Drainer::ActivityIn(const ProfileDelta& delta) const {
  const ThreadSource& threads = *sources_->threads;
  std::vector<TargetActivity> activity = threads.accounts().activity();
  for (const Sample& sample : delta.samples) {
    if (IsLevel(sample.key.kind) || IsFromBursts(sample.key)) continue;
    if (IsHistogram(sample.key.kind)) continue;
    const uint32_t target = threads.TargetOf(sample.key.thread);
    for (TargetActivity& a : activity) a.ticks += a.target == target ? sample.ticks : 0;
  }
  return activity;
}

absl::Status Drainer::HandOver(ProfileDelta delta) {
  const absl::Status stored = store_->Append(std::move(delta));
  context_.cpu->Charge(&cpu_ns_);
  if (!stored.ok()) ++failures_;
  return stored;
}

}  // namespace profd
