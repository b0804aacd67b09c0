// Sums that are made beforehand change how fast an answer is made, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/store/intake.h"
#include "daemon/store/ledger_fields.h"
#include "daemon/store/memory_store.h"
#include "daemon/store/merger.h"
#include "daemon/store/rollup.h"
#include "daemon/store/site_table.h"
#include "daemon/store/sums.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTick = 10'000'000;
constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

// All of an answer, a line each, in an order of its own. Samples that are nothing are left out.
std::vector<std::string> LinesOf(const MergedProfile& p) {
  std::vector<std::string> lines = {absl::StrJoin({p.covered.begin_ns,
                                                   p.covered.end_ns,
                                                   p.books_ns,
                                                   p.switch_ns,
                                                   p.tick_ns,
                                                   p.heap_ns,
                                                   p.faults_ns,
                                                   p.mappings_ns,
                                                   p.cpu_ns,
                                                   p.disk_ns,
                                                   p.wakers_ns,
                                                   p.bursts_on_ns,
                                                   p.bursts,
                                                   p.burst_ns,
                                                   p.burst_span_ns,
                                                   p.tick_interval_ns,
                                                   p.ticks,
                                                   p.ticks_missed,
                                                   p.walks,
                                                   p.torn_walks,
                                                   p.lost_weight_ns,
                                                   p.coarsest_ns,
                                                   p.folded_threads,
                                                   p.long_rest_ns,
                                                   p.long_work_ns,
                                                   p.cost.daemon_cpu_ns,
                                                   p.cost.in_path_ns,
                                                   p.cost.switches},
                                                  " ")};
  lines.push_back("losses " + absl::StrJoin(p.losses, " "));
  for (const MergedThread& thread : p.threads) {
    const auto id = static_cast<uint64_t>(thread.info->id);
    lines.push_back(absl::StrCat("thread ", id, " ", thread.info->pid, " ", thread.info->tid, " ",
                                 thread.info->name, " ", thread.info->process, ": ",
                                 absl::StrJoin(ToFields(thread.ledger.Get()), " ")));
    for (const Sample& s : thread.samples) {
      if (s.weight == 0 && s.ticks == 0 && s.growth == 0) continue;
      lines.push_back(absl::StrFormat(
          "sample %d %d %d %d %d %d: %d %d %d %.9g", id, static_cast<uint64_t>(s.key.stack),
          s.key.argument, s.key.syscall, static_cast<int>(s.key.reason),
          static_cast<int>(s.key.kind), s.weight, s.ticks, s.growth, s.squares));
    }
  }
  for (const MergedWait& w : p.long_waits) {
    lines.push_back(absl::StrCat("wait ", static_cast<uint64_t>(w.wait.key.thread), " ",
                                 static_cast<uint64_t>(w.wait.key.stack), " ", w.wait.begin_ns, " ",
                                 w.wait.duration_ns, " ", w.wait.doubt_ns, " ", w.wait.earlier,
                                 w.wait.lasts, " ", static_cast<uint64_t>(w.wait.waker), " ",
                                 w.similar));
  }
  for (const auto& stack : p.stacks) {
    lines.push_back(absl::StrCat("stack ", static_cast<uint64_t>(stack->id), ": ",
                                 absl::StrJoin(stack->frames, " ")));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A service: some threads stay, others come and go. Drains come now and then, with pauses.
class Service {
 public:
  explicit Service(uint64_t seed) : random_(seed) {}

  ProfileDelta Next() {
    ProfileDelta delta;
    if (Chance(200)) now_ += Below(90 * kSecond);
    delta.begin_ns = now_;
    delta.end_ns = now_ += Chance(50) ? 0 : kSecond / 2 + Below(kSecond);
    const int64_t length = delta.end_ns - delta.begin_ns;
    delta.books_on = delta.switch_on = delta.tick_on = true;
    delta.heap_on = Chance(2);
    delta.tick_interval_ns = kTick;
    delta.ticks = length / kTick;
    delta.walks = Below(100);
    delta.lost_weight_ns = Below(1000);
    delta.losses[0] = static_cast<uint64_t>(Below(3));
    delta.cost.in_path_ns = Below(10'000);
    delta.cost.switches = Below(1000);
    delta.long_work_ns = 5'000'000 + Below(3);
    if (Chance(10)) threads_.push_back(next_thread_++);
    for (size_t i = 0; i < threads_.size(); i++) AddThread(threads_[i], length, &delta);
    if (threads_.size() > 3 && Chance(10)) {
      delta.threads.push_back(Info(threads_.back()));
      delta.threads.back().exited = true;
      threads_.pop_back();
    }
    return delta;
  }
  int64_t now_ns() const { return now_; }

 private:
  int64_t Below(int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random_);
  }
  bool Chance(int64_t in) { return Below(in) == 0; }

  static ThreadInfo Info(uint64_t id) {
    return {.id = ThreadId{id},
            .pid = 100 + static_cast<int32_t>(id % 3),
            .tid = static_cast<int32_t>(1000 + id),
            .target = 1,
            .name = absl::StrCat("worker-", id),
            .process = "server"};
  }

  void AddThread(uint64_t id, int64_t length, ProfileDelta* delta) {
    delta->threads.push_back(Info(id));
    LedgerDelta ledger;
    ledger.wall_ns = length;
    ledger.on_cpu_ns = length == 0 ? 0 : Below(length);
    ledger.off_ns[static_cast<size_t>(Reason::kLock)] = length - ledger.on_cpu_ns;
    ledger.waits[static_cast<size_t>(Reason::kLock)] = Below(100);
    ledger.allocated.bytes = Below(1 << 20);
    delta->ledgers.push_back({ThreadId{id}, ledger});
    for (int64_t n = Below(4); n > 0; n--) {
      // Some stacks are frequent, some are never seen again.
      const auto stack = static_cast<uint64_t>(Chance(30) ? 1000 + now_ / kSecond : 1 + Below(25));
      delta->stacks.push_back({.id = StackId{stack}, .frames = {stack, stack + 1}});
      static constexpr Kind kKinds[] = {Kind::kWait,  Kind::kAlloc, Kind::kInuse,
                                        Kind::kWaker, Kind::kCpu,   Kind::kDuration};
      const Kind kind = kKinds[Below(6)];
      SampleKey key{.thread = ThreadId{id}, .stack = StackId{stack}, .reason = Reason::kLock};
      key.kind = kind;
      if (kind == Kind::kAlloc && Chance(2)) key.argument = PROFD_BURST_ARGUMENT;
      const int64_t ticks = IsLevel(kind) ? Below(5) - 2 : 1 + Below(5);
      delta->samples.push_back({.key = key, .weight = ticks * kTick + Below(2), .ticks = ticks});
    }
    if (!Chance(40)) return;
    delta->stacks.push_back({.id = StackId{7}, .frames = {7, 8}});
    delta->long_waits.push_back({.key = {.thread = ThreadId{id}, .stack = StackId{7}},
                                 .begin_ns = delta->begin_ns - Below(3 * kSecond),
                                 .duration_ns = 10'000'000 + Below(kSecond),
                                 .waker = StackId{7}});
  }

  std::mt19937_64 random_;
  int64_t now_ = 1'000 * kSecond + 123;
  std::vector<uint64_t> threads_ = {1, 2, 3};
  uint64_t next_thread_ = 4;
};

// The sealed segments of a while, of some drains each.
std::deque<SegmentPtr> SealedSegments(int drains) {
  std::deque<SegmentPtr> sealed;
  Service service(1);
  Intake intake;
  std::vector<SegmentPtr> open;
  for (int n = 0; n < drains; n++) {
    open.push_back(intake.Take(service.Next()));
    if (open.size() < 8) continue;
    sealed.push_back(SealedSegment(RollUp(open, {.of_drains = true}), 0));
    open.clear();
  }
  return sealed;
}

std::vector<Pick> AllOf(const std::deque<SegmentPtr>& sealed) {
  std::vector<Pick> picks;
  for (const SegmentPtr& segment : sealed) picks.push_back({segment, 0, segment->spans.size()});
  return picks;
}

MergedProfile Merged(const std::vector<Sums::Part>& parts) {
  Merger merger({0, kAlways}, nullptr);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) merger.AddPart(*part);
  return std::move(merger).Finish();
}

MergedProfile Merged(const std::vector<Pick>& picks) {
  Merger merger({0, kAlways}, nullptr);
  for (auto pick = picks.rbegin(); pick != picks.rend(); ++pick) merger.Add(*pick);
  return std::move(merger).Finish();
}

// Sums of 400 s in which a drain took so long.
size_t SumsWithDrainsEvery(int64_t seconds) {
  Intake intake;
  std::deque<SegmentPtr> sealed;
  for (int64_t begin = 0; begin < 400; begin += seconds) {
    ProfileDelta delta;
    delta.begin_ns = begin * kSecond;
    delta.end_ns = (begin + seconds) * kSecond;
    delta.threads.push_back({.id = ThreadId{1}});
    LedgerDelta did;
    did.wall_ns = seconds * kSecond;
    delta.ledgers.push_back({.thread = ThreadId{1}, .delta = did});
    sealed.push_back(
        SealedSegment(RollUp(std::vector{intake.Take(std::move(delta))}, {.of_drains = true}), 0));
  }
  Sums sums;
  while (sums.MakeNext(sealed)) {
  }
  return sums.size();
}

TEST(SumsTest, FewSlicesNeedNone) {
  EXPECT_EQ(SumsWithDrainsEvery(5), 7U) << "of six minutes, and of five together";
  EXPECT_EQ(SumsWithDrainsEvery(10), 1U) << "of five minutes";
}

TEST(SumsTest, StandForTheirSlices) {
  const std::deque<SegmentPtr> sealed = SealedSegments(1500);
  Sums sums;
  while (sums.MakeNext(sealed)) {
  }
  const std::vector<Pick> picks = AllOf(sealed);
  const int64_t before = sealed.back()->end_ns() - Merger::kRecentNs;
  const std::vector<Sums::Part> parts = sums.Replace(picks, before);
  EXPECT_LT(parts.size(), 25) << "of " << picks.size();
  EXPECT_LT(parts.size() * 4, picks.size());
  size_t slices = 0, replaced = 0;
  for (const Pick& pick : picks) slices += pick.end - pick.begin;
  for (const Sums::Part& part : parts) {
    if (part.instead.empty()) replaced += part.pick.end - part.pick.begin;
    if (!part.instead.empty()) EXPECT_LE(part.pick.segment->end_ns(), before);
    for (const Pick& pick : part.instead) replaced += pick.end - pick.begin;
  }
  EXPECT_EQ(replaced, slices) << "each once";
  EXPECT_EQ(LinesOf(Merged(parts)), LinesOf(Merged(picks)));

  // A window that cuts a stretch does without its sum.
  const std::vector<Pick> cut(picks.begin() + 3, picks.end() - 5);
  EXPECT_EQ(LinesOf(Merged(sums.Replace(cut, before))), LinesOf(Merged(cut)));
  EXPECT_GT(sums.size(), 0U);
  const size_t bytes = sums.bytes();
  sums.Shrink(bytes / 2);
  EXPECT_LE(sums.bytes(), bytes / 2);
  sums.OnDrop(kAlways);
  EXPECT_EQ(sums.size(), 0U);
  EXPECT_EQ(sums.bytes(), 0U);
}

TEST(SumsTest, DamageCostsTimeOnly) {
  const std::deque<SegmentPtr> sealed = SealedSegments(700);
  Sums sums;
  while (sums.MakeNext(sealed)) {
  }
  const std::vector<Pick> picks = AllOf(sealed);
  std::vector<Sums::Part> parts = sums.Replace(picks, kAlways);
  size_t damaged = 0;
  for (Sums::Part& part : parts) {
    if (part.instead.empty()) continue;
    auto broken = std::make_shared<StoredSegment>(*part.pick.segment);
    broken->blob[broken->blob.size() / 2] ^= 1;
    part.pick.segment = broken;
    damaged++;
  }
  EXPECT_GT(damaged, 0U);
  EXPECT_EQ(LinesOf(Merged(parts)), LinesOf(Merged(picks)));
}

// Whatever was recorded, however it aged, and whichever window is asked for.
TEST(SumsTest, AnswersAreTheSameWithAndWithout) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    Service service(seed), same(seed);
    MemoryStore with({.sum_share = 1}), without({.sum_share = 0});
    const int64_t begin = service.now_ns();
    for (int n = 0; n < 1200; n++) {
      ASSERT_TRUE(with.Append(service.Next()).ok());
      ASSERT_TRUE(without.Append(same.Next()).ok());
    }
    ASSERT_GT(with.Bytes(), without.Bytes()) << "there are sums";
    std::mt19937_64 random(seed);
    for (int n = 0; n < 12; n++) {
      std::uniform_int_distribution<int64_t> instant(begin, service.now_ns() + kSecond);
      Window window{instant(random), instant(random)};
      if (window.begin_ns > window.end_ns) std::swap(window.begin_ns, window.end_ns);
      if (n == 0) window = {0, kAlways};
      const auto a = with.MergeLevels(window, nullptr);
      const auto b = without.MergeLevels(window, nullptr);
      ASSERT_TRUE(a.ok() && b.ok());
      ASSERT_EQ(LinesOf(*a), LinesOf(*b))
          << seed << ": " << window.begin_ns << " " << window.end_ns;
    }
  }
}

