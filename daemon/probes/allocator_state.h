// The state of allocators and of their probes, for status. Passive data.
#ifndef PROFD_DAEMON_PROBES_ALLOCATOR_STATE_H_
#define PROFD_DAEMON_PROBES_ALLOCATOR_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/profile/profile.h"
#include "daemon/symbolize/module_source.h"

namespace profd {

// An allocator and the processes that run it.
struct AllocatorState {
  WatchId module{};
  ModuleIdentity identity;
  std::string allocator;  // "jemalloc", "otel_memory"
  std::string version;    // may be empty
  std::string found_by;   // empty: the place to watch was not found
  std::vector<int32_t> pids;
  bool watched = false;     // probes stand in all of them
  bool slow_paths = false;  // and in its slow path, for events in code that was not found
  size_t places = 0;        // that looked like an event's, by code
  size_t wrong_places = 0;  // of these, those without probes, as no event came by there
  size_t more_places = 0;   // beyond those that can be watched
  std::string note;         // what is missing and what to do about it
  // Since when the live heap of all of them is counted, monotonic; 0: it is not.
  int64_t live_since_ns = 0;
  uint64_t sample_bytes = 0;  // mean bytes from one object that is counted to the next
  std::string live_note;      // what is missing of the live heap and what to do about it
  bool told = false;          // it tells of the objects that it samples, at USDT probes
  bool estimated = false;     // it keeps no count of its own: what went through it is an estimate
};

// How the live heap of a process is counted.
struct LiveSampling {
  int64_t since_ns = 0;       // monotonic; objects from before are not known
  uint64_t sample_bytes = 0;  // mean bytes allocated from one sampled object to the next
};

// The probes at the calls by which processes change their address spaces.
struct MapCallState {
  size_t processes = 0;  // that run a libc with such calls
  size_t watched = 0;    // of these, those with probes, or whose probes will be put back
  std::string failed;    // why there are none in one of the others; may be empty
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_ALLOCATOR_STATE_H_
