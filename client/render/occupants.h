// Who had the CPUs that threads waited for.
#ifndef PROFD_CLIENT_RENDER_OCCUPANTS_H_
#define PROFD_CLIENT_RENDER_OCCUPANTS_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// "rpc of node (4711)", "cc1plus (12 processes)", "[kworker]", "[CPU quota of payments.slice]".
std::string DescribeOccupant(const profd::v1::Occupant& occupant);

// Sentences about those that had at least `least`, a share, of the time in the run queue, by two
// standard errors. Begins with a space; empty if there are none.
std::string DescribeOccupants(const Profile& profile, double least);

// The table; nothing if no thread waited for a CPU.
void AppendOccupants(const Profile& profile, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_OCCUPANTS_H_
