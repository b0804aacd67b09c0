// The knob of the probes at allocation events.
#ifndef PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_
#define PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/budget.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"

namespace profd {

// First slow paths are no longer watched, then probes are attached for part of the time, then not
// at all. Reported objects (otel_memory) are counted completely or not at all. If there are more
// events than a profile needs, the knob by itself takes the stacks of a random part of them.
class JemallocKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    int64_t events = 0;       // seen in this time
    int64_t seen_bytes = 0;   // that these stand for
    int64_t bytes = 0;        // allocated and freed, from the allocators' own counters
    profd_probe_cost cost{};  // totals since start
    Traps traps;
    int64_t told = 0;          // objects reported in this time
    Allowance allowance = {};  // without a budget every stack is taken
  };
  void Learn(const Work& work);
  // Whether slow paths are watched at this level, if some events are not seen.
  bool SlowPathsAt(int level) const { return level == 0; }
  // Whether reported objects are counted at this level.
  bool ToldAt(int level) const { return level + 1 < levels(); }

  // The stack of one event in so many is taken.
  uint32_t one_in() const { return one_in_; }
  // The share of the time during which probes are attached at this level.
  double ShareAt(int level) const;

  const char* name() const override { return "heap"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  void ThinOut(const Allowance& allowance, double seconds);

  uint32_t one_in_ = 1;
  double calm_seconds_ = 0;  // consecutive, with one_in_ / 2 affordable
  profd_probe_cost last_{};
  double events_per_second_ = 0;
  double bytes_per_event_ = 0;  // 0: none was seen yet
  double event_ns_ = 0;         // of an event, without its stack
  double walk_ns_ = 0;          // of the stack
  double told_per_second_ = 0;  // extrapolated while off
  double slow_per_second_ = 0;  // slow path calls without an event; extrapolated while off
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_
