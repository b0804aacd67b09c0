#include "daemon/collect/sources.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace profd {
namespace {

constexpr double kSecond = 1e9;
// How much of a new measure is taken over; a second holds a few hundred timed switches at least
// where the cost matters.
constexpr double kSmoothing = 0.3;

// Work of the tick in units of one visit to a thread that still waits. Only the ratios are fixed;
// what a unit costs is measured all the time.
constexpr double kUnitsPerTick = 200;  // waking up, starting the program, reading the ring
constexpr double kUnitsPerWalk = 30;
// Work of a drain, in units of one counter.
constexpr double kUnitsPerDrain = 1'000;
constexpr double kUnitsPerThread = 9;
constexpr double kUnitsPerResting = 3;
constexpr double kUnitsPerStack = 8;
constexpr int64_t kDrainInterval = 1'000'000'000;
constexpr int kDrainLevels = 5;

// How much of the rate of told objects, or of slow paths, still counts after each second in which
// nobody asks for any: what it is then is not known, and after some while it is tried again.
constexpr double kToldMemory = 0.97;

constexpr uint32_t kIdleStride = 16;
// Probes at allocators' events stand for one part in so many of the time; at the last level just
// long enough for totals to be found of processes that are new. Those in slow paths stand at the
// first level only, those at told objects at all but the last.
constexpr std::array<uint32_t, 8> kHeapSlices = {1, 1, 4, 8, 16, 32, 64, 512};
// Of the budget: what stacks of events may cost before some are left out, and from where they come
// back, after so many seconds.
constexpr double kStackShare = 0.15;
constexpr double kStackComfort = 0.1;
constexpr double kStackCalm = 10;
constexpr uint32_t kMostLeftOut = 64;
// One page in so many; 0: none.
constexpr std::array<uint32_t, 4> kFaultOneIn = {17, 67, 257, 0};
// One mapping call in so many; 0: none.
constexpr std::array<uint32_t, 5> kMapOneIn = {1, 4, 16, 64, 0};
// Calls that no probe sees are supposed to become fewer: half of them after so many seconds.
constexpr double kMapHalfLife = 60;
// Parts of a burst's whole length, and how many intervals there are from one to the next; 0: none.
struct BurstLevel {
  int64_t part;
  int64_t intervals;
};
constexpr std::array<BurstLevel, 6> kBurstLevels = {
    {{1, 1}, {2, 1}, {4, 1}, {10, 1}, {10, 4}, {1, 0}}};
// The time in which what bursts cost is half forgotten.
constexpr double kBurstHalfLife = 120;
// Factors of the interval at the levels from 2 on, up to kLongestInterval.
constexpr std::array<double, 14> kFactors = {1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 100};
constexpr int64_t kLongestInterval = 1'000'000'000;

// Takes part of a new measure over, or all of the first one.
void Smooth(double& value, double mean) {
  value = value == 0 ? mean : value + kSmoothing * (mean - value);
}

// Of a run since `last`, on the mean, ns.
double TrapNs(const profd_heap_cost& now, const profd_heap_cost& last, const Traps& traps) {
  const uint64_t runs = now.events - last.events;
  if (runs == 0) return traps.emulated;
  return traps.Of(runs, now.stepped - last.stepped) / static_cast<double>(runs);
}

}  // namespace

void SwitchSource::Learn(double seconds, int64_t switches, const profd_switch_cost& cost) {
  if (seconds <= 0) return;
  switches_per_second_ = static_cast<double>(std::max<int64_t>(switches, 0)) / seconds;
  const uint64_t timed = cost.timed - last_.timed;
  if (timed == 0) return;
  const double mean =
      static_cast<double>(cost.timed_ns - last_.timed_ns) / static_cast<double>(timed);
  last_ = cost;
  Smooth(ns_per_switch_, entry_ns_ + mean);
}

double SwitchSource::InPathNs(const profd_switch_cost& cost) const {
  return PROFD_COST_SAMPLE *
         (static_cast<double>(cost.timed_ns) + static_cast<double>(cost.timed) * entry_ns_);
}

double SwitchSource::CostAt(int level) const {
  return level == 0 ? switches_per_second_ * ns_per_switch_ / kSecond : 0;
}

std::string SwitchSource::GivenUpAt(int level) const {
  return level == 0 ? "" : "exact time by reason: the tick's shares are used instead";
}

