#include "daemon/memory/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

WatchedProcess Process(int32_t pid, int64_t start_ns = 7) {
  return {.pid = pid,
          .start_ns = start_ns,
          .name = "p" + std::to_string(pid),
          .cgroup = {2, "/app"},
          .note = ""};
}

MemoryPoint Point(int64_t time_ns, int64_t rss) {
  MemoryPoint point;
  point.time_ns = time_ns;
  point.rss = rss;
  point.anon = rss / 2 / 1024 * 1024;
  return point;
}

// All points of all processes in a window.
MemoryTimeline::Query Everything(int64_t begin_ns = 0, int64_t end_ns = kMax) {
  return {.begin_ns = begin_ns,
          .end_ns = end_ns,
          .max_points = 1'000'000,
          .all_points = 1'000'000'000,
          .matches = [](const WatchedProcess&) { return true; }};
}

// The figures of a point under one name each.
std::vector<std::optional<int64_t>*> Figures(MemoryPoint& p) {
  return {&p.rss,
          &p.anon,
          &p.file,
          &p.shmem,
          &p.swap,
          &p.page_tables,
          &p.threads,
          &p.minor_faults,
          &p.major_faults,
          &p.pss,
          &p.pss_time_ns,
          &p.cgroup.current,
          &p.cgroup.limit,
          &p.cgroup.oom_kills,
          &p.cgroup.limit_hits,
          &p.cgroup.high_hits,
          &p.quota.millicpus,
          &p.quota.level,
          &p.quota.periods,
          &p.quota.throttled_periods,
          &p.quota.throttled_ns,
          &p.quota_moves,
          &p.allocated,
          &p.freed,
          &p.live,
          &p.pss_error};
}

TEST(MemoryTimelineTest, GivesBackWhatWentIn) {
  std::mt19937_64 random(1);
  MemoryTimeline timeline(64 << 20);
  std::vector<MemoryPoint> expected;
  MemoryPoint point;
  for (int i = 0; i < 1000; ++i) {
    point.time_ns += static_cast<int64_t>(random() % 10'000 + 1) * kMs;
    for (std::optional<int64_t>* figure : Figures(point)) {
      // Of any size, in a unit that all figures can be kept in; sometimes as before, or absent.
      if (random() % 3 == 0) {
        const auto any = static_cast<int64_t>(random() >> (random() % 62 + 2));
        *figure = any / (1024 * kMs) * (1024 * kMs);
      }
      if (random() % 10 == 0) *figure = std::nullopt;
    }
    timeline.Add(Process(1), point);
    expected.push_back(point);
  }
  std::vector<ProcessHistory> histories = timeline.Select(Everything());
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_EQ(histories[0].process.name, "p1");
  EXPECT_EQ(histories[0].process.cgroup.path, "/app");
  std::vector<MemoryPoint>& points = histories[0].points;
  ASSERT_THAT(points, SizeIs(expected.size()));
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].time_ns, expected[i].time_ns);
    const auto actual_figures = Figures(points[i]);
    const auto expected_figures = Figures(expected[i]);
    for (size_t f = 0; f < actual_figures.size(); ++f) {
      EXPECT_EQ(*actual_figures[f], *expected_figures[f]) << "point " << i << ", figure " << f;
    }
  }
}

TEST(MemoryTimelineTest, ImpossibleFiguresDoNoHarm) {
  MemoryTimeline timeline;
  MemoryPoint point = Point(1000 * kSecond, kMax);
  point.minor_faults = kMax;
  point.major_faults = std::numeric_limits<int64_t>::min();
  point.swap = -1;
  timeline.Add(Process(1), point);
  // Time does not go back.
  timeline.Add(Process(1), Point(5 * kSecond, 0));
  const std::vector<ProcessHistory> histories = timeline.Select(Everything());
  ASSERT_THAT(histories, SizeIs(1));
  const std::vector<MemoryPoint>& points = histories[0].points;
  ASSERT_FALSE(points.empty());
  EXPECT_EQ(points.back().time_ns, 1000 * kSecond);
  EXPECT_EQ(points.back().rss, 0);
  EXPECT_EQ(points.back().swap, std::nullopt);
  EXPECT_EQ(points.back().major_faults, std::nullopt);
  EXPECT_EQ(histories[0].peak_rss, kMax / 1024 * 1024);
}

