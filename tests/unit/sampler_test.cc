// Ticks and drains side by side: what one finds the other takes, once.
#include "daemon/source/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tests/support/fake_clock.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kInterval = 10 * kMs;
constexpr int64_t kBegin = 1'000'000'000'000;

// Threads that all wait. Where they do is told by their number and `places`.
class FakeTicks final : public TickKernel {
 public:
  explicit FakeTicks(size_t table = 16) : table_(table) {}

  void Start(uint64_t id) {
    born_.push_back(
        {.number = id, .thread_id = id, .kernel_tid = static_cast<int32_t>(id), .pad = 0});
  }

  bool ticks_by_list() const override { return by_list; }
  std::span<profd_visit> VisitTable() override { return table_; }
  absl::Status Visit(size_t count, int64_t) override {
    if (meanwhile) meanwhile();
    ++runs;
    RETURN_IF_ERROR(status);
    for (size_t i = 0; i < count; ++i) {
      profd_visit& visit = table_[i];
      visited.insert(visit.thread_id);
      visit.stack = visit.thread_id * 1'000 + place;
      visit.outcome = places > 1         ? PROFD_VISIT_NEW
                      : visit.known != 0 ? PROFD_VISIT_STILL
                                         : PROFD_VISIT_SAME;
      visit.reason = PROFD_REASON_POLL;
      slots[visit.thread_id] = visit.slot;
      place = (place + 1) % places;
    }
    return absl::OkStatus();
  }
  absl::Status VisitAll(int64_t, const RecordSink& sink) override {
    ++runs;
    for (uint64_t id = 1; id <= 3; ++id) {
      profd_visit visit{};
      visit.thread_id = visit.stack = id;
      visit.outcome = PROFD_VISIT_NEW;
      sink({reinterpret_cast<const uint8_t*>(&visit), sizeof(visit)});
    }
    return status;
  }
  void TakeBorn(absl::FunctionRef<void(const profd_born&)> sink) override {
    for (const profd_born& born : born_) sink(born);
    born_.clear();
  }
  bool RingHasNews() const override { return news; }
  profd_tick_stats TickStats() const override { return {}; }
  WokenMarks Woken() override { return {.marks = marks, .turn = woken_turn}; }
  void SetTickSums(const TickSum& before, const TickSum& now) override {
    EXPECT_TRUE(before.ticks == now.ticks || before.ticks + 1 == now.ticks);
    sum = now;
  }

  std::vector<uint8_t> marks = std::vector<uint8_t>(64);
  uint32_t woken_turn = 0;
  std::map<uint64_t, uint32_t> slots;
  TickSum sum;
  bool by_list = true;
  bool news = false;
  absl::Status status;
  uint64_t places = 1, place = 0;
  int runs = 0;
  std::function<void()> meanwhile;  // while the kernel makes visits
  std::multiset<uint64_t> visited;

 private:
  std::vector<profd_visit> table_;
  std::vector<profd_born> born_;
};

class SamplerTest : public ::testing::Test {
 protected:
  SamplerTest() { clock_.MoveTo(kBegin); }

  void Make(uint64_t counters = 1'000) {
    sampler_ = std::make_unique<Sampler>(
        &kernel_, &clock_,
        Sampler::Options{.interval_ns = kInterval, .counters = counters, .seed = 1});
    sampler_->Begin(clock_.MonotonicNs());
    EXPECT_FALSE(sampler_->Tick()) << "not due";
  }
  void Ticks(int n) {
    for (int i = 0; i < n; ++i) {
      clock_.MoveTo(sampler_->next_ns());
      (void)sampler_->Tick();
    }
  }
  // One thread, and the next tick is of a stratum of 100 intervals. What came before is not in
  // weights_.
  void BeginLongStratum() {
    kernel_.Start(1);
    Make();
    sampler_->SetInterval(100 * kInterval);
    Ticks(1);
    (void)Take();
    weights_.clear();
  }
  // Adds what was found since the last call to weights_ and samples_.
  Sampler::Counts Take() {
    std::vector<CounterEntry> entries;
    const Sampler::Counts counts = sampler_->Take(entries);
    taken_ = entries.size();
    for (const auto& [key, value] : entries) {
      weights_[key.thread_id] += static_cast<int64_t>(value.weight);
      samples_ += static_cast<int64_t>(value.count);
    }
    return counts;
  }

