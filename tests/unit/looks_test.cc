// What the client makes of an answer to GetStacks.
#include "client/analysis/looks.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/render/looks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_looks.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(LooksTest, MatchesGoldens) {
  const absl::StatusOr<Looks> looks = ReadLooksOf(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  ExpectGolden(RenderLooksText(*looks, false, false), "stacks.txt");
  ExpectGolden(RenderLooksText(*looks, true, false), "stacks-idle.txt");
  ExpectGolden(RenderLooksJson(*looks), "stacks.json");
}

TEST(LooksTest, EveryThreadIsOnThePageOnce) {
  const absl::StatusOr<Looks> looks = ReadLooksOf(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  size_t waits = 0, idle = 0;
  for (const ThreadLook& look : looks->threads) ++(look.idle.empty() ? waits : idle);
  EXPECT_GT(waits, 3U);
  EXPECT_GT(idle, 3U);
  const nlohmann::json json = nlohmann::json::parse(RenderLooksJson(*looks));
  EXPECT_EQ(json["threads"].size(), looks->threads.size());
  EXPECT_EQ(json["count"], looks->threads.size() + 5);
}

TEST(LooksTest, TheLongestWaitComesFirstAndAnUnknownOneLast) {
  ThreadLook longer, shorter, unknown;
  longer.for_ns = 2;
  shorter.for_ns = 1;
  EXPECT_TRUE(WaitsLonger(longer, shorter));
  EXPECT_FALSE(WaitsLonger(shorter, longer));
  EXPECT_TRUE(WaitsLonger(shorter, unknown));
  EXPECT_FALSE(WaitsLonger(unknown, shorter));
}

TEST(LooksTest, SharedObjectsAreOfOneProcessOrOfOneFile) {
  absl::StatusOr<Looks> looks = ReadLooksOf(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  const std::vector<SharedObject> shared = SharedObjects(*looks);
  ASSERT_THAT(shared, SizeIs(1)) << "idle threads share a futex, too, and do not count";
  EXPECT_EQ(shared[0].name, "futex 0x7f0012345678");
  ASSERT_THAT(shared[0].waits, SizeIs(2));
  EXPECT_GT(shared[0].waits[0]->for_ns, shared[0].waits[1]->for_ns);

  // The same address in another process is another lock.
  Looks two = *looks;
  two.answer.profiles.front().threads[0].pid = 1;
  EXPECT_THAT(SharedObjects(two), IsEmpty());
  // The same file is the same there, by whatever descriptor; what has no name is not.
  for (ThreadLook& look : two.threads) {
    if (look.thread == 0) look.object = "fd 3", look.file = "pipe:[7]";
    if (look.thread == 1) look.object = "fd 4", look.file = "pipe:[7]";
  }
  ASSERT_THAT(SharedObjects(two), SizeIs(1));
  EXPECT_EQ(SharedObjects(two)[0].name, "pipe:[7]");
  for (ThreadLook& look : two.threads) {
    if (look.thread < 2) look.file = "anon_inode:[eventpoll]";
  }
  EXPECT_THAT(SharedObjects(two), IsEmpty());
}

TEST(LooksTest, DamagedAnswersAreRefused) {
  const auto damaged = [](const auto& damage) {
    profd::v1::Profile message = LooksMessage();
    damage(message);
    const absl::StatusOr<Looks> looks = ReadLooksOf(message);
    EXPECT_TRUE(absl::IsDataLoss(looks.status())) << looks.status();
  };
  damaged([](profd::v1::Profile& m) { m.clear_look(); });
  damaged([](profd::v1::Profile& m) { m.mutable_looks(0)->set_thread(1000); });
  damaged([](profd::v1::Profile& m) { m.mutable_looks(0)->set_stack(1000); });
  damaged([](profd::v1::Profile& m) { m.mutable_looks(0)->add_attributes(1000); });
  damaged([](profd::v1::Profile& m) {
    m.mutable_attributes(static_cast<int>(m.looks(0).attributes(0)))->set_text(100'000);
  });
}

TEST(LooksTest, HostileTextCannotControlATerminal) {
  const absl::StatusOr<Looks> looks = ReadLooksOf(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  EXPECT_THAT(RenderLooksText(*looks, true, false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderLooksText(*looks, true, false), HasSubstr("/data/?[31mmdbx.dat"));
}

}  // namespace
}  // namespace profctl
