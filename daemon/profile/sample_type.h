// What a profile can be of: each sample type with its unit and its error formula. The one table.
#ifndef PROFD_DAEMON_PROFILE_SAMPLE_TYPE_H_
#define PROFD_DAEMON_PROFILE_SAMPLE_TYPE_H_

#include <optional>
#include <span>
#include <string_view>

#include "daemon/profile/profile.h"

namespace profd {

enum class Unit { kNanoseconds, kBytes, kCount };

// As in docs/sampling.md.
enum class ErrorFormula {
  kLedgerShare,     // a share, by ticks, of an exact time
  kCountShare,      // a share, by events of which one in n was counted, of an exact number
  kAllocatorShare,  // a share, by events, of an allocator's exact total; or bursts of tracing
  kPoisson,         // independent samples of objects or pages
  kBinomial,        // calls, of which one in n was counted
  kExact,           // none: all events were counted
};

// What has to be on for samples of a type.
enum class Layer {
  kTick,
  kAllocations,
  kFaults,
  kMappings,
  kCpu,
  kDisk,
  kTickAndCpu,
  kTickAndWakers,
  kSwitchStacks
};

struct SampleTypeInfo {
  Kind kind;
  std::string_view name;  // as in requests and on the command line
  Unit unit;
  bool level;  // so much at an instant, the end of the window; not what happened in the window
  ErrorFormula formula;
  Layer layer;
  std::string_view count_unit;  // what is counted: "ticks"
  std::string_view title;       // "Memory allocated", for headings
  std::string_view done;        // "allocated"
  std::string_view events;      // "allocations"
  std::string_view meaning;     // a few words for help

  // Of calls or requests that are counted themselves: threads have no totals.
  constexpr bool IsOfCalls() const { return formula == ErrorFormula::kBinomial || IsCounted(); }
  // Each event was counted.
  constexpr bool IsCounted() const { return formula == ErrorFormula::kExact; }
  // Of file syncs.
  constexpr bool IsOfSyncs() const { return kind == Kind::kSync; }
  // Of disk requests.
  constexpr bool IsOfDisk() const { return IsDisk(kind); }
  // Time of waits, among others.
  constexpr bool IsOfWaits() const {
    return kind == Kind::kWait || kind == Kind::kWall || kind == Kind::kWaker ||
           kind == Kind::kLocks || kind == Kind::kRunQueue;
  }
  // Samples say what a thread waited for, that it ran, or why it left its CPU.
  constexpr bool HasReasons() const { return IsOfWaits() || kind == Kind::kSwitch; }
  // The reason is the last frame of a flame graph. After a waker it would be out of place.
  constexpr bool EndsInReason() const { return HasReasons() && kind != Kind::kWaker; }
  // A stored sample of that kind is one of this type.
  constexpr bool Covers(Kind sample) const {
    // Waits by waker are those waits, with something added; waits for locks and CPUs are some of
    // them.
    if (kind == Kind::kWaker || kind == Kind::kLocks || kind == Kind::kRunQueue) {
      return sample == Kind::kWait;
    }
    return sample == kind ||
           (kind == Kind::kWall && (sample == Kind::kWait || sample == Kind::kCpu));
  }
  // Threads have exact totals, which are no times.
  constexpr bool HasTotals() const { return formula == ErrorFormula::kAllocatorShare; }
};

// In the order of Kind.
std::span<const SampleTypeInfo> AllSampleTypes();
const SampleTypeInfo& DescribeSampleType(Kind kind);
// Null: there is none of that name.
const SampleTypeInfo* FindSampleType(std::string_view name);
// "nanoseconds", "bytes", "count".
std::string_view UnitName(Unit unit);

}  // namespace profd

#endif  // PROFD_DAEMON_PROFILE_SAMPLE_TYPE_H_