  FakeClock clock_;
  FakeTicks kernel_;
  std::unique_ptr<Sampler> sampler_;
  std::map<uint64_t, int64_t> weights_;
  int64_t samples_ = 0;
  size_t taken_ = 0;
};

TEST_F(SamplerTest, EveryTickWeighsItsInterval) {
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id);
  Make();
  for (int i = 0; i < 10; ++i) {
    Ticks(10);
    EXPECT_EQ(Take().ticks, 10 * (i + 1));
    EXPECT_EQ(taken_, 3U) << "who stays in a wait has one entry";
  }
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], 100 * kInterval);
  EXPECT_EQ(samples_, 300);
  EXPECT_EQ(Take().missed, 0);
}

TEST_F(SamplerTest, NothingToVisitAsksTheKernelForNothing) {
  Make();
  Ticks(10);
  EXPECT_EQ(kernel_.runs, 0);
  EXPECT_EQ(Take().ticks, 10);
  kernel_.Start(1);
  Ticks(1);
  EXPECT_EQ(kernel_.runs, 1) << "a thread that is born is visited by the next tick";
}

// A drain while the kernel makes visits takes nothing of them; the next one takes all.
TEST_F(SamplerTest, TickInFlightBelongsToTheNextDrain) {
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id);
  Make();
  Ticks(5);
  int64_t ticks = 0;
  kernel_.meanwhile = [&] {
    ticks = Take().ticks;
    EXPECT_EQ(taken_, 3U);
    kernel_.meanwhile = nullptr;
  };
  Ticks(1);
  EXPECT_EQ(ticks, 5);
  EXPECT_EQ(samples_, 15);
  EXPECT_EQ(Take().ticks, 6);
  EXPECT_EQ(samples_, 18);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], 6 * kInterval);
}

TEST_F(SamplerTest, TickInFlightDuringAPauseIsNone) {
  kernel_.Start(1);
  Make();
  Ticks(5);
  kernel_.meanwhile = [&] { sampler_->Pause(); };
  Ticks(1);
  kernel_.meanwhile = nullptr;
  EXPECT_EQ(Take().ticks, 5);
  EXPECT_EQ(weights_[1], 5 * kInterval);
  (void)sampler_->Tick();
  EXPECT_EQ(sampler_->next_ns(), INT64_MAX);
  clock_.MoveTo(clock_.MonotonicNs() + 3'600'000 * kMs);
  sampler_->Begin(clock_.MonotonicNs());
  (void)sampler_->Tick();
  EXPECT_LT(sampler_->next_ns(), clock_.MonotonicNs() + kInterval);
  Ticks(5);
  EXPECT_EQ(Take().ticks, 10);
  EXPECT_EQ(Take().missed, 0) << "a pause is no hole";
  EXPECT_EQ(weights_[1], 10 * kInterval);
}

// Paused and begun again while the kernel is slow: that tick is of the time before.
TEST_F(SamplerTest, TickInFlightOverAPauseIsNone) {
  kernel_.Start(1);
  Make();
  kernel_.meanwhile = [&] {
    sampler_->Pause();
    sampler_->Begin(clock_.MonotonicNs());
  };
  Ticks(1);
  kernel_.meanwhile = nullptr;
  EXPECT_EQ(Take().ticks, 0);
  EXPECT_THAT(weights_, IsEmpty());
}

