// The knob of mapping calls.
#ifndef PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_
#define PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"

namespace profd {

// Skips random calls, then removes the probes.
class MappingKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    bool on = true;           // probes were attached
    profd_probe_cost cost{};  // totals since start
    Traps traps;
  };
  void Learn(const Work& work);

  // At this level one call in so many is counted; 0: none, and no probe is attached.
  uint32_t OneInAt(int level) const;

  const char* name() const override { return "mappings"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_probe_cost last_{};
  double calls_per_second_ = 0;
  double walks_per_call_ = 0;  // if all calls were counted
  double call_ns_ = 0;         // of a call that is not counted
  double walk_ns_ = 0;         // additional time of a counted call
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_
