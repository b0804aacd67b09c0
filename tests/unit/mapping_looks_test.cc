#include "daemon/source/mapping_looks.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;
constexpr FoundModules kNone;
constexpr FoundModules kAllocator = {.allocators = 1, .libcs = 0, .glibcs = 0};
constexpr FoundModules kGlibc = {.allocators = 0, .libcs = 0, .glibcs = 1};

TEST(MappingLooksTest, NothingIsLookedForWhereNothingIsNew) {
  MappingLooks looks;
  for (int i = 1; i < 100; ++i) {
    EXPECT_FALSE(looks.IsEarlyDue(kNone, false, i * kSecond));
    looks.OnDrain(kNone, true, i * kSecond);
    EXPECT_FALSE(looks.wanted()) << "there is nothing that new processes could map";
  }
}

TEST(MappingLooksTest, NewProgramIsLookedAtBetweenDrainsAndAtTheNext) {
  MappingLooks looks;
  looks.OnExec(10 * kSecond);
  looks.OnExec(10 * kSecond + 40 * kMs);
  EXPECT_FALSE(looks.IsEarlyDue(kNone, false, 10 * kSecond + 49 * kMs))
      << "it has not mapped much yet";
  EXPECT_TRUE(looks.IsEarlyDue(kNone, false, 10 * kSecond + 50 * kMs))
      << "of the first, not the last";
  looks.LookedEarly(true, 10 * kSecond + 50 * kMs, 1'000);
  EXPECT_TRUE(looks.wanted()) << "it may be slow";
  EXPECT_TRUE(looks.IsEarlyDue(kNone, false, 10 * kSecond + 250 * kMs)) << "for the second";
  looks.LookedEarly(true, 10 * kSecond + 250 * kMs, 1'000);
  EXPECT_FALSE(looks.IsEarlyDue(kNone, false, 12 * kSecond)) << "once";
  looks.Looked(true, 12 * kSecond);
  EXPECT_FALSE(looks.wanted());
  // One that begins just before a drain, or during a look, is not forgotten.
  looks.OnExec(13 * kSecond);
  looks.Looked(true, 13 * kSecond + 1 * kMs);
  EXPECT_TRUE(looks.wanted());
  EXPECT_TRUE(looks.IsEarlyDue(kNone, false, 13 * kSecond + 60 * kMs));
  looks.OnExec(13 * kSecond + 61 * kMs);
  looks.LookedEarly(true, 13 * kSecond + 60 * kMs, 1'000);
  EXPECT_TRUE(looks.IsEarlyDue(kNone, false, 14 * kSecond));
}

TEST(MappingLooksTest, ModuleThatWasReadIsLookedForAtOnce) {
  MappingLooks looks;
  EXPECT_TRUE(looks.IsEarlyDue(kAllocator, false, kSecond));
  EXPECT_EQ(looks.found(), kAllocator);
  looks.LookedEarly(true, kSecond, 1'000);
  looks.OnDrain(kAllocator, false, 2 * kSecond);
  EXPECT_FALSE(looks.wanted());
  looks.OnDrain(kAllocator, true, 3 * kSecond);
  EXPECT_TRUE(looks.wanted());
}

TEST(MappingLooksTest, ModuleThatWasReadWaitsForTheOthers) {
  MappingLooks looks;
  EXPECT_FALSE(looks.IsEarlyDue(kAllocator, true, kSecond));
  EXPECT_TRUE(looks.IsEarlyDue(kAllocator, false, kSecond + 1));
  // No longer than to the next drain.
  MappingLooks slow;
  EXPECT_FALSE(slow.IsEarlyDue(kAllocator, true, kSecond));
  slow.OnDrain(kAllocator, false, kSecond + 1);
  EXPECT_TRUE(slow.wanted());
}

TEST(MappingLooksTest, LookThatFailedIsTakenAgain) {
  MappingLooks looks;
  EXPECT_TRUE(looks.IsEarlyDue(kAllocator, false, kSecond));
  looks.LookedEarly(false, kSecond, 1'000);
  EXPECT_TRUE(looks.wanted());
  looks.Looked(false, 2 * kSecond);
  EXPECT_TRUE(looks.wanted());
  looks.Looked(true, 3 * kSecond);
  EXPECT_FALSE(looks.wanted());
}

// Early looks take no more than one part in 500 of a CPU, however many programs come.
TEST(MappingLooksTest, DearLooksAreRare) {
  for (const int64_t cpu_ns : {10'000, 1'000'000, 20'000'000}) {
    MappingLooks looks;
    int64_t spent_ns = 0;
    int64_t taken = 0;
    for (int64_t now = kSecond; now < 1'001 * kSecond; now += 10 * kMs) {
      looks.OnExec(now);
      if (!looks.IsEarlyDue(kNone, false, now)) continue;
      looks.LookedEarly(true, now, cpu_ns);
      spent_ns += cpu_ns;
      ++taken;
    }
    EXPECT_LE(spent_ns, 1'000 * kSecond / MappingLooks::kRarity + cpu_ns) << cpu_ns;
    EXPECT_GE(taken, 90) << cpu_ns;
  }
}

TEST(MappingLooksTest, BurstsCanWait) {
  MappingLooks looks;
  looks.OnDrain(kGlibc, false, kSecond);
  EXPECT_TRUE(looks.wanted()) << "for the module";
  looks.Looked(true, kSecond);
  int64_t looked = 0;
  for (int i = 2; i < 42; ++i) {
    looks.OnDrain(kGlibc, i < 40, i * kSecond);
    if (!looks.wanted()) continue;
    looks.Looked(true, i * kSecond);
    ++looked;
  }
  EXPECT_EQ(looked, 10) << "one in four seconds, and the last processes were not forgotten";
}

}  // namespace
}  // namespace profd
