// What the way into a program at a probe takes, and out of it again.
#ifndef PROFD_DAEMON_PROBES_TRAP_H_
#define PROFD_DAEMON_PROBES_TRAP_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "daemon/base/status.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// What a way in and out takes, ns, by the instruction that the probe stands on; 0: not measured
// yet.
struct Traps {
  double emulated = 0;
  double stepped = 0;
  // Of `runs`, `on_stepped` of them on stepped instructions.
  double Of(uint64_t runs, uint64_t on_stepped) const {
    on_stepped = std::min(on_stepped, runs);
    return static_cast<double>(runs - on_stepped) * emulated +
           static_cast<double>(on_stepped) * stepped;
  }
};

// The first instruction of the function that the probe stands on.
enum class FirstInstruction {
  kEmulated,  // a nop: the kernel carries it out
  kStepped,   // another one: the thread carries it out elsewhere, under the kernel's eye
};

// A function of ours with a probe in it, which stands as long as this does. A machine's speed
// wanders: what was measured long ago is not what it is now.
class TrapGauge {
 public:
  // `attach` puts the probe at that offset of our own file.
  TrapGauge(FirstInstruction first,
            absl::FunctionRef<absl::StatusOr<Probe>(int file, uint64_t offset)> attach);

  // ns that a call takes longer than without the probe: the median of some rounds, which take less
  // than a millisecond. 1, so that it is known, where there is no probe.
  double Measure() const;

 private:
  void (*const function_)();
  double without_ = 0;  // ns of a call without the probe
  std::optional<Probe> probe_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_TRAP_H_
