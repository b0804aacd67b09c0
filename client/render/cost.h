// Describes the overhead of profiling.
#ifndef PROFD_CLIENT_RENDER_COST_H_
#define PROFD_CLIENT_RENDER_COST_H_

#include <cstdint>
#include <string>

#include "profd/v1/profiler.pb.h"

namespace profctl {

// The CPU time of profd by purpose: "1.00% of one CPU (10.0 ms/s): ticks 0.67%, ...". The cost was
// measured over `duration_ns`.
std::string DescribeDaemonCost(const profd::v1::Cost& cost, int64_t duration_ns);

// Whether the layer `switch` was on during what a cost covers. Switches cost nothing while it is
// off.
enum class SwitchLayer { kOn, kPartlyOn, kOff };

// The time in the targets' path: the total, per switch, and per event of the other layers.
std::string DescribePathCost(const profd::v1::Cost& cost, int64_t duration_ns, SwitchLayer layer);

// `ns` per second of `duration_ns`: "640 us/s"; "-" without a duration.
std::string FormatPerSecond(int64_t ns, int64_t duration_ns);

// "2,667" a second; "-" without a duration.
std::string FormatRate(uint64_t count, int64_t duration_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_COST_H_
