#include "daemon/service/dictionary.h"

#include <string>
#include <string_view>
#include <utility>

namespace profd {
namespace {

v1::FrameKind ToProto(FrameKind kind) {
  switch (kind) {
    case FrameKind::kKernel:
      return v1::FRAME_KIND_KERNEL;
    case FrameKind::kLibc:
      return v1::FRAME_KIND_LIBC;
    case FrameKind::kRuntime:
      return v1::FRAME_KIND_RUNTIME;
    case FrameKind::kApplication:
      return v1::FRAME_KIND_APPLICATION;
    case FrameKind::kSynthetic:
      return v1::FRAME_KIND_SYNTHETIC;
  }
  return v1::FRAME_KIND_UNSPECIFIED;
}

// The kernel's frames and the user's each begin with an exact address.
bool IsExact(const StackTrace& stack, size_t frame) {
  return frame == 0 || frame == stack.kernel_frames;
}

// Collects entries and sends them in parts.
class Parts {
 public:
  explicit Parts(const SendPart& send) : send_(send) {}
  v1::Frame* AddFrame() { return part_.mutable_dictionary()->add_frames(); }
  v1::Stack* AddStack() { return part_.mutable_dictionary()->add_stacks(); }
  // To be called for every entry once it is filled.
  template <typename Entry>
  bool Added(const Entry& entry) {
    bytes_ += entry.ByteSizeLong() + 8;
    return bytes_ < kPartBytes || Flush();
  }
  bool Flush() {
    if (bytes_ == 0) return true;
    bytes_ = 0;
    const bool sent = send_(part_);
    part_.Clear();
    return sent;
  }

 private:
  const SendPart& send_;
  v1::FetchResponse part_;
  size_t bytes_ = 0;
};

}  // namespace

StackDictionary::StackDictionary(std::span<const std::shared_ptr<const StackTrace>> known) {
  known_.reserve(known.size());
  for (const auto& stack : known) known_.emplace(stack->id, stack.get());
}

uint32_t StackDictionary::Add(StackId id) {
  if (id == StackId{}) return 0;
  const auto [it, fresh] = numbers_.try_emplace(id, static_cast<uint32_t>(added_.size() + 1));
  if (fresh) added_.push_back(id);
  return it->second;
}

uint32_t StackDictionary::NumberOf(StackId id) const {
  const auto it = numbers_.find(id);
  return it == numbers_.end() ? 0 : it->second;
}

bool StackDictionary::Complete(StackId id) const {
  const auto it = known_.find(id);
  return it != known_.end() && it->second->walk == kWalkComplete;
}

bool StackDictionary::Send(FrameNames* names, const SendPart& send) const {
  static const StackTrace kLost = {.walk = WalkResult{PROFD_WALK_LOST}, .frames = {}};
  std::vector<const StackTrace*> stacks;
  std::vector<FrameAddress> addresses;
  absl::flat_hash_map<FrameAddress, uint32_t> frame_numbers;
  absl::flat_hash_map<std::string_view, uint32_t> synthetic_numbers;
  std::vector<const char*> synthetic;
  for (StackId id : added_) {
    const auto it = known_.find(id);
    const StackTrace& stack = *stacks.emplace_back(it == known_.end() ? &kLost : it->second);
    for (size_t i = 0; i < stack.frames.size(); i++) {
      const FrameAddress address{stack.frames[i], IsExact(stack, i)};
      const auto number = static_cast<uint32_t>(addresses.size() + 1);
      if (frame_numbers.try_emplace(address, number).second) addresses.push_back(address);
    }
    if (stack.walk != kWalkComplete) {
      const char* name = WalkName(stack.walk);
      if (synthetic_numbers.try_emplace(name, 0).second) synthetic.push_back(name);
    }
  }

  Parts parts(send);
  uint32_t number = 0;
  for (NamedFrame& named : names->Name(addresses)) {
    v1::Frame* frame = parts.AddFrame();
    frame->set_id(++number);
    frame->set_function(std::move(named.function));
    frame->set_module(std::move(named.module));
    frame->set_build_id(std::move(named.build_id));
    frame->set_offset(named.offset);
    frame->set_kind(ToProto(named.kind));
    if (!parts.Added(*frame)) return false;
  }
  for (const char* name : synthetic) {
    v1::Frame* frame = parts.AddFrame();
    frame->set_id(++number);
    frame->set_function(name);
    frame->set_kind(v1::FRAME_KIND_SYNTHETIC);
    synthetic_numbers[name] = number;
    if (!parts.Added(*frame)) return false;
  }
  for (size_t s = 0; s < stacks.size(); s++) {
    const StackTrace& trace = *stacks[s];
    v1::Stack* stack = parts.AddStack();
    stack->set_id(static_cast<uint32_t>(s + 1));
    stack->set_complete(trace.walk == kWalkComplete);
    for (size_t i = 0; i < trace.frames.size(); i++) {
      stack->add_frames(frame_numbers[{trace.frames[i], IsExact(trace, i)}]);
    }
    if (trace.walk != kWalkComplete) {
      stack->add_frames(synthetic_numbers[WalkName(trace.walk)]);
    }
    if (!parts.Added(*stack)) return false;
  }
  return parts.Flush();
}

}  // namespace profd
