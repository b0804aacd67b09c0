#include "client/render/flamegraph_svg.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/render/flamegraph_assets.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// Pixels. A script adapts the picture to the window and measures the text.
constexpr int kDefaultWidth = 1200;
constexpr double kMargin = 10;
constexpr double kGap = 1;  // between rows
constexpr int kTallestFont = 12;
constexpr int kSmallestFont = 6;
constexpr double kCharacterOfFont = 0.608;  // width of a character, monospace
constexpr double kTextMargin = 3;
constexpr double kBaselineOfFont = 0.35;  // below the middle
constexpr double kLine = 18;
constexpr double kTitleCharacter = 9.4;
constexpr double kLineCharacter = 6.6;
constexpr double kControlsWidth = 612;
constexpr double kControlsHeight = 34;
constexpr double kLegendLine = 20;
constexpr double kLeastRows = 3;
constexpr double kEmptyRows = 5;
constexpr char kReasonLetter = 'r';

struct DrawnNode {
  uint32_t node;
  int64_t start;
  uint32_t depth;
};

struct Layout {
  double width = kDefaultWidth;
  double row = 0;
  int font = kTallestFont;
  double scale = 0;              // pixels of one nanosecond or byte
  double narrowest = 0;          // pixels
  std::vector<DrawnNode> drawn;  // parents before children
  double rows = 0;
  uint64_t narrow_frames = 0;
  int64_t narrow_value = 0;
};

uint64_t CountSubtree(const FlameTree& tree, uint32_t root) {
  uint64_t count = 0;
  std::vector<uint32_t> pending = {root};
  while (!pending.empty()) {
    const FlameNode& node = tree.nodes[pending.back()];
    pending.pop_back();
    ++count;
    pending.insert(pending.end(), node.children.begin(), node.children.end());
  }
  return count;
}

// Iterative: hostile stacks may be deeper than the call stack.
void PlaceNodes(const FlameTree& tree, Layout& layout) {
  struct Pending {
    uint32_t node;
    uint32_t depth;
    int64_t start;
  };
  uint32_t deepest = 0;
  std::vector<Pending> pending = {{0, 0, 0}};
  while (!pending.empty()) {
    const Pending at = pending.back();
    pending.pop_back();
    const FlameNode& node = tree.nodes[at.node];
    layout.drawn.push_back({at.node, at.start, at.depth});
    deepest = std::max(deepest, at.depth);
    // Last child first, so that the stack yields them in order.
    int64_t end = at.start + node.value;
    for (auto it = node.children.rbegin(); it != node.children.rend(); ++it) {
      const FlameNode& child = tree.nodes[*it];
      end -= child.value;
      if (child.value == 0) continue;
      if (static_cast<double>(child.value) * layout.scale < layout.narrowest) {
        layout.narrow_frames += CountSubtree(tree, *it);
        layout.narrow_value += child.value;
        continue;
      }
      pending.push_back({*it, at.depth + 1, end});
    }
  }
  layout.rows = std::max(static_cast<double>(deepest) + 1, kLeastRows);
}

Layout LayOut(const FlameTree& tree, int64_t total, const FlameGraphOptions& options) {
  Layout layout;
  layout.width = options.width.value_or(kDefaultWidth);
  layout.row = options.frame_height;
  layout.font = std::clamp(options.frame_height - 5, kSmallestFont, kTallestFont);
  const double inner = layout.width - 2 * kMargin;
  layout.narrowest =
      options.min_width.percent ? inner * options.min_width.value / 100 : options.min_width.value;
  layout.rows = kEmptyRows;
  if (total <= 0) return layout;
  layout.scale = inner / static_cast<double>(total);
  PlaceNodes(tree, layout);
  return layout;
}

std::string ClipToWidth(const std::string& name, double width, double character) {
  const double columns = std::floor((width - 2 * kTextMargin) / character);
  if (columns < 3) return "";
  return ClipEnd(name, static_cast<size_t>(columns));
}

