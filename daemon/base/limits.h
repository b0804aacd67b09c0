// How much profd may keep, in the kernel and of its own. Passive data: whoever reaches one counts a
// loss (docs/losses.md) and goes on.
#ifndef PROFD_DAEMON_BASE_LIMITS_H_
#define PROFD_DAEMON_BASE_LIMITS_H_

#include <cstdint>

namespace profd {

struct Limits {
  // Entries of tables in the kernel.
  uint64_t counters = 65536;       // of waits, between two drains: by thread, reason and stack
  uint64_t known_stacks = 32768;   // stacks that were handed over; forgotten at three quarters
  uint64_t heap_counters = 16384;  // of allocations and mapping calls, between two drains
  uint64_t malloc_stacks = 8192;   // of a burst: by thread and stack
  uint64_t malloc_threads = 4096;  // of a burst
  uint64_t exits = 16384;          // last accounts that found the ring full
  uint64_t news = 1024;            // births and execs that are told of one by one, at once
  uint64_t modules = 4095;         // files mapped executable, at one time

  // Bytes.
  uint64_t ring = 2u << 20;    // records on their way from the kernel; a power of two, whole pages
  uint64_t rules = 48u << 20;  // unwind rules
  uint64_t store = 20u << 20;  // the profile of the last hour
  uint64_t timeline = 4u << 20;  // the memory timeline
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_LIMITS_H_
