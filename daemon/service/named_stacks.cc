#include "daemon/service/named_stacks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "daemon/profile/waker_estimate.h"
#include "daemon/service/idle.h"
#include "daemon/service/origin.h"
#include "daemon/service/rule_frames.h"
#include "daemon/service/waker_frames.h"

namespace profd {
namespace {

// The kernel's frames and the user's each begin with an exact address.
bool IsExact(const StackTrace& stack, size_t frame) {
  return frame == 0 || frame == stack.kernel_frames;
}

}  // namespace

NamedStacks::NamedStacks(std::span<const std::shared_ptr<const StackTrace>> known,
                         const ModuleIdentities* modules)
    : modules_(modules) {
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

void NamedStacks::AddWoken(StackId waiter, const ProcessId& process, StackId waker) {
  const uint32_t number = NumberOf(waiter, process);
  if (number == 0) return;
  const auto [it, fresh] =
      woken_numbers_.try_emplace({number, waker}, static_cast<uint32_t>(woken_.size()));
  if (fresh) woken_.emplace_back(number, waker);
}

uint32_t NamedStacks::NumberOfWoken(StackId waiter, const ProcessId& process, StackId waker) const {
  const uint32_t number = NumberOf(waiter, process);
  const auto it = woken_numbers_.find({number, waker});
  if (it == woken_numbers_.end()) return number;
  return static_cast<uint32_t>(1 + added_.size()) + it->second;
}

const StackTrace& NamedStacks::Trace(StackId id) const {
  static const StackTrace kLost = {.walk = WalkResult{PROFD_WALK_LOST}, .frames = {}};
  const auto it = known_.find(id);
  return it == known_.end() ? kLost : *it->second.trace;
}

FrameAddress NamedStacks::AddressOf(const StackTrace& trace, size_t frame,
                                    const ProcessId& process) const {
  FrameAddress address{.frame = trace.frames[frame], .exact = IsExact(trace, frame)};
  if (IsInNoFile(address.frame)) address.process = process;
  return address;
}

void NamedStacks::NameFrames(FrameNames* names, LineWish lines) {
  std::vector<FrameAddress> addresses;
  const auto add = [&](const StackTrace& trace, size_t begin, const ProcessId& process) {
    for (size_t i = begin; i < trace.frames.size(); i++) {
      const FrameAddress address = AddressOf(trace, i, process);
      const auto number = static_cast<uint32_t>(addresses.size());
      if (frame_numbers_.try_emplace(address, number).second) addresses.push_back(address);
    }
  };
  for (const Key& key : added_) add(Trace(key.id), 0, key.process);
  for (const auto& [waiter, waker] : woken_) add(Trace(waker), PROFD_WAKER_NAME_FRAMES, {});
  // Debug info is read while symbol tables are.
  LineOrder order = names->OrderLines(addresses, lines);
  frames_ = modules_ == nullptr ? names->Name(addresses) : names->Name(addresses, *modules_);
  line_counts_ = names->AddLines(std::move(order), lines, &frames_);
}

uint32_t NamedStacks::FrameOf(const StackTrace& trace, size_t frame,
                              const ProcessId& process) const {
  return frame_numbers_.at(AddressOf(trace, frame, process));
}

uint32_t NamedStacks::Synthetic(std::string_view name) {
  const auto [it, fresh] =
      synthetic_.try_emplace(std::string(name), static_cast<uint32_t>(frames_.size()));
  if (fresh) {
    frames_.push_back({.function = std::string(name),
                       .module = {},
                       .build_id = {},
                       .kind = FrameKind::kSynthetic,
                       .found_by = NameSource::kProfd});
  }
  return it->second;
}

uint32_t NamedStacks::WithoutInlined(uint32_t frame) {
  if (frames_[frame].inlined.empty()) return frame;
  const auto [it, fresh] =
      without_inlined_.try_emplace(frame, static_cast<uint32_t>(frames_.size()));
  if (fresh) {
    NamedFrame copy = frames_[frame];
    copy.inlined.clear();
    frames_.push_back(std::move(copy));
  }
  return it->second;
}

// Outermost first, as the waker's innermost frame is next to the waiter's.
void NamedStacks::AppendWaker(StackId waker, NamedStack* stack) {
  if (waker == kWakerUnknown || waker == kNoWaker) {
    stack->frames.push_back(Synthetic(waker == kNoWaker ? kNoWakerFrame : kWakerUnknownFrame));
    return;
  }
  const StackTrace& trace = Trace(waker);
  stack->complete = trace.walk == kWalkComplete;
  if (!HasWakerName(trace)) {
    stack->frames.push_back(Synthetic(WalkName(WalkResult{PROFD_WALK_LOST})));
    return;
  }
  std::vector<std::string_view> kernel;
  for (size_t i = PROFD_WAKER_NAME_FRAMES; i < trace.kernel_frames; i++) {
    kernel.push_back(frames_[FrameOf(trace, i, {})].function);
  }
  const size_t first = PROFD_WAKER_NAME_FRAMES + FramesOfWaking(kernel);
  std::string name = WakerName(trace);
  if (name.empty()) name = InterruptName(kernel);
  stack->frames.push_back(Synthetic(name));
  if (!stack->complete) stack->frames.push_back(Synthetic(WalkName(trace.walk)));
  for (size_t i = trace.frames.size(); i > first; i--) {
    // What is inlined at a frame is listed from the inside, against the direction of these.
    stack->frames.push_back(WithoutInlined(FrameOf(trace, i - 1, {})));
  }
}

void NamedStacks::Judge() {
  const RuleFrames frames(frames_);
  const IdleRule idle(frames.texts());
  const LockRule locks(frames.texts(), &idle);
  const LockPlaceRule lock_places(frames.texts());
  const OriginRule origin(frames.texts());
  for (NamedStack& stack : stacks_) {
    const RuleFrames::Stack code = frames.StackOf(stack.frames, true);
    stack.idle = {.contended = idle.IsContended(code.texts), .task = idle.TaskOf(code.texts)};
    if (!stack.idle.contended) {
      // What is inlined may tell of idleness that the rest does not. Where the rest is enough,
      // ordinary code that is inlined into a runtime changes nothing.
      stack.idle.kind = idle.OfStack(frames.StackOf(stack.frames, false).texts);
      if (stack.idle.kind.empty()) stack.idle.kind = idle.OfStack(code.texts);
    }
    stack.lock = locks.OfStack(code.texts);
    if (stack.frames.empty()) continue;
    const RuleFrames::Place lock_place = code.places[lock_places.Of(code.texts)];
    stack.lock_place = lock_place.frame;
    stack.lock_line = lock_place.line;
    const RuleFrames::Place place = code.places[origin.Of(code.texts)];
    stack.origin = place.frame;
    stack.origin_line = place.line;
  }
}

void NamedStacks::Name(FrameNames* names, LineWish lines) {
  NameFrames(names, lines);
  stacks_.resize(1);
  for (const Key& key : added_) {
    const StackTrace& trace = Trace(key.id);
    NamedStack& stack = stacks_.emplace_back();
    stack.complete = trace.walk == kWalkComplete;
    stack.frames.reserve(trace.frames.size() + 1);
    for (size_t i = 0; i < trace.frames.size(); i++) {
      stack.frames.push_back(FrameOf(trace, i, key.process));
    }
    if (!stack.complete) stack.frames.push_back(Synthetic(WalkName(trace.walk)));
  }

  Judge();

  for (const auto& [waiter, waker] : woken_) {
    NamedStack woken;
    woken.complete = true;
    AppendWaker(waker, &woken);
    woken.frames.push_back(Synthetic(kWakerSeparator));
    const NamedStack& own = stacks_[waiter];
    woken.origin = static_cast<uint32_t>(woken.frames.size()) + own.origin;
    woken.origin_line = own.origin_line;
    woken.frames.insert(woken.frames.end(), own.frames.begin(), own.frames.end());
    woken.complete = woken.complete && own.complete;
    woken.idle = own.idle;
    stacks_.push_back(std::move(woken));
  }
}

const NamedFrame* NamedStacks::Origin(uint32_t stack) const {
  const NamedStack& named = stacks_[stack];
  return named.frames.empty() ? nullptr : &frames_[named.frames[named.origin]];
}

std::string_view NamedStacks::OriginFunction(uint32_t stack) const {
  const NamedFrame* origin = Origin(stack);
  if (origin == nullptr) return {};
  const uint32_t line = stacks_[stack].origin_line;
  return line < origin->inlined.size() ? origin->inlined[line].function : origin->function;
}

void NamedStacks::FillLines(v1::SourceLines* out) const {
  out->set_known(line_counts_.known);
  out->set_pending(line_counts_.pending);
  out->set_failed(line_counts_.failed);
  out->set_missing(line_counts_.missing);
}

}  // namespace profd
