// What profiling costs, in words.
#ifndef PROFD_CLIENT_RENDER_COST_H_
#define PROFD_CLIENT_RENDER_COST_H_

#include <cstdint>
#include <string>

#include "profd/v1/profiler.pb.h"

namespace profctl {

// The CPU time of the daemon by what it was for: "1.00% of one CPU (10.0 ms/s): ticks 0.67%, ...".
// `duration_ns` is what the cost was measured over.
std::string DescribeDaemonCost(const profd::v1::Cost& cost, int64_t duration_ns);

// The time in the path of the targets, and what that is for a switch and, where there were any, for
// an event of an allocator. `always_on`: no switches are among them that cost nothing since the
// layer was off.
std::string DescribePathCost(const profd::v1::Cost& cost, int64_t duration_ns, bool always_on);

// `ns` of cost as what a second of `duration_ns` took: "640 us/s"; "-" without a duration.
std::string FormatPerSecond(int64_t ns, int64_t duration_ns);

// "2,667" a second; "-" without a duration.
std::string FormatRate(uint64_t count, int64_t duration_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_COST_H_