TEST(SiteTableTest, IsAMap) {
  for (const uint32_t most : {5U, 12U, 70U, 600U, 100'000U}) {
    std::mt19937 random(most);
    SiteTable table;
    std::map<uint32_t, int64_t> sums;
    for (int n = 0; n < 3000; n++) {
      // Mostly low numbers, some anywhere.
      const auto site =
          static_cast<uint32_t>(n % 7 == 0 ? random() % most : random() % (most / 3 + 1));
      table.Prefetch(site);
      table.At(site).weight += n;
      sums[site] += n;
    }
    EXPECT_EQ(table.size(), sums.size());
    std::map<uint32_t, int64_t> each;
    table.ForEach([&](const SiteSample& sample) { each[sample.site] = sample.weight; });
    EXPECT_EQ(each, sums);
    table.Sort();
    SiteTable::Cursor cursor(table);
    for (const auto& [site, weight] : sums) {
      ASSERT_TRUE(cursor.Next());
      EXPECT_EQ(cursor.site(), site);
      EXPECT_EQ(cursor.amount().weight, weight);
      EXPECT_EQ(table.FindSorted(site), &cursor.amount());
    }
    EXPECT_FALSE(cursor.Next());
    EXPECT_EQ(table.FindSorted(200'000), nullptr);
  }
}

}  // namespace
}  // namespace profd
