// Descriptions of wanted probes. Passive data.
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

// A kernel program and what it is attached to. Highest priority first.
enum class ProbeSet : uint8_t {
  kBurst,      // glibc's malloc, during a burst of tracing
  kTold,       // USDT probes through which an allocator reports sampled objects
  kEvents,     // jemalloc's events
  kLive,       // jemalloc's sampled objects
  kSlowPaths,  // jemalloc's slow paths, in addition to its events
  kMapCalls,   // libc functions that change the address space
};
inline constexpr size_t kProbeSets = 6;

// The account that a set's cost in the target's path belongs to.
enum class ProbeAccount : uint8_t { kMalloc, kJemalloc, kMapping };

struct ProbeSetRules {
  const char* what;      // for messages
  ProbeAccount account;  // budget class
  size_t most;           // processes at a time
  // Events count only while all probes in the process's module are attached. With half of them,
  // some stacks would get less than their share.
  bool all_or_none;
  // The probes are detached and attached again while the process lives. The guard stays attached in
  // between.
  bool keeps_guard;
  // Every process has such a module. A failure is often the same in all of them and is logged once.
  bool in_every_process;
};

// Attaching to libc takes a lock of every process that maps it.
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
using ProbedModule = std::pair<int32_t, WatchId>;

// Erases the process's entries from a map keyed by ProbedModule.
template <typename Map>
void EraseProcess(int32_t pid, Map& map) {
  map.erase(map.lower_bound({pid, WatchId{}}), map.upper_bound({pid, WatchId{UINT16_MAX}}));
}

// One set in one module of one process. Its probes are attached and detached together.
struct ProbeKey {
  ProbeSet set = ProbeSet::kBurst;
  int32_t pid = 0;
  WatchId module{};
  friend auto operator<=>(const ProbeKey&, const ProbeKey&) = default;
};

inline ProbeKey KeyOf(ProbeSet set, const ProbedModule& where) {
  return {.set = set, .pid = where.first, .module = where.second};
}

// Shared by all processes that map the module. A changed list is a new object.
using ProbePlaces = std::shared_ptr<const std::vector<ProbePlace>>;

struct WantedProbes {
  ProbePlaces places;        // null or empty: there are none, for the reason `why_none`
  std::string why_none;      // for a person
  bool present = true;       // false: not for now
  bool looks_first = false;  // ProbeHands::Look decides whether the process needs them
};

// Whether the wanted probes of a set are to be attached.
enum class Presence : uint8_t {
  kOff,      // no; guards are removed, too
  kBetween,  // not for now, between slices; guards stay
  kPresent,  // yes
};

// The state of wanted probes.
struct ProbeState {
  bool stands = false;      // attached now
  bool stood = false;       // were attached since the process's last exec
  int64_t since_ns = 0;     // when attaching began; 0: not attached
  std::string failure;      // why attaching failed or is not needed; empty: it worked
  int64_t next_try_ns = 0;  // after a failure; INT64_MAX: when something changes
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_WANTED_H_
