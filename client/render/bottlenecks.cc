#include "client/render/bottlenecks.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/render/activity_text.h"
#include "client/render/caption.h"
#include "client/render/json_parts.h"
#include "client/render/table.h"
#include "client/text/text.h"
#include "nlohmann/json.hpp"

namespace profctl {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostKnots = 3;
// Less says nothing reliable: few samples, or most waits without a waker.
constexpr uint64_t kLeastTicks = 100;
constexpr double kMostUnknown = 0.5;
constexpr double kGreat = 100;  // factors beyond say nothing

std::string Factor(double factor) {
  return factor >= kGreat ? absl::StrCat("over ", static_cast<int>(kGreat), "×")
                          : absl::StrFormat("%.2f×", factor);
}

// "2.50× (2.41–2.60)".
std::string GainText(const Gain& gain) {
  if (!gain.at_most) return "no bound";
  const auto number = [](const std::optional<double>& factor) {
    return factor && *factor < kGreat ? absl::StrFormat("%.2f", *factor) : std::string("∞");
  };
  return absl::StrCat(Factor(*gain.at_most), " (", number(gain.low), "–", number(gain.high), ")");
}

std::string List(const std::vector<uint32_t>& groups, const GroupTexts& names) {
  constexpr size_t kMostNames = 6;
  std::vector<std::string> shown;
  for (const uint32_t group : groups) {
    if (shown.size() == kMostNames) break;
    shown.push_back(names.Of(group));
  }
  std::string text = absl::StrJoin(shown, ", ");
  if (groups.size() > kMostNames) {
    absl::StrAppend(&text, " and ", FormatCount(groups.size() - kMostNames), " more");
  }
  return text;
}

// Who ended a wait: "ended by the disk".
std::string EndedBy(const Waker& waker, const GroupTexts& names) {
  switch (waker.kind) {
    case WakerKind::kGroup:
      return absl::StrCat("ended by ", names.Of(waker.group), InFunction(waker.function));
    case WakerKind::kOutside:
      return absl::StrCat("ended by ", waker.name, InFunction(waker.function),
                          ", which is not watched");
    case WakerKind::kInterrupt:
      return absl::StrCat("ended by ", InterruptText(waker.name));
    case WakerKind::kNone:
    case WakerKind::kUnknown:
      break;
  }
  return "";
}

std::string WhatText(const Bottleneck& bottleneck, const GroupTexts& names) {
  const State& what = bottleneck.what;
  const std::string who = names.Of(bottleneck.group);
  if (bottleneck.role == Role::kQueue) return absl::StrCat(who, " waits for a CPU");
  if (what.reason == profd::v1::REASON_ON_CPU) return absl::StrCat(who, " runs ", what.function);
  const std::string by = EndedBy(what.waker, names);
  return absl::StrCat(who, " ", WaitText(what.reason, what.function), by.empty() ? "" : "; ", by);
}

// What would be the limit then.
std::string NextText(const Gain& gain, const GroupTexts& names) {
  if (!gain.next) return "nothing else that was seen takes time";
  return absl::StrCat("then ", names.Of(*gain.next), " has no time left");
}

std::string Headline(const KnotReport& knot, const GroupTexts& names) {
  const Bottleneck& first = knot.bottlenecks.front();
  std::string text = absl::StrCat("Without this, throughput would grow ");
  if (first.gain.at_most) {
    absl::StrAppend(&text, "at most ", GainText(first.gain), ": ");
  } else {
    text += "without a known bound: ";
  }
  return absl::StrCat(WhatText(first, names), ". ", text, NextText(first.gain, names), ".");
}

std::string KnotText(const BottlenecksPage& page, const KnotReport& knot, bool colour) {
  const GroupTexts names(page.activity);
  std::string text = Heading(absl::StrCat("What limits ", List(knot.groups, names)), colour);
  if (knot.groups.size() > 1) {
    text += Wrap("They wait for each other and for nobody else.", PageColumns(), "  ");
  }
  if (!knot.waiters.empty()) {
    text +=
        Wrap(absl::StrCat(List(knot.waiters, names), knot.waiters.size() == 1 ? " waits" : " wait",
                          " for ", knot.groups.size() > 1 ? "them" : "it", "."),
             PageColumns(), "  ");
  }
  text += Wrap(absl::StrCat(names.Of(knot.busiest), " works ", FormatShare(knot.busy, 1), " ± ",
                            FormatShare(knot.busy_error, 1), " of its time."),
               PageColumns(), "  ");
  if (knot.bottlenecks.empty()) return text + "  No part of it takes 1% of its time.\n";
  text += Wrap(Headline(knot, names), PageColumns(), "  ");
  absl::StrAppend(&text, "\n", Heading("Gain at most (95%), own time, time of others", colour));
  for (const Bottleneck& bottleneck : knot.bottlenecks) {
    const std::string label =
        absl::StrCat("  ", PadRight(GainText(bottleneck.gain), 20), " ",
                     PadLeft(FormatDuration(WholeNs(bottleneck.time.ns)), 8), "  ",
                     PadLeft(FormatDuration(WholeNs(bottleneck.others_ns)), 9), "   ");
    text += WrapAfter(
        label, absl::StrCat(WhatText(bottleneck, names), "; ", NextText(bottleneck.gain, names)),
        PageColumns());
  }
  if (knot.more > 0) absl::StrAppend(&text, "  ", FormatCount(knot.more), " more (--top).\n");
  return text;
}

// Why the samples do not suffice; empty if they do.
std::string Insufficient(const BottleneckReport& report) {
  if (report.ticks < kLeastTicks) {
    return absl::StrCat("only ", FormatCount(report.ticks), " samples, and ", kLeastTicks,
                        " are the least; ask for a longer window (--since)");
  }
  if (report.unknown_ns > kMostUnknown * report.waits_ns && report.unknown_ns > 0) {
    return absl::StrCat("nobody saw who ended ", FormatShare(report.unknown_ns, report.waits_ns),
                        " of the waits; what they were for may be the limit");
  }
  return "";
}

ordered_json GroupJson(const Activity& activity, uint32_t group) {
  return {{"process", activity.groups[group].process}, {"thread", activity.groups[group].name}};
}

ordered_json GroupsJson(const Activity& activity, const std::vector<uint32_t>& groups) {
  ordered_json array = ordered_json::array();
  for (const uint32_t group : groups) array.push_back(GroupJson(activity, group));
  return array;
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kWork:
      return "work";
    case Role::kTimer:
      return "timer";
    case Role::kQueue:
      return "runqueue";
    case Role::kThread:
      return "thread";
    case Role::kUnknown:
      return "unknown";
    case Role::kIdle:
      return "idle";
  }
  return "";
}

