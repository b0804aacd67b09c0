// The stacks of one answer, with names for their frames and what these say.
#ifndef PROFD_DAEMON_SERVICE_NAMED_STACKS_H_
#define PROFD_DAEMON_SERVICE_NAMED_STACKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/profile.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/frame_text.h"
#include "daemon/service/idle.h"
#include "daemon/service/lock_kind.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

struct NamedStack {
  std::vector<uint32_t> frames;  // indexes into NamedStacks::frames(), innermost first
  uint32_t origin = 0;           // index in `frames`
  // Which of the functions at that frame: index in NamedFrame::inlined, or its size for the frame's
  // own.
  uint32_t origin_line = 0;
  bool complete = false;
  StackIdleness idle;       // of a wait
  LockFrames lock;          // of a wait with the reason "lock"
  uint32_t lock_place = 0;  // index in `frames`, see LockPlaceRule
  uint32_t lock_line = 0;   // as origin_line
};

class NamedStacks {
 public:
  // `known` and `modules` must outlive this. `modules`: those that were recorded with the stacks.
  explicit NamedStacks(std::span<const std::shared_ptr<const StackTrace>> known,
                       const ModuleIdentities* modules = nullptr);

  // The number of a stack of a process; 0 for StackId 0. A stack that is not known gets an entry of
  // its own. Processes share numbers, except for stacks with code that is in no file.
  uint32_t Add(StackId id, const ProcessId& process);
  // The same, of a stack that was added before.
  uint32_t NumberOf(StackId id, const ProcessId& process) const;
  // Adds a waiter's stack with its waker's; of stack 0 and of waiters that were not added: nothing.
  // `waker` may be kWakerUnknown or kNoWaker.
  void AddWoken(StackId waiter, const ProcessId& process, StackId waker);
  // Its number, once all are added; without one that of the waiter.
  uint32_t NumberOfWoken(StackId waiter, const ProcessId& process, StackId waker) const;
  // Whether it ends at a proven root.
  bool IsComplete(StackId id) const;

  // Names all frames of the stacks that were added, with what `lines` asks for. To be called once,
  // after all of them.
  void Name(FrameNames* names, LineWish lines = LineWish::kNone);

  const std::vector<NamedFrame>& frames() const { return frames_; }
  // By number; the first one, of no stack, is empty.
  const std::vector<NamedStack>& stacks() const { return stacks_; }
  // The origin of a stack; null without a stack.
  const NamedFrame* Origin(uint32_t stack) const;
  // Its function, which may be inlined there.
  std::string_view OriginFunction(uint32_t stack) const;
  // Of the frames in files, if lines were asked for.
  const LineCounts& line_counts() const { return line_counts_; }
  void FillLines(v1::SourceLines* out) const;

 private:
  struct Known {
    const StackTrace* trace;
    bool generated;  // some of its code is in no file
  };
  struct Key {
    StackId id{};
    ProcessId process{};  // where it matters
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.id, k.process);
    }
  };

  using Woken = std::pair<uint32_t, StackId>;  // number of the waiter's stack, waker

  // The stack of that id, or one that says that it is lost.
  const StackTrace& Trace(StackId id) const;
  void NameFrames(FrameNames* names, LineWish lines);
  // What the frames of a stack say by rules.
  void Judge();
  FrameAddress AddressOf(const StackTrace& trace, size_t frame, const ProcessId& process) const;
  // The number of such a frame, which is in frames_.
  uint32_t FrameOf(const StackTrace& trace, size_t frame, const ProcessId& process) const;
  // The number of the same frame without what was inlined there.
  uint32_t WithoutInlined(uint32_t frame);
  // The number of a frame that is no code.
  uint32_t Synthetic(std::string_view name);
  void AppendWaker(StackId waker, NamedStack* stack);
  Key KeyOf(StackId id, const ProcessId& process) const;

  const ModuleIdentities* const modules_;
  absl::flat_hash_map<StackId, Known> known_;
  absl::flat_hash_map<Key, uint32_t> numbers_;
  std::vector<Key> added_;
  absl::flat_hash_map<Woken, uint32_t> woken_numbers_;  // from 0 on
  std::vector<Woken> woken_;
  absl::flat_hash_map<FrameAddress, uint32_t> frame_numbers_;
  absl::flat_hash_map<std::string, uint32_t> synthetic_;
  absl::flat_hash_map<uint32_t, uint32_t> without_inlined_;
  LineCounts line_counts_;
  std::vector<NamedFrame> frames_;
  std::vector<NamedStack> stacks_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_NAMED_STACKS_H_
