#include "client/render/diff.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/caption.h"
#include "client/render/gaps.h"
#include "client/render/json_parts.h"
#include "client/render/stacks.h"
#include "client/render/table.h"
#include "client/text/text.h"
#include "nlohmann/json.hpp"

namespace profctl {
namespace {

using nlohmann::ordered_json;

// Keeps values printable.
constexpr double kMostPrinted = 9e18;

std::string ChangeText(const DiffRow& row, const Profile& profile, bool normalized) {
  const double change = row.Change();
  return absl::StrCat(change < 0 ? "-" : "+", ValueText(std::abs(change), profile, normalized));
}

ordered_json SideJson(const Profile& profile, const DiffValue& total) {
  return {{"begin_ns", profile.coverage().begin_ns()},
          {"end_ns", profile.coverage().end_ns()},
          {"total", total.value},
          {"total_error", total.error}};
}

}  // namespace

std::string WindowText(const Profile& profile) {
  return absl::StrCat(DescribeProcesses(profile), ", ", DescribeWindow(profile));
}

std::string ValueText(double value, const Profile& profile, bool normalized) {
  if (normalized) return FormatShare(value, 1);
  const auto rounded =
      static_cast<int64_t>(std::llround(std::clamp(value, -kMostPrinted, kMostPrinted)));
  return absl::StrCat(FormatValue(rounded, profile.unit), profile.kind->level ? "" : "/s");
}

std::string RelativeText(const DiffValue& a, const DiffValue& b) {
  if (a.value <= 0) return "new";
  if (b.value <= 0) return "gone";
  return absl::StrFormat("%+.1f%%", 100 * (b.value - a.value) / a.value);
}

std::string RenderDiffText(const Profile& a, const Profile& b, const Diff& diff, size_t most,
                           bool colour) {
  std::string text =
      Heading(absl::StrCat(std::string(b.kind->title), ": changes from A to B"), colour);
  text += WrapAfter("  A  ", WindowText(a), PageColumns());
  text += WrapAfter("  B  ", WindowText(b), PageColumns());
  text += Line("  total  ", absl::StrCat(ValueText(diff.total_a.value, a, false), " in A, ",
                                         ValueText(diff.total_b.value, b, false), " in B"));
  if (diff.normalized) text += "  Values are shares of the total.\n";
  for (const auto& [side, profile] : {std::pair("A: ", &a), std::pair("B: ", &b)}) {
    for (const std::string& gap : DescribeGaps(*profile)) {
      text += WrapAfter("  note  ", absl::StrCat(side, gap), PageColumns());
    }
  }
  const size_t changed = diff.Changed();
  if (changed == 0) {
    absl::StrAppend(&text, "\nNo significant change (", FormatCount(diff.rows.size()),
                    " stacks compared).\n");
    return text;
  }
  text += "\n";
  for (size_t i = 0; i < std::min(changed, most); i++) {
    const DiffRow& row = diff.rows[i];
    std::string line =
        absl::StrCat(ChangeText(row, b, diff.normalized), " (", RelativeText(row.a, row.b),
                     "): ", ValueText(row.a.value, a, diff.normalized), " ± ",
                     ValueText(row.a.error, a, diff.normalized), " to ",
                     ValueText(row.b.value, b, diff.normalized), " ± ",
                     ValueText(row.b.error, b, diff.normalized));
    if (!row.reason.empty()) absl::StrAppend(&line, "  [", row.reason, "]");
    if (!row.group.empty()) absl::StrAppend(&line, "  in ", row.group);
    text += Line(absl::StrCat("  ", i + 1, ". "), line);
    if (row.frames.empty()) text += "       [unsampled]\n";
    for (const TellingFrame& frame : row.shown) text += FrameLine(frame, kFrameMargin);
  }
  if (changed > most) {
    absl::StrAppend(&text, "  and ", FormatCount(changed - most), " more changed stacks\n");
  }
  absl::StrAppend(&text, "\n", FormatCount(diff.rows.size() - changed), " of ",
                  FormatCount(diff.rows.size()), " stacks did not change.\n");
  return text;
}

std::string RenderDiffJson(const Profile& a, const Profile& b, const Diff& diff) {
  ordered_json rows = ordered_json::array();
  for (const DiffRow& row : diff.rows) {
    rows.push_back({{"group", row.group},
                    {"reason", row.reason.empty() ? ordered_json() : ordered_json(row.reason)},
                    {"frames", row.frames},
                    {"a", row.a.value},
                    {"a_error", row.a.error},
                    {"b", row.b.value},
                    {"b_error", row.b.error},
                    {"change", row.Change()},
                    {"z", row.test.z},
                    {"p", row.test.p},
                    {"changed", row.changed}});
  }
  return DumpJson({{"format", "profd-diff"},
                   {"version", 1},
                   {"sample_type", std::string(b.kind->name)},
                   {"unit", absl::StrCat(b.type.unit(), b.kind->level ? "" : " per second")},
                   {"normalized", diff.normalized},
                   {"a", SideJson(a, diff.total_a)},
                   {"b", SideJson(b, diff.total_b)},
                   {"changed", diff.Changed()},
                   {"largest_growth", diff.LargestGrowth()},
                   {"rows", std::move(rows)}});
}

}  // namespace profctl
