// Only in builds with -fsanitize=thread. The distribution's abseil is not instrumented, so the
// sanitizer does not see absl::Mutex and takes every access under one for a race. The linker's
// --wrap (CMakeLists.txt) sends our calls through here.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"

namespace {

void LockWith(absl::Mutex* mutex, void (*lock)(absl::Mutex*)) {
  __tsan_mutex_pre_lock(mutex, 0);
  lock(mutex);
  __tsan_mutex_post_lock(mutex, 0, 0);
}

// Waiting gives the lock back for the time.
template <typename Wait>
auto WaitWith(absl::Mutex* mutex, Wait wait) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  __tsan_mutex_pre_lock(mutex, 0);
  const bool done = wait();
  __tsan_mutex_post_lock(mutex, 0, 0);
  return done;
}

}  // namespace

// The names are those of absl::Mutex::Lock, Unlock, TryLock, Await and AwaitWithTimeout.
extern "C" {

void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex);
void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  LockWith(mutex, __real__ZN4absl7debian35Mutex4LockEv);
}

void __real__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex);
void __wrap__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
  __tsan_mutex_post_unlock(mutex, 0);
}

bool __real__ZN4absl7debian35Mutex7TryLockEv(absl::Mutex* mutex);
bool __wrap__ZN4absl7debian35Mutex7TryLockEv(absl::Mutex* mutex) {
  __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
  const bool locked = __real__ZN4absl7debian35Mutex7TryLockEv(mutex);
  __tsan_mutex_post_lock(mutex, __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed),
                         0);
  return locked;
}

void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition);
void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition) {
  WaitWith(mutex, [&] {
    __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
    return true;
  });
}

bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout);
bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  return WaitWith(mutex, [&] {
    return __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
        mutex, condition, timeout);
  });
}

}  // extern "C"
