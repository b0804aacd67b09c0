#include "client/render/flamegraph_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/flamegraph_assets.h"
#include "client/render/gaps.h"
#include "client/render/heap.h"
#include "client/text.h"

namespace profctl {
namespace {

// Pixels, before a script adapts the picture to the window.
constexpr double kWidth = 1200;
constexpr double kMargin = 10;
constexpr double kRow = 18;
constexpr double kGap = 1;  // between rows
constexpr double kCharacter = 7.3;
constexpr double kTextMargin = 3;
constexpr double kNarrowest = 0.1;
constexpr int kLine = 18;
constexpr size_t kTitleColumns = 110;
constexpr size_t kSubtitleColumns = 170;
constexpr int kTones = 8;

struct Palette {
  NodeKind kind;
  char letter;  // of the style class
  std::string_view name;
  int hue, hue_step, saturation, lightness, lightness_step;
};

constexpr std::array<Palette, 7> kWaitPalettes = {{
    {NodeKind::kApplication, 'a', "application", 122, 5, 42, 68, 1},
    {NodeKind::kRuntime, 'u', "runtime", 198, 4, 58, 71, 1},
    {NodeKind::kLibc, 'l', "libc", 50, 1, 76, 66, 1},
    {NodeKind::kKernel, 'k', "kernel", 12, 2, 80, 72, 1},
    {NodeKind::kReason, 'r', "why it waited", 336, 2, 62, 76, 1},
    {NodeKind::kSynthetic, 's', "not known", 268, 3, 38, 79, 1},
    {NodeKind::kBase, 'b', "process, thread", 220, 0, 8, 76, 1},
}};

// Greens for memory, told apart by hue and by lightness.
constexpr std::array<Palette, 6> kMemoryPalettes = {{
    {NodeKind::kApplication, 'a', "application", 128, 3, 44, 60, 1},
    {NodeKind::kRuntime, 'u', "runtime", 162, 2, 46, 76, 1},
    {NodeKind::kLibc, 'l', "libc", 84, 1, 58, 72, 1},
    {NodeKind::kKernel, 'k', "kernel", 62, 1, 44, 60, 1},
    {NodeKind::kSynthetic, 's', "not known", 268, 3, 38, 79, 1},
    {NodeKind::kBase, 'b', "process, thread", 150, 0, 6, 78, 1},
}};

std::span<const Palette> PalettesOf(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return kWaitPalettes;
    case Unit::kBytes:
      return kMemoryPalettes;
  }
  return {};
}

const Palette& PaletteOf(NodeKind kind, Unit unit) {
  const std::span<const Palette> palettes = PalettesOf(unit);
  for (const Palette& palette : palettes) {
    if (palette.kind == kind) return palette;
  }
  return palettes.back();
}

// FNV-1a: the same name has the same tone in every picture.
int ToneOf(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int>((hash ^ hash >> 16) % kTones);
}

std::string PaletteStyles(Unit unit) {
  std::string css;
  for (const Palette& palette : PalettesOf(unit)) {
    for (int tone = 0; tone < kTones; ++tone) {
      absl::StrAppendFormat(&css, ".%c%d{fill:hsl(%d,%d%%,%d%%)}", palette.letter, tone,
                            palette.hue + tone * palette.hue_step, palette.saturation,
                            palette.lightness + tone % 4 * palette.lightness_step);
    }
    css += "\n";
  }
  return css;
}

std::string_view ScriptOf(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return kFlameGraphScriptNs;
    case Unit::kBytes:
      return kFlameGraphScriptBytes;
  }
  return "";
}

std::string JoinNonEmpty(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!joined.empty()) joined += " · ";
    joined += part;
  }
  return joined;
}

struct DrawnNode {
  const FlameNode* node;
  int64_t start;
  uint32_t depth;
};

struct Layout {
  std::vector<DrawnNode> drawn;  // parents before children
  uint32_t rows = 0;
  uint64_t narrow_frames = 0;
  int64_t narrow_value = 0;
};