void HeapSource::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  const uint64_t events = (work.cost.events - last_.events) - (work.cost.closed - last_.closed);
  const uint64_t walks = work.cost.walks - last_.walks;
  const double trap_ns = TrapNs(work.cost, last_, work.traps);
  if (work.events > 0) {
    Smooth(bytes_per_event_,
           static_cast<double>(work.seen_bytes) / static_cast<double>(work.events));
  }
  // The allocators' counters tell how many events there were, seen or not.
  events_per_second_ = bytes_per_event_ > 0 ? std::max(0.0, static_cast<double>(work.bytes)) /
                                                  bytes_per_event_ / work.seconds
                                            : 0;
  if (ToldAt(level())) {
    told_per_second_ = static_cast<double>(work.told) / work.seconds;
  } else {
    told_per_second_ *= std::pow(kToldMemory, work.seconds);
  }
  if (SlowPathsAt(level())) {
    const double others = static_cast<double>(work.events) + static_cast<double>(work.told);
    slow_per_second_ = std::max(0.0, static_cast<double>(events) - others) / work.seconds;
  } else {
    slow_per_second_ *= std::pow(kToldMemory, work.seconds);
  }
  if (events > walks) {
    Smooth(event_ns_, trap_ns + static_cast<double>(work.cost.ns - last_.ns) /
                                    static_cast<double>(events - walks));
  } else if (event_ns_ == 0) {
    event_ns_ = trap_ns;
  }
  if (walks > 0) {
    const double whole = trap_ns + static_cast<double>(work.cost.walk_ns - last_.walk_ns) /
                                       static_cast<double>(walks);
    Smooth(walk_ns_, std::max(0.0, whole - event_ns_));
  }
  last_ = work.cost;
  ThinOut(work.seconds);
}

void HeapSource::ThinOut(double seconds) {
  const auto share_at = [this](uint32_t one_in) {
    return events_per_second_ * ShareAt(level()) * walk_ns_ / one_in / kSecond / budget_;
  };
  while (one_in_ < kMostLeftOut && share_at(one_in_) > kStackShare) one_in_ *= 2;
  const bool calm = one_in_ > 1 && share_at(one_in_ / 2) < kStackComfort;
  calm_seconds_ = calm ? calm_seconds_ + seconds : 0;
  if (calm_seconds_ < kStackCalm) return;
  one_in_ /= 2;
  calm_seconds_ = 0;
}

double HeapSource::InPathNs(const profd_heap_cost& cost, const Traps& traps) {
  return static_cast<double>(cost.ns + cost.walk_ns) + traps.Of(cost.events, cost.stepped);
}

int HeapSource::levels() const { return static_cast<int>(kHeapSlices.size()); }

double HeapSource::ShareAt(int level) const {
  return 1.0 / kHeapSlices[static_cast<size_t>(level)];
}

double HeapSource::CostAt(int level) const {
  const double told = ToldAt(level) ? told_per_second_ * (event_ns_ + walk_ns_) : 0;
  const double slow = SlowPathsAt(level) ? slow_per_second_ * event_ns_ : 0;
  return (events_per_second_ * ShareAt(level) * (event_ns_ + walk_ns_ / one_in_) + told + slow) /
         kSecond;
}

std::string HeapSource::GivenUpAt(int level) const {
  const uint32_t slices = kHeapSlices[static_cast<size_t>(level)];
  if (slices > 1) {
    return absl::StrCat("stacks of allocations are taken in slices, one part in ", slices,
                        " of the time", ToldAt(level) ? "" : "; objects that allocators tell of");
  }
  if (!SlowPathsAt(level))
    return "slow paths of allocators, which tell of events that nothing sees";
  return "";
}

void FaultSource::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  faults_per_second_ = static_cast<double>(std::max<int64_t>(work.faults, 0)) / work.seconds;
  const uint64_t timed = work.cost.timed - last_.timed;
  const uint64_t walks = work.cost.walks - last_.walks;
  if (timed > 0) {
    Smooth(fault_ns_, work.trap_ns + static_cast<double>(work.cost.timed_ns - last_.timed_ns) /
                                         static_cast<double>(timed));
  } else if (fault_ns_ == 0) {
    fault_ns_ = work.trap_ns;
  }
  if (walks > 0) {
    Smooth(walk_ns_,
           static_cast<double>(work.cost.walk_ns - last_.walk_ns) / static_cast<double>(walks));
  }
  last_ = work.cost;
}

