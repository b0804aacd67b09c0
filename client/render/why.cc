#include "client/render/why.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/analysis/scheduling_delay.h"
#include "client/render/activity_text.h"
#include "client/render/caption.h"
#include "client/render/json_parts.h"
#include "client/render/scheduling_delay.h"
#include "client/render/table.h"
#include "client/text/text.h"
#include "nlohmann/json.hpp"

namespace profctl {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostEnds = 10;
constexpr size_t kMostCycles = 3;

std::string_view KindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::kWait:
      return "wait";
    case LinkKind::kWaker:
      return "waker";
    case LinkKind::kOnCpu:
      return "on-cpu";
    case LinkKind::kRunQueue:
      return "runqueue";
    case LinkKind::kInterrupt:
      return "interrupt";
    case LinkKind::kOutside:
      return "outside";
    case LinkKind::kUnknown:
      return "unknown";
    case LinkKind::kUnexplained:
      return "unexplained";
    case LinkKind::kNotFollowed:
      return "not-followed";
    case LinkKind::kSmall:
      return "small";
  }
  return "";
}

std::string LinkText(const Link& link, const GroupTexts& names) {
  switch (link.kind) {
    case LinkKind::kWait:
      return WaitText(link.reason, link.function);
    case LinkKind::kWaker:
      return absl::StrCat("ended by ", names.Of(link.group), InFunction(link.function));
    case LinkKind::kOnCpu:
      return absl::StrCat("runs ", link.function);
    case LinkKind::kRunQueue:
      return "waits for a CPU";
    case LinkKind::kInterrupt:
      return absl::StrCat("ended by ", InterruptText(link.name));
    case LinkKind::kOutside:
      return absl::StrCat("ended by ", link.name, InFunction(link.function),
                          ", which is not watched");
    case LinkKind::kUnknown:
      return "unknown: it is not over, or nobody saw who ended it";
    case LinkKind::kUnexplained:
      return absl::StrCat("unknown: ", names.Of(link.group), " does nothing else for so long");
    case LinkKind::kNotFollowed:
      return "not followed (--depth)";
    case LinkKind::kSmall:
      return "smaller parts";
  }
  return "";
}

class Lines {
 public:
  Lines(const Chains& chains, const GroupTexts& names) : chains_(chains), names_(names) {}

  std::string Text() {
    Add(chains_.links, 0);
    return std::move(text_);
  }

 private:
  bool IsShown(const Link& link) const {
    return link.kind != LinkKind::kSmall && link.time_ns >= kLeastPart * chains_.waits_ns;
  }

  void AddLine(double time_ns, double variance, size_t indent, const std::string& text) {
    text_ += WrapAfter(PartLabel(time_ns, std::sqrt(variance), chains_.waits_ns, indent), text,
                       PageColumns());
  }

  void Add(const std::vector<Link>& links, size_t indent) {
    double rest = 0, rest_variance = 0;
    for (const Link& link : links) {
      if (!IsShown(link)) {
        rest += link.time_ns;
        rest_variance += link.variance;
        continue;
      }
      std::string line = LinkText(link, names_);
      const Link* only = OnlyEnd(link);
      if (only != nullptr) absl::StrAppend(&line, "; ", LinkText(*only, names_));
      if (link.kind == LinkKind::kWaker && !link.next.empty()) line += ", which meanwhile";
      AddLine(link.time_ns, link.variance, indent, line);
      if (only == nullptr) Add(link.next, indent + 1);
    }
    if (rest >= kLeastPart * chains_.waits_ns) {
      AddLine(rest, rest_variance, indent, "smaller parts");
    }
  }

  // What nearly all of a wait ends with, if that has nothing below it.
  const Link* OnlyEnd(const Link& link) const {
    if (link.kind != LinkKind::kWait || link.next.empty()) return nullptr;
    const Link& first = link.next.front();
    if (!first.next.empty() || !IsShown(first)) return nullptr;
    return link.time_ns - first.time_ns < kLeastPart * chains_.waits_ns ? &first : nullptr;
  }

  const Chains& chains_;
  const GroupTexts& names_;
  std::string text_;
};

