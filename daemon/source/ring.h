// Brings each record of the kernel programs to the sources that want it.
#ifndef PROFD_DAEMON_SOURCE_RING_H_
#define PROFD_DAEMON_SOURCE_RING_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/kernel/kernel.h"
#include "daemon/source/source.h"

namespace profd {

// Stacks are everybody's: they are kept here until the drain takes them. Not thread-safe.
class Ring {
 public:
  // Both must outlive this.
  Ring(Kernel* kernel, const Clock* clock) : kernel_(kernel), clock_(clock) {}

  // Must outlive this.
  void Add(Source* source);

  // Reads what programs put into the ring since the last time.
  void Poll();
  // A record from elsewhere: an iterator's.
  void Dispatch(std::span<const uint8_t> bytes);

  // When the ring was read last, monotonic.
  int64_t polled_ns() const { return polled_ns_; }
  std::vector<StackTrace> TakeStacks() { return std::exchange(stacks_, {}); }
  uint64_t bad_records() const { return bad_records_; }

 private:
  absl::Status Deliver(std::span<const uint8_t> bytes);

  Kernel* const kernel_;
  const Clock* const clock_;
  std::map<uint32_t, std::vector<Source*>> table_;  // by enum profd_record_type
  std::vector<StackTrace> stacks_;
  int64_t polled_ns_ = 0;
  uint64_t bad_records_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_RING_H_
