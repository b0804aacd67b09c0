#include "daemon/source/jemalloc.h"

#include <set>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/source/probe_cost.h"
#include "daemon/source/record.h"

namespace profd {
namespace {

// The coverage below which status has a note, and the bytes needed to judge it.
constexpr double kCovered = 0.98;
constexpr double kCoverageMatters = 1 << 20;
// How often, in drains, to look for threads whose exit was lost, and for modules that are
// forgotten.
constexpr uint64_t kForgetDrains = 64;
// Before each further attempt to read totals while their process changes its mappings. Most changes
// take less than a millisecond, but whoever makes them may have to wait for a CPU.
constexpr absl::Duration kPauses[] = {absl::Milliseconds(1), absl::Milliseconds(3),
                                      absl::Milliseconds(8)};

// Whether some events of an allocator run in code that was not found.
bool IsShort(const AllocatorTotals& totals) {
  const auto seen = static_cast<double>(totals.allocated.seen_bytes) +
                    static_cast<double>(totals.freed.seen_bytes);
  const double unseen = static_cast<double>(totals.allocated.unseen_bytes) +
                        static_cast<double>(totals.freed.unseen_bytes);
  return seen + unseen >= kCoverageMatters && seen < kCovered * (seen + unseen);
}

// The note on incomplete coverage; empty if nearly all bytes have stacks.
std::string CoverageNote(const AllocatorUse& use) {
  if (use.state.slow_paths) {
    return "some allocation events run in copies of the code that profd did not find; it sees them "
           "a little later, in the allocator's slow path; totals are exact";
  }
  if (!IsShort(use.totals)) return "";
  return "stacks cover only a part of the bytes: the other allocation events run in copies of the "
         "code that profd did not find; totals are exact; keep the module's symbols, so that profd "
         "can watch its slow path";
}

}  // namespace

JemallocSource::JemallocSource(const SourceContext& context, const ThreadSource* threads,
                               ModulesSource* modules, const ToldSource* told, uint64_t seed)
    : context_(context), threads_(threads), modules_(modules), told_(told), slices_(seed) {}

absl::Status JemallocSource::Apply() {
  detached_ = false;
  TargetProbes& probes = *modules_->probes();
  context_.kernel->SetHeapSampling(knob_.one_in());
  slices_.SetShare(knob_.ShareAt(knob_.level()), context_.clock->MonotonicNs());
  probes.SetToldOn(knob_.ToldAt(knob_.level()));
  probes.SetSlowPathsOn(knob_.SlowPathsAt(knob_.level()));
  Step();
  return absl::OkStatus();
}

void JemallocSource::Step() {
  modules_->probes()->SetEventsOn(slices_.IsOnAt(context_.clock->MonotonicNs()));
}

std::vector<uint32_t> JemallocSource::records() const { return {PROFD_RECORD_HEAP}; }

// Bytes that the process reports itself are not counted from the allocator's counters as well.
absl::Status JemallocSource::OnRecord(uint32_t /*type*/, std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const auto record, DecodeRecord<profd_heap_record>(bytes));
  late_ += record.late != 0 ? 1 : 0;
  accounts_.Apply(record, !modules_->probes()->HasTold(record.pid));
  growth_[record.pid].all_known |= record.none_ended != 0;
  return absl::OkStatus();
}

absl::Status JemallocSource::Read() {
  // There are no events before the first probe is attached.
  if (modules_->found().allocators == 0 && accounts_.events() == 0) return absl::OkStatus();
  const auto pass = [this](bool whole) {
    late_ = 0;
    return context_.kernel->DrainHeap(
        [this](std::span<const uint8_t> bytes) { context_.ring->Dispatch(bytes); }, whole);
  };
  absl::Status status = pass(read_whole_);
  for (const absl::Duration pause : kPauses) {
    if (!status.ok() || late_ == 0) break;
    absl::SleepFor(pause);
    status = pass(/*whole=*/false);
  }
  read_whole_ = !status.ok();
  return status;
}