// Of one nanosecond or byte.
double PixelsOfOne(int64_t total) {
  return total > 0 ? (kWidth - 2 * kMargin) / static_cast<double>(total) : 0;
}

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
Layout LayOut(const FlameTree& tree) {
  struct Pending {
    uint32_t node;
    uint32_t depth;
    int64_t start;
  };
  Layout layout;
  const double scale = PixelsOfOne(tree.nodes[0].value);
  std::vector<Pending> pending = {{0, 0, 0}};
  while (!pending.empty()) {
    const Pending at = pending.back();
    pending.pop_back();
    const FlameNode& node = tree.nodes[at.node];
    layout.drawn.push_back({&node, at.start, at.depth});
    layout.rows = std::max(layout.rows, at.depth + 1);
    // Last child first, so that the stack yields them in order.
    int64_t end = at.start + node.value;
    for (auto it = node.children.rbegin(); it != node.children.rend(); ++it) {
      const FlameNode& child = tree.nodes[*it];
      end -= child.value;
      if (static_cast<double>(child.value) * scale < kNarrowest) {
        layout.narrow_frames += CountSubtree(tree, *it);
        layout.narrow_value += child.value;
        continue;
      }
      pending.push_back({*it, at.depth + 1, end});
    }
  }
  return layout;
}

std::string Describe(const FlameNode& node, const View& view) {
  const Unit unit = view.profile->unit;
  const auto total = static_cast<double>(view.shown_value);
  const std::string share = FormatShare(static_cast<double>(node.value), total);
  const double error = std::min(std::sqrt(node.variance), 9e18);
  if (error < 1) return absl::StrCat(FormatValue(node.value, unit), ", ", share);
  return absl::StrCat(FormatValue(node.value, unit), " ± ",
                      FormatValue(static_cast<int64_t>(error), unit), ", ", share, " ± ",
                      FormatShare(error, total));
}

std::string Explain(const FlameNode& node, Unit unit) {
  const auto name = PaletteOf(node.kind, unit).name;
  switch (node.kind) {
    case NodeKind::kBase:
      return absl::StrCat(node.module, node.module.empty() ? "" : ", ", FormatCount(node.threads),
                          node.threads == 1 ? " thread" : " threads");
    case NodeKind::kReason: {
      const std::string_view reason = std::string_view(node.name).substr(1, node.name.size() - 2);
      for (const ReasonInfo& info : AllReasons()) {
        if (info.name == reason) return std::string(info.meaning);
      }
      return std::string(name);
    }
    case NodeKind::kSynthetic:
      if (node.name == "[unsampled]") {
        return unit == Unit::kBytes ? "bytes of the allocator's counter that no event stands for"
                                    : "time of the ledger that no tick saw";
      }
      return "the rest of the stack is not known";
    case NodeKind::kKernel:
    case NodeKind::kLibc:
    case NodeKind::kRuntime:
    case NodeKind::kApplication:
      if (node.module.empty() || node.kind == NodeKind::kKernel) return std::string(name);
      return absl::StrCat(std::string(name), ", ", node.module);
  }
  return std::string(name);
}

std::string ClipToWidth(const std::string& name, double width) {
  const double columns = std::floor((width - 2 * kTextMargin) / kCharacter);
  if (columns < 3) return "";
  return ClipEnd(name, static_cast<size_t>(columns));
}

void AppendFrame(const DrawnNode& drawn, const View& view, double bottom, std::string& svg) {
  const FlameNode& node = *drawn.node;
  const Unit unit = view.profile->unit;
  const double scale = PixelsOfOne(view.shown_value);
  const double x = kMargin + static_cast<double>(drawn.start) * scale;
  const double width = static_cast<double>(node.value) * scale;
  const double y = bottom - (drawn.depth + 1) * kRow;
  absl::StrAppendFormat(&svg, "<g data-s=\"%d\" data-e=\"%d\" data-d=\"%u\"><title>", drawn.start,
                        drawn.start + node.value, drawn.depth);
  absl::StrAppend(&svg, XmlEscape(node.name), "\n", XmlEscape(Describe(node, view)), "\n",
                  XmlEscape(Explain(node, unit)), "</title>");
  absl::StrAppendFormat(
      &svg, "<rect class=\"%c%d\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\"/>",
      PaletteOf(node.kind, unit).letter, ToneOf(node.name), x, y, width, kRow - kGap);
  const std::string label = ClipToWidth(node.name, width);
  if (!label.empty()) {
    absl::StrAppendFormat(&svg, "<text x=\"%.2f\" y=\"%.0f\">%s</text>", x + kTextMargin, y + 13,
                          XmlEscape(label));
  }
  svg += "</g>\n";
}

