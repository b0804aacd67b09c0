#include "daemon/base/spare_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROFD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PROFD_SANITIZED 1
#endif
#endif

namespace profd {

#ifdef PROFD_SANITIZED

absl::Status ReserveThreads(size_t /*count*/) { return absl::OkStatus(); }
size_t UsedSpareThreads() { return 0; }

#else

namespace {

using Routine = void* (*)(void*);

struct Spare {
  pthread_t thread{};
  sem_t begin{};
  Routine routine = nullptr;
  void* argument = nullptr;
};

std::mutex mutex;
size_t reserved = 0;  // how many there should be
// Never destroyed: libraries start threads until the end. Those that are taken stay with their
// threads.
std::vector<Spare*>& Spares() {
  static auto* const spares = new std::vector<Spare*>;
  return *spares;
}

void* StandIn(void* argument) {
  const std::unique_ptr<Spare> spare(static_cast<Spare*>(argument));
  pthread_setname_np(pthread_self(), "spare");
  while (sem_wait(&spare->begin) != 0) continue;  // interrupted
  return spare->routine(spare->argument);
}

using Create = int (*)(pthread_t*, const pthread_attr_t*, Routine, void*);

// That of the C library.
Create RealCreate() {
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create;
}

// Starts the spare threads that are missing; returns the error of the first that is refused.
int Replenish() {
  const std::scoped_lock lock(mutex);
  while (Spares().size() < reserved) {
    auto spare = std::make_unique<Spare>();
    sem_init(&spare->begin, 0, 0);
    const int error = RealCreate()(&spare->thread, nullptr, StandIn, spare.get());
    if (error != 0) return error;
    Spares().push_back(spare.release());
  }
  return 0;
}

// Whether a spare thread runs the routine.
bool UseSpare(pthread_t* thread, const pthread_attr_t* attributes, Routine routine,
              void* argument) {
  Spare* spare = nullptr;
  {
    const std::scoped_lock lock(mutex);
    if (Spares().empty()) return false;
    spare = Spares().back();
    Spares().pop_back();
  }
  spare->routine = routine;
  spare->argument = argument;
  *thread = spare->thread;
  int state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &state);
  if (state == PTHREAD_CREATE_DETACHED) pthread_detach(spare->thread);
  sem_post(&spare->begin);
  return true;
}

}  // namespace

absl::Status ReserveThreads(size_t count) {
  {
    const std::scoped_lock lock(mutex);
    reserved = count;
  }
  const int error = Replenish();
  return error == 0 ? absl::OkStatus() : ErrnoStatus("create a spare thread", error);
}

size_t UsedSpareThreads() {
  const std::scoped_lock lock(mutex);
  return reserved - Spares().size();
}

#endif  // PROFD_SANITIZED

}  // namespace profd

#ifndef PROFD_SANITIZED

// In place of the C library's, for all libraries of the process.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*routine)(void*), void* argument) noexcept {
  const int error = profd::RealCreate()(thread, attributes, routine, argument);
  if (error == 0) profd::Replenish();
  if (error != EAGAIN) return error;
  return profd::UseSpare(thread, attributes, routine, argument) ? 0 : error;
}

#endif
