// Which waits are idleness: a thread that has nothing to do, told by the frames of its runtime.
#ifndef PROFD_DAEMON_SERVICE_IDLE_H_
#define PROFD_DAEMON_SERVICE_IDLE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/profile/profile.h"
#include "daemon/service/frame_text.h"
#include "daemon/service/object_turn.h"

namespace profd {

inline constexpr std::string_view kAsyncTask = "async task";
inline constexpr std::string_view kPoolJob = "pool job";

// What a stack says about a wait.
struct StackIdleness {
  std::string_view kind{};  // of idleness; empty: it says of none
  bool contended = false;   // it waits for a lock that another thread holds
  // What it keeps from going on: kAsyncTask or kPoolJob, whose worker can run no other one
  // meanwhile, or nothing.
  std::string_view task{};
};

// Decides per wait. Waits for poll and sleep are idle, seen by a tick or not, except inside an
// async task of tokio or a job of rayon, where they keep a worker from other work. Waits for a lock
// or something unnamed are idle when the frame that asked for the wait, the first one outside libc
// and the primitives of a runtime, is one that parks a thread without work. A frame of contention
// anywhere in the stack means the thread wants to go on, and wins.
class IdleRule {
 public:
  // What a frame says about the worker of a runtime.
  enum class Worker : uint8_t {
    kNothing,
    kRunsTask,  // what is inside of it is an async task
    kRunsJob,   // or a job
    kIsItself,  // there is neither in it, or one that may wait
    // Of inferred names, which do not tell whether the worker is between two tasks: it is in one if
    // it sleeps, which the runtimes never do.
    kSleepsInTask,
    kSleepsInJob,
  };

  explicit IdleRule(std::span<const FrameText> frames);

  // What a stack says of a wait whose reason does not: the kind of idleness ("tokio worker"), or
  // empty. `stack` has indexes into the frames, innermost first. The view is valid for ever.
  std::string_view OfStack(std::span<const uint32_t> stack) const;

  // Whether the stack waits for a lock that another thread holds.
  bool IsContended(std::span<const uint32_t> stack) const;
  // See StackIdleness::task.
  std::string_view TaskOf(std::span<const uint32_t> stack) const;
  // The kind of the lock, one of those in lock_kind.h; empty if the stack waits for none.
  std::string_view LockOf(std::span<const uint32_t> stack) const;

 private:
  std::vector<uint32_t> roles_;  // by frame
  std::vector<Worker> workers_;  // the same
  std::vector<bool> sleeps_;     // the same: the kernel's code for a sleep
};

// The kind of idleness of threads that a library starts to work in the background, known by the
// name that it gives them; empty for other threads. It holds for waits that are not for a lock,
// also where the library has no symbols.
std::string_view IdleOfThread(std::string_view process, std::string_view thread);

// The kind of idleness of a wait, empty when it is not idle. `of_stack` is what IdleRule says of
// its stack; empty without one.
std::string_view IdleKind(Reason reason, std::string_view of_stack);

// The kind of idleness of a thread's wait, by its reason, its stack, its thread and its object;
// empty when it is not idle. The one rule for all answers, and for profctl when names come later.
std::string_view IdleOfWait(Reason reason, const StackIdleness& of_stack, std::string_view process,
                            std::string_view thread, ObjectTurn turn);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_IDLE_H_
