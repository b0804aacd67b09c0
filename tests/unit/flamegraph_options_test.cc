// What the options of the flame graph change.
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "client/analysis/flame_tree.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/palette.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Draw(const AnswerWriter& answer, const FlameGraphOptions& options) {
  const Profile profile = answer.Build();
  return RenderFlameGraph(MakeView(profile, false), options);
}

TEST(FlameGraphOptionsTest, MatchGolden) {
  ExpectGolden(Draw(ServerAnswer(), {.title = "Icicle <of> \"reth\" & co",
                                     .frame_height = 22,
                                     .colours = ColourScheme::kSafe,
                                     .inverted = true}),
               "inverted.svg");
  ExpectGolden(Draw(ServerAnswer(), {.width = 900,
                                     .frame_height = 14,
                                     .min_width = {.value = 1, .percent = true},
                                     .colours = ColourScheme::kHot,
                                     .reversed = true}),
               "reversed.svg");
}

TEST(FlameGraphOptionsTest, TitleIsTextAndNothingElse) {
  const std::string svg = Draw(ServerAnswer(), {.title = "</title><script>alert(1)\n\x1b[31m"});
  EXPECT_THAT(svg, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;/title&gt;&lt;script&gt;alert(1)??[31m</title>"));
}

TEST(FlameGraphOptionsTest, AnyWidthThatIsAskedForStays) {
  EXPECT_THAT(Draw(ServerAnswer(), {}), HasSubstr(" data-fit=\"1\""));
  const std::string svg = Draw(ServerAnswer(), {.width = 640});
  EXPECT_THAT(svg, HasSubstr("width=\"640\" height="));
  EXPECT_THAT(svg, Not(HasSubstr("data-fit")));
}

TEST(FlameGraphOptionsTest, MinWidthLeavesOutAndCounts) {
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "a", 100, 0);
  answer.AddBytes(thread, {{"wide", "a", app}}, 960, 0, 1);
  answer.AddBytes(thread, {{"thin", "a", app}}, 40, 0, 1);
  // 1020 - 20 pixels for 1000 bytes: one pixel each.
  FlameGraphOptions options = {.width = 1020};
  for (const auto& [min_width, drawn] :
       std::vector<std::pair<MinWidth, bool>>{{{}, true},
                                              {{39.9}, true},
                                              {{40.1}, false},
                                              {{3.9, true}, true},
                                              {{4.1, true}, false}}) {
    options.min_width = min_width;
    const std::string svg = Draw(answer, options);
    EXPECT_EQ(svg.find("<title>thin") != std::string::npos, drawn) << min_width.value;
    EXPECT_NE(svg.find("<title>wide"), std::string::npos);
    if (!drawn) ExpectGolden(svg, min_width.percent ? "min-width-percent.svg" : "min-width.svg");
  }
}

TEST(FlameGraphOptionsTest, ReversedTreeHasTheSameStacksFromTheOtherEnd) {
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  AnswerWriter answer(profd::Kind::kAlloc);
  const uint32_t one = answer.AddThread(1, 1, "a", "one", 100, 0);
  const uint32_t two = answer.AddThread(1, 2, "a", "two", 100, 0);
  answer.AddBytes(one, {{"malloc", "a", app}, {"parse", "a", app}}, 300, 0, 1);
  answer.AddBytes(two, {{"malloc", "a", app}, {"render", "a", app}}, 700, 0, 1);
  const Profile profile = answer.Build();
  const FlameTree tree = BuildFlameTree(MakeView(profile, false), true);
  const auto child = [&](uint32_t node, const std::string& name) {
    for (const uint32_t index : tree.nodes[node].children) {
      if (tree.nodes[index].name == name) return index;
    }
    ADD_FAILURE() << "no " << name;
    return 0u;
  };
  ASSERT_EQ(tree.nodes[0].children.size(), 1u);
  const uint32_t allocator = child(0, "malloc");
  EXPECT_EQ(tree.nodes[allocator].value, 1000);
  EXPECT_EQ(tree.nodes[child(allocator, "parse")].value, 300);
  const uint32_t thread = child(child(allocator, "render"), "two");
  EXPECT_EQ(tree.nodes[thread].value, 700);
  EXPECT_EQ(tree.nodes[thread].threads, 1u);
  EXPECT_TRUE(tree.nodes[thread].children.empty());
}

// One function on a CPU, on the run queue and in two kinds of waits.
AnswerWriter WallAnswer() {
  const auto app = profd::v1::FRAME_KIND_APPLICATION;
  AnswerWriter answer(profd::Kind::kWall);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 400);
  const std::vector<AnswerWriter::FrameSpec> frames = {{"work", "a", app}, {"main", "a", app}};
  answer.AddSample(thread, profd::v1::REASON_LOCK, frames, 300, 0);
  answer.AddSample(thread, profd::v1::REASON_ON_CPU, frames, 400, 0);
  answer.AddSample(thread, profd::v1::REASON_RUNQUEUE, frames, 200, 0);
  answer.AddSample(thread, profd::v1::REASON_DISK, frames, 100, 0);
  return answer;
}