void AppendFrame(const DrawnNode& drawn, const Layout& layout, const FlameGraph& graph,
                 bool inverted, std::string& svg) {
  const FlameNode& node = graph.tree.nodes[drawn.node];
  const double x = kMargin + static_cast<double>(drawn.start) * layout.scale;
  const double width = static_cast<double>(node.value) * layout.scale;
  const double y = layout.row * (inverted ? drawn.depth : layout.rows - 1 - drawn.depth);
  const double baseline = y + (layout.row - kGap) / 2 + layout.font * kBaselineOfFont;
  absl::StrAppendFormat(&svg, "<g data-s=\"%d\" data-e=\"%d\" data-d=\"%u\"><title>", drawn.start,
                        drawn.start + node.value, drawn.depth);
  absl::StrAppend(&svg, XmlEscape(node.name), "\n", XmlEscape(graph.describe(drawn.node)),
                  "</title>");
  absl::StrAppendFormat(&svg,
                        "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\"/>",
                        graph.css_class(drawn.node), x, y, width, layout.row - kGap);
  const std::string label = ClipToWidth(node.name, width, layout.font * kCharacterOfFont);
  if (!label.empty()) {
    absl::StrAppendFormat(&svg, "<text x=\"%.2f\" y=\"%.1f\">%s</text>", x + kTextMargin, baseline,
                          XmlEscape(label));
  }
  svg += "</g>\n";
}

// Describes the frames that were left out, or "".
std::string DescribeNarrow(const Layout& layout, int64_t total) {
  if (layout.narrow_frames == 0) return "";
  return absl::StrCat(
      FormatCount(layout.narrow_frames), layout.narrow_frames == 1 ? " frame" : " frames",
      " too narrow to draw (",
      FormatShare(static_cast<double>(layout.narrow_value), static_cast<double>(total)), ")");
}

// Writes the head from top to bottom: title, lines, controls, legend, and two lines that a script
// fills.
class HeadWriter {
 public:
  HeadWriter(double width, std::string& svg) : width_(width), svg_(svg) {}

  // Wraps to the width of the picture; a script wraps the text again.
  void Text(std::string_view css_class, std::string_view text, double character, double line) {
    const auto columns = static_cast<size_t>((width_ - 2 * kMargin) / character);
    absl::StrAppendFormat(&svg_, "<text class=\"line %s\" data-step=\"%.0f\" data-text=\"%s\">",
                          std::string(css_class), line, XmlEscape(text));
    const std::string wrapped = Wrap(text, columns, "");
    for (const absl::string_view piece : absl::StrSplit(wrapped, '\n', absl::SkipEmpty())) {
      y_ += line;
      absl::StrAppendFormat(&svg_, "<tspan x=\"%.0f\" y=\"%.0f\">%s</tspan>", kMargin, y_,
                            XmlEscape(ClipEnd({piece.data(), piece.size()}, columns)));
    }
    svg_ += "</text>\n";
  }

  void ControlsAndLegend(std::span<const LegendItem> legend) {
    // Leaves room for the focus ring around the controls.
    absl::StrAppendFormat(&svg_, kFlameGraphControls, y_ + 6, std::min(width_, kControlsWidth));
    const double row = y_ + 6;
    y_ += 6 + kControlsHeight;
    svg_ += "<g id=\"legend\">";
    std::vector<double> widths;
    double all = 0;
    for (const LegendItem& item : legend) {
      widths.push_back(34 + kLineCharacter * static_cast<double>(DisplayWidth(item.text)));
      all += widths.back();
    }
    const bool beside = kControlsWidth + all + 2 * kMargin <= width_;
    double x = beside ? width_ - kMargin - all : kMargin;
    double y = beside ? row + 11 : y_ + 2;
    for (size_t i = 0; i < legend.size(); ++i) {
      if (x > kMargin && x + widths[i] > width_) {
        x = kMargin;
        y += kLegendLine;
      }
      absl::StrAppendFormat(&svg_,
                            "<g transform=\"translate(%.0f,%.0f)\"><rect class=\"%s\" "
                            "width=\"12\" height=\"12\" rx=\"2\"/>"
                            "<text class=\"sub\" x=\"17\" y=\"10\">%s</text></g>",
                            x, y, legend[i].css_class, XmlEscape(legend[i].text));
      x += widths[i];
    }
    svg_ += "</g>\n";
    if (!beside) y_ = y + kLegendLine;
  }

  void Details() {
    absl::StrAppendFormat(&svg_,
                          "<text id=\"what\" x=\"%.0f\" y=\"%.0f\"></text>\n"
                          "<text id=\"detail\" class=\"sub\" x=\"%.0f\" y=\"%.0f\"></text>\n",
                          kMargin, y_ + 14, kMargin, y_ + 14 + kLine);
    y_ += 14 + kLine + 12;
  }

  double bottom() const { return y_; }

 private:
  const double width_;
  std::string& svg_;
  double y_ = 6;
};

std::string_view ScriptOf(Unit unit, bool per_second) {
  switch (unit) {
    case Unit::kNanoseconds:
      return per_second ? kFlameGraphScriptNsPerSecond : kFlameGraphScriptNs;
    case Unit::kBytes:
      return per_second ? kFlameGraphScriptBytesPerSecond : kFlameGraphScriptBytes;
    case Unit::kCount:
      return per_second ? kFlameGraphScriptCountPerSecond : kFlameGraphScriptCount;
  }
  return "";
}

}  // namespace

