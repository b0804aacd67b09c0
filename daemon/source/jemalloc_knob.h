// What the governor can turn of the probes at allocators' events.
#ifndef PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_
#define PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/budget.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"

namespace profd {

// Allocations: first slow paths are watched no longer, then the probes stand for slices of the time
// only, then not at all. Of objects that allocators tell of none can be left out: all or nothing.
// Without being asked it leaves out the stacks of some events, at random, where there are more than
// a profile needs.
class JemallocKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    int64_t events = 0;      // seen, in the last second
    int64_t seen_bytes = 0;  // that they stand for
    int64_t bytes = 0;       // allocated and freed, by the allocators' own count
    profd_heap_cost cost{};  // the kernel side's totals since start
    Traps traps;
    int64_t told = 0;          // objects that allocators told of, in the last second
    Allowance allowance = {};  // without a budget no stack is left out
  };
  void Learn(const Work& work);
  // Whether slow paths are watched, where some events are not seen.
  bool SlowPathsAt(int level) const { return level == 0; }
  // Whether objects are counted that allocators tell of.
  bool ToldAt(int level) const { return level + 1 < levels(); }

  // The stack of one event in so many is taken.
  uint32_t one_in() const { return one_in_; }
  // What a level means: the share of the time in which the probes stand.
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
  double calm_seconds_ = 0;  // in a row, in which half of that would have been cheap
  profd_heap_cost last_{};
  double events_per_second_ = 0;
  double bytes_per_event_ = 0;  // 0: none was seen yet
  double event_ns_ = 0;         // of an event without its stack
  double walk_ns_ = 0;          // of the stack
  double told_per_second_ = 0;  // while nothing is asked for: as guessed from before
  double slow_per_second_ =
      0;  // of slow paths that told nothing; as guessed, while none is watched
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_JEMALLOC_KNOB_H_
