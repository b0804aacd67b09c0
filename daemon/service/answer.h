// Assembles the answer to a Fetch, a Profile, from a merged window.
#ifndef PROFD_DAEMON_SERVICE_ANSWER_H_
#define PROFD_DAEMON_SERVICE_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/memory/memory_timeline.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/other_ends.h"
#include "daemon/service/part_writer.h"
#include "daemon/service/request.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Who answers.
struct HostInfo {
  std::string version;
  std::string hostname;
  std::string kernel_release;
  std::string boot_id{};
};
HostInfo ThisHost();
void FillHost(const HostInfo& host, v1::Host* message);

// What an answer is made of, beside the request.
struct AnswerSources {
  const HostInfo& host;
  const MergedProfile& profile;  // its bursts are scaled
  const v1::MemoryLine& memory;
  const std::vector<ProcessHistory>& processes;
  int64_t wall_offset_ns = 0;
  FrameNames* names = nullptr;
  OtherEnds::Sources ends;
};

// Sends all parts in the order that the API promises. `window`: which of the request's windows.
// False when the client left.
bool SendAnswer(const FetchPlan& plan, const AnswerSources& sources, uint32_t window,
                const SendPart& send);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_ANSWER_H_
