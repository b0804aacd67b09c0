// Fixed answers to GetMemory, for tests of what the client makes of them.
#ifndef PROFD_TESTS_UNIT_FIXTURE_MEMORY_H_
#define PROFD_TESTS_UNIT_FIXTURE_MEMORY_H_

#include "profd/v1/profiler.pb.h"

namespace profctl {

// A node-like program that grows towards the limit of its cgroup, and its allocator.
profd::v1::GetMemoryResponse GrowingMemory();
// The same beside eight others, one of which was killed and one of which nothing much is known.
profd::v1::GetMemoryResponse ManyMemories();

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_MEMORY_H_
