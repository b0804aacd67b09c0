// Virtual functions that wait, in classes of several forms. Built so that some programs have no
// symbols, and some describe their frames only in .debug_frame.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/targets/keep_frame.h"
#include "tests/targets/meter.h"

namespace classes {

struct Sleeper {
  virtual ~Sleeper();
  virtual int Weight() const;
  virtual void Nap(waiter::Meter* meter) = 0;
};
Sleeper::~Sleeper() = default;
KEEP_FRAME int Sleeper::Weight() const { return 1; }

struct Shallow : Sleeper {
  int Weight() const override;
  void Nap(waiter::Meter* meter) override;
};
KEEP_FRAME int Shallow::Weight() const { return 2; }
KEEP_FRAME void Shallow::Nap(waiter::Meter* meter) { waiter::MeteredSleep(meter, 10'000, 1); }

// Has Weight() of Shallow.
struct Deep : Shallow {
  void Nap(waiter::Meter* meter) override;
};
KEEP_FRAME void Deep::Nap(waiter::Meter* meter) { waiter::MeteredSleep(meter, 10'000, 2); }

struct Counted {
  virtual ~Counted() = default;
  virtual void Count();
  int count = 0;
};
KEEP_FRAME void Counted::Count() { count += 3; }

struct Both : Counted, Sleeper {
  void Nap(waiter::Meter* meter) override;
};
KEEP_FRAME void Both::Nap(waiter::Meter* meter) { waiter::MeteredSleep(meter, 10'000, 3); }

template <typename T>
struct Typed : Sleeper {
  void Nap(waiter::Meter* meter) override;
};
template <typename T>
KEEP_FRAME void Typed<T>::Nap(waiter::Meter* meter) {
  waiter::MeteredSleep(meter, static_cast<int64_t>(sizeof(T)) * 10'000, 4);
}

namespace {

// Its name is told apart from those of other files.
struct Hidden : Sleeper {
  void Nap(waiter::Meter* meter) override;
};
KEEP_FRAME void Hidden::Nap(waiter::Meter* meter) { waiter::MeteredSleep(meter, 10'000, 5); }

}  // namespace

KEEP_FRAME void NapAll(waiter::Meter* meter) {
  Shallow shallow;
  Deep deep;
  Both both;
  Typed<char> typed;
  Hidden hidden;
  Sleeper* const sleepers[] = {&shallow, &deep, &both, &typed, &hidden};
  for (Sleeper* sleeper : sleepers) {
    sleeper->Nap(meter);
    both.count += sleeper->Weight();
  }
  static_cast<Counted*>(&both)->Count();
  waiter::Check(both.count == 2 + 2 + 1 + 1 + 1 + 3, "virtual calls");
}

KEEP_FRAME void* Thread(void* argument) {
  waiter::Meter meter("classes");
  for (int64_t i = *static_cast<int64_t*>(argument); i > 0; --i) NapAll(&meter);
  return nullptr;
}

bool AwaitLine() {
  char c = 0;
  while (read(STDIN_FILENO, &c, 1) == 1) {
    if (c == '\n') return true;
  }
  return false;
}

}  // namespace classes

// classes COUNT: so often, each kind of class naps for 10 ms.
int main(int argc, char** argv) {
  int64_t count = argc > 1 ? std::atoll(argv[1]) : 1;
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  if (!classes::AwaitLine()) return 0;
  waiter::Join(waiter::Start(classes::Thread, &count));
  waiter::PrintReport();
  while (classes::AwaitLine()) {
  }
  return 0;
}