// The widest link of each step: "waits for ..., ended by ..., which ...".
std::string MainChain(const Chains& chains, const GroupTexts& names) {
  const Link* link = &chains.links.front();
  std::string text = LinkText(*link, names);
  while (!link->next.empty()) {
    const bool woken = link->kind == LinkKind::kWaker;
    link = &link->next.front();
    if (link->kind == LinkKind::kSmall) break;
    absl::StrAppend(&text, woken ? ", which mostly " : ", ", LinkText(*link, names));
  }
  return text;
}

std::string EndText(const ChainEnd& end, const GroupTexts& names) {
  if (end.end.kind == LinkKind::kSmall) return LinkText(end.end, names);
  const std::string who = names.Of(end.end.group);
  if (end.wait.kind != LinkKind::kWait || end.end.kind == LinkKind::kWait) {
    return absl::StrCat(who, " ", LinkText(end.end, names));
  }
  return absl::StrCat(who, " ", WaitText(end.wait.reason, end.wait.function), "; ",
                      LinkText(end.end, names));
}

std::string CyclesText(const Chains& chains, const GroupTexts& names) {
  std::string text;
  size_t told = 0;
  for (const Cycle& cycle : chains.cycles) {
    if (told == kMostCycles || cycle.time_ns < kLeastPart * chains.waits_ns) break;
    told++;
    text += Wrap(absl::StrCat("Cycle: ", names.Of(cycle.waker), " also waits for ",
                              names.Of(cycle.waiter), " (", FormatDuration(WholeNs(cycle.time_ns)),
                              " in the window). These waits are left out: who waits ends none."),
                 PageColumns(), "  ");
  }
  return text;
}

std::string GroupText(const WhyReport& report, const Chains& chains, bool colour) {
  const GroupTexts names(report.activity);
  const ThreadGroup& group = report.activity.groups[chains.root.part];
  const auto wall = static_cast<double>(group.wall_ns);
  const std::string name = names.Of(chains.root.part);
  std::string text = Heading(absl::StrCat("Why ", name, " waits"), colour);
  const std::string idle =
      group.idle_ns > 0
          ? absl::StrCat("; idle waits (", FormatDuration(group.idle_ns), ") are left out")
          : std::string();
  text += Wrap(absl::StrCat(name, " (", CountThreads(group.threads), ") waits ",
                            FormatShare(chains.waits_ns, wall),
                            " of its time: ", FormatDuration(WholeNs(chains.waits_ns)), " ± ",
                            FormatDuration(WholeNs(std::sqrt(chains.variance))), " of ",
                            FormatDuration(group.wall_ns), idle, "."),
               PageColumns(), "  ");
  if (chains.links.empty()) return text;
  text += Wrap(absl::StrCat("Mostly it ", MainChain(chains, names), "."), PageColumns(), "  ");
  const SchedulingDelay delay = FindSchedulingDelay(chains);
  const std::string lead = SchedulingDelayLead(delay, chains);
  if (!lead.empty()) text += Wrap(lead, PageColumns(), "  ");
  absl::StrAppend(&text, "\n",
                  Heading("Chains (shares of these waits; ± one standard error)", colour),
                  Lines(chains, names).Text(), CyclesText(chains, names));
  absl::StrAppend(&text, "\n", Heading("What these chains end with", colour));
  for (size_t i = 0; i < std::min(chains.ends.size(), kMostEnds); i++) {
    const ChainEnd& end = chains.ends[i];
    if (end.end.time_ns < kLeastPart * chains.waits_ns) break;
    text += WrapAfter(PartLabel(end.end.time_ns, end.error_ns, chains.waits_ns),
                      EndText(end, names), PageColumns());
  }
  return text + SchedulingDelayText(delay, chains, names, colour);
}

