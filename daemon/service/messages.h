// Numbers of the daemon as messages of the API.
#ifndef PROFD_DAEMON_SERVICE_MESSAGES_H_
#define PROFD_DAEMON_SERVICE_MESSAGES_H_

#include <cstdint>
#include <optional>

#include "daemon/profile/profile.h"
#include "daemon/symbolize/name_source.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// What cannot be negative, although damaged bytes may say so.
inline uint64_t Count(int64_t v) { return v > 0 ? static_cast<uint64_t>(v) : 0; }

v1::Reason ToProto(Reason reason);
// None: no reason to wait.
std::optional<Reason> FromProto(int reason);
v1::NameSource ToProto(NameSource source);
// Losses that occurred, with their descriptions. `lost_weight_ns` belongs to full counters.
void FillLosses(const LossCounts& losses, int64_t lost_weight_ns,
                google::protobuf::RepeatedPtrField<v1::Loss>* out);
void FillCost(const CollectorCost& cost, v1::Cost* out);
void FillHeap(const HeapDelta& heap, v1::HeapTotal* out);
void FillTargetCost(const TargetCost& cost, v1::TargetCost* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_MESSAGES_H_
