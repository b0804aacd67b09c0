#include "tests/system/harness/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/losses_table.h"

namespace profd::e2e {
namespace {

bool IsOfTarget(const Frame& frame) {
  return absl::StartsWith(frame.module, "waiter") || absl::StartsWith(frame.module, "libwaiter");
}

// For messages.
std::string Described(const Thread& thread) {
  return absl::StrCat(thread.name, " (", thread.tid, "): ", thread.ledger.DebugString());
}

}  // namespace

testing::AssertionResult Near(int64_t actual, int64_t expected, double tolerance,
                              int64_t floor_ns) {
  const int64_t difference = std::abs(actual - expected);
  if (difference <= floor_ns ||
      static_cast<double>(difference) <= tolerance * static_cast<double>(std::abs(expected))) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << absl::StrCat(actual, " ns is not within ", tolerance * 100, " % (or ", floor_ns,
                         " ns) of ", expected, " ns: off by ", actual - expected, " ns");
}

testing::AssertionResult AddsUp(const Thread& thread) {
  // 1 us: what rounding may leave of a thread that hardly lived.
  const testing::AssertionResult result = Near(thread.ledger.on_cpu_ns() + OffNs(thread),
                                               thread.ledger.wall_ns(), kIdentityTolerance, 1'000);
  if (result) return result;
  return testing::AssertionFailure() << result.message() << "\n" << Described(thread);
}

void ExpectWholeLife(const Thread& thread, const SelfMeasured& self) {
  SCOPED_TRACE(absl::StrCat(self.name, " (", self.tid, ")"));
  EXPECT_EQ(thread.name, self.name);
  EXPECT_TRUE(AddsUp(thread));
  // A thread is born on the run queue and measures itself only once it runs.
  const int64_t born = OffNs(thread, v1::REASON_RUNQUEUE);
  EXPECT_TRUE(Near(thread.ledger.wall_ns(), self.LifeNs(), kLedgerTolerance, born)) << "wall";
  EXPECT_TRUE(Near(OffNs(thread), self.OffNs(), kLedgerTolerance, born)) << "off-CPU\n"
                                                                         << Described(thread);
  // A share of the life: a thread that only waits has next to no time on-CPU.
  EXPECT_TRUE(Near(thread.ledger.on_cpu_ns(), self.cpu_ns, kLedgerTolerance,
                   static_cast<int64_t>(kLedgerTolerance * static_cast<double>(self.LifeNs()))))
      << "on-CPU";
}

void ExpectWaits(const Thread& thread, const SelfMeasured& self, v1::Reason reason) {
  SCOPED_TRACE(absl::StrCat(self.name, " (", self.tid, "), ", v1::Reason_Name(reason)));
  const int64_t queued = OffNs(thread, v1::REASON_RUNQUEUE);
  EXPECT_TRUE(Near(OffNs(thread, reason) + queued, self.WaitOffNs(), kLedgerTolerance, queued))
      << Described(thread);
  const auto waits = static_cast<int64_t>(self.waits.size());
  EXPECT_GE(Waits(thread, reason), waits * 99 / 100);
  // A wait may end early and begin again; births and ends add a few.
  EXPECT_LE(Waits(thread, reason), waits * 103 / 100 + 5);
}

testing::AssertionResult Matches(const Answer& answer, const Sample& sample,
                                 const ExpectedStack& expected) {
  const auto fail = [&](const std::string& why) {
    return testing::AssertionFailure()
           << why << " in: " << answer.Describe(sample) << "\nexpected: " << expected.libc_leaf
           << " < " << absl::StrJoin(expected.functions, " < ") << " < ... < " << expected.root;
  };
  if (sample.stack == 0) return fail("no stack");
  if (!answer.IsComplete(sample)) return fail("not complete");
  const std::vector<Frame> frames = answer.FramesOf(sample);
  auto user = std::find_if(frames.begin(), frames.end(),
                           [](const Frame& frame) { return frame.kind != v1::FRAME_KIND_KERNEL; });
  if (user == frames.begin()) return fail("no kernel frames");
  if (user == frames.end()) return fail("no user frames");
  if (std::any_of(user, frames.end(), [](const Frame& frame) {
        return frame.kind == v1::FRAME_KIND_KERNEL || frame.kind == v1::FRAME_KIND_SYNTHETIC;
      })) {
    return fail("a frame that is not of user code");
  }
  if (!expected.libc_leaf.empty() &&
      std::none_of(user, std::find_if(user, frames.end(), IsOfTarget), [&](const Frame& frame) {
        return absl::StrContains(frame.function, expected.libc_leaf);
      })) {
    return fail("libc's function is missing");
  }
  std::vector<std::string> names;
  for (auto frame = user; frame != frames.end(); ++frame) {
    if (IsOfTarget(*frame)) names.push_back(frame->function);
  }
  if (names.size() != expected.functions.size()) return fail("another number of own functions");
  for (size_t i = 0; i < names.size(); ++i) {
    if (!absl::StrContains(names[i], expected.functions[i])) return fail("another function");
  }
  const Frame& root = frames.back();
  if (!absl::StrContains(root.function, expected.root) &&
      !absl::StrContains(root.module, expected.root)) {
    return fail("another root");
  }
  return testing::AssertionSuccess();
}

PathShare ShareOf(const Answer& answer, const Thread& thread, v1::Reason reason,
                  const ExpectedStack& expected) {
  double matched = 0, sum = 0, squares = 0;
  PathShare result;
  for (const Sample& sample : answer.SamplesOf(thread)) {
    if (sample.reason != reason) continue;
    const auto weight = static_cast<double>(sample.weight);
    sum += weight;
    squares += weight * weight / static_cast<double>(std::max<uint64_t>(sample.count, 1));
    if (!Matches(answer, sample, expected)) continue;
    matched += weight;
    result.time_ns += sample.value;
  }
  if (sum > 0) {
    result.share = matched / sum;
    result.effective_ticks = sum * sum / squares;
  }
  return result;
}

void ExpectOnlyStacks(const Answer& answer, const Thread& thread, v1::Reason reason,
                      const std::vector<ExpectedStack>& expected, double raced) {
  SCOPED_TRACE(absl::StrCat(thread.name, " (", thread.tid, "), ", v1::Reason_Name(reason)));
  int64_t weight = 0, raced_weight = 0, time = 0;
  for (const Sample& sample : answer.SamplesOf(thread)) {
    if (sample.reason != reason) continue;
    time += sample.value;
    weight += sample.weight;
    if (answer.IsRaced(sample)) {
      raced_weight += sample.weight;
      continue;
    }
    const bool any = std::any_of(expected.begin(), expected.end(), [&](const ExpectedStack& stack) {
      return static_cast<bool>(Matches(answer, sample, stack));
    });
    EXPECT_TRUE(any) << sample.count
                     << " ticks of: " << Matches(answer, sample, expected.front()).message();
  }
  EXPECT_GT(weight, 0) << "no samples";
  EXPECT_LE(static_cast<double>(raced_weight), raced * static_cast<double>(weight))
      << "walks that raced";
  // The estimates of a (thread, reason) sum to its ledger entry.
  EXPECT_TRUE(Near(time, OffNs(thread, reason), 0, 1'000));
}

void ExpectNoLoss(const Answer& answer) {
  // A usual loss is a rare one.
  uint64_t waits = 0;
  for (const Thread& thread : answer.threads) {
    for (const v1::ReasonTotal& total : thread.ledger.off()) waits += total.waits();
  }
  constexpr uint64_t kFew = 100, kOneIn = 100;
  for (const v1::Loss& loss : answer.message.losses()) {
    if (IsUsualLoss(loss.cause()) && loss.count() <= kFew + waits / kOneIn) continue;
    ADD_FAILURE() << loss.DebugString();
  }
}

}  // namespace profd::e2e
