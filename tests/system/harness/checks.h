// What must hold between a thread's own account and profd's.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_CHECKS_H_
#define PROFD_TESTS_SYSTEM_HARNESS_CHECKS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/system/harness/answer.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {

#define SKIP_UNLESS_ROOT()                                                    \
  do {                                                                        \
    if (geteuid() != 0) GTEST_SKIP() << "needs root to load kernel programs"; \
  } while (false)

// Tolerances of the accounts.
inline constexpr double kLedgerTolerance = 0.01;     // against what the program measured
inline constexpr double kIdentityTolerance = 0.001;  // on-CPU + off-CPU = wall

// An instant of the wall clock, converted twice, moves by what the clock was adjusted meanwhile.
inline constexpr int64_t kClockSlewNs = 10'000;

// `actual` is within `tolerance` (a share of `expected`) or within `floor_ns`.
testing::AssertionResult Near(int64_t actual, int64_t expected, double tolerance,
                              int64_t floor_ns = 0);

// on-CPU + sum of off-CPU = wall, within kIdentityTolerance.
testing::AssertionResult AddsUp(const Thread& thread);

// The whole life of a thread that was born and died in the window: wall, off-CPU and on-CPU time
// are what the thread measured.
void ExpectWholeLife(const Thread& thread, const SelfMeasured& self);

// The waits of the thread, all of one reason: the ledger's entry plus the run queue.
void ExpectWaits(const Thread& thread, const SelfMeasured& self, v1::Reason reason);

// The functions of the target's own module in a thread's stack, innermost first, as substrings of
// the names; below them comes libc, above them the root named here.
struct ExpectedStack {
  std::vector<std::string> functions;
  std::string libc_leaf;           // the function of libc that waits; "" = not checked
  std::string root = "libc.so.6";  // a part of the outermost frame's function or module
};

// True when the sample's stack is complete and is this one, whole.
testing::AssertionResult Matches(const Answer& answer, const Sample& sample,
                                 const ExpectedStack& expected);

struct PathShare {
  double share = 0;  // of the weight of (thread, reason)
  double effective_ticks = 0;
  int64_t time_ns = 0;
};
// Share of the samples that match, among all of (thread, reason).
PathShare ShareOf(const Answer& answer, const Thread& thread, v1::Reason reason,
                  const ExpectedStack& expected);

// Every sample of (thread, reason) has one of these stacks, whole. A walk that raced with a wake-up
// (torn) or with a change of the memory map is shown as such; up to `raced` of the weight may be.
void ExpectOnlyStacks(const Answer& answer, const Thread& thread, v1::Reason reason,
                      const std::vector<ExpectedStack>& expected, double raced = 0.02);

// No time and no weight was lost.
void ExpectNoLoss(const Answer& answer);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_CHECKS_H_
