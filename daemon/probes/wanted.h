// What probes are wanted: passive descriptions.
#ifndef PROFD_DAEMON_PROBES_WANTED_H_
#define PROFD_DAEMON_PROBES_WANTED_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/probe.h"
#include "daemon/profile/profile.h"

namespace profd {

// A kernel program and what it is put on. In the order of priority.
enum class ProbeSet : uint8_t {
  kBurst,      // glibc's malloc, while a burst of tracing lasts
  kTold,       // USDT probes at which an allocator tells of its objects
  kEvents,     // the events of jemalloc
  kLive,       // the objects that jemalloc samples
  kSlowPaths,  // jemalloc's slow paths, beside its events
  kMapCalls,   // a libc's calls that change the address space
};
inline constexpr size_t kProbeSets = 6;

// The row of the cost table that pays for a set in the target's path.
enum class ProbeAccount : uint8_t { kMalloc, kJemalloc, kMapping };

struct ProbeSetRules {
  const char* what;      // what the probes tell of, for messages
  ProbeAccount account;  // the budget's class
  size_t most;           // processes at a time
  // Events count only while all probes of the process's module stand: half of them would give some
  // stacks less than their share.
  bool all_or_none;
  // They come and go while the process stays the same: the guard stays meanwhile, as each time
  // would put up a new one.
  bool keeps_guard;
  // Of every process there is one: some are gone before their turn, and what fails in one fails in
  // many.
  bool in_every_process;
};

// Putting probes into a libc takes the locks of all processes that map the file.
inline constexpr size_t kMostMapCalls = 256;

inline constexpr ProbeSetRules RulesOf(ProbeSet set) {
  switch (set) {
    case ProbeSet::kBurst:
      return {"malloc", ProbeAccount::kMalloc, SIZE_MAX, false, true, true};
    case ProbeSet::kTold:
      return {"told objects", ProbeAccount::kJemalloc, SIZE_MAX, false, false, false};
    case ProbeSet::kEvents:
      return {"allocations", ProbeAccount::kJemalloc, SIZE_MAX, true, true, false};
    case ProbeSet::kLive:
      return {"live heap", ProbeAccount::kJemalloc, SIZE_MAX, false, false, false};
    case ProbeSet::kSlowPaths:
      return {"slow path", ProbeAccount::kJemalloc, SIZE_MAX, true, true, false};
    case ProbeSet::kMapCalls:
      return {"mapping calls", ProbeAccount::kMapping, kMostMapCalls, false, false, true};
  }
  return {};
}

// A process and a module that it maps.
using ProbedModule = std::pair<int32_t, ModuleId>;

// Takes what is of the process out of a map by ProbedModule.
template <typename Map>
void EraseProcess(int32_t pid, Map& map) {
  map.erase(map.lower_bound({pid, ModuleId{}}), map.upper_bound({pid, ModuleId{UINT16_MAX}}));
}

// Whose probes: one set in one module of one process. They come and go together.
struct ProbeKey {
  ProbeSet set = ProbeSet::kBurst;
  int32_t pid = 0;
  ModuleId module{};
  friend auto operator<=>(const ProbeKey&, const ProbeKey&) = default;
};

// Shared by all processes that map the module. Other places are another list.
using ProbePlaces = std::shared_ptr<const std::vector<ProbePlace>>;

struct WantedProbes {
  ProbePlaces places;        // null or empty: there is none, and `why_none` says why
  std::string why_none;      // for a person
  bool present = true;       // false: they stay out for now
  bool looks_first = false;  // the process is looked at before: it may not need them (ProbeHands)
};

// Whether a set stands where it is wanted.
enum class Presence : uint8_t {
  kOff,      // it does not, and no guard stays
  kBetween,  // it does not for now: between slices
  kPresent,
};

// What became of a wanted set of probes.
struct ProbeState {
  bool stands = false;      // at present
  bool stood = false;       // could be put in, since the process runs its program
  int64_t since_ns = 0;     // of what stands or is being put in: before the first probe; else 0
  std::string failure;      // why it could not be put in, or need not be; empty when it could
  int64_t next_try_ns = 0;  // after a failure; INT64_MAX: not before something changes
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_WANTED_H_