std::string RenderFlameGraph(const View& view, const FlameGraphOptions& options) {
  const bool wall = view.profile->kind->kind == profd::Kind::kWall;
  const ColourScheme colours =
      options.colours.value_or(wall ? ColourScheme::kState : ColourScheme::kKind);
  FlameGraph graph;
  graph.tree = BuildFlameTree(view, options.reversed, colours == ColourScheme::kState);
  graph.page = DescribeFlameGraph(view);
  const Unit unit = graph.page.unit;
  for (const Shade& shade : ShadesOf(colours, unit)) {
    if (shade.letter == kReasonLetter && !view.profile->kind->EndsInReason()) continue;
    graph.legend.push_back(
        {absl::StrCat(std::string(1, shade.letter), 0), std::string(shade.name)});
  }
  graph.styles = PaletteStyles(colours, unit);
  graph.css_class = [&](uint32_t index) {
    const FlameNode& node = graph.tree.nodes[index];
    return StyleClass(ShadeOf(node, colours, unit), node.name);
  };
  graph.describe = [&](uint32_t index) {
    const FlameNode& node = graph.tree.nodes[index];
    return absl::StrCat(DescribeNode(node, graph.page), "\n", ExplainNode(node, unit));
  };
  return DrawFlameGraph(graph, options);
}

std::string DrawFlameGraph(const FlameGraph& graph, const FlameGraphOptions& options) {
  FlameGraphPage page = graph.page;
  const FlameTree& tree = graph.tree;
  const Layout layout = LayOut(tree, page.total, options);
  if (!options.title.empty()) page.title = CleanName(options.title);
  if (options.reversed)
    page.lines.emplace_back("reversed: stacks are merged from the innermost frame");
  page.lines.push_back(DescribeNarrow(layout, page.total));

  std::string head;
  HeadWriter writer(layout.width, head);
  writer.Text("title", page.title, kTitleCharacter, kLine + 2);
  for (const std::string& line : page.lines) {
    if (!line.empty()) writer.Text("sub", line, kLineCharacter, kLine);
  }
  writer.ControlsAndLegend(graph.legend);
  writer.Details();
  const double height = writer.bottom() + layout.rows * layout.row + kMargin;

  std::string svg;
  svg.reserve(layout.drawn.size() * 300 + 32768);
  absl::StrAppendFormat(
      &svg,
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" data-margin=\"%.0f\" data-rows=\"%.0f\" data-row=\"%.0f\" "
      "data-font=\"%d\" data-narrowest=\"%g\"%s%s>\n",
      layout.width, height, layout.width, height, kMargin, layout.rows, layout.row, layout.font,
      layout.narrowest, options.width.has_value() ? "" : " data-fit=\"1\"",
      options.inverted ? " data-inverted=\"1\"" : "");
  absl::StrAppend(&svg, "<title>", XmlEscape(page.title), "</title>\n<style>\n", kFlameGraphCss,
                  "#frames text { font-size: ", layout.font, "px; }\n", graph.styles, "</style>\n");
  absl::StrAppendFormat(&svg,
                        "<rect id=\"paper\" width=\"100%%\" height=\"100%%\"/>\n"
                        "<g id=\"frames\" transform=\"translate(0,%.0f)\">\n",
                        writer.bottom());
  for (const DrawnNode& drawn : layout.drawn) {
    AppendFrame(drawn, layout, graph, options.inverted, svg);
  }
  svg += "</g>\n";
  if (!page.empty.empty()) {
    absl::StrAppendFormat(&svg, "<g id=\"empty\" transform=\"translate(0,%.0f)\">\n",
                          writer.bottom());
    double y = 30;
    for (const std::string& line : page.empty) {
      absl::StrAppendFormat(&svg, "<text class=\"empty\" x=\"50%%\" y=\"%.0f\">%s</text>\n", y,
                            XmlEscape(line));
      y += 24;
    }
    svg += "</g>\n";
  }
  // Last, so that it is above the frames when the page is scrolled.
  absl::StrAppendFormat(&svg,
                        "<g id=\"head\">\n<rect id=\"headpaper\" width=\"100%%\" "
                        "height=\"%.0f\"/>\n",
                        writer.bottom() - 4);
  absl::StrAppend(&svg, head, "</g>\n<script><![CDATA[\n",
                  std::string(ScriptOf(page.unit, graph.per_second)), "]]></script>\n</svg>\n");
  return svg;
}

}  // namespace profctl