TEST(MemoryTimelineTest, AStretchWithoutAChangeIsTwoPoints) {
  MemoryTimeline timeline;
  for (int i = 0; i <= 720; ++i) timeline.Add(Process(1), Point((100 + 5 * i) * kSecond, kMiB));
  const std::vector<ProcessHistory> all = timeline.Select(Everything());
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_THAT(all[0].points, SizeIs(2));
  EXPECT_EQ(all[0].points[0].time_ns, 100 * kSecond);
  EXPECT_EQ(all[0].points[1].time_ns, 3700 * kSecond);
  EXPECT_LT(timeline.Bytes(), 1200u);
  // A window inside of it has both its ends.
  const std::vector<ProcessHistory> part =
      timeline.Select(Everything(200 * kSecond, 260 * kSecond));
  ASSERT_THAT(part, SizeIs(1));
  ASSERT_THAT(part[0].points, SizeIs(2));
  EXPECT_EQ(part[0].points[0].time_ns, 200 * kSecond);
  EXPECT_EQ(part[0].points[0].rss, kMiB);
  EXPECT_EQ(part[0].points[1].time_ns, 260 * kSecond);
  EXPECT_EQ(part[0].points[1].rss, kMiB);
  // The end of the stretch stays where it is when something changes.
  timeline.Add(Process(1), Point(3705 * kSecond, 2 * kMiB));
  const std::vector<ProcessHistory> after = timeline.Select(Everything());
  ASSERT_THAT(after[0].points, SizeIs(3));
  EXPECT_EQ(after[0].points[1].time_ns, 3700 * kSecond);
  EXPECT_EQ(after[0].points[2].rss, 2 * kMiB);
}

TEST(MemoryTimelineTest, TakesTheWindow) {
  MemoryTimeline timeline;
  for (int i = 0; i < 100; ++i) {
    timeline.Add(Process(1), Point((1000 + 5 * i) * kSecond, (i + 1) * kMiB));
  }
  const std::vector<ProcessHistory> part =
      timeline.Select(Everything(1050 * kSecond, 1100 * kSecond));
  ASSERT_THAT(part, SizeIs(1));
  EXPECT_THAT(part[0].points, SizeIs(11));
  EXPECT_EQ(part[0].points.front().rss, 11 * kMiB);
  EXPECT_EQ(part[0].points.back().rss, 21 * kMiB);
  EXPECT_EQ(part[0].peak_rss, 21 * kMiB);
  EXPECT_THAT(timeline.Select(Everything(0, 900 * kSecond)), IsEmpty());
  // Any window that can be expressed.
  EXPECT_THAT(timeline.Select(Everything(-kMax, kMax))[0].points, SizeIs(100));
  EXPECT_THAT(timeline.Select(Everything(-kMax, -kMax + 1)), IsEmpty());
}

TEST(MemoryTimelineTest, WhatRunsGivesItsLastPointFromBefore) {
  MemoryTimeline timeline;
  for (const int32_t pid : {1, 2}) {
    timeline.Add(Process(pid), Point(1000 * kSecond, kMiB));
    timeline.Add(Process(pid), Point(1005 * kSecond, 2 * kMiB));
  }
  timeline.Add(Process(3), Point(2000 * kSecond, kMiB));
  timeline.End(2, 7);
  const std::vector<ProcessHistory> histories =
      timeline.Select(Everything(1010 * kSecond, 1900 * kSecond));
  ASSERT_THAT(histories, SizeIs(1)) << "one ended, one began later";
  EXPECT_EQ(histories[0].process.pid, 1);
  ASSERT_THAT(histories[0].points, SizeIs(1));
  EXPECT_EQ(histories[0].points[0].time_ns, 1005 * kSecond);
}

TEST(MemoryTimelineTest, AProcessThatEndedKeepsItsPoints) {
  MemoryTimeline timeline;
  timeline.Add(Process(1, 7), Point(10 * kSecond, kMiB));
  timeline.End(1, 8);
  EXPECT_FALSE(timeline.Select(Everything())[0].process.ended) << "another one of that PID";
  timeline.End(1, 7);
  timeline.Add(Process(1, 9), Point(20 * kSecond, 2 * kMiB));
  const std::vector<ProcessHistory> histories = timeline.Select(Everything());
  ASSERT_THAT(histories, SizeIs(2));
  EXPECT_TRUE(histories[0].process.ended);
  EXPECT_EQ(histories[0].points[0].rss, kMiB);
  EXPECT_FALSE(histories[1].process.ended);
  EXPECT_EQ(histories[1].points[0].rss, 2 * kMiB);
}