TEST_F(SamplerTest, SlowKernelMissesTicks) {
  kernel_.Start(1);
  Make();
  kernel_.meanwhile = [&] { clock_.MoveTo(clock_.MonotonicNs() + 10 * kInterval); };
  Ticks(10);
  const Sampler::Counts counts = Take();
  EXPECT_EQ(counts.ticks, 10);
  EXPECT_GE(counts.missed, 80);
  EXPECT_EQ(weights_[1], 10 * kInterval);
}

// Who asks while a tick is held up is told of those that it has missed by then, once.
TEST_F(SamplerTest, AHeldUpTickMissesOthersMeanwhile) {
  kernel_.Start(1);
  Make();
  Ticks(5);
  EXPECT_EQ(Take().missed, 0);
  int64_t meanwhile = 0;
  kernel_.meanwhile = [&] {
    clock_.MoveTo(clock_.MonotonicNs() + 7 * kInterval);
    meanwhile = Take().missed;
    kernel_.meanwhile = nullptr;
  };
  Ticks(1);
  EXPECT_GE(meanwhile, 6);
  EXPECT_LE(meanwhile, 7);
  const int64_t later = Take().missed;
  EXPECT_GE(later, 6);
  EXPECT_LE(later, 8);
  EXPECT_GE(later, meanwhile);
  // One that never comes to its turn, too.
  clock_.MoveTo(sampler_->next_ns() + 4 * kInterval + 1);
  const int64_t held = Take().missed;
  EXPECT_GE(held, later + 3);
  EXPECT_LE(held, later + 4);
  sampler_->Pause();
  EXPECT_EQ(Take().missed, held) << "what was told stays told";
}

// What was told of one that was held up is not taken from those that are missed later.
TEST_F(SamplerTest, MissesAfterAHoldUpCountAgain) {
  kernel_.Start(1);
  Make();
  Ticks(5);
  clock_.MoveTo(sampler_->next_ns() + 20 * kInterval + 1);
  int64_t held = Take().missed;
  EXPECT_GE(held, 19);
  Ticks(1);
  EXPECT_LE(Take().missed, held + 1);
  clock_.MoveTo(sampler_->next_ns() + 20 * kInterval + 1);
  held = Take().missed;
  sampler_->SetInterval(10 * kInterval);
  Ticks(1);
  EXPECT_LE(Take().missed, held + 1);
  Ticks(1);
  clock_.MoveTo(sampler_->next_ns() + 50 * kInterval + 1);
  EXPECT_GE(Take().missed, held + 4);
}

