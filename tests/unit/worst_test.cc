// The longest waits on the client's side.
#include "client/render/worst.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "client/answer/longest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kBegin = 1'769'864'700'000 * kMs;

// The waits of the fixture: locks with and without a waker, one that lasts, one with bounds, one
// that no tick saw.
profd::v1::Profile WorstMessage() {
  profd::v1::Profile message = ServerAnswer().Message();
  const auto string = [&](const std::string& text) {
    message.add_strings(text);
    return static_cast<uint32_t>(message.strings_size() - 1);
  };
  const auto attribute = [&](const std::string& key, const std::string& text, int64_t number) {
    profd::v1::Attribute* out = message.add_attributes();
    out->set_key(string(key));
    if (!text.empty()) out->set_text(string(text));
    out->set_number(number);
    return static_cast<uint32_t>(message.attributes_size() - 1);
  };
  message.clear_samples();
  message.clear_losses();
  profd::v1::LongestWaits* longest = message.mutable_longest();
  const auto add = [&](uint32_t thread, int64_t at_ms, int64_t ms, uint32_t stack) {
    profd::v1::LongWait* wait = longest->add_waits();
    wait->set_thread(thread);
    wait->set_begin_ns(kBegin + at_ms * kMs);
    wait->set_duration_ns(ms * kMs);
    wait->set_reason(profd::v1::REASON_LOCK);
    wait->set_stack(stack);
    return wait;
  };
  profd::v1::LongWait* wait = add(1, 12'345, 5'678, 3);
  wait->set_lasts(true);
  wait->add_attributes(attribute("syscall", "", 202));
  wait->add_attributes(attribute("object", "0x7f00aa10", 0));
  wait = add(0, 1'000, 812, 2);
  wait->set_waker(string("reth/persistence"));
  wait->set_woken_stack(2);
  wait->set_similar(34);
  wait = add(0, 0, 400, 2);
  wait->set_doubt_ns(20 * kMs);
  wait = add(2, 2'000, 120, 0);
  wait->set_began_earlier(true);
  wait->add_attributes(attribute("idle", "tokio worker", 0));
  longest->set_least_ns(20 * kMs);
  longest->set_least_rest_ns(100 * kMs);
  longest->set_left_out(3);
  longest->set_idle_left_out(1'234);
  return message;
}

absl::StatusOr<Answer> Build(const profd::v1::Profile& message) {
  ProfileBuilder builder({"offcpu"});
  if (absl::Status status = builder.Add(message); !status.ok()) return status;
  return builder.Finish();
}

TEST(WorstTest, MatchesGolden) {
  const absl::StatusOr<Answer> answer = Build(WorstMessage());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto waits = ReadLongest(answer->profiles.front());
  ASSERT_TRUE(waits.ok()) << waits.status();
  ExpectGolden(RenderWorst(answer->profiles.front(), *waits, false), "worst.txt");
}

TEST(WorstTest, SaysThatThereIsNone) {
  profd::v1::Profile message = WorstMessage();
  message.clear_longest();
  const absl::StatusOr<Answer> answer = Build(message);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto waits = ReadLongest(answer->profiles.front());
  ASSERT_TRUE(waits.ok());
  EXPECT_THAT(*waits, IsEmpty());
  EXPECT_THAT(RenderWorst(answer->profiles.front(), *waits, false), HasSubstr("none"));
}

TEST(WorstTest, RefusesWhatRefersToNothing) {
  const auto status_of = [](const std::function<void(profd::v1::LongWait*)>& damage) {
    profd::v1::Profile message = WorstMessage();
    damage(message.mutable_longest()->mutable_waits(0));
    const absl::StatusOr<Answer> answer = Build(message);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return ReadLongest(answer->profiles.front()).status().code();
  };
  const auto lost = absl::StatusCode::kDataLoss;
  EXPECT_EQ(status_of([](auto*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_thread(1'000); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_stack(1'000'000); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_woken_stack(1'000'000); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_waker(1'000'000); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->add_attributes(1'000'000); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_duration_ns(-1); }), lost);
  EXPECT_EQ(status_of([](auto* wait) { wait->set_begin_ns(INT64_MAX); }), lost);
}

}  // namespace
}  // namespace profctl