ordered_json GainJson(const Activity& activity, const Gain& gain) {
  const auto number = [](const std::optional<double>& factor) {
    return factor ? ordered_json(*factor) : ordered_json(nullptr);
  };
  ordered_json json = {
      {"at_most", number(gain.at_most)}, {"low", number(gain.low)}, {"high", number(gain.high)}};
  if (gain.next) json["next"] = GroupJson(activity, *gain.next);
  return json;
}

ordered_json BottleneckJson(const Activity& activity, const Bottleneck& bottleneck) {
  const State& what = bottleneck.what;
  ordered_json json = GroupJson(activity, bottleneck.group);
  json["kind"] = std::string(RoleName(bottleneck.role));
  json["reason"] = std::string(DescribeReason(what.reason).name);
  json["function"] = what.function;
  if (what.waker.kind == WakerKind::kGroup) {
    json["waker"] = GroupJson(activity, what.waker.group);
    json["waker"]["function"] = what.waker.function;
  } else if (!what.waker.name.empty()) {
    json["waker"] = {{"name", what.waker.name}, {"function", what.waker.function}};
  }
  json["time_ns"] = WholeNs(bottleneck.time.ns);
  json["error_ns"] = WholeNs(std::sqrt(bottleneck.time.variance));
  json["others_ns"] = WholeNs(bottleneck.others_ns);
  json["samples"] = what.ticks;
  json["gain"] = GainJson(activity, bottleneck.gain);
  return json;
}

}  // namespace

std::string RenderBottlenecksText(const BottlenecksPage& page, bool colour) {
  const BottleneckReport& report = page.report;
  std::string text = Line("Window: ", DescribeWindow(*page.wakers));
  for (const std::string& note : ActivityNotes(*page.wakers, *page.cpu)) {
    text += WrapAfter("Note: ", note + ".", PageColumns());
  }
  text +=
      Line("From: ",
           absl::StrCat(FormatCount(report.ticks), " samples; wakers known for ",
                        FormatShare(report.waits_ns - report.unknown_ns, report.waits_ns), " of ",
                        FormatDuration(WholeNs(report.waits_ns)), " of waits for threads."));
  const std::string insufficient = Insufficient(report);
  if (!insufficient.empty()) {
    return text + "\n" +
           Wrap(absl::StrCat("The samples do not say what limits throughput: ", insufficient, "."),
                PageColumns(), "");
  }
  if (report.knots.empty()) {
    return text + "\n" +
           Wrap(
               "Nothing limits throughput here: no thread works much, and none waits for one that "
               "does.",
               PageColumns(), "");
  }
  for (size_t i = 0; i < std::min(report.knots.size(), kMostKnots); i++) {
    absl::StrAppend(&text, "\n", KnotText(page, report.knots[i], colour));
  }
  if (report.knots.size() > kMostKnots) {
    absl::StrAppend(&text, "\n",
                    Wrap(absl::StrCat(FormatCount(report.knots.size() - kMostKnots),
                                      " more knots take less time; --target selects."),
                         PageColumns(), ""));
  }
  return text;
}

std::string RenderBottlenecksJson(const BottlenecksPage& page) {
  const BottleneckReport& report = page.report;
  const profd::v1::Coverage& coverage = page.wakers->coverage();
  ordered_json knots = ordered_json::array();
  for (const KnotReport& knot : report.knots) {
    ordered_json bottlenecks = ordered_json::array();
    for (const Bottleneck& bottleneck : knot.bottlenecks) {
      bottlenecks.push_back(BottleneckJson(page.activity, bottleneck));
    }
    ordered_json busiest = GroupJson(page.activity, knot.busiest);
    busiest["busy"] = knot.busy;
    busiest["error"] = knot.busy_error;
    knots.push_back({{"groups", GroupsJson(page.activity, knot.groups)},
                     {"waiters", GroupsJson(page.activity, knot.waiters)},
                     {"time_ns", WholeNs(knot.time_ns)},
                     {"busiest", std::move(busiest)},
                     {"bottlenecks", std::move(bottlenecks)},
                     {"more", knot.more}});
  }
  return DumpJson({{"format", "profd-bottlenecks"},
                   {"version", 1},
                   {"begin_ns", coverage.begin_ns()},
                   {"end_ns", coverage.end_ns()},
                   {"wakers_ns", page.wakers->type.watched_ns()},
                   {"cpu_ns", page.cpu->type.watched_ns()},
                   {"notes", ActivityNotes(*page.wakers, *page.cpu)},
                   {"samples", report.ticks},
                   {"waits_ns", WholeNs(report.waits_ns)},
                   {"unknown_ns", WholeNs(report.unknown_ns)},
                   {"insufficient", Insufficient(report)},
                   {"knots", std::move(knots)}});
}

}  // namespace profctl
