// What a daemon says of itself, for the tests of the client.
#ifndef PROFD_TESTS_UNIT_FIXTURE_STATUS_H_
#define PROFD_TESTS_UNIT_FIXTURE_STATUS_H_

#include "profd/v1/profiler.pb.h"

namespace profctl {

// A bit of everything: a hostile selector, a target without processes, a capability that is
// missing, a module without unwind rules, a program that the kernel skipped.
profd::v1::GetStatusResponse PlainStatus();
// A daemon under load: the layer `switch` is off, the tick is slowed.
profd::v1::GetStatusResponse ShedStatus();
// jemalloc that is watched in one file and not in another, and what that costs.
profd::v1::GetStatusResponse AllocatorsStatus();

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_STATUS_H_