// GroupTexts of a group, or none.
ordered_json LinkJson(const WhyReport& report, const Link& link, double variance) {
  const ThreadGroup& group = report.activity.groups[link.group];
  ordered_json json = {{"kind", std::string(KindName(link.kind))},
                       {"process", group.process},
                       {"thread", group.name}};
  if (link.reason != profd::v1::REASON_UNSPECIFIED) {
    json["reason"] = std::string(DescribeReason(link.reason).name);
  }
  if (!link.function.empty()) json["function"] = link.function;
  if (!link.name.empty()) json["name"] = link.name;
  if (link.for_work) json["idle"] = true;
  json["time_ns"] = WholeNs(link.time_ns);
  json["error_ns"] = WholeNs(std::sqrt(variance));
  return json;
}

ordered_json LinksJson(const WhyReport& report, const std::vector<Link>& links) {
  ordered_json array = ordered_json::array();
  for (const Link& link : links) {
    ordered_json json = LinkJson(report, link, link.variance);
    if (!link.next.empty()) json["next"] = LinksJson(report, link.next);
    array.push_back(std::move(json));
  }
  return array;
}

ordered_json ChainsJson(const WhyReport& report, const Chains& chains) {
  const ThreadGroup& group = report.activity.groups[chains.root.part];
  ordered_json ends = ordered_json::array(), cycles = ordered_json::array();
  for (const ChainEnd& end : chains.ends) {
    ordered_json json = LinkJson(report, end.end, end.error_ns * end.error_ns);
    if (end.wait.kind == LinkKind::kWait) {
      json["wait"] = {{"reason", std::string(DescribeReason(end.wait.reason).name)},
                      {"function", end.wait.function}};
    }
    ends.push_back(std::move(json));
  }
  for (const Cycle& cycle : chains.cycles) {
    const ThreadGroup& waker = report.activity.groups[cycle.waker];
    const ThreadGroup& waiter = report.activity.groups[cycle.waiter];
    cycles.push_back({{"process", waker.process},
                      {"thread", waker.name},
                      {"waits_for_process", waiter.process},
                      {"waits_for_thread", waiter.name},
                      {"time_ns", WholeNs(cycle.time_ns)}});
  }
  return {{"process", group.process},
          {"thread", group.name},
          {"threads", group.threads},
          {"wall_ns", group.wall_ns},
          {"idle_ns", group.idle_ns},
          {"waits_ns", WholeNs(chains.waits_ns)},
          {"error_ns", WholeNs(std::sqrt(chains.variance))},
          {"next", LinksJson(report, chains.links)},
          {"ends", std::move(ends)},
          {"cycles", std::move(cycles)},
          {"scheduling_delay", SchedulingDelayJson(FindSchedulingDelay(chains), report.activity)}};
}

}  // namespace

std::string RenderWhyText(const WhyReport& report, bool colour) {
  std::string text;
  text += Line("Window: ", DescribeWindow(*report.wakers));
  for (const std::string& note : ActivityNotes(*report.wakers, *report.cpu)) {
    text += WrapAfter("Note: ", note + ".", PageColumns());
  }
  if (report.chains.empty()) return text + "\nNo thread was watched in this window.\n";
  for (const Chains& chains : report.chains) {
    absl::StrAppend(&text, "\n", GroupText(report, chains, colour));
    if (chains.links.empty()) text += "  It has no other waits.\n";
  }
  if (report.more_groups > 0) {
    absl::StrAppend(&text, "\n",
                    Wrap(absl::StrCat(FormatCount(report.more_groups),
                                      " more groups of threads wait less; --thread selects."),
                         PageColumns(), ""));
  }
  return text;
}

std::string RenderWhyJson(const WhyReport& report) {
  const profd::v1::Coverage& coverage = report.wakers->coverage();
  ordered_json chains = ordered_json::array();
  for (const Chains& c : report.chains) chains.push_back(ChainsJson(report, c));
  return DumpJson({{"format", "profd-why"},
                   {"version", 1},
                   {"begin_ns", coverage.begin_ns()},
                   {"end_ns", coverage.end_ns()},
                   {"wakers_ns", report.wakers->type.watched_ns()},
                   {"cpu_ns", report.cpu->type.watched_ns()},
                   {"notes", ActivityNotes(*report.wakers, *report.cpu)},
                   {"chains", std::move(chains)},
                   {"more_groups", report.more_groups}});
}

}  // namespace profctl
