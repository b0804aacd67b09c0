// Assembles the answer to a Fetch from a merged window.
#ifndef PROFD_DAEMON_SERVICE_ANSWER_H_
#define PROFD_DAEMON_SERVICE_ANSWER_H_

#include <cstdint>
#include <string>

#include "daemon/service/dictionary.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/request.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Who answers.
struct HostInfo {
  std::string version;
  std::string hostname;
  std::string kernel_release;
};
HostInfo ThisHost();

// Brings what bursts of tracing stand for to the time in which they were planned: in a short window
// there may be one more or one less than fit.
void ScaleBursts(MergedProfile* profile);

// Sends all parts of the answer in the order that the API promises. False when the client left.
bool SendAnswer(const HostInfo& host, const FetchPlan& plan, const MergedProfile& profile,
                const v1::MemoryLine& memory, int64_t wall_offset_ns, FrameNames* names,
                const SendPart& send);

// Losses that occurred, with their descriptions. `lost_weight_ns` belongs to full counters.
void FillLosses(const LossCounts& losses, int64_t lost_weight_ns,
                google::protobuf::RepeatedPtrField<v1::Loss>* out);
void FillCost(const CollectorCost& cost, v1::Cost* out);
void FillHeap(const HeapDelta& heap, v1::HeapTotal* out);
void FillTargetCost(const TargetCost& cost, v1::TargetCost* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_ANSWER_H_
