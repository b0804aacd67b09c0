// Short names of a whole answer, and other names of functions in the flame graph.
#include "client/answer/frame_choice.h"

#include <string>
#include <utility>

#include "client/analysis/flame_tree.h"
#include "client/answer/saved_answer.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_page.h"
#include "client/render/folded.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

uint32_t AddString(profd::v1::Profile& message, const std::string& text) {
  message.add_strings(text);
  return static_cast<uint32_t>(message.strings_size() - 1);
}

profd::v1::Function& FunctionNamed(profd::v1::Profile& message, const std::string& name) {
  for (profd::v1::Function& function : *message.mutable_functions()) {
    if (message.strings(static_cast<int>(function.name())) == name) return function;
  }
  ADD_FAILURE() << name;
  return *message.mutable_functions(0);
}

// Waits in two instances of a generic function, and in one from a perf map.
AnswerWriter GenericAnswer() {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(7, 7, "app", "walk::<A>", 100 * kSecond, 0);
  for (const char* name : {"walk::<A>", "walk::<B<C>>", "py::<module>"}) {
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{name, "app", profd::v1::FRAME_KIND_APPLICATION}}, kSecond, 1);
  }
  FunctionNamed(answer.message(), "py::<module>").set_found_by(profd::v1::NAME_SOURCE_PERF_MAP);
  return answer;
}

Answer BuiltAnswer(const AnswerWriter& answer) {
  Answer built;
  built.profiles.push_back(answer.Build());
  return built;
}

TEST(FrameChoiceTest, InstancesOfAGenericFunctionMerge) {
  const Answer before = BuiltAnswer(GenericAnswer());
  EXPECT_THAT(RenderFolded(MakeView(before.profiles[0], true)),
              AllOf(HasSubstr("walk::<A>;[lock] 1000000000"), HasSubstr("walk::<B<C>>;[lock] ")));
  const absl::StatusOr<Answer> after = WithChosenFrames({.short_names = true}, before);
  ASSERT_TRUE(after.ok()) << after.status();
  // The thread keeps its name, which is the same text.
  EXPECT_EQ(after->profiles[0].threads[0].name, "walk::<A>");
  EXPECT_THAT(RenderFolded(MakeView(after->profiles[0], true)),
              AllOf(HasSubstr(";walk<...>;[lock] 2000000000"), HasSubstr("py::<module>;[lock] ")));
}

TEST(FrameChoiceTest, LocksAndGroupsHaveShortNamesToo) {
  profd::v1::Profile message = GenericAnswer().Message({});
  profd::v1::Attribute* attribute = message.add_attributes();
  attribute->set_key(AddString(message, "lock"));
  attribute->set_text(AddString(message, "lock of walk::<A>"));
  message.mutable_samples(0)->add_attributes(static_cast<uint32_t>(message.attributes_size() - 1));
  profd::v1::LockUse* lock = message.add_locks();
  lock->set_name("lock of walk::<A>");
  lock->add_waiters()->set_function("walk::<A>");
  lock->add_releasers()->set_function("walk::<B<C>>");
  absl::StatusOr<Answer> before = BuildAnswer(message);
  ASSERT_TRUE(before.ok()) << before.status();
  const absl::StatusOr<Answer> after = WithChosenFrames({.short_names = true}, *std::move(before));
  ASSERT_TRUE(after.ok()) << after.status();
  const profd::v1::LockUse& shorter = after->message().locks(0);
  EXPECT_EQ(shorter.name(), "lock of walk<...>");
  EXPECT_EQ(shorter.waiters(0).function(), "walk<...>");
  EXPECT_EQ(shorter.releasers(0).function(), "walk<...>");
  EXPECT_EQ(after->profiles[0].samples[0].lock, "lock of walk<...>");
}

TEST(FrameChoiceTest, TheFlameGraphTellsOtherNamesAndSuffixes) {
  AnswerWriter answer = GenericAnswer();
  profd::v1::Profile& message = answer.message();
  profd::v1::Function& folded = FunctionNamed(message, "walk::<A>");
  folded.add_other_names(AddString(message, "run::<A>"));
  folded.add_other_names(AddString(message, "go"));
  folded.set_more_names(3);
  FunctionNamed(message, "walk::<B<C>>").set_suffix(AddString(message, ".cold"));
  const Profile profile = answer.Build();
  std::string folded_text, part_text;
  for (const FlameNode& node : BuildFlameTree(MakeView(profile, true)).nodes) {
    if (node.name == "walk::<A>" && node.kind == NodeKind::kApplication) {
      folded_text = ExplainNode(node, profile.unit);
    }
    if (node.name == "walk::<B<C>>") part_text = ExplainNode(node, profile.unit);
  }
  EXPECT_THAT(folded_text, EndsWith("\nsame code as run::<A>, go ..."));
  EXPECT_THAT(part_text, EndsWith("\npart .cold"));
}

}  // namespace
}  // namespace profctl
