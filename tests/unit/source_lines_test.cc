// What the client makes of files, lines and inlined functions.
#include "client/answer/source_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/analysis/flame_tree.h"
#include "client/analysis/telling_frames.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_page.h"
#include "client/render/folded.h"
#include "client/render/speedscope.h"
#include "daemon/service/idle.h"
#include "daemon/service/rule_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

uint32_t AddText(const std::string& text, profd::v1::Profile& message) {
  message.add_strings(text);
  return static_cast<uint32_t>(message.strings_size() - 1);
}

// "work" with lock() inlined at line 7, which calls futex; and a second stack, of "work" alone.
AnswerWriter InlinedAnswer() {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(7, 7, "app", "app", 100 * kSecond, 0);
  const AnswerWriter::FrameSpec futex = {"futex", "libc.so.6", profd::v1::FRAME_KIND_LIBC};
  const AnswerWriter::FrameSpec work = {"work", "app", profd::v1::FRAME_KIND_APPLICATION};
  const AnswerWriter::FrameSpec other = {"other", "app", profd::v1::FRAME_KIND_APPLICATION};
  answer.AddSample(thread, profd::v1::REASON_LOCK, {futex, work}, kSecond, 1);
  answer.AddSample(thread, profd::v1::REASON_LOCK, {futex, other}, kSecond, 1);
  profd::v1::Profile& message = answer.message();
  const uint32_t name = AddText("lock", message);
  const uint32_t own_file = AddText("/src/work.cc", message);
  const uint32_t other_file = AddText("/usr/include/lock.h", message);
  const auto inlined = static_cast<uint32_t>(message.functions_size());
  profd::v1::Function* function = message.add_functions();
  function->set_name(name);
  function->set_file(other_file);
  function->set_kind(profd::v1::FRAME_KIND_RUNTIME);
  function->set_found_by(profd::v1::NAME_SOURCE_DEBUG_INFO);
  for (int i = 0; i < message.locations_size(); ++i) {
    profd::v1::Location& location = *message.mutable_locations(i);
    const uint32_t own = location.lines(0).function();
    if (message.strings(static_cast<int>(message.functions(static_cast<int>(own)).name())) !=
        "work") {
      continue;
    }
    message.mutable_functions(static_cast<int>(own))->set_file(own_file);
    location.clear_lines();
    profd::v1::Line* line = location.add_lines();
    line->set_function(inlined);
    line->set_line(41);
    line = location.add_lines();
    line->set_function(own);
    line->set_line(7);
  }
  return answer;
}

std::vector<std::string> Names(const Profile& profile, const Stack& stack) {
  std::vector<std::string> names;
  for (const uint32_t frame : stack.frames) names.push_back(profile.frames[frame].function);
  return names;
}

TEST(SourceLinesTest, InlinedFunctionsAreFrames) {
  const Profile profile = InlinedAnswer().Build();
  EXPECT_THAT(Names(profile, profile.stacks[1]), ElementsAre("futex", "lock", "work"));
  const std::vector<uint32_t>& frames = profile.stacks[1].frames;
  EXPECT_TRUE(profile.frames[frames[1]].inlined);
  EXPECT_FALSE(profile.frames[frames[2]].inlined);
  EXPECT_EQ(SourcePlace(profile.frames[frames[0]]), "");
  EXPECT_EQ(SourcePlace(profile.frames[frames[1]]), "/usr/include/lock.h:41");
  EXPECT_EQ(SourcePlace(profile.frames[frames[2]]), "/src/work.cc:7");
}