// Who asks often is told of no more than who asks once.
TEST_F(SamplerTest, AskingMissesNothing) {
  const auto missed = [](bool asks) {
    FakeClock clock;
    clock.MoveTo(kBegin);
    FakeTicks kernel;
    kernel.Start(1);
    Sampler sampler(&kernel, &clock, {.interval_ns = kInterval, .counters = 1'000, .seed = 1});
    sampler.Begin(kBegin);
    std::mt19937 random(1);
    std::vector<CounterEntry> samples;
    for (int i = 0; i < 1'000; ++i) {
      (void)sampler.Tick();
      // Late by up to three intervals.
      const int64_t late = random() % (3 * kInterval);
      clock.MoveTo(std::max(clock.MonotonicNs(), sampler.next_ns()) + late / 2);
      if (asks) (void)sampler.Take(samples);
      clock.MoveTo(clock.MonotonicNs() + late / 2);
      if (asks) (void)sampler.Take(samples);
    }
    (void)sampler.Tick();
    return sampler.Take(samples).missed;
  };
  EXPECT_GT(missed(false), 0);
  EXPECT_EQ(missed(true), missed(false));
}

// An order that comes during a tick holds from its end on: what was missed till then counts once.
TEST_F(SamplerTest, AShorterIntervalDuringATickMissesNothingTwice) {
  kernel_.Start(1);
  Make();
  Ticks(5);
  kernel_.meanwhile = [&] {
    sampler_->SetInterval(kInterval / 10);
    clock_.MoveTo(clock_.MonotonicNs() + 5 * kInterval);
    kernel_.meanwhile = nullptr;
  };
  Ticks(1);
  Ticks(1);
  EXPECT_LE(Take().missed, 6);
  EXPECT_GE(Take().missed, 4);
}

// A tick that the kernel did not do is no tick in which nothing was found.
TEST_F(SamplerTest, FailedTickIsMissed) {
  kernel_.Start(1);
  Make();
  kernel_.status = absl::ResourceExhaustedError("ENOMEM");
  Ticks(3);
  kernel_.status = absl::OkStatus();
  Ticks(4);
  const Sampler::Counts counts = Take();
  EXPECT_EQ(counts.ticks, 4);
  EXPECT_EQ(counts.failed, 3);
  EXPECT_EQ(weights_[1], 4 * kInterval);
}

TEST_F(SamplerTest, FullLogLosesWeightAndSaysSo) {
  for (uint64_t id = 1; id <= 100; ++id) kernel_.Start(id);
  Make(60);
  Ticks(10);
  Sampler::Counts counts = Take();
  int64_t counted = 0;
  for (const auto& [id, weight] : weights_) counted += weight;
  EXPECT_EQ(counts.lost, 400);
  EXPECT_EQ(counted + counts.lost_ns, 100 * 10 * kInterval);
  // It is empty again.
  Ticks(1);
  counts = Take();
  EXPECT_EQ(counts.lost, 440);
}

// Few waits, in turn: they fit, however many samples there are of them.
TEST_F(SamplerTest, EntriesOfOneWaitAreMerged) {
  kernel_.Start(1);
  kernel_.places = 5;
  Make(16);
  Ticks(10'000);
  EXPECT_EQ(Take().lost, 0);
  EXPECT_EQ(samples_, 10'000);
  EXPECT_EQ(weights_[1], 10'000 * kInterval);
}

TEST_F(SamplerTest, IntervalHoldsFromTheNextStratumOn) {
  kernel_.Start(1);
  Make();
  Ticks(3);
  sampler_->SetInterval(4 * kInterval);
  EXPECT_EQ(Take().interval_ns, kInterval);
  Ticks(1);
  EXPECT_EQ(Take().interval_ns, 4 * kInterval);
  EXPECT_EQ(weights_[1], 4 * kInterval);
  Ticks(2);
  EXPECT_EQ(Take().interval_ns, 4 * kInterval);
  EXPECT_EQ(weights_[1], (4 + 8) * kInterval);
}

// A budget that has recovered, or a target that woke up: nobody waits for the end of a long
// stratum.
TEST_F(SamplerTest, AShorterIntervalHoldsAtOnce) {
  BeginLongStratum();
  ASSERT_GT(sampler_->next_ns(), clock_.MonotonicNs() + 2 * kInterval) << "as this seed has it";
  clock_.MoveTo(clock_.MonotonicNs() + kMs);
  sampler_->SetInterval(kInterval);
  const int64_t cut = clock_.MonotonicNs();
  EXPECT_FALSE(sampler_->Tick()) << "woken, not due";
  EXPECT_GE(sampler_->next_ns(), cut);
  EXPECT_LT(sampler_->next_ns(), cut + kInterval);
  const int64_t ticks = Take().ticks;
  Ticks(5);
  const Sampler::Counts counts = Take();
  EXPECT_EQ(counts.ticks - ticks, 5);
  EXPECT_EQ(counts.missed, 0);
  EXPECT_EQ(counts.interval_ns, kInterval);
  EXPECT_EQ(weights_[1], 5 * kInterval);
}

// A tick that was due before the order came is still done, and weighs what it was drawn for.
TEST_F(SamplerTest, ATickThatWasDueIsNotCutOff) {
  BeginLongStratum();
  clock_.MoveTo(sampler_->next_ns() + kMs);
  sampler_->SetInterval(kInterval);
  clock_.MoveTo(clock_.MonotonicNs() + kMs);
  const int64_t cut = clock_.MonotonicNs() - kMs;
  (void)sampler_->Tick();
  (void)Take();
  EXPECT_EQ(weights_[1], 100 * kInterval);
  EXPECT_LT(sampler_->next_ns(), cut + kInterval);
}

// And while the kernel works at a tick: what began before the order is a tick of the long stratum.
TEST_F(SamplerTest, AShorterIntervalHoldsAfterATickInFlight) {
  BeginLongStratum();
  int64_t cut = 0;
  kernel_.meanwhile = [&] {
    cut = clock_.MonotonicNs();
    sampler_->SetInterval(kInterval);
    kernel_.meanwhile = nullptr;
  };
  Ticks(1);
  (void)sampler_->Tick();
  (void)Take();
  EXPECT_EQ(weights_[1], 100 * kInterval);
  EXPECT_GE(sampler_->next_ns(), cut);
  EXPECT_LT(sampler_->next_ns(), cut + kInterval);
}

TEST_F(SamplerTest, LongerStridesWeighMore) {
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id);
  Make();
  sampler_->SetLongestStride(16);
  Ticks(31 + 16 * 20);
  const Sampler::Counts counts = Take();
  EXPECT_LT(kernel_.visited.size(), 3U * 30);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], counts.ticks * kInterval);
  EXPECT_EQ(counts.idle_ticks, 3 * counts.ticks);
}

// Threads that sleep unwoken are counted without a visit, by whichever drain comes first.
TEST_F(SamplerTest, QuietThreadsCountAtEveryTick) {
  for (const uint64_t id : {1, 2, 3}) kernel_.Start(id);
  kernel_.woken_turn = 1;
  Make();
  Ticks(10);
  EXPECT_EQ(sampler_->quiet(), 3U);
  EXPECT_EQ(kernel_.visited.size(), 6U);
  for (int i = 0; i < 5; ++i) {
    Ticks(10);
    EXPECT_EQ(Take().ticks, 10 * (i + 2));
    EXPECT_EQ(taken_, 3U);
  }
  EXPECT_EQ(kernel_.visited.size(), 6U);
  EXPECT_EQ(samples_, 180);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], 60 * kInterval);
  EXPECT_EQ(kernel_.sum.ticks, 60U);
  EXPECT_EQ(kernel_.sum.ns, uint64_t{60} * kInterval);
  // One of them is woken.
  kernel_.marks[kernel_.slots[2]] = 1;
  kernel_.visited.clear();
  Ticks(1);
  EXPECT_EQ(kernel_.visited, std::multiset<uint64_t>{2});
  Take();
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], 61 * kInterval);
}

