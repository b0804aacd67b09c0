// A fixed answer to GetStacks.
#ifndef PROFD_TESTS_UNIT_FIXTURE_LOOKS_H_
#define PROFD_TESTS_UNIT_FIXTURE_LOOKS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/analysis/looks.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// The threads of ServerAnswer, each in one of its waits, and one that runs. Two workers wait for
// one lock, three threads read the ends of one pipe.
profd::v1::Profile LooksMessage();

absl::StatusOr<Looks> ReadLooksOf(const profd::v1::Profile& message);

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_LOOKS_H_
