#include "daemon/service/named_stacks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "daemon/service/idle.h"
#include "daemon/service/origin.h"

namespace profd {
namespace {

// The kernel's frames and the user's each begin with an exact address.
bool IsExact(const StackTrace& stack, size_t frame) {
  return frame == 0 || frame == stack.kernel_frames;
}

}  // namespace

NamedStacks::NamedStacks(std::span<const std::shared_ptr<const StackTrace>> known) {
  known_.reserve(known.size());
  for (const auto& stack : known) {
    const bool generated = std::any_of(stack->frames.begin(), stack->frames.end(), IsInNoFile);
    known_.emplace(stack->id, Known{.trace = stack.get(), .generated = generated});
  }
}

NamedStacks::Key NamedStacks::KeyOf(StackId id, const ProcessId& process) const {
  const auto it = known_.find(id);
  if (it == known_.end() || !it->second.generated) return {.id = id};
  return {.id = id, .process = process};
}

uint32_t NamedStacks::Add(StackId id, const ProcessId& process) {
  if (id == StackId{}) return 0;
  const Key key = KeyOf(id, process);
  const auto [it, fresh] = numbers_.try_emplace(key, static_cast<uint32_t>(added_.size() + 1));
  if (fresh) added_.push_back(key);
  return it->second;
}

uint32_t NamedStacks::NumberOf(StackId id, const ProcessId& process) const {
  const auto it = numbers_.find(KeyOf(id, process));
  return it == numbers_.end() ? 0 : it->second;
}

bool NamedStacks::IsComplete(StackId id) const {
  const auto it = known_.find(id);
  return it != known_.end() && it->second.trace->walk == kWalkComplete;
}

void NamedStacks::Name(FrameNames* names) {
  static const StackTrace kLost = {.walk = WalkResult{PROFD_WALK_LOST}, .frames = {}};
  std::vector<FrameAddress> addresses;
  absl::flat_hash_map<FrameAddress, uint32_t> frame_numbers;
  std::vector<const StackTrace*> traces;
  std::vector<uint32_t> frames;  // of all stacks, one after the other
  for (const Key& key : added_) {
    const auto it = known_.find(key.id);
    const StackTrace& trace = *traces.emplace_back(it == known_.end() ? &kLost : it->second.trace);
    for (size_t i = 0; i < trace.frames.size(); i++) {
      FrameAddress address{.frame = trace.frames[i], .exact = IsExact(trace, i)};
      if (IsInNoFile(address.frame)) address.process = key.process;
      const auto number = static_cast<uint32_t>(addresses.size());
      const auto [at, fresh] = frame_numbers.try_emplace(address, number);
      if (fresh) addresses.push_back(address);
      frames.push_back(at->second);
    }
  }
  frames_ = names->Name(addresses);

  stacks_.resize(1);
  absl::flat_hash_map<std::string_view, uint32_t> synthetic;
  size_t begin = 0;  // of the stack, in `frames`
  for (const StackTrace* trace : traces) {
    NamedStack& stack = stacks_.emplace_back();
    stack.complete = trace->walk == kWalkComplete;
    const size_t count = trace->frames.size();
    stack.frames.reserve(count + 1);
    const auto first = frames.begin() + static_cast<ptrdiff_t>(begin);
    stack.frames.assign(first, first + static_cast<ptrdiff_t>(count));
    begin += count;
    if (stack.complete) continue;
    const char* name = WalkName(trace->walk);
    const auto [it, fresh] = synthetic.try_emplace(name, static_cast<uint32_t>(frames_.size()));
    if (fresh) {
      frames_.push_back({.function = name,
                         .module = {},
                         .build_id = {},
                         .kind = FrameKind::kSynthetic,
                         .found_by = NameSource::kProfd});
    }
    stack.frames.push_back(it->second);
  }

  std::vector<FrameText> texts;
  texts.reserve(frames_.size());
  for (const NamedFrame& frame : frames_) {
    texts.push_back({frame.function, frame.module, frame.kind});
  }
  const IdleRule idle(texts);
  const OriginRule origin(texts);
  for (NamedStack& stack : stacks_) {
    stack.idle = idle.OfStack(stack.frames);
    stack.contended = idle.IsContended(stack.frames);
    stack.origin = static_cast<uint32_t>(origin.Of(stack.frames));
  }
}

const NamedFrame* NamedStacks::Origin(uint32_t stack) const {
  const NamedStack& named = stacks_[stack];
  return named.frames.empty() ? nullptr : &frames_[named.frames[named.origin]];
}

}  // namespace profd