TEST(StatesTest, FramesOfDifferentStatesAreApart) {
  const Profile profile = WallAnswer().Build();
  const View view = MakeView(profile, true);
  const FlameTree tree = BuildFlameTree(view, false, true);
  // The thread, and under it the same function in each state, running first.
  ASSERT_EQ(tree.nodes[0].children.size(), 1u);
  const FlameNode& thread = tree.nodes[tree.nodes[0].children[0]];
  EXPECT_EQ(thread.value, 1000);
  EXPECT_EQ(thread.state, profd::v1::REASON_UNSPECIFIED);
  std::vector<Reason> states;
  int64_t sum = 0;
  for (const uint32_t child : thread.children) {
    EXPECT_EQ(tree.nodes[child].name, "main");
    states.push_back(tree.nodes[child].state);
    sum += tree.nodes[child].value;
  }
  EXPECT_EQ(sum, 1000);
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states[0], profd::v1::REASON_ON_CPU);
  EXPECT_EQ(states[1], profd::v1::REASON_RUNQUEUE);
  // Merged where states are not asked for.
  const FlameTree merged = BuildFlameTree(view);
  EXPECT_EQ(merged.nodes[merged.nodes[0].children[0]].children.size(), 1u);
}

TEST(StatesTest, AllTimeIsColouredByState) {
  const auto classes = [](const AnswerWriter& answer, const FlameGraphOptions& options) {
    const Profile profile = answer.Build();
    const std::string svg = RenderFlameGraph(MakeView(profile, true), options);
    std::set<char> letters;
    const size_t frames = svg.find("<g id=\"frames\"");
    for (size_t at = svg.find("<rect class=\"", frames); at < svg.find("</g>\n<g id=\"head\"");
         at = svg.find("<rect class=\"", at + 1)) {
      letters.insert(svg[at + 13]);
    }
    return letters;
  };
  // On CPU, run queue, lock, disk; process and thread.
  EXPECT_EQ(classes(WallAnswer(), {}), (std::set<char>{'b', 'd', 'h', 'q', 'w'}));
  EXPECT_EQ(classes(WallAnswer(), {.colours = ColourScheme::kKind}),
            (std::set<char>{'a', 'b', 'r'}));
}

TEST(PaletteTest, SchemesHaveNames) {
  for (const ColourSchemeInfo& info : AllColourSchemes()) {
    EXPECT_EQ(ParseColourScheme(info.name), info.scheme);
    EXPECT_THAT(Draw(ServerAnswer(), {.colours = info.scheme}), HasSubstr("</svg>"));
  }
  EXPECT_EQ(ParseColourScheme("rainbow"), std::nullopt);
}

using Linear = std::array<double, 3>;  // red, green, blue; 0 to 1

double ToLinear(double value) {
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

Linear FromHsl(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](double n) {
    const double k = std::fmod(n + hue / 30, 12);
    return ToLinear(lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})));
  };
  return {channel(0), channel(8), channel(4)};
}

Linear Fill(const Shade& shade, const Tone& tone, int i) {
  return FromHsl(shade.hue + i * tone.hue_step, tone.saturation / 100.0,
                 (tone.lightness + i % 4 * tone.lightness_step) / 100.0);
}

double Luminance(const Linear& colour) {
  return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2];
}

double Contrast(const Linear& a, const Linear& b) {
  const double one = Luminance(a) + 0.05, other = Luminance(b) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

Linear Grey(int red, int green, int blue) {
  return {ToLinear(red / 255.0), ToLinear(green / 255.0), ToLinear(blue / 255.0)};
}

TEST(PaletteTest, EveryLabelCanBeRead) {
  const Linear on_light = Grey(0x1b, 0x1b, 0x1f), on_dark = Grey(0xf1, 0xf2, 0xf5);
  for (const ColourSchemeInfo& info : AllColourSchemes()) {
    for (const Unit unit : {Unit::kNanoseconds, Unit::kBytes}) {
      for (const Shade& shade : ShadesOf(info.scheme, unit)) {
        for (int i = 0; i < kTones; ++i) {
          // WCAG 2.1: 7 is the highest level, 4.5 is asked for of any text.
          EXPECT_GE(Contrast(Fill(shade, shade.light, i), on_light), 6.9)
              << info.name << " " << shade.name << " " << i;
          EXPECT_GE(Contrast(Fill(shade, shade.dark, i), on_dark), 4.5)
              << info.name << " " << shade.name << " " << i;
        }
      }
    }
  }
}

// CIELAB of a colour under D65.
std::array<double, 3> Lab(const Linear& c) {
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047);
  const double y = f(Luminance(c));
  const double z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// How a colour looks without one kind of cones: Machado, Oliveira and Fernandes 2009, severity 1.
constexpr std::array<std::array<Linear, 3>, 4> kVisions = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};

Linear See(const std::array<Linear, 3>& vision, const Linear& colour) {
  Linear seen = {};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) seen[i] += vision[i][j] * colour[j];
    seen[i] = std::min(1.0, std::max(0.0, seen[i]));
  }
  return seen;
}

double LeastDifference(ColourScheme scheme, Tone Shade::* paper) {
  double least = 1000;
  const auto shades = ShadesOf(scheme, Unit::kNanoseconds);
  for (const auto& vision : kVisions) {
    for (const Shade& one : shades) {
      for (const Shade& other : shades) {
        if (&one == &other) continue;
        const auto a = Lab(See(vision, Fill(one, one.*paper, 0)));
        const auto b = Lab(See(vision, Fill(other, other.*paper, 0)));
        least = std::min(least, std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]));
      }
    }
  }
  return least;
}

TEST(PaletteTest, SafeColoursAreApartForEveryVision) {
  EXPECT_GE(LeastDifference(ColourScheme::kSafe, &Shade::light), 15);
  EXPECT_GE(LeastDifference(ColourScheme::kSafe, &Shade::dark), 15);
  // The measure can tell: the default scheme is not safe.
  EXPECT_LT(LeastDifference(ColourScheme::kKind, &Shade::light), 15);
}

}  // namespace
}  // namespace profctl