double FaultSource::InPathNs(const profd_fault_cost& cost, double trap_ns) {
  const double each =
      cost.timed > 0 ? static_cast<double>(cost.timed_ns) / static_cast<double>(cost.timed) : 0;
  return static_cast<double>(cost.faults) * trap_ns +
         static_cast<double>(cost.faults - std::min(cost.walks, cost.faults)) * each +
         static_cast<double>(cost.walk_ns);
}

int FaultSource::levels() const { return static_cast<int>(kFaultOneIn.size()); }

uint32_t FaultSource::OneInAt(int level) const { return kFaultOneIn[static_cast<size_t>(level)]; }

double FaultSource::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return faults_per_second_ * (fault_ns_ + walk_ns_ / one_in) / kSecond;
}

std::string FaultSource::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "who touches memory first: the sizes of processes stay exact";
  return absl::StrCat("one page of ", one_in, " is sampled instead of one of ", OneInAt(0));
}

void MapSource::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  if (!work.on) {
    calls_per_second_ *= std::exp2(-work.seconds / kMapHalfLife);
    last_ = work.cost;
    return;
  }
  const uint64_t calls = work.cost.events - last_.events;
  const uint64_t walks = work.cost.walks - last_.walks;
  const double trap_ns = TrapNs(work.cost, last_, work.traps);
  calls_per_second_ = static_cast<double>(calls) / work.seconds;
  if (calls > 0) {
    const double all = static_cast<double>(walks) * std::max<uint32_t>(OneInAt(level()), 1);
    Smooth(walks_per_call_, std::min(1.0, all / static_cast<double>(calls)));
  }
  if (calls > walks) {
    Smooth(call_ns_, trap_ns + static_cast<double>(work.cost.ns - last_.ns) /
                                   static_cast<double>(calls - walks));
  } else if (call_ns_ == 0) {
    call_ns_ = trap_ns;
  }
  if (walks > 0) {
    const double whole = trap_ns + static_cast<double>(work.cost.walk_ns - last_.walk_ns) /
                                       static_cast<double>(walks);
    Smooth(walk_ns_, std::max(0.0, whole - call_ns_));
  }
  last_ = work.cost;
}

int MapSource::levels() const { return static_cast<int>(kMapOneIn.size()); }

uint32_t MapSource::OneInAt(int level) const { return kMapOneIn[static_cast<size_t>(level)]; }

double MapSource::CostAt(int level) const {
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return 0;
  return calls_per_second_ * (call_ns_ + walks_per_call_ * walk_ns_ / one_in) / kSecond;
}

std::string MapSource::GivenUpAt(int level) const {
  if (level == 0) return "";
  const uint32_t one_in = OneInAt(level);
  if (one_in == 0) return "who maps memory and who unmaps it";
  return absl::StrCat("one mapping call of ", one_in, " is counted and stands for all");
}

int64_t DrainSource::Learn(const Work& work) {
  if (work.drains <= 0) return 0;
  const auto drains = static_cast<double>(work.drains);
  const double own = kUnitsPerDrain * drains + kUnitsPerThread * static_cast<double>(work.threads) +
                     kUnitsPerResting * static_cast<double>(work.resting);
  const double of_ticks =
      static_cast<double>(work.counters) + kUnitsPerStack * static_cast<double>(work.stacks);
  const auto cpu_ns = static_cast<double>(work.cpu_ns);
  const double own_ns = cpu_ns * own / (own + of_ticks);
  // Who is read only now and then does not tell of most drains, but who always is does.
  if (!work.whole || whole_) Smooth(drain_ns_, own_ns / drains);
  whole_ = work.whole;
  return static_cast<int64_t>(cpu_ns - own_ns);
}

int64_t DrainSource::IntervalAt(int level) const { return (level + 1) * kDrainInterval; }

int DrainSource::levels() const { return kDrainLevels; }

double DrainSource::CostAt(int level) const {
  return drain_ns_ / static_cast<double>(IntervalAt(level));
}

std::string DrainSource::GivenUpAt(int level) const {
  if (level == 0) return "";
  return absl::StrFormat("accounts are read every %d s, and when somebody asks for them",
                         IntervalAt(level) / kDrainInterval);
}

