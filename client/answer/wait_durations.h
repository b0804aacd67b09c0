// How long waits took, as answers tell it.
#ifndef PROFD_CLIENT_ANSWER_WAIT_DURATIONS_H_
#define PROFD_CLIENT_ANSWER_WAIT_DURATIONS_H_

#include <map>
#include <string>

#include "client/answer/reason.h"
#include "daemon/profile/durations.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Of the reasons that have any: histograms are large, and threads wait for few reasons.
using ReasonDurations = std::map<Reason, profd::Durations>;

void AddDurations(const google::protobuf::RepeatedPtrField<profd::v1::ReasonTotal>& totals,
                  ReasonDurations* sum);
// None: an empty one.
const profd::Durations& DurationsOf(const ReasonDurations& durations, Reason reason);

// "1.24 ms"; "<1.02 us" if it is in the first bucket; "-" if the duration of no wait is known.
std::string FormatQuantile(const profd::Durations& durations, double part);
// The same of the longest: "<1.57 ms" if that is the end of its bucket.
std::string FormatLongest(const profd::Durations& durations);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_WAIT_DURATIONS_H_