std::string WindowLine(const Profile& profile) {
  const profd::v1::Coverage& header = profile.coverage();
  std::vector<std::string> parts;
  if (WindowNs(profile) > 0) {
    parts.push_back(absl::StrCat(FormatTimeUtc(header.begin_ns()), " to ",
                                 FormatTimeUtc(header.end_ns()), " UTC (",
                                 FormatDuration(WindowNs(profile)), ")"));
  }
  const profd::v1::Host& host = profile.message->host();
  parts.push_back(CleanName(host.hostname()));
  if (!host.kernel_release().empty()) {
    parts.push_back(absl::StrCat("Linux ", CleanName(host.kernel_release())));
  }
  return JoinNonEmpty(parts);
}

// How much is shown.
std::string ShownPart(const View& view) {
  const Profile& profile = *view.profile;
  switch (profile.unit) {
    case Unit::kNanoseconds:
      return absl::StrCat("shown: ", FormatDuration(view.shown_value), " not running");
    case Unit::kBytes:
      return absl::StrCat(std::string(profile.kind->done), ": ",
                          DescribeBytes(profile, view.shown_value));
  }
  return "";
}

std::string TotalsLine(const View& view) {
  const Profile& profile = *view.profile;
  std::vector<std::string> parts;
  parts.push_back(ShownPart(view));
  if (view.idle_ns > 0) {
    parts.push_back(absl::StrCat(view.idle_shown ? "of it idle: " : "idle, folded away: ",
                                 FormatDuration(view.idle_ns)));
  }
  const double complete = profile.type.complete_share();
  if (HasSamples(profile) && complete >= 0 && complete <= 1) {
    parts.push_back(absl::StrCat("complete stacks: ", FormatShare(complete, 1)));
  }
  std::string lost = "lost: nothing";
  if (profile.message->losses_size() > 0) {
    lost = "lost:";
    for (const profd::v1::Loss& loss : profile.message->losses()) {
      absl::StrAppend(&lost, lost.back() == ':' ? " " : ", ", CleanName(loss.cause()), " ",
                      FormatCount(loss.count()));
    }
  }
  parts.push_back(lost);
  return JoinNonEmpty(parts);
}

std::string NotesLine(const View& view, const Layout& layout) {
  std::vector<std::string> parts;
  if (!view.filter.empty()) parts.push_back("only " + CleanName(view.filter));
  if (layout.narrow_frames > 0) {
    parts.push_back(absl::StrCat(FormatCount(layout.narrow_frames),
                                 layout.narrow_frames == 1 ? " frame" : " frames",
                                 " too narrow to draw (",
                                 FormatShare(static_cast<double>(layout.narrow_value),
                                             static_cast<double>(view.shown_value)),
                                 ")"));
  }
  return JoinNonEmpty(parts);
}

void AppendText(std::string_view css_class, double x, double y, std::string_view text,
                size_t columns, std::string& svg) {
  absl::StrAppendFormat(&svg, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
                        std::string(css_class), x, y, XmlEscape(ClipEnd(text, columns)));
}

// What the picture says when there is nothing to draw.
std::vector<std::string> EmptyMessage(const View& view) {
  if (view.profile->kind->level) {
    return {absl::StrCat("Nothing is known to be ", std::string(view.profile->kind->done),
                         " at the end of this window."),
            "'profctl status' says what is watched, and what is missing."};
  }
  if (view.profile->unit == Unit::kBytes) {
    return {absl::StrCat("Nothing is known to have been ", std::string(view.profile->kind->done),
                         " in this window."),
            absl::StrCat("'profctl status' ",
                         view.profile->kind->IsOfCalls() ? "says whether calls are watched"
                                                         : "lists the allocators that are watched",
                         "; or widen the window with --since.")};
  }
  if (view.idle_ns > 0) {
    return {"Nothing but idle waits in this window.",
            absl::StrCat(FormatDuration(view.idle_ns),
                         " of waiting for work is folded away: fetch with --idle to see it.")};
  }
  return {"No thread was seen waiting in this window.",
          "Widen it with --since, or loosen --target, --thread and --reason."};
}

}  // namespace

