// The source `long_wait`: single waits that were long, or last. The program of the source `switch`
// tells exactly of those that are over, visits of ticks of the others.
#ifndef PROFD_DAEMON_SOURCE_LONG_WAIT_H_
#define PROFD_DAEMON_SOURCE_LONG_WAIT_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/sampler.h"
#include "daemon/source/source.h"

namespace profd {

// From which duration on waits of a class are told: so that they are not too many.
class LongWaitThreshold {
 public:
  explicit LongWaitThreshold(int64_t least_ns) : least_ns_(least_ns), ns_(least_ns) {}
  int64_t ns() const { return ns_; }
  // So many were told in this time.
  void Learn(int64_t told, int64_t length_ns);

 private:
  const int64_t least_ns_;
  int64_t ns_;
};

class LongWaitSource final : public Source {
 public:
  // `sampler` must outlive this; null: no ticks.
  LongWaitSource(const SourceContext& context, Sampler* sampler);

  const char* name() const override { return "long_wait"; }
  // At once: the ledger tells long waits before the other layers begin.
  absl::Status Attach() override { return Apply(); }
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override { return {PROFD_RECORD_LONG_WAIT}; }
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;

 private:
  LongWaitLeast Least() const;

  const SourceContext context_;
  Sampler* const sampler_;
  std::array<LongWaitThreshold, PROFD_LONG_WAIT_CLASSES> thresholds_;
  std::vector<LongWait> waits_;  // since the last drain
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_LONG_WAIT_H_
