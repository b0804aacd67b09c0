// A process whose size is set along one axis at a time: threads, switches, stacks, modules.
#ifndef PROFD_TESTS_BENCH_LOAD_LOAD_H_
#define PROFD_TESTS_BENCH_LOAD_LOAD_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

// Keeps a function out of every optimisation across calls: it has a frame of its own.
#define KEEP_FRAME __attribute__((noipa))

namespace load {

// Set once, when the run is to end.
extern std::atomic<bool> g_stop;

// CLOCK_MONOTONIC, ns.
int64_t Now();
// Sleeps `ns` in one clock_nanosleep; less when a signal comes.
void Sleep(int64_t ns);
// Ends the program with a message when a call that must succeed did not.
void Check(bool ok, const char* what);
// Starts a thread with a small stack, named `name` (15 characters at most), or ends the program.
pthread_t Start(const char* name, void* (*body)(void*), void* argument);

// Starts `count` threads that block for good: on a futex, in poll, in sleep, in recv, by turns.
// Returns when all of them have begun.
void StartIdle(int count);

// Pairs of threads that wake each other, each pair held on one CPU. `rate` is context switches a
// second over all pairs; with `any_rate` as many as the machine gives.
void StartSwitches(int64_t rate, bool any_rate, int pairs);

// Threads whose waits of `wait_ns` go through `stacks` different stacks by turns.
void StartStacks(int64_t stacks, int threads, int64_t wait_ns);
// Waits made so far; at least min(this, stacks) different stacks were waited in.
int64_t StackWaits();

// Loads `count` copies of the shared object `file`, made in `directory`, and has one thread wait
// under calls through them, kModulesInStack at a time, `wait_ns` each.
inline constexpr int kModulesInStack = 8;
void StartModules(const std::string& file, const std::string& directory, int count,
                  int64_t wait_ns);

}  // namespace load

#endif  // PROFD_TESTS_BENCH_LOAD_LOAD_H_
