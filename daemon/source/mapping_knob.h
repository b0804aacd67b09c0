// What the governor can turn of mapping calls.
#ifndef PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_
#define PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"
#include "daemon/probes/trap.h"

namespace profd {

// Mapping calls: first some of them are left out, at random, then the probes go.
class MappingKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    bool on = true;          // probes stood
    profd_heap_cost cost{};  // the kernel side's totals since start
    Traps traps;
  };
  void Learn(const Work& work);

  // What a level means: one call in so many is counted; 0: none, and no probe stands.
  uint32_t OneInAt(int level) const;

  const char* name() const override { return "mappings"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_heap_cost last_{};
  double calls_per_second_ = 0;
  double walks_per_call_ = 0;  // were all counted
  double call_ns_ = 0;         // of a call that is not counted
  double walk_ns_ = 0;         // the rest, of one that is
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MAPPING_KNOB_H_
