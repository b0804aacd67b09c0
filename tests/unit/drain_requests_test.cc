// Who waits for a drain: they share it, and nobody waits for ever.
#include "daemon/collect/drain_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/wakeup.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
const auto kNobody = [] {};

// A drainer that drains when it is asked to.
class Drainer {
 public:
  explicit Drainer(DrainRequests* requests) : requests_(requests), thread_([this] { Run(); }) {}
  ~Drainer() {
    stopping_ = true;
    Wake();
    thread_.join();
  }
  void Wake() { wakeup_.Wake(); }

  std::atomic<int> drains = 0;
  std::atomic<int64_t> reached = 0;  // by the last one
  std::atomic<bool> held = false;    // in the middle of a drain

 private:
  void Run() {
    while (!stopping_) {
      if (!requests_->IsWanted()) wakeup_.SleepUntil(INT64_MAX);
      if (!requests_->IsWanted()) continue;
      reached = MonotonicNs();
      ++drains;
      while (held && !stopping_) std::this_thread::yield();
      requests_->Done(reached, absl::OkStatus());
    }
  }

  DrainRequests* const requests_;
  Wakeup wakeup_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

TEST(DrainRequestsTest, PastInstantNeedsNoDrain) {
  DrainRequests requests;
  requests.Done(100 * kSecond, absl::OkStatus());
  int woken = 0;
  const auto wake = [&] { ++woken; };
  EXPECT_TRUE(requests.Await(100 * kSecond, 0, wake).ok());
  EXPECT_EQ(woken, 0);
  EXPECT_FALSE(requests.IsWanted());
}

TEST(DrainRequestsTest, LaterInstantNeedsOne) {
  DrainRequests requests;
  Drainer drainer(&requests);
  for (int i = 1; i <= 100; ++i) {
    const int64_t now = MonotonicNs();
    // The future cannot be drained: up to now is all that there is.
    ASSERT_TRUE(
        requests.Await(i % 2 == 0 ? now : INT64_MAX, now + 60 * kSecond, [&] { drainer.Wake(); })
            .ok());
    EXPECT_GE(drainer.reached, now);
    EXPECT_EQ(drainer.drains, i);
  }
}

TEST(DrainRequestsTest, WhoAsksAtOnceSharesADrain) {
  DrainRequests requests;
  Drainer drainer(&requests);
  drainer.held = true;
  std::thread first(
      [&] { EXPECT_TRUE(requests.Await(INT64_MAX, INT64_MAX / 2, [&] { drainer.Wake(); }).ok()); });
  while (drainer.drains != 1) std::this_thread::yield();
  // These are too late for the one in progress.
  std::atomic<int> asked = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 20; ++i) {
    others.emplace_back([&] {
      EXPECT_TRUE(requests
                      .Await(INT64_MAX, INT64_MAX / 2,
                             [&] {
                               drainer.Wake();
                               ++asked;
                             })
                      .ok());
    });
  }
  while (asked != 20) std::this_thread::yield();
  drainer.held = false;
  first.join();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(drainer.drains, 2);
}

TEST(DrainRequestsTest, NextOneIsNotTheOneInProgress) {
  DrainRequests requests;
  Drainer drainer(&requests);
  for (int i = 1; i <= 50; ++i) {
    const int before = drainer.drains;
    EXPECT_TRUE(requests.AwaitNext(INT64_MAX / 2, [&] { drainer.Wake(); }).ok());
    EXPECT_GT(drainer.drains, before);
  }
}

TEST(DrainRequestsTest, DeadlinePasses) {
  DrainRequests requests;
  EXPECT_TRUE(absl::IsDeadlineExceeded(requests.Await(INT64_MAX, MonotonicNs(), kNobody)));
  EXPECT_TRUE(requests.IsWanted()) << "the next drain is for somebody else, too";
}

TEST(DrainRequestsTest, FailureIsTold) {
  DrainRequests requests;
  const auto fail = [&] {
    EXPECT_TRUE(requests.IsWanted());
    requests.Done(MonotonicNs(), absl::ResourceExhaustedError("no memory"));
  };
  EXPECT_TRUE(absl::IsResourceExhausted(requests.Await(INT64_MAX, MonotonicNs(), fail)));
}

TEST(DrainRequestsTest, StopEndsAllWaiting) {
  DrainRequests requests;
  EXPECT_TRUE(
      absl::IsUnavailable(requests.Await(INT64_MAX, INT64_MAX / 2, [&] { requests.Stop(); })));
  EXPECT_TRUE(absl::IsUnavailable(requests.AwaitNext(INT64_MAX / 2, kNobody)));
  requests.Done(kSecond, absl::OkStatus());
  EXPECT_TRUE(requests.Await(kSecond, 0, kNobody).ok()) << "what is there is there";
}

}  // namespace
}  // namespace profd