absl::Status JemallocSource::Drain(ProfileDelta& delta) {
  const TargetProbes& probes = *modules_->probes();
  delta.heap_on = !detached_ && probes.watching() &&
                  (knob_.ToldAt(knob_.level()) || probes.ToldSources().empty());
  late_ = 0;
  const absl::Status status = Read();
  delta.losses[PROFD_LOSS_HEAP_LATE] += late_;
  const size_t begin = delta.ledgers.size();
  accounts_.Finish(delta);
  if (++drains_ % kForgetDrains == 0) {
    accounts_.KeepOnly([this](ThreadId thread) { return threads_->accounts().Knows(thread); });
    accounts_.KeepOnlyModules([this](WatchId id) { return modules_->modules().Knows(id); });
  }
  SumGrowth(delta, begin);
  return status;
}

void JemallocSource::SumGrowth(const ProfileDelta& delta, size_t begin) {
  for (size_t i = begin; i < delta.ledgers.size(); ++i) {
    const ThreadLedger& ledger = delta.ledgers[i];
    HeapGrowth& sum = growth_[threads_->ProcessOf(ledger.thread)];
    sum.allocated = WrappingAdd(sum.allocated, ledger.delta.allocated.bytes);
    sum.freed = WrappingAdd(sum.freed, ledger.delta.freed.bytes);
  }
  const HeapAccounts::Unseen unseen = accounts_.TakeUnseen();
  for (const auto& [thread, bytes] : unseen.before) {
    HeapGrowth& sum = growth_[threads_->ProcessOf(thread)];
    sum.before = WrappingAdd(sum.before, bytes);
  }
  for (const ThreadId thread : unseen.quiet) ++growth_[threads_->ProcessOf(thread)].quiet;
  for (const ThreadId thread : unseen.lost) growth_[threads_->ProcessOf(thread)].lost = true;
  std::set<int32_t> unread;
  for (const ThreadId thread : accounts_.unread()) unread.insert(threads_->ProcessOf(thread));
  for (const auto& [pid, growth] : std::exchange(growth_, {})) {
    if (pid > 0) context_.memory->AddHeap(pid, growth);  // else not visible in our PID namespace
  }
  context_.memory->SetUnread(std::move(unread));
}

void JemallocSource::Costs(std::vector<CostRow>& rows) const {
  const profd_probe_cost cost = context_.kernel->HeapCost();
  rows.push_back({.account = "jemalloc",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(ProbeInPathNs(cost, modules_->probes()->traps())),
                  .events = static_cast<int64_t>(cost.events)});
}

void JemallocSource::Learn(const Period& period) {
  const Counts now = {.events = accounts_.events(),
                      .seen_bytes = accounts_.seen_bytes(),
                      .bytes = accounts_.bytes(),
                      .told = told_->heap().records()};
  const Counts before = std::exchange(learned_, now);
  knob_.Learn({.seconds = period.seconds,
               .events = now.events - before.events,
               .seen_bytes = now.seen_bytes - before.seen_bytes,
               .bytes = now.bytes - before.bytes,
               .cost = context_.kernel->HeapCost(),
               .traps = modules_->probes()->traps(),
               .told = now.told - before.told,
               .allowance = period.allowance});
  WatchSlowPaths();
}

void JemallocSource::WatchSlowPaths() {
  for (const auto& [module, totals] : accounts_.allocators()) {
    if (IsShort(totals)) modules_->probes()->WatchSlowPaths(module);
  }
}

std::optional<LayerState> JemallocSource::Status() const {
  return LayerState{.name = "heap", .on = !detached_, .note = detached_ ? kPausedNote : ""};
}

void JemallocSource::Publish(CollectorState& state) const {
  state.heap_threads = accounts_.threads();
  for (AllocatorState& allocator : modules_->probes()->States()) {
    AllocatorUse& use = state.allocators.emplace_back();
    const auto totals = accounts_.allocators().find(allocator.module);
    const auto told = told_->heap().totals().find(allocator.module);
    if (!allocator.told && totals != accounts_.allocators().end()) use.totals = totals->second;
    use.state = std::move(allocator);
    if (use.state.told && told != told_->heap().totals().end()) {
      use.totals = told->second.totals;
      use.state.sample_bytes = told->second.sample_bytes;
    }
    const bool shed = use.state.told && !knob_.ToldAt(knob_.level());
    if (shed || detached_) use.state.watched = false;
    if (shed && !detached_) use.state.note = kShedNote;
    if (use.state.note.empty()) use.state.note = CoverageNote(use);
  }
}

}  // namespace profd
