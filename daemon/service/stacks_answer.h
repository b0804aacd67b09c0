// Assembles the answer to GetStacks from a look.
#ifndef PROFD_DAEMON_SERVICE_STACKS_ANSWER_H_
#define PROFD_DAEMON_SERVICE_STACKS_ANSWER_H_

#include <cstdint>
#include <string>

#include "daemon/profile/look.h"
#include "daemon/service/answer.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/other_ends.h"
#include "daemon/service/part_writer.h"

namespace profd {

// What the answer is made of.
struct StacksSources {
  const HostInfo& host;
  const Look& look;
  int64_t wall_offset_ns = 0;
  FrameNames* names = nullptr;
  OtherEnds::Sources ends;  // of which `proc` is used for files, too
  LineWish lines = LineWish::kNone;
};

// Sends all parts in the order that the API promises. False when the client left.
bool SendStacks(const StacksSources& sources, const SendPart& send);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_STACKS_ANSWER_H_
