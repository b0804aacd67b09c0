// Who had the CPUs that threads waited for.
#ifndef PROFD_CLIENT_RENDER_OCCUPANTS_H_
#define PROFD_CLIENT_RENDER_OCCUPANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/answer/profile.h"
#include "google/protobuf/repeated_field.h"

namespace profctl {

// "rpc of node (4711)", "cc1plus (12 processes)", "[kworker]", "[CPU quota of payments.slice]".
std::string DescribeOccupant(const profd::v1::Occupant& occupant);

// Those that had at least `least`, a share, of the time in the run queue, by two standard errors;
// three at most, none that is not known.
std::vector<profd::v1::Occupant> LargestOccupants(const Profile& profile, double least);

// Sentences about them; `run_queue_ns` is what shares are of. Begins with a space; empty if there
// are none.
std::string DescribeOccupants(
    const google::protobuf::RepeatedPtrField<profd::v1::Occupant>& occupants, int64_t run_queue_ns);

// The table; nothing if no thread waited for a CPU.
void AppendOccupants(const Profile& profile, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_OCCUPANTS_H_
