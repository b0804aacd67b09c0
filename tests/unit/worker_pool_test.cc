#include "daemon/service/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"

namespace profd {
namespace {

TEST(WorkerPoolTest, RunsWhatItTook) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(2, 100);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.Add([&](bool) { ++ran; }));
  }
  EXPECT_EQ(ran, 100);
}

TEST(WorkerPoolTest, RefusesWhatDoesNotFit) {
  absl::Notification started, go;
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(1, 2);
    ASSERT_TRUE(pool.Add([&](bool) {
      started.Notify();
      go.WaitForNotification();
    }));
    started.WaitForNotification();
    EXPECT_TRUE(pool.Add([&](bool) { ++ran; }));
    EXPECT_TRUE(pool.Add([&](bool) { ++ran; }));
    EXPECT_FALSE(pool.Add([&](bool) { ran += 100; }));
    go.Notify();
  }
  EXPECT_EQ(ran, 2);
}

TEST(WorkerPoolTest, JobsThatWaitAtTheEndAreToldToRefuse) {
  absl::Notification started, go;
  std::atomic<int> refused = 0, answered = 0;
  auto pool = std::make_unique<WorkerPool>(1, 1'000'000);
  ASSERT_TRUE(pool->Add([&](bool) {
    started.Notify();
    go.WaitForNotification();
  }));
  started.WaitForNotification();
  WorkerPool* const busy = pool.get();
  const auto count = [&](bool stopping) { stopping ? ++refused : ++answered; };
  ASSERT_TRUE(busy->Add(count));
  std::thread end([&] { pool.reset(); });
  // The destructor waits for the job above, so `busy` is there. It refuses once it has begun.
  while (busy->Add(count)) std::this_thread::yield();
  go.Notify();
  end.join();
  EXPECT_GE(refused, 1);
  EXPECT_EQ(answered, 0);
}

}  // namespace
}  // namespace profd
