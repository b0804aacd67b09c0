#include "client/render/diff_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/diff.h"
#include "client/render/flamegraph_page.h"
#include "client/render/gaps.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// Steps of saturation; the last one stands for twice as much and more, or for nothing left.
constexpr int kSteps = 8;

// A colour between two, in HSL: degrees, per cent, per cent.
struct Ramp {
  int hue, from_saturation, to_saturation, from_lightness, to_lightness;
};

struct Paper {
  Ramp grew, shrank;
  std::string_view same;
};

constexpr char kGrew = 'g';
constexpr char kShrank = 'd';
constexpr char kSame[] = "n0";
constexpr Paper kLight = {{4, 72, 88, 87, 66}, {212, 66, 84, 86, 66}, "hsl(220,6%,86%)"};
constexpr Paper kDark = {{4, 34, 74, 30, 40}, {214, 36, 74, 31, 40}, "hsl(220,5%,27%)"};

void AppendRamp(char letter, const Ramp& ramp, std::string& css) {
  for (int i = 0; i < kSteps; i++) {
    const auto between = [i](int from, int to) { return from + (to - from) * i / (kSteps - 1); };
    absl::StrAppendFormat(&css, ".%c%d{fill:hsl(%d,%d%%,%d%%)}", letter, i, ramp.hue,
                          between(ramp.from_saturation, ramp.to_saturation),
                          between(ramp.from_lightness, ramp.to_lightness));
  }
  css += "\n";
}

void AppendPaper(const Paper& paper, std::string& css) {
  AppendRamp(kGrew, paper.grew, css);
  AppendRamp(kShrank, paper.shrank, css);
  absl::StrAppend(&css, ".", kSame, "{fill:", std::string(paper.same), "}\n");
}

std::string Styles() {
  std::string css;
  AppendPaper(kLight, css);
  css += "@media screen and (prefers-color-scheme: dark) {\n";
  AppendPaper(kDark, css);
  return css + "}\n";
}

std::string ClassOf(const NodeChange& node) {
  if (!node.changed) return kSame;
  const double change = node.Change();
  const double relative = node.a.value > 0 ? std::min(std::abs(change) / node.a.value, 1.0) : 1.0;
  const int step = std::clamp(static_cast<int>(std::lround(relative * kSteps)) - 1, 0, kSteps - 1);
  return absl::StrCat(std::string(1, change > 0 ? kGrew : kShrank), step);
}

std::vector<LegendItem> Legend() {
  const auto step = [](char letter, int at) { return absl::StrCat(std::string(1, letter), at); };
  return {{step(kGrew, kSteps - 1), "+100% or new"},
          {step(kGrew, kSteps / 2 - 1), "+50%"},
          {kSame, "no significant change"},
          {step(kShrank, kSteps / 2 - 1), "-50%"},
          {step(kShrank, kSteps - 1), "gone"}};
}

std::string_view WidthText(WidthOf width) {
  switch (width) {
    case WidthOf::kA:
      return "width: A";
    case WidthOf::kB:
      return "width: B";
    case WidthOf::kMax:
      return "width: the larger of A and B, for each stack";
  }
  return "";
}

// What has no width: "not drawn: 3 stacks that are only in A, 12.0 ms/s (2 changed ...".
std::string HiddenText(const Profile& profile, const Diff& diff, const DiffTree& tree,
                       WidthOf width) {
  if (tree.hidden == 0) return "";
  return absl::StrCat("not drawn: ", FormatCount(tree.hidden),
                      tree.hidden == 1 ? " stack that is" : " stacks that are", " only in ",
                      width == WidthOf::kA ? "B" : "A", ", ",
                      ValueText(tree.hidden_sum.value, profile, diff.normalized), " (",
                      FormatCount(tree.hidden_changed), " changed significantly); use --width-of ",
                      width == WidthOf::kA ? "b" : "a", " or max to draw ",
                      tree.hidden == 1 ? "it" : "them");
}

// "800 ms/s ± 10.0 ms/s in A, 1.23 s/s ± 15.0 ms/s in B: +430 ms/s ± 18.0 ms/s (+54.0%), 32.1%";
// the last number is the share of the picture.
std::string Describe(const NodeChange& node, double share, const Profile& profile,
                     bool normalized) {
  const auto with_error = [&](const DiffValue& value) {
    return absl::StrCat(ValueText(value.value, profile, normalized), " ± ",
                        ValueText(value.error, profile, normalized));
  };
  const std::string size = with_error(
      {.value = std::abs(node.Change()), .error = std::hypot(node.a.error, node.b.error)});
  // "<0.1%" has no sign.
  const std::string_view sign = size.starts_with('<') ? "" : node.Change() < 0 ? "-" : "+";
  return absl::StrCat(with_error(node.a), " in A, ", with_error(node.b),
                      " in B: ", std::string(sign), size, " (",
                      node.changed ? RelativeText(node.a, node.b) : "not significant", "), ",
                      FormatShare(share, 1));
}

FlameGraphPage PageOf(const Profile& a, const Profile& b, const Diff& diff, const DiffTree& tree,
                      WidthOf width) {
  FlameGraphPage page;
  page.unit = b.unit;
  page.total = tree.tree.nodes.front().value;
  page.title =
      absl::StrCat(std::string(b.kind->title), ", change from A to B: ", DescribeProcesses(b));
  page.lines = {
      absl::StrCat("A: ", WindowText(a)), absl::StrCat("B: ", WindowText(b)),
      absl::StrCat("total: ", ValueText(diff.total_a.value, a, false), " in A, ",
                   ValueText(diff.total_b.value, b, false), " in B · ",
                   diff.normalized ? "compared: shares of the total · " : "",
                   std::string(WidthText(width)), " · ", FormatCount(diff.Changed()), " of ",
                   FormatCount(diff.rows.size()), " stacks changed significantly"),
      HiddenText(b, diff, tree, width)};
  for (const auto& [side, profile] : {std::pair("A: ", &a), std::pair("B: ", &b)}) {
    for (const std::string& gap : DescribeGaps(*profile)) page.lines.push_back(side + gap);
  }
  if (page.total <= 0) {
    page.empty = {width == WidthOf::kMax ? "There is nothing in A and B."
                  : width == WidthOf::kB ? "There is nothing in B."
                                         : "There is nothing in A."};
  }
  return page;
}

}  // namespace

std::string RenderDiffGraph(const Profile& a, const Profile& b, const Diff& diff, WidthOf width,
                            const FlameGraphOptions& options) {
  DiffTree tree = BuildDiffTree(diff, width, options.reversed);
  FlameGraph graph;
  graph.page = PageOf(a, b, diff, tree, width);
  graph.tree = std::move(tree.tree);
  graph.per_second = !b.kind->level;
  graph.legend = Legend();
  graph.styles = Styles();
  graph.css_class = [&](uint32_t node) { return ClassOf(tree.changes[node]); };
  graph.describe = [&](uint32_t index) {
    const FlameNode& node = graph.tree.nodes[index];
    const double share = static_cast<double>(node.value) /
                         static_cast<double>(std::max<int64_t>(graph.page.total, 1));
    return absl::StrCat(Describe(tree.changes[index], share, b, diff.normalized), "\n",
                        ExplainNode(node, b.unit));
  };
  return DrawFlameGraph(graph, options);
}

}  // namespace profctl
