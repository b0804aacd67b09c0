// What the client makes of an answer to GetStacks.
#include "client/looks.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/render/looks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;

uint32_t Text(profd::v1::Profile* message, const std::string& text) {
  message->add_strings(text);
  return static_cast<uint32_t>(message->strings_size() - 1);
}

uint32_t Attribute(profd::v1::Profile* message, const std::string& key, const std::string& text) {
  profd::v1::Attribute attribute;
  attribute.set_key(Text(message, key));
  attribute.set_text(Text(message, text));
  *message->add_attributes() = attribute;
  return static_cast<uint32_t>(message->attributes_size() - 1);
}

// The threads of ServerAnswer, each in one of its waits, and one that runs. Two workers wait for
// one lock, three threads read the ends of one pipe.
profd::v1::Profile LooksMessage() {
  AnswerWriter writer = ServerAnswer();
  writer.AddThread(4242, 4330, "reth", "hog", kSecond, kSecond);
  profd::v1::Profile message = writer.Message({});
  const std::string lock = "futex 0x7f0012345678";
  std::map<uint32_t, int> seen;  // samples by thread
  for (const profd::v1::Sample& sample : message.samples()) {
    const uint32_t thread = sample.threads(0);
    const int nth = seen[thread]++;
    // Workers 0 and 1 in their second wait, worker 2 on the run queue, all others in the first.
    const int wanted = thread < 2 ? 1 : thread == 2 ? 2 : 0;
    if (nth != wanted) continue;
    profd::v1::ThreadLook* look = message.add_looks();
    look->set_thread(thread);
    look->set_reason(sample.reason());
    look->set_stack(sample.stack());
    look->set_for_ns((static_cast<int64_t>(thread) + 1) * 111 * kMs);
    for (const uint32_t attribute : sample.attributes()) {
      const profd::v1::Attribute& sent = message.attributes(static_cast<int>(attribute));
      if (message.strings(static_cast<int>(sent.key())) != "object") {
        look->add_attributes(attribute);
      }
    }
    if (sample.reason() == profd::v1::REASON_LOCK) {
      look->add_attributes(Attribute(&message, "object", lock));
    }
    if (sample.reason() == profd::v1::REASON_FSYNC) {
      look->add_attributes(Attribute(&message, "object", "fd 7"));
      look->add_attributes(Attribute(&message, "file", "/data/\x1b[31mmdbx.dat"));
      look->clear_for_ns();
    }
  }
  profd::v1::ThreadLook* hog = message.add_looks();
  hog->set_thread(static_cast<uint32_t>(message.threads_size() - 1));
  hog->set_reason(profd::v1::REASON_ON_CPU);
  hog->set_for_ns(3 * kMs);
  message.clear_samples();
  profd::v1::LookTotals* totals = message.mutable_look();
  totals->set_begin_ns(message.coverage().end_ns());
  totals->set_duration_ns(310'000);
  totals->set_cpu_ns(290'000);
  totals->set_threads(static_cast<uint64_t>(message.looks_size()) + 5);
  totals->set_left_out(5);
  totals->set_torn(1);
  totals->set_visited(99);
  totals->set_walks(90);
  return message;
}

absl::StatusOr<Looks> Read(const profd::v1::Profile& message) {
  ProfileBuilder builder({});
  absl::Status status = builder.Add(message);
  if (!status.ok()) return status;
  absl::StatusOr<Answer> answer = builder.Finish();
  if (!answer.ok()) return answer.status();
  return ReadLooks(*std::move(answer));
}

TEST(LooksTest, MatchesGoldens) {
  const absl::StatusOr<Looks> looks = Read(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  ExpectGolden(RenderLooksText(*looks, false, false), "stacks.txt");
  ExpectGolden(RenderLooksText(*looks, true, false), "stacks-idle.txt");
  ExpectGolden(RenderLooksJson(*looks), "stacks.json");
}

TEST(LooksTest, EveryThreadIsOnThePageOnce) {
  const absl::StatusOr<Looks> looks = Read(LooksMessage());
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
  absl::StatusOr<Looks> looks = Read(LooksMessage());
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
    const absl::StatusOr<Looks> looks = Read(message);
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
  const absl::StatusOr<Looks> looks = Read(LooksMessage());
  ASSERT_TRUE(looks.ok()) << looks.status();
  EXPECT_THAT(RenderLooksText(*looks, true, false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderLooksText(*looks, true, false), HasSubstr("/data/?[31mmdbx.dat"));
}

}  // namespace
}  // namespace profctl