std::string RenderFlameGraph(const View& view) {
  const FlameTree tree = BuildFlameTree(view);
  const Layout layout = LayOut(tree);
  const Unit unit = view.profile->unit;
  const bool empty = view.shown_value <= 0;
  const std::string title =
      absl::StrCat(std::string(view.profile->kind->title), ": ", DescribeProcesses(*view.profile));

  std::vector<std::string> lines = {WindowLine(*view.profile), TotalsLine(view)};
  for (std::string& gap : DescribeGaps(*view.profile)) lines.push_back(std::move(gap));
  if (std::string notes = NotesLine(view, layout); !notes.empty()) lines.push_back(notes);
  const double controls_top = 34 + kLine * static_cast<double>(lines.size());
  const double head = controls_top + 56;
  const double rows = empty ? 5 : std::max(layout.rows, 3u);
  const double bottom = head + rows * kRow;
  const double height = bottom + kMargin;

  std::string svg;
  svg.reserve(layout.drawn.size() * 300 + 16384);
  absl::StrAppendFormat(&svg,
                        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                        "viewBox=\"0 0 %.0f %.0f\" data-margin=\"%.0f\" data-head=\"%.0f\">\n",
                        kWidth, height, kWidth, height, kMargin, head);
  absl::StrAppend(&svg, "<title>", XmlEscape(title), "</title>\n<style>\n", kFlameGraphCss,
                  PaletteStyles(unit), "</style>\n");
  svg += "<rect id=\"paper\" width=\"100%\" height=\"100%\"/>\n<g id=\"frames\">\n";
  if (!empty) {
    for (const DrawnNode& drawn : layout.drawn) {
      AppendFrame(drawn, view, bottom, svg);
    }
  }
  svg += "</g>\n";
  if (empty) {
    double y = head + 2 * kRow;
    for (const std::string& line : EmptyMessage(view)) {
      absl::StrAppendFormat(&svg, "<text class=\"empty\" x=\"50%%\" y=\"%.0f\">%s</text>\n", y,
                            XmlEscape(line));
      y += 24;
    }
  }
  // Last, so that it lies above the frames when the page is scrolled.
  absl::StrAppendFormat(&svg,
                        "<g id=\"head\">\n<rect id=\"headpaper\" width=\"100%%\" "
                        "height=\"%.0f\"/>\n",
                        head - 4);
  AppendText("title", kMargin, 24, title, kTitleColumns, svg);
  double y = 44;
  for (const std::string& line : lines) {
    AppendText("sub", kMargin, y, line, kSubtitleColumns, svg);
    y += kLine;
  }
  // The controls leave room around them for the mark of the focus.
  absl::StrAppendFormat(&svg, kFlameGraphControls, controls_top - 4);
  absl::StrAppendFormat(&svg, "<g id=\"legend\" transform=\"translate(%.0f,%.0f)\">", kMargin,
                        controls_top + 7);
  double x = 0;
  for (const Palette& palette : PalettesOf(unit)) {
    absl::StrAppendFormat(&svg,
                          "<rect class=\"%c0\" x=\"%.0f\" width=\"12\" height=\"12\" rx=\"2\"/>"
                          "<text class=\"sub\" x=\"%.0f\" y=\"10\">%s</text>",
                          palette.letter, x, x + 17, std::string(palette.name));
    x += 34 + 6.4 * static_cast<double>(palette.name.size());
  }
  absl::StrAppendFormat(&svg, "</g>\n<text id=\"detail\" class=\"sub\" x=\"%.0f\" y=\"%.0f\">",
                        kMargin, controls_top + 44);
  svg += "</text>\n</g>\n<script><![CDATA[\n";
  svg.append(ScriptOf(unit));
  svg += "]]></script>\n</svg>\n";
  return svg;
}

}  // namespace profctl
