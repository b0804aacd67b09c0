// Frames as rules about code see them: a function that was inlined is one of its own.
#ifndef PROFD_DAEMON_SERVICE_RULE_FRAMES_H_
#define PROFD_DAEMON_SERVICE_RULE_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/service/frame_text.h"
#include "daemon/service/named_frame.h"

namespace profd {

class RuleFrames {
 public:
  // `frames` must outlive this.
  explicit RuleFrames(std::span<const NamedFrame> frames);

  const std::vector<FrameText>& texts() const { return texts_; }

  // A place in a stack: index of the frame, and of the function at it (see
  // NamedStack::origin_line).
  struct Place {
    uint32_t frame = 0;
    uint32_t line = 0;
  };
  // A stack of frames as indexes into texts(), with the place of each.
  struct Stack {
    std::vector<uint32_t> texts;
    std::vector<Place> places;
  };
  // Without `inlined`, inlined functions are left out; those of libc always are: to a rule, libc is
  // one thing.
  Stack StackOf(std::span<const uint32_t> frames, bool inlined) const;

 private:
  std::span<const NamedFrame> frames_;
  std::vector<FrameText> texts_;
  std::vector<uint32_t> first_;  // in texts_, by frame; and one more
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_RULE_FRAMES_H_