void TickSource::Learn(const Work& work) {
  if (work.seconds <= 0) return;
  drain_share_ = static_cast<double>(work.drain_cpu_ns) / (work.seconds * kSecond);
  measured_interval_ns_ = IntervalAt(level());
  if (work.ticks <= 0) return;
  const auto ticks = static_cast<double>(work.ticks);
  const auto walks = static_cast<double>(work.walks);
  unit_ns_ = static_cast<double>(work.tick_cpu_ns) /
             (kUnitsPerTick * ticks + kUnitsPerWalk * walks + static_cast<double>(work.repeats));
  walks_per_tick_ = walks / ticks;
  idle_threads_ = static_cast<double>(work.idle_ticks) / ticks;
}

int TickSource::levels() const { return 2 + static_cast<int>(kFactors.size()); }

int64_t TickSource::IntervalAt(int level) const {
  if (level < 2) return base_interval_ns_;
  const size_t step = std::min(static_cast<size_t>(level) - 2, kFactors.size() - 1);
  const double factor = kFactors[step];
  const auto longest = std::max(base_interval_ns_, kLongestInterval);
  return std::min(static_cast<int64_t>(static_cast<double>(base_interval_ns_) * factor), longest);
}

uint32_t TickSource::StrideAt(int level) const { return by_list_ && level > 0 ? kIdleStride : 1; }

double TickSource::CostAt(int level) const {
  const double units = kUnitsPerTick + kUnitsPerWalk * walks_per_tick_ +
                       idle_threads_ / static_cast<double>(StrideAt(level));
  const auto interval = static_cast<double>(IntervalAt(level));
  return drain_share_ * static_cast<double>(measured_interval_ns_) / interval +
         unit_ns_ * units / interval;
}

std::string TickSource::GivenUpAt(int level) const {
  std::vector<std::string> parts;
  if (StrideAt(level) > 1) {
    parts.push_back(
        absl::StrCat("threads that only wait are visited at one tick of ", kIdleStride));
  }
  if (IntervalAt(level) != base_interval_ns_) {
    parts.push_back(absl::StrFormat("a tick every %g ms instead of every %g ms",
                                    static_cast<double>(IntervalAt(level)) / 1e6,
                                    static_cast<double>(base_interval_ns_) / 1e6));
  }
  return absl::StrJoin(parts, ", ");
}

void BurstSource::Learn(const BurstResult& burst, const profd_malloc_cost& cost,
                        const Traps& traps) {
  const double in_path_ns = InPathNs(cost, traps);
  const double spent_ns = std::max(0.0, in_path_ns - last_in_path_ns_);
  last_in_path_ns_ = in_path_ns;
  if (burst.standing_ns <= 0) return;
  Smooth(load_, spent_ns / static_cast<double>(burst.standing_ns));
  Smooth(margin_ns_,
         static_cast<double>(std::max<int64_t>(0, burst.standing_ns - burst.length_ns)));
}

void BurstSource::PassWithout(double seconds) { load_ *= std::exp2(-seconds / kBurstHalfLife); }

double BurstSource::InPathNs(const profd_malloc_cost& cost, const Traps& traps) {
  return static_cast<double>(cost.ns) + traps.Of(cost.calls, cost.stepped);
}

int BurstSource::levels() const { return static_cast<int>(kBurstLevels.size()); }

BurstPlan BurstSource::PlanAt(int level) const {
  const auto [part, intervals] = kBurstLevels[static_cast<size_t>(level)];
  return {.length_ns = whole_.length_ns / part, .interval_ns = whole_.interval_ns * intervals};
}

double BurstSource::CostAt(int level) const {
  const BurstPlan plan = PlanAt(level);
  if (plan.interval_ns <= 0) return 0;
  return load_ * (static_cast<double>(plan.length_ns) + margin_ns_) /
         static_cast<double>(plan.interval_ns);
}

std::string BurstSource::GivenUpAt(int level) const {
  if (level == 0) return "";
  const BurstPlan plan = PlanAt(level);
  if (plan.interval_ns <= 0) return "what glibc's malloc gives and takes back";
  return absl::StrFormat("glibc's malloc is traced for %g ms in %g s instead of %g ms in %g s",
                         static_cast<double>(plan.length_ns) / 1e6,
                         static_cast<double>(plan.interval_ns) / kSecond,
                         static_cast<double>(whole_.length_ns) / 1e6,
                         static_cast<double>(whole_.interval_ns) / kSecond);
}

}  // namespace profd
