#include "daemon/service/lock_kind.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "daemon/service/idle.h"
#include "daemon/symbolize/function_path.h"

namespace profd {

// What code waits for that wants no lock. The first match wins.
struct Primitive {
  std::string_view part;  // of a function's name
  std::string_view kind;
  bool wins = false;  // also over the frames of a lock, by which it waits
};

namespace {

constexpr std::string_view kCondition = "condition variable";
constexpr std::string_view kJoin = "thread join";
constexpr std::string_view kSemaphore = "semaphore";
constexpr std::string_view kParkedThread = "parked thread";
constexpr std::string_view kPool = "job of a pool";
constexpr std::string_view kOther = "other futex wait";
constexpr std::string_view kNotSampled = "not sampled";

constexpr Primitive kPrimitives[] = {
    {"Mutex::LockWhen", kCondition, true},
    {"Mutex::ReaderLockWhen", kCondition, true},
    {"Mutex::Await", kCondition, true},
    {"pthread_cond_", kCondition},
    {"condvar::", kCondition},
    {"CondVar::Wait", kCondition},
    {"condition_variable", kCondition},
    {"sem_wait", kSemaphore},
    {"sem_timedwait", kSemaphore},
    {"sem_clockwait", kSemaphore},
    {"pthread_join", kJoin},
    {"pthread_clockjoin", kJoin},
    {"pthread_timedjoin", kJoin},
    {"pthread_barrier_wait", "barrier"},
    {"thread::park", kParkedThread},
    // Who is not of the pool waits for its job by this.
    {"rayon_core::latch::LockLatch", kPool, true},
};

// Their threads wait on a futex of their own: the system call does not say for which lock.
constexpr std::array<std::string_view, 10> kOfParkedThreads = {
    kParkingLotMutex, kParkingLotRwlock, kTokioMutex,    kTokioRwlock,  kFullChannel,
    kAbslMutex,       kPostgresLock,     kGoRuntimeLock, kParkedThread, kAnyLock};

// Code of locks, channels and what they wait by: paths of functions begin so.
constexpr std::string_view kMachinery[] = {"parking_lot::", "parking_lot_core::",
                                           "lock_api::",    "std::sync::",
                                           "std::sys::",    "std::thread::",
                                           "core::",        "tokio::sync::",
                                           "tokio::loom::", "crossbeam_channel::",
                                           "flume::",       "absl::",
                                           "AbslInternal",  "LWLock",
                                           "PGSemaphore"};

}  // namespace

LockRule::LockRule(std::span<const FrameText> frames, const IdleRule* idle) : idle_(idle) {
  primitives_.reserve(frames.size());
  for (const FrameText& frame : frames) {
    const auto* found = std::find_if(
        std::begin(kPrimitives), std::end(kPrimitives),
        [&](const Primitive& p) { return frame.function.find(p.part) != std::string_view::npos; });
    const bool code = frame.kind != FrameKind::kKernel && frame.kind != FrameKind::kSynthetic;
    primitives_.push_back(code && found != std::end(kPrimitives) ? found : nullptr);
  }
}

LockFrames LockRule::OfStack(std::span<const uint32_t> stack) const {
  const Primitive* innermost = nullptr;
  for (const uint32_t frame : stack) {
    const Primitive* primitive = primitives_[frame];
    if (primitive == nullptr) continue;
    if (primitive->wins) return {.kind = primitive->kind};
    if (innermost == nullptr) innermost = primitive;
  }
  const std::string_view lock = idle_->LockOf(stack);
  if (!lock.empty()) return {.kind = lock, .contended = true};
  return {.kind = innermost == nullptr ? std::string_view() : innermost->kind};
}

LockPlaceRule::LockPlaceRule(std::span<const FrameText> frames) : origin_(frames) {
  of_program_.reserve(frames.size());
  is_sign_.reserve(frames.size());
  for (const FrameText& frame : frames) {
    const std::string path = FunctionPath(frame.function);
    const bool machinery =
        path.find("pthread_") != std::string::npos ||
        std::any_of(std::begin(kMachinery), std::end(kMachinery),
                    [&](std::string_view prefix) { return path.starts_with(prefix); });
    of_program_.push_back(frame.kind == FrameKind::kApplication && !machinery);
    is_sign_.push_back(frame.kind == FrameKind::kSynthetic);
  }
}

size_t LockPlaceRule::Of(std::span<const uint32_t> stack) const {
  for (size_t i = 0; i < stack.size(); i++) {
    if (of_program_[stack[i]]) return i;
  }
  return is_sign_[stack.back()] ? stack.size() - 1 : origin_.Of(stack);
}

uint64_t LockAt(std::string_view kind, uint64_t futex) {
  // struct __pthread_rwlock_arch_t: readers wait at 8, writers at 12; it is aligned to 8.
  if (kind == kPthreadRwlock) return futex - (futex % 8 == 4 ? 12 : 8);
  // Its first field is the state, on which readers wait.
  if (kind == kStdRwlockWrite) return futex - 4;
  // A condition variable has a futex for each of its two groups.
  if (kind == kCondition) return futex - futex % 8;
  return futex;
}

LockWait DescribeLockWait(const SampleKey& key, const LockFrames& frames, std::string_view idle) {
  LockWait wait = {.kind = frames.kind};
  bool contended = frames.contended;
  switch (key.syscall) {
    case SYS_flock:
      wait = {.kind = "file lock", .object = LockWait::Object::kFile, .address = key.argument};
      contended = true;
      break;
    case SYS_semop:
    case SYS_semtimedop:
      wait = {.kind = "System V semaphore",
              .object = LockWait::Object::kSemaphores,
              .address = key.argument};
      contended = true;
      break;
    default:
      if (key.argument == 0 ||
          std::count(kOfParkedThreads.begin(), kOfParkedThreads.end(), frames.kind) > 0) {
        break;
      }
      wait.object = LockWait::Object::kAddress;
      wait.address = LockAt(frames.kind, key.argument);
      break;
  }
  if (wait.kind == kStdRwlockWrite) wait.kind = kStdRwlockRead;
  wait.shared = wait.object == LockWait::Object::kSemaphores || wait.kind == kPostgresLock;
  wait.idle = idle;
  if (key.stack == StackId{}) {
    wait.idle = kNotSampled;
  } else if (idle.empty() && !contended) {
    wait.idle = wait.kind.empty() ? kOther : wait.kind;
  }
  return wait;
}

}  // namespace profd