TEST(SourceLinesTest, TheOriginMayBeInlined) {
  AnswerWriter answer = InlinedAnswer();
  profd::v1::Stack& stack = *answer.message().mutable_stacks(1);
  stack.set_origin(1);
  stack.set_origin_line(1);
  EXPECT_EQ(Askers(answer.Build())[1], "work");
  stack.set_origin_line(0);
  EXPECT_EQ(Askers(answer.Build())[1], "lock");

  stack.set_origin_line(2);
  ProfileBuilder builder({});
  absl::Status status;
  for (const profd::v1::Profile& part : answer.Parts()) status.Update(builder.Add(part));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(SourceLinesTest, InlinedFunctionsCanBeDropped) {
  AnswerWriter answer = InlinedAnswer();
  answer.message().mutable_stacks(1)->set_origin(1);
  Profile profile = answer.Build();
  DropInlined(&profile);
  EXPECT_THAT(Names(profile, profile.stacks[1]), ElementsAre("futex", "work"));
  EXPECT_EQ(Askers(profile)[1], "work");
  EXPECT_THAT(Names(profile, profile.stacks[2]), ElementsAre("futex", "other"));
}

TEST(SourceLinesTest, TheFlameGraphTellsWhatWasInlinedAndWhere) {
  const Profile profile = InlinedAnswer().Build();
  const FlameTree tree = BuildFlameTree(MakeView(profile, true));
  std::string explained;
  for (const FlameNode& node : tree.nodes) {
    if (node.name == "lock" || node.name == "work" || node.name == "other") {
      absl::StrAppend(&explained, node.name, ": ", ExplainNode(node, profile.unit), "\n");
    }
  }
  EXPECT_THAT(explained, HasSubstr("; name from debug info\ninlined, /usr/include/lock.h:41\n"));
  EXPECT_THAT(explained, HasSubstr("work: application, app\n/src/work.cc:7\n"));
  EXPECT_THAT(explained, HasSubstr("other: application, app\n"));
}

TEST(SourceLinesTest, NamesCanHaveLines) {
  Profile profile = InlinedAnswer().Build();
  EXPECT_THAT(RenderFolded(MakeView(profile, true)), HasSubstr(";work;lock;futex;"));
  AddLinesToNames(&profile);
  EXPECT_THAT(RenderFolded(MakeView(profile, true)),
              HasSubstr(";work_(work.cc:7);lock_(lock.h:41);futex;"));
}

TEST(SourceLinesTest, SpeedscopeHasFilesAndLines) {
  const Profile profile = InlinedAnswer().Build();
  const auto json = nlohmann::json::parse(RenderSpeedscope({MakeView(profile, true)}));
  std::vector<std::string> frames;
  for (const auto& frame : json["shared"]["frames"]) frames.push_back(frame.dump());
  EXPECT_THAT(frames,
              testing::Contains(
                  nlohmann::json({{"name", "lock"}, {"file", "/usr/include/lock.h"}, {"line", 41}})
                      .dump()));
  EXPECT_THAT(frames,
              testing::Contains(nlohmann::json({{"name", "other"}, {"file", "app"}}).dump()));
}

TEST(SourceLinesTest, WhatIsMissingIsTold) {
  AnswerWriter answer = InlinedAnswer();
  EXPECT_EQ(DescribeLines(answer.Build()), "");
  answer.message().mutable_source_lines()->set_known(5);
  answer.message().mutable_source_lines()->set_missing(5);
  EXPECT_EQ(DescribeLines(answer.Build()), "");
  answer.message().mutable_source_lines()->set_pending(1200);
  EXPECT_EQ(DescribeLines(answer.Build()),
            "those of 1,200 places are not read yet; fetch again to have them");
  answer.message().mutable_source_lines()->set_failed(3);
  EXPECT_THAT(DescribeLines(answer.Build()), HasSubstr("; those of 3 places cannot be read"));
}

// A frame of the program with functions inlined, innermost first.
profd::NamedFrame NamedFrame(const std::string& function, const std::vector<std::string>& inlined,
                             profd::FrameKind kind = profd::FrameKind::kApplication) {
  profd::NamedFrame frame;
  frame.function = function;
  frame.module = "app";
  frame.kind = kind;
  for (const std::string& name : inlined) {
    frame.inlined.push_back({.function = name, .kind = kind, .file = "", .line = 1});
  }
  return frame;
}

TEST(RuleFramesTest, InlinedFunctionsTakePartInRules) {
  const std::vector<profd::NamedFrame> frames = {
      NamedFrame("syscall", {"pthread_mutex_lock"}, profd::FrameKind::kLibc),
      NamedFrame("app::serve", {"std::sys::futex::wait", "crossbeam_channel::Receiver::recv"}),
      NamedFrame("app::work", {"parking_lot::raw_mutex::RawMutex::lock_slow"})};
  const profd::RuleFrames rules(frames);
  const profd::IdleRule idle(rules.texts());
  const std::vector<uint32_t> receives = {0, 1}, locks = {0, 2};

  const auto whole = rules.StackOf(receives, true);
  EXPECT_EQ(idle.OfStack(whole.texts), "channel receiver");
  EXPECT_FALSE(idle.IsContended(whole.texts)) << "what is inlined in libc takes no part";
  EXPECT_THAT(idle.OfStack(rules.StackOf(receives, false).texts), IsEmpty());
  ASSERT_EQ(whole.places.size(), 4u);
  EXPECT_EQ(whole.places[2].frame, 1u);
  EXPECT_EQ(whole.places[2].line, 1u);
  EXPECT_EQ(whole.places[3].line, 2u) << "the frame's own function is the last";

  EXPECT_TRUE(idle.IsContended(rules.StackOf(locks, true).texts));
  EXPECT_FALSE(idle.IsContended(rules.StackOf(locks, false).texts));
}

}  // namespace
}  // namespace profctl
