// What a wait with the reason "lock" is for.
#ifndef PROFD_DAEMON_SERVICE_LOCK_KIND_H_
#define PROFD_DAEMON_SERVICE_LOCK_KIND_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/profile/profile.h"
#include "daemon/service/frame_text.h"
#include "daemon/service/origin.h"

namespace profd {

class IdleRule;
struct Primitive;

// Kinds of locks, of which IdleRule knows the frames.
inline constexpr std::string_view kPthreadMutex = "pthread mutex";
inline constexpr std::string_view kPthreadRwlock = "pthread rwlock";
inline constexpr std::string_view kLibcLock = "libc lock";
inline constexpr std::string_view kStdMutex = "std mutex";
inline constexpr std::string_view kStdRwlockRead = "std rwlock";
inline constexpr std::string_view kStdRwlockWrite = "std rwlock (writer)";
inline constexpr std::string_view kStdOnce = "std once";
inline constexpr std::string_view kParkingLotMutex = "parking_lot mutex";
inline constexpr std::string_view kParkingLotRwlock = "parking_lot rwlock";
inline constexpr std::string_view kTokioMutex = "tokio mutex";
inline constexpr std::string_view kTokioRwlock = "tokio rwlock";
inline constexpr std::string_view kFullChannel = "full channel";
inline constexpr std::string_view kAbslMutex = "absl mutex";
inline constexpr std::string_view kPostgresLock = "PostgreSQL LWLock";
inline constexpr std::string_view kGoRuntimeLock = "Go runtime lock";
inline constexpr std::string_view kAnyLock = "lock";

// What the frames of a stack say. The view is valid for ever.
struct LockFrames {
  std::string_view kind{};  // empty: not known
  bool contended = false;   // another thread holds it
};

class LockRule {
 public:
  // `idle`, of the same frames, must outlive this.
  LockRule(std::span<const FrameText> frames, const IdleRule* idle);

  // `stack` has indexes into the frames, innermost first.
  LockFrames OfStack(std::span<const uint32_t> stack) const;

 private:
  const IdleRule* const idle_;
  std::vector<const Primitive*> primitives_;  // by frame; null: none
};

// Whose code took or released a lock: the innermost of the program itself, outside of locks and of
// what they wait by.
class LockPlaceRule {
 public:
  explicit LockPlaceRule(std::span<const FrameText> frames);

  // Index in `stack`, whose frames are innermost first and not empty. Without such code the sign of
  // a walk that ended before it came there, else the frame of OriginRule.
  size_t Of(std::span<const uint32_t> stack) const;

 private:
  const OriginRule origin_;
  std::vector<bool> of_program_, is_sign_;  // by frame
};

// What one wait is for.
struct LockWait {
  // What the argument of the system call is.
  enum class Object { kNone, kAddress, kFile, kSemaphores };

  std::string_view kind{};
  // Empty: contention. Else the kind of idle wait, or what was waited for instead of a lock.
  std::string_view idle{};
  Object object = Object::kNone;
  uint64_t address = 0;  // of the lock; file descriptor; id of the set
  bool shared = false;   // with other processes, whatever its address
};

// Where a lock of a kind begins, from the futex in it.
uint64_t LockAt(std::string_view kind, uint64_t futex);

// `key`: of a wait with the reason kLock. `frames`: of its stack. `idle`: the kind of idle wait, or
// empty.
LockWait DescribeLockWait(const SampleKey& key, const LockFrames& frames, std::string_view idle);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LOCK_KIND_H_
