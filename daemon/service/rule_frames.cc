#include "daemon/service/rule_frames.h"

namespace profd {

RuleFrames::RuleFrames(std::span<const NamedFrame> frames) : frames_(frames) {
  for (const NamedFrame& frame : frames) {
    first_.push_back(static_cast<uint32_t>(texts_.size()));
    for (const InlinedFunction& inlined : frame.inlined) {
      texts_.push_back({inlined.function, frame.module, inlined.kind});
    }
    texts_.push_back({frame.function, frame.module, frame.kind});
  }
  first_.push_back(static_cast<uint32_t>(texts_.size()));
}

RuleFrames::Stack RuleFrames::StackOf(std::span<const uint32_t> frames, bool inlined) const {
  Stack stack;
  for (uint32_t i = 0; i < frames.size(); ++i) {
    const uint32_t frame = frames[i];
    const uint32_t last = first_[frame + 1] - 1;
    const bool whole = !inlined || frames_[frame].kind == FrameKind::kLibc;
    for (uint32_t text = whole ? last : first_[frame]; text <= last; ++text) {
      stack.texts.push_back(text);
      stack.places.push_back({.frame = i, .line = text - first_[frame]});
    }
  }
  return stack;
}

}  // namespace profd
