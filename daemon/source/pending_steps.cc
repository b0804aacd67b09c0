#include "daemon/source/pending_steps.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"

namespace profd {
namespace {

// sum += step, but for what only others count.
void AddStep(const LedgerDelta& step, LedgerDelta* sum) {
  sum->wall_ns += step.wall_ns;
  sum->on_cpu_ns += step.on_cpu_ns;
  for (size_t i = 0; i < kReasonCount; ++i) {
    sum->off_ns[i] += step.off_ns[i];
    sum->waits[i] += step.waits[i];
  }
  sum->unattributed_ns += step.unattributed_ns;
  sum->books_on_cpu_ns += step.books_on_cpu_ns;
  sum->books_runqueue_ns += step.books_runqueue_ns;
  sum->voluntary_switches += step.voluntary_switches;
  sum->involuntary_switches += step.involuntary_switches;
  sum->minor_faults += step.minor_faults;
  sum->major_faults += step.major_faults;
  sum->read_bytes += step.read_bytes;
  sum->write_bytes += step.write_bytes;
}

// None if the thread did more in this step than wait for one thing. Time on the run queue, which
// the books have too, is more.
std::optional<RestingThread> AsRest(ThreadId thread, const LedgerDelta& step) {
  if (step.wall_ns < 0) return std::nullopt;  // takes back what was told of it before
  RestingThread rest = {.thread = thread, .wall_ns = step.wall_ns, .reason = {}};
  const auto off = absl::c_find_if(step.off_ns, [](int64_t ns) { return ns != 0; });
  if (off != step.off_ns.end()) {
    rest.reason = Reason{static_cast<uint8_t>(off - step.off_ns.begin())};
    if (rest.reason == Reason::kRunQueue) return std::nullopt;
  }
  LedgerDelta waited;
  AddRest(rest, &waited);
  if (step != waited) return std::nullopt;
  return rest;
}

}  // namespace

void PendingSteps::Add(ThreadId thread, const LedgerDelta& step, Place* place) {
  if (const auto rest = AsRest(thread, step)) {
    AddRest(*rest, place);
  } else {
    AddStep(step, &LedgerOf(thread, place));
  }
}

void PendingSteps::AddRest(const RestingThread& rest, Place* place) {
  if (place->rest == Place::kNone) {
    place->rest = static_cast<uint32_t>(rests_.size());
    rests_.push_back(rest);
    return;
  }
  RestingThread& before = rests_[place->rest];
  if (before.wall_ns == 0) {
    before = rest;
  } else if (before.reason == rest.reason) {
    before.wall_ns += rest.wall_ns;
  } else if (rest.wall_ns != 0) {
    profd::AddRest(rest, &LedgerOf(rest.thread, place));
  }
}

LedgerDelta& PendingSteps::LedgerOf(ThreadId thread, Place* place) {
  if (place->ledger == Place::kNone) {
    place->ledger = static_cast<uint32_t>(ledgers_.size());
    ledgers_.push_back({.thread = thread, .delta = {}});
  }
  return ledgers_[place->ledger].delta;
}

const LedgerDelta* PendingSteps::FindLedger(const Place& place) const {
  return place.ledger == Place::kNone ? nullptr : &ledgers_[place.ledger].delta;
}

void PendingSteps::MoveTo(ProfileDelta& delta) {
  const size_t ledgers = ledgers_.size(), rests = rests_.size();
  if (delta.ledgers.empty()) {
    delta.ledgers = std::move(ledgers_);
  } else {
    delta.ledgers.insert(delta.ledgers.end(), ledgers_.begin(), ledgers_.end());
  }
  delta.resting = std::move(rests_);
  Clear();
  // The next drain is likely to be of as many.
  ledgers_.reserve(ledgers);
  rests_.reserve(rests);
}

void PendingSteps::Clear() {
  ledgers_ = {};
  rests_ = {};
}

}  // namespace profd