TEST_F(SamplerTest, QuietThreadsDoNotCountAtTicksThatAreNone) {
  for (const uint64_t id : {1, 2}) kernel_.Start(id);
  kernel_.woken_turn = 1;
  Make();
  Ticks(5);
  // The one that is visited, so that the kernel is asked.
  kernel_.marks[kernel_.slots[1]] = 1;
  kernel_.status = absl::ResourceExhaustedError("ENOMEM");
  Ticks(3);
  kernel_.status = absl::OkStatus();
  EXPECT_EQ(Take().ticks, 5);
  for (const uint64_t id : {1, 2}) EXPECT_EQ(weights_[id], 5 * kInterval) << id;
  EXPECT_EQ(kernel_.sum.ticks, 5U) << "the kernel's sums have only those that count";
  kernel_.meanwhile = [&] { sampler_->Pause(); };
  Ticks(1);
  EXPECT_EQ(Take().ticks, 5);
  EXPECT_EQ(weights_[2], 5 * kInterval);
  EXPECT_EQ(kernel_.sum.ticks, 5U);
}

// Waits that last are told of quiet threads, too.
TEST_F(SamplerTest, LongWaitsOfQuietThreadsAreTold) {
  kernel_.Start(1);
  kernel_.woken_turn = 1;
  Make();
  LongWaitLeast least;
  least.fill(kMs);
  sampler_->SetLongWaits(least);
  // Nobody is looked at again so soon.
  Ticks(120);
  EXPECT_EQ(kernel_.visited.size(), 2U);
  Take();
  std::vector<LongWait> waits;
  EXPECT_EQ(sampler_->TakeLongWaits(waits), 0U);
  ASSERT_FALSE(waits.empty());
  EXPECT_TRUE(waits.back().lasts);
  EXPECT_NEAR(static_cast<double>(waits.back().duration_ns), 119.0 * kInterval, 2.0 * kInterval);
}

