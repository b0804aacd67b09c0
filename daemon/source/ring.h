// Dispatches records of the kernel programs to sources.
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

// Keeps stacks itself until the drain takes them, because all sources share them. Not thread-safe.
class Ring {
 public:
  // Both must outlive this.
  Ring(Kernel* kernel, const Clock* clock) : kernel_(kernel), clock_(clock) {}

  // Must outlive this.
  void Add(Source* source);

  // Reads the records since the last call.
  void Poll();
  // Dispatches a record that did not come through the ring, but from an iterator.
  void Dispatch(std::span<const uint8_t> bytes);

  // When the ring was last read, monotonic.
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
