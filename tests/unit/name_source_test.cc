// What the client says about how names were found.
#include "client/answer/name_source.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/analysis/flame_tree.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_page.h"
#include "client/render/summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr char kStripped[] = "app:fn_1000";

// A stripped program that waits in the same function at `places` places, and a named function.
AnswerWriter StrippedAnswer(size_t places) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(7, 7, "app", "app", 100 * kSecond, 0);
  for (size_t i = 0; i < places; ++i) {
    // The writer makes one location of a function; they get their names afterwards.
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{std::string(i + 1, 'x'), "app", profd::v1::FRAME_KIND_APPLICATION},
                      {"main", "app", profd::v1::FRAME_KIND_APPLICATION}},
                     kSecond, 1);
  }
  profd::v1::Profile& message = answer.message();
  message.add_strings(kStripped);
  for (profd::v1::Function& function : *message.mutable_functions()) {
    if (message.strings(static_cast<int>(function.name())) == "main") {
      function.set_found_by(profd::v1::NAME_SOURCE_SYMBOLS);
      continue;
    }
    function.set_name(static_cast<uint32_t>(message.strings_size() - 1));
    function.set_found_by(profd::v1::NAME_SOURCE_BOUNDS);
  }
  return answer;
}

void AddShare(profd::v1::NameSource source, double share, AnswerWriter& answer) {
  profd::v1::NameShare* added = answer.message().add_name_shares();
  added->set_source(source);
  added->set_share(share);
}

FlameNode NodeNamed(const FlameTree& tree, const std::string& name) {
  std::vector<FlameNode> found;
  for (const FlameNode& node : tree.nodes) {
    if (node.name == name) found.push_back(node);
  }
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? FlameNode() : found[0];
}

TEST(NameSourceTest, FramesOfOneFunctionMergeAndKeepTheirOffsets) {
  const Profile profile = StrippedAnswer(2).Build();
  std::string explained;
  for (const bool reversed : {false, true}) {
    const FlameTree tree = BuildFlameTree(MakeView(profile, true), reversed);
    const FlameNode node = NodeNamed(tree, kStripped);
    EXPECT_EQ(node.value, 2 * kSecond);
    EXPECT_EQ(node.offsets.size(), 2u);
    EXPECT_FALSE(node.more_offsets);
    EXPECT_THAT(NodeNamed(tree, "main").offsets, IsEmpty()) << "its name says enough";
    absl::StrAppend(&explained, ExplainNode(node, profile.unit), "\n",
                    ExplainNode(NodeNamed(tree, "main"), profile.unit), "\n");
  }
  ExpectGolden(explained, "name-sources.txt");
}

TEST(NameSourceTest, OnlyTheFirstOffsetsAreKept) {
  const Profile profile = StrippedAnswer(9).Build();
  const FlameNode node = NodeNamed(BuildFlameTree(MakeView(profile, true)), kStripped);
  EXPECT_EQ(node.offsets.size(), 4u);
  EXPECT_TRUE(node.more_offsets);
}

TEST(NameSourceTest, SharesAreTold) {
  AnswerWriter answer = StrippedAnswer(1);
  AddShare(profd::v1::NAME_SOURCE_BOUNDS, 0.25, answer);
  AddShare(profd::v1::NAME_SOURCE_SYMBOLS, 0.75, answer);
  const Profile profile = answer.Build();
  EXPECT_EQ(DescribeNameShares(profile), "75.0% symbol table, 25.0% function bounds");
  ExpectGolden(RenderSummary(MakeView(profile, true), false), "name-sources.summary");
}

TEST(NameSourceTest, NothingIsSaidWhereNearlyAllHaveNames) {
  AnswerWriter answer = StrippedAnswer(1);
  AddShare(profd::v1::NAME_SOURCE_BOUNDS, 0.02, answer);
  AddShare(profd::v1::NAME_SOURCE_SYMBOLS, 0.98, answer);
  const Profile profile = answer.Build();
  EXPECT_EQ(DescribeNameShares(profile), "");
  ExpectGolden(RenderSummary(MakeView(profile, true), false), "name-sources-known.summary");
}

TEST(NameSourceTest, SharesThatCannotBeAreLeftOut) {
  AnswerWriter answer = StrippedAnswer(1);
  AddShare(profd::v1::NAME_SOURCE_BOUNDS, -1, answer);
  AddShare(profd::v1::NAME_SOURCE_BOUNDS, 1e300, answer);
  answer.message().add_name_shares()->set_sample_type(99);
  EXPECT_EQ(DescribeNameShares(answer.Build()), "");
}

}  // namespace
}  // namespace profctl
