// Which code of a stack asked for what the stack shows.
#ifndef PROFD_DAEMON_SERVICE_ORIGIN_H_
#define PROFD_DAEMON_SERVICE_ORIGIN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/service/frame_text.h"

namespace profd {

// Every wait or allocation passes such code, so it says nothing: the scheduler, allocators and the
// functions by which programs call them.
bool IsCommon(const FrameText& frame);

class OriginRule {
 public:
  explicit OriginRule(std::span<const FrameText> frames);

  // Index in `stack` of the innermost frame of the program itself; without one that of a runtime,
  // then libc, then the kernel. `stack` has indexes into the frames, innermost first; 0 when empty.
  size_t Of(std::span<const uint32_t> stack) const;

 private:
  std::vector<int> ranks_;  // by frame; the lowest of a stack is its origin
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_ORIGIN_H_