// A thread that calls exec takes the number of its leader.
TEST_F(SamplerTest, NumberMayChange) {
  Make();
  std::vector<Sampler::Known> known = {{.id = ThreadId{7}, .kernel_tid = 70}};
  sampler_->Learn(known);
  EXPECT_THAT(known, IsEmpty());
  Ticks(1);
  EXPECT_THAT(kernel_.visited, SizeIs(1));
  EXPECT_EQ(kernel_.VisitTable()[0].kernel_tid, 70);
  known = {{.id = ThreadId{7}, .kernel_tid = 71}};
  sampler_->Learn(known);
  Ticks(1);
  EXPECT_EQ(kernel_.VisitTable()[0].kernel_tid, 71);
}

TEST_F(SamplerTest, KernelThatFindsThreadsByItself) {
  kernel_.by_list = false;
  Make();
  Ticks(10);
  EXPECT_EQ(Take().ticks, 10);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(weights_[id], 10 * kInterval);
}

TEST_F(SamplerTest, TellsOfNews) {
  Make();
  clock_.MoveTo(sampler_->next_ns());
  EXPECT_FALSE(sampler_->Tick());
  kernel_.news = true;
  clock_.MoveTo(sampler_->next_ns());
  EXPECT_TRUE(sampler_->Tick());
}

// In real time, with drains and pauses at any instant: the sums hold.
TEST(SamplerThreadsTest, NothingIsLostBetweenThem) {
  FakeTicks kernel;
  for (const uint64_t id : {1, 2, 3, 4, 5}) kernel.Start(id);
  constexpr int64_t kShort = kMs / 10;
  Sampler sampler(&kernel, SystemClock(), {.interval_ns = kShort, .counters = 1'000, .seed = 3});
  std::atomic<bool> stopping = false;
  std::thread thread([&] {
    while (!stopping) {
      (void)sampler.Tick();
      sampler.Sleep();
    }
  });
  std::map<uint64_t, int64_t> weights;
  Sampler::Counts counts;
  for (int i = 0; i < 300; ++i) {
    if (i % 10 == 0) sampler.Begin(MonotonicNs());
    std::vector<CounterEntry> entries;
    std::vector<Sampler::Known> known = {{.id = ThreadId{1}, .kernel_tid = i}};
    sampler.Learn(known);
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 100));
    if (i % 10 == 9) sampler.Pause();
    counts = sampler.Take(entries);
    for (const auto& [key, value] : entries) {
      weights[key.thread_id] += static_cast<int64_t>(value.weight);
    }
  }
  stopping = true;
  sampler.Wake();
  thread.join();
  std::vector<CounterEntry> entries;
  const Sampler::Counts last = sampler.Take(entries);
  EXPECT_THAT(entries, IsEmpty()) << "it was paused";
  EXPECT_EQ(last.ticks, counts.ticks);
  EXPECT_GT(counts.ticks, 0);
  for (const uint64_t id : {1, 2, 3, 4, 5}) EXPECT_EQ(weights[id], counts.ticks * kShort);
}

}  // namespace
}  // namespace profd
