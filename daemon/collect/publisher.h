// Puts together what the collector lets others see.
#ifndef PROFD_DAEMON_COLLECT_PUBLISHER_H_
#define PROFD_DAEMON_COLLECT_PUBLISHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/collect/steering.h"
#include "daemon/kernel/kernel.h"
#include "daemon/source/source_list.h"
#include "daemon/target/targets.h"

namespace profd {

// Totals as of the last drain.
struct Totals {
  LossCounts losses{};
  CollectorCost cost;  // with the targets' parts
  std::vector<ProgramMisses> misses;
};

// Not thread-safe.
class Publisher {
 public:
  // All must outlive this. `missing`: features that do not work, and why.
  Publisher(const Kernel* kernel, const Clock* clock, const Targets* targets,
            const SourceList* sources, const Steering* steering, std::vector<std::string> missing)
      : kernel_(kernel),
        clock_(clock),
        targets_(targets),
        sources_(sources),
        steering_(steering),
        missing_(std::move(missing)) {}

  // From now on something is collected.
  void Begin() {
    started_wall_ns_ = clock_->WallNs();
    started_ns_ = clock_->MonotonicNs();
  }
  // kStarting: layers that are off begin later.
  enum class Phase { kStarting, kRunning, kPaused };
  // Without modules, which change between drains, too.
  CollectorState Publish(const Totals& totals, Phase phase);

 private:
  void PublishTargets(const CollectorCost& cost, CollectorState& state) const;

  const Kernel* const kernel_;
  const Clock* const clock_;
  const Targets* const targets_;
  const SourceList* const sources_;
  const Steering* const steering_;
  const std::vector<std::string> missing_;
  int64_t started_wall_ns_ = 0;
  int64_t started_ns_ = 0;
  int64_t next_map_bytes_ns_ = 0;
  uint64_t map_bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_PUBLISHER_H_
