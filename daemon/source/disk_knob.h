// The knob of disk requests.
#ifndef PROFD_DAEMON_SOURCE_DISK_KNOB_H_
#define PROFD_DAEMON_SOURCE_DISK_KNOB_H_

#include <cstdint>
#include <string>

#include "bpf/abi.h"
#include "daemon/govern/knob.h"

namespace profd {

// Takes fewer stacks, then counts no requests.
class DiskKnob final : public Knob {
 public:
  struct Work {
    double seconds = 0;
    bool on = true;          // requests were counted
    profd_disk_cost cost{};  // totals since start
  };
  void Learn(const Work& work);

  // At this level the stack of one request in so many is taken; 0: none is counted.
  uint32_t OneInAt(int level) const;
  // Total time of all runs, without entering and leaving the programs.
  static uint64_t InPathNs(const profd_disk_cost& cost);

  const char* name() const override { return "disk"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override;
  int sampled_levels() const override { return levels() - 1; }
  double CostAt(int level) const override;
  std::string GivenUpAt(int level) const override;

 private:
  profd_disk_cost last_{};
  double requests_per_second_ = 0;
  double request_ns_ = 0;  // without a stack
  double walk_ns_ = 0;     // of a stack
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_DISK_KNOB_H_
