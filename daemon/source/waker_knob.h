// The knob of the source `waker`.
#ifndef PROFD_DAEMON_SOURCE_WAKER_KNOB_H_
#define PROFD_DAEMON_SOURCE_WAKER_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Takes fewer stacks of wakers at each level. At the last the program at wake-ups is not attached:
// then the rate of wake-ups is predicted from that of context switches.
class WakerKnob final : public Knob {
 public:
  // Time to enter the program, ns per wake-up.
  void SetEntry(double ns) { entry_ns_ = ns; }

  struct Work {
    double seconds = 0;
    int64_t switches = 0;     // of targets in this time
    profd_waker_cost cost{};  // totals since start
  };
  void Learn(const Work& work);

  // One wait in so many has its waker; 0: none.
  uint32_t OneInAt(int level) const;
  // Total time of all runs, including entering the program, ns.
  double InPathNs(const profd_waker_cost& cost) const;

  const char* name() const override { return "wakers"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  double EnteringNs(const profd_waker_cost& cost) const;

  double entry_ns_ = 0;
  profd_waker_cost last_{};
  double switches_per_second_ = 0;
  // Cost per switch of entering the program, and of stacks if each wait had one.
  double entering_ns_ = 0, walking_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAKER_KNOB_H_
