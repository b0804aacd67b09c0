// What follows from the names of frames.
#ifndef PROFD_CLIENT_SYMBOLIZE_LATE_RULES_H_
#define PROFD_CLIENT_SYMBOLIZE_LATE_RULES_H_

#include <map>
#include <string>
#include <vector>

#include "daemon/service/origin.h"  // IWYU pragma: export
#include "profd/v1/profiler.pb.h"

namespace profctl {

// By location: it stands in a stack for whoever ended a wait. Such stacks are listed outermost
// first, so that what is inlined would stand the wrong way round.
std::vector<bool> LocationsOfWakers(const profd::v1::Profile& message);

// Judges a checked answer by the rules of the daemon, after the names of the locations in `changed`
// have become others: origins of stacks, idle waits, shares of names, and texts that are names of
// functions (`renamed`: from, to).
void JudgeAnew(const std::vector<bool>& changed, const std::map<std::string, std::string>& renamed,
               profd::v1::Profile* message);

}  // namespace profctl

#endif  // PROFD_CLIENT_SYMBOLIZE_LATE_RULES_H_