TEST(MemoryTimelineTest, WhatIsTooOldGoes) {
  MemoryTimeline timeline(4 << 20, 600 * kSecond);
  for (int i = 0; i < 400; ++i) {
    timeline.Add(Process(1), Point(5 * i * kSecond, (i + 1) * kMiB));
  }
  timeline.Add(Process(2), Point(0, kMiB));
  timeline.End(2, 7);
  timeline.Expire(1995 * kSecond);
  const std::vector<ProcessHistory> histories = timeline.Select(Everything());
  ASSERT_THAT(histories, SizeIs(1));
  EXPECT_LE(histories[0].points.front().time_ns, 1395 * kSecond);
  EXPECT_GE(histories[0].points.front().time_ns, 1000 * kSecond) << "but for a part of a chunk";
  EXPECT_EQ(timeline.dropped(), 0u);
  timeline.End(1, 7);
  timeline.Expire(10'000 * kSecond);
  EXPECT_EQ(timeline.Bytes(), 0u);
}

TEST(MemoryTimelineTest, KeepsItsLimitAndTheNewest) {
  constexpr size_t kLimit = 64 << 10;
  MemoryTimeline timeline(kLimit);
  std::mt19937 random(1);
  uint64_t added = 0;
  int64_t now = 0;
  for (int i = 0; i < 720; ++i) {
    now = (i + 1) * 5 * kSecond;
    for (int32_t pid = 1; pid <= 20; ++pid) {
      timeline.Add(Process(pid), Point(now, static_cast<int64_t>(random() % 100'000) * 1024));
      ++added;
      ASSERT_LE(timeline.Bytes(), kLimit);
    }
  }
  EXPECT_GT(timeline.dropped(), 0u);
  EXPECT_LT(timeline.dropped_until_ns(), now);
  const std::vector<ProcessHistory> histories = timeline.Select(Everything());
  ASSERT_THAT(histories, SizeIs(20));
  uint64_t kept = 0;
  for (const ProcessHistory& history : histories) {
    EXPECT_EQ(history.points.back().time_ns, now);
    kept += history.points.size();
  }
  EXPECT_EQ(kept + timeline.dropped(), added);
  EXPECT_GT(kept, kLimit / 20) << "some ten bytes a point";
}

TEST(MemoryTimelineTest, AnEndedProcessIsForgottenWithItsLastPoint) {
  MemoryTimeline timeline(16 << 10);
  for (int32_t pid = 1; pid <= 1000; ++pid) {
    timeline.Add(Process(pid), Point(pid * kSecond, pid * kMiB));
    timeline.End(pid, 7);
    ASSERT_LE(timeline.Bytes(), 16u << 10);
  }
  const std::vector<ProcessHistory> histories = timeline.Select(Everything());
  EXPECT_LT(histories.size(), 100u);
  EXPECT_EQ(histories.back().process.pid, 1000);
  EXPECT_EQ(timeline.dropped() + histories.size(), 1000u);
}

TEST(MemoryTimelineTest, ThinsEvenlyAndKeepsFirstLastAndPeak) {
  MemoryTimeline timeline;
  for (int i = 0; i < 700; ++i) {
    const int64_t rss = i == 333 ? 5000 * kMiB : (1000 + i) * kMiB;
    timeline.Add(Process(1), Point((100 + 5 * i) * kSecond, rss));
  }
  MemoryTimeline::Query query = Everything();
  query.max_points = 10;
  std::vector<ProcessHistory> histories = timeline.Select(query);
  std::vector<MemoryPoint>* points = &histories[0].points;
  EXPECT_GE(points->size(), 10u);
  EXPECT_LE(points->size(), 12u);
  EXPECT_EQ(points->front().rss, 1000 * kMiB);
  EXPECT_EQ(points->back().rss, 1699 * kMiB);
  EXPECT_EQ(histories[0].peak_rss, 5000 * kMiB);
  for (size_t i = 2; i + 1 < points->size(); ++i) {
    EXPECT_NEAR(static_cast<double>((*points)[i].time_ns - (*points)[i - 1].time_ns),
                350.0 * kSecond, 10.0 * kSecond);
  }
  // Many processes share the points.
  for (int32_t pid = 2; pid <= 20; ++pid) {
    for (int i = 0; i < 50; ++i) timeline.Add(Process(pid), Point((100 + i) * kSecond, i * kMiB));
  }
  query.max_points = 120;
  query.all_points = 100;
  histories = timeline.Select(query);
  ASSERT_THAT(histories, SizeIs(20));
  for (const ProcessHistory& history : histories) EXPECT_LE(history.points.size(), 7u);
  query.all_points = 0;
  query.max_points = 0;
  histories = timeline.Select(query);
  ASSERT_THAT(histories, SizeIs(20));
  for (const ProcessHistory& history : histories) {
    EXPECT_LE(history.points.size(), 3u);
  }
}

TEST(MemoryTimelineTest, ThinsButKeepsFaultsThatAreNotInEachPoint) {
  MemoryTimeline timeline;
  MemoryPoint point;
  for (int i = 0; i < 720; ++i) {
    point.time_ns = i * 5'000 * kMs;
    point.rss = i << 20;
    point.minor_faults = i % 4 == 1 ? std::optional<int64_t>(i) : std::nullopt;
    timeline.Add(Process(1), point);
  }
  MemoryTimeline::Query query = Everything();
  query.end_ns = 3'600'000 * kMs;
  query.max_points = 90;
  const std::vector<ProcessHistory> histories = timeline.Select(query);
  ASSERT_THAT(histories, SizeIs(1));
  const std::vector<MemoryPoint>& points = histories[0].points;
  EXPECT_LE(points.size(), 2 * 90U + 2);
  EXPECT_EQ(points.back().rss, 719 << 20);
  const auto with_faults = std::count_if(points.begin(), points.end(), [](const MemoryPoint& p) {
    return p.minor_faults.has_value();
  });
  EXPECT_GE(with_faults, 90);
}

TEST(MemoryTimelineTest, SharedByThreads) {
  MemoryTimeline timeline(32 << 10);
  std::vector<std::thread> threads;
  for (int32_t t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 300; ++i) {
        timeline.Add(Process(t), Point(i * kSecond, i * kMiB));
        if (i % 100 == 0) timeline.End(t, 7);
        timeline.Expire(i * kSecond);
        EXPECT_LE(timeline.Select(Everything()).size(), 3u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(timeline.Bytes(), 32u << 10);
}

}  // namespace
}  // namespace profd
