// What the visits of ticks tell of single waits: those that last, and, where no per-switch program
// does, those that are over.
#ifndef PROFD_DAEMON_SOURCE_WAIT_TRACE_H_
#define PROFD_DAEMON_SOURCE_WAIT_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// By enum profd_long_wait_class, from which duration on waits are told, ns.
using LongWaitLeast = std::array<int64_t, PROFD_LONG_WAIT_CLASSES>;

// The wait that a thread is in, as seen from visit to visit.
struct WaitTrace {
  int64_t begin_ns = 0;   // 0: it is in none
  int64_t before_ns = 0;  // it began earlier by so much at most; 0: the begin is exact
  int64_t seen_ns = 0;    // the last visit, whether it waited or not
  int64_t told_ns = 0;    // when it was told last; 0: never
  uint64_t stack = 0, arg0 = 0;
  int32_t sysno = -1;
  uint8_t reason = 0;
  bool followed = false;  // the per-switch program tells when the wait ends
  bool earlier = false;   // it began before anybody watched
};

// Waits that were told since they were taken last; bounded. Not thread-safe.
class WaitLog {
 public:
  // The visit of a thread between two instants, monotonic. Its outcome is a sample or not.
  void Visited(const profd_visit& visit, int64_t begin_ns, int64_t end_ns, WaitTrace* trace);
  // A thread of that number is not waiting, as of a tick between two instants.
  void Left(uint64_t thread, int64_t end_ns, WaitTrace* trace);

  void SetLeast(const LongWaitLeast& least) { least_ = least; }
  // How often a wait that lasts is told, ns.
  void SetRepeat(int64_t ns) { repeat_ns_ = ns; }
  // Appends to `waits`. Returns how many found no room.
  uint64_t Take(std::vector<LongWait>& waits);

 private:
  void Tell(uint64_t thread, const WaitTrace& trace, int64_t end_ns, bool lasts);

  LongWaitLeast least_{};
  int64_t repeat_ns_ = 0;
  std::vector<LongWait> waits_;
  uint64_t lost_ = 0;
};

// Traces of the threads that a tick found waiting, where it reports no others.
class WaitTraces {
 public:
  // Between Begin and End a tick's visits.
  void Begin() { ++tick_; }
  WaitTrace* Of(uint64_t thread);
  void End(int64_t end_ns, WaitLog* log);

 private:
  struct Entry {
    uint64_t tick = 0;
    WaitTrace trace;
  };
  uint64_t tick_ = 0;
  absl::flat_hash_map<uint64_t, Entry> entries_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAIT_TRACE_H_
