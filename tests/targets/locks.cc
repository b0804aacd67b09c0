#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <iterator>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace locks {

// One of an array of locks that are told apart by where they lie in it.
struct Stripe {
  int64_t entries;
  pthread_mutex_t mutex;
};
struct Account {
  int64_t balance;
  pthread_mutex_t mutex;
};

pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;                                // .bss
Stripe stripes[2] = {{1, PTHREAD_MUTEX_INITIALIZER}, {2, PTHREAD_MUTEX_INITIALIZER}};  // .data
pthread_rwlock_t tree_lock = PTHREAD_RWLOCK_INITIALIZER;
Account* account;  // on the heap

pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;

pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work = PTHREAD_COND_INITIALIZER;
bool over;

// A thread that holds a lock, again and again, and one that wants it meanwhile.
struct Pair {
  const char* waiter;
  void (*take)(Meter*);
  void (*hold)(Meter*, sem_t* held, int64_t round);
  int64_t count;
  sem_t held, done;
};

KEEP_FRAME void TakeTable(Meter* meter) {
  meter->Begin();
  pthread_mutex_lock(&table_lock);
  meter->End(1);
  pthread_mutex_unlock(&table_lock);
}
KEEP_FRAME void HoldTableLong(Meter* meter, sem_t* held) {
  pthread_mutex_lock(&table_lock);
  sem_post(held);
  MeteredSleep(meter, 40'000);
  pthread_mutex_unlock(&table_lock);
}
KEEP_FRAME void HoldTableShort(Meter* meter, sem_t* held) {
  pthread_mutex_lock(&table_lock);
  sem_post(held);
  MeteredSleep(meter, 20'000);
  pthread_mutex_unlock(&table_lock);
}
KEEP_FRAME void HoldTable(Meter* meter, sem_t* held, int64_t round) {
  (round % 2 == 0 ? HoldTableLong : HoldTableShort)(meter, held);
}

KEEP_FRAME void TakeStripe(Meter* meter) {
  meter->Begin();
  pthread_mutex_lock(&stripes[1].mutex);
  meter->End(1);
  pthread_mutex_unlock(&stripes[1].mutex);
}
KEEP_FRAME void HoldStripe(Meter* meter, sem_t* held, int64_t /*round*/) {
  pthread_mutex_lock(&stripes[1].mutex);
  sem_post(held);
  MeteredSleep(meter, 20'000);
  pthread_mutex_unlock(&stripes[1].mutex);
}

KEEP_FRAME void TakeTree(Meter* meter) {
  meter->Begin();
  pthread_rwlock_rdlock(&tree_lock);
  meter->End(1);
  pthread_rwlock_unlock(&tree_lock);
}
KEEP_FRAME void HoldTree(Meter* meter, sem_t* held, int64_t /*round*/) {
  pthread_rwlock_wrlock(&tree_lock);
  sem_post(held);
  MeteredSleep(meter, 12'000);
  pthread_rwlock_unlock(&tree_lock);
}

KEEP_FRAME void TakeAccount(Meter* meter) {
  meter->Begin();
  pthread_mutex_lock(&account->mutex);
  meter->End(1);
  pthread_mutex_unlock(&account->mutex);
}
KEEP_FRAME void HoldAccount(Meter* meter, sem_t* held, int64_t /*round*/) {
  pthread_mutex_lock(&account->mutex);
  sem_post(held);
  MeteredSleep(meter, 6'000);
  pthread_mutex_unlock(&account->mutex);
}

// Asks for a lock that is held all the time, and gives up after 5 ms.
KEEP_FRAME void TryGate(Meter* meter) {
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_nsec += 5'000'000;
  deadline.tv_sec += deadline.tv_nsec / 1'000'000'000;
  deadline.tv_nsec %= 1'000'000'000;
  meter->Begin();
  Check(pthread_mutex_clocklock(&gate_lock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT, "gate");
  meter->End(1);
}

KEEP_FRAME void* GateWaiter(void* argument) {
  const int64_t count = *static_cast<const int64_t*>(argument);
  Meter meter("gate-waiter");
  meter.CountDelay();
  for (int64_t i = 0; i < count; ++i) TryGate(&meter);
  return nullptr;
}

KEEP_FRAME void* Holder(void* argument) {
  auto* pair = static_cast<Pair*>(argument);
  Meter meter("lock-holder");
  for (int64_t i = 0; i < pair->count; ++i) {
    pair->hold(&meter, &pair->held, i);
    sem_wait(&pair->done);
  }
  return nullptr;
}

KEEP_FRAME void* Waiter(void* argument) {
  auto* pair = static_cast<Pair*>(argument);
  Meter meter(pair->waiter);
  meter.CountDelay();
  for (int64_t i = 0; i < pair->count; ++i) {
    sem_wait(&pair->held);
    pair->take(&meter);
    sem_post(&pair->done);
  }
  return nullptr;
}

// Has nothing to do until the end.
KEEP_FRAME void* Idler(void* /*argument*/) {
  Meter meter("lock-idler");
  pthread_mutex_lock(&idle_mutex);
  while (!over) pthread_cond_wait(&work, &idle_mutex);
  pthread_mutex_unlock(&idle_mutex);
  return nullptr;
}

}  // namespace locks

void Locks(const Arguments& arguments) {
  const int64_t count = arguments.Number(0, 100);
  int64_t tries = count / 2;
  pthread_mutex_lock(&locks::gate_lock);
  locks::account = new locks::Account();  // for good: a heap of which the end is free would shrink
  pthread_mutex_init(&locks::account->mutex, nullptr);
  locks::Pair pairs[] = {{"table-waiter", locks::TakeTable, locks::HoldTable, count, {}, {}},
                         {"stripe-waiter", locks::TakeStripe, locks::HoldStripe, count, {}, {}},
                         {"tree-waiter", locks::TakeTree, locks::HoldTree, count, {}, {}},
                         {"account-waiter", locks::TakeAccount, locks::HoldAccount, count, {}, {}}};
  const pthread_t idler = Start(locks::Idler);
  const pthread_t gate_waiter = Start(locks::GateWaiter, &tries);
  pthread_t threads[2 * std::size(pairs)];
  for (size_t i = 0; i < std::size(pairs); ++i) {
    sem_init(&pairs[i].held, 0, 0);
    sem_init(&pairs[i].done, 0, 0);
    threads[2 * i] = Start(locks::Waiter, &pairs[i]);
    threads[2 * i + 1] = Start(locks::Holder, &pairs[i]);
  }
  for (const pthread_t thread : threads) Join(thread);
  Join(gate_waiter);
  pthread_mutex_unlock(&locks::gate_lock);
  pthread_mutex_lock(&locks::idle_mutex);
  locks::over = true;
  pthread_cond_signal(&locks::work);
  pthread_mutex_unlock(&locks::idle_mutex);
  Join(idler);
  printf("unlocked {\"account\": \"%p\", \"stripe\": \"0x%zx\"}\n",
         static_cast<void*>(&locks::account->mutex),
         sizeof(locks::Stripe) + offsetof(locks::Stripe, mutex));
  fflush(stdout);
}

}  // namespace waiter
