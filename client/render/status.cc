#include "client/render/status.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/kind.h"
#include "client/render/cost.h"
#include "client/render/heap.h"
#include "client/render/json_parts.h"
#include "client/render/table.h"
#include "client/text.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;
using profd::v1::GetStatusResponse;

constexpr int kMostPids = 8;
constexpr size_t kMostModules = 10;

void AppendLayers(const GetStatusResponse& status, std::string& text) {
  for (const profd::v1::LayerStatus& layer : status.layers()) {
    std::string line =
        absl::StrCat(PadRight(CleanName(layer.name()), 10), layer.on() ? "on" : "off");
    if (!layer.note().empty())
      absl::StrAppend(&line, layer.on() ? "   " : "  ", CleanName(layer.note()));
    text += "  " + ClipEnd(line, PageColumns() - 2) + "\n";
  }
}

// "17 18 19 ...".
std::string DescribePids(const google::protobuf::RepeatedField<int32_t>& pids) {
  std::string text;
  for (int i = 0; i < std::min(pids.size(), kMostPids); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " ", pids.Get(i));
  }
  return pids.size() > kMostPids ? text + " ..." : text;
}

void AppendTargets(const GetStatusResponse& status, std::string& text) {
  if (status.targets().empty()) text += "  none\n";
  for (const profd::v1::TargetStatus& target : status.targets()) {
    std::string line = absl::StrCat("  ", CleanName(target.selector()), ": ");
    if (target.pids().empty()) {
      line += "no such process yet";
    } else {
      absl::StrAppend(
          &line, FormatCount(static_cast<uint64_t>(target.pids_size())),
          target.pids_size() == 1 ? " process, " : " processes, ", FormatCount(target.threads()),
          target.threads() == 1 ? " thread (" : " threads (", DescribePids(target.pids()), ")");
    }
    text += ClipEnd(line, PageColumns()) + "\n";
  }
}

// "1.24 GiB in 19,840 events, coverage 99.8%"; what no probe saw where there is any.
std::string DescribeTotal(const profd::v1::HeapTotal& heap) {
  if (heap.estimated_bytes() > 0) {
    return absl::StrCat(FormatValue(heap.bytes(), Unit::kBytes), ", estimated from ",
                        FormatCount(heap.events()), " calls");
  }
  std::string text =
      absl::StrCat(FormatValue(heap.bytes(), Unit::kBytes), " in ", FormatCount(heap.events()),
                   " events, coverage ", FormatCoverage(heap));
  if (heap.gaps() > 0) absl::StrAppend(&text, "; ", DescribeUnseen(heap));
  const std::string late = DescribeLate(heap);
  if (!late.empty()) absl::StrAppend(&text, "; ", late);
  return text;
}

// "12.0 MiB in 1,234 objects since 2026-01-31T14:05:00Z, one sampled in 512 KiB".
std::string DescribeLive(const profd::v1::AllocatorStatus& allocator) {
  std::string text;
  if (allocator.live_since_ns() > 0) {
    text = absl::StrCat(
        FormatValue(allocator.live_bytes(), Unit::kBytes), " in ",
        FormatCount(static_cast<uint64_t>(std::max<int64_t>(0, allocator.live_objects()))),
        " objects since ", FormatTime(allocator.live_since_ns()));
    if (allocator.sample_bytes() > 0) {
      absl::StrAppend(&text, ", one sampled in ", FormatBytes(allocator.sample_bytes()));
    }
  }
  if (allocator.live_note().empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ", CleanName(allocator.live_note()));
}

void AppendAllocator(const profd::v1::AllocatorStatus& allocator, std::string& text) {
  std::string line = absl::StrCat("  ", CleanName(allocator.allocator()));
  if (!allocator.version().empty()) absl::StrAppend(&line, " ", CleanName(allocator.version()));
  absl::StrAppend(&line, " in ", CleanName(allocator.module()));
  text += Shorten(line, PageColumns()) + "\n";
  absl::StrAppend(&text, "    processes  ",
                  FormatCount(static_cast<uint64_t>(allocator.pids_size())), " (",
                  DescribePids(allocator.pids()), ")\n");
  std::string found = allocator.watched() ? "yes" : "NO";
  absl::StrAppend(
      &found, ", point to watch ",
      allocator.found_by().empty() ? "not found" : "found by " + CleanName(allocator.found_by()));
  if (allocator.wrong_places() > 0) {
    absl::StrAppend(&found, "; ", FormatCount(allocator.wrong_places()), " of ",
                    FormatCount(allocator.places()),
                    " places left again: no event of an allocator came by there");
  }
  text += WrapAfter("    watched    ", found, PageColumns());
  if (allocator.watched()) {
    text += WrapAfter("    allocated  ", DescribeTotal(allocator.allocated()), PageColumns());
    text += WrapAfter("    freed      ", DescribeTotal(allocator.freed()), PageColumns());
  }
  const std::string live = DescribeLive(allocator);
  if (!live.empty()) text += WrapAfter("    live       ", live, PageColumns());
  if (!allocator.note().empty()) {
    text += WrapAfter("    note       ", CleanName(allocator.note()), PageColumns());
  }
}

// A daemon without the layer does not look for allocators.
void AppendAllocators(const GetStatusResponse& status, bool colour, std::string& text) {
  const bool looks =
      std::any_of(status.layers().begin(), status.layers().end(),
                  [](const profd::v1::LayerStatus& layer) { return layer.name() == "heap"; });
  if (!looks && status.allocators().empty()) return;
  text += "\n" + Heading("Allocators, and what was counted since they are watched", colour);
  if (status.allocators().empty()) text += "  none that is known in these processes\n";
  for (const profd::v1::AllocatorStatus& allocator : status.allocators()) {
    AppendAllocator(allocator, text);
  }
  if (status.unknown_allocators().empty()) return;
  const int count = status.unknown_allocators_size();
  std::string unknown;
  for (int i = 0; i < std::min(count, kMostPids); ++i) {
    const profd::v1::ProcessName& process = status.unknown_allocators(i);
    absl::StrAppend(&unknown, i == 0 ? "" : ", ", CleanName(process.name()), " (", process.pid(),
                    ")");
  }
  if (count > kMostPids) absl::StrAppend(&unknown, " and ", count - kMostPids, " more");
  absl::StrAppend(&unknown, "; their memory is told by --kind rss");
  text += WrapAfter("  none known in  ", unknown, PageColumns());
}

// Modules that cannot be unwound whole matter; the others are only counted.
void AppendModules(const GetStatusResponse& status, bool colour, std::string& text) {
  uint64_t rules = 0;
  Table table({{"module", Table::Align::kLeft, 44}, {"note", Table::Align::kLeft, 50}});
  size_t noted = 0;
  for (const profd::v1::ModuleStatus& module : status.module_list()) {
    rules += module.rules();
    if (module.note().empty()) continue;
    if (noted++ < kMostModules) table.Add({CleanName(module.path()), CleanName(module.note())});
  }
  text += "\n" + Heading("Modules", colour);
  absl::StrAppend(&text, "  ", FormatCount(status.modules()), " with ", FormatCount(rules),
                  " unwind rules\n");
  if (noted == 0) return;
  text += table.Render();
  if (noted > kMostModules) {
    absl::StrAppend(&text, "  and ", noted - kMostModules, " more; --format json has them all\n");
  }
}

void AppendLosses(const GetStatusResponse& status, bool colour, std::string& text) {
  text += "\n" + Heading("Lost since it started", colour);
  bool any = false;
  for (const profd::v1::Loss& loss : status.losses()) {
    any = true;
    absl::StrAppend(&text, "  ", FormatCount(loss.count()), " ", CleanName(loss.cause()), "\n",
                    Wrap(CleanName(loss.help()), PageColumns(), "    "));
  }
  for (const profd::v1::ProgramStatus& program : status.programs()) {
    if (program.recursion_misses() == 0) continue;
    any = true;
    absl::StrAppend(&text, "  ", FormatCount(program.recursion_misses()),
                    " runs of the kernel program ", CleanName(program.name()),
                    " were skipped by the kernel\n");
  }
  if (!any) text += "  nothing\n";
}

double CostOf(const profd::v1::Governor& governor, bool in_path) {
  double cost = 0;
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    if (source.in_path() == in_path) cost += source.cost();
  }
  return cost;
}

// What one of the two pays, and under it what each source costs.
void AppendPayer(const profd::v1::Governor& governor, bool in_path, std::string& text) {
  absl::StrAppend(&text, in_path ? "  in path    " : "  daemon     ",
                  FormatFineShare(CostOf(governor, in_path), 1), "\n");
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    if (source.in_path() != in_path) continue;
    std::string line = FormatFineShare(source.cost(), 1);
    if (source.level() == 0) {
      line += ", gives everything";
    } else {
      absl::StrAppend(&line, " at level ", source.level(), ", whole it would be ",
                      FormatFineShare(source.whole_cost(), 1),
                      "; given up: ", CleanName(source.given_up()));
    }
    text +=
        WrapAfter(absl::StrCat("    ", PadRight(ClipEnd(CleanName(source.name()), 16), 8), "  "),
                  line, PageColumns());
  }
}

void AppendBudget(const GetStatusResponse& status, bool colour, std::string& text) {
  if (!status.has_governor()) return;
  const profd::v1::Governor& governor = status.governor();
  const double budget = governor.budget();
  const double cost = CostOf(governor, true) + CostOf(governor, false) + governor.fixed_cost();
  text += "\n" + Heading("Budget, and the cost in the last second", colour);
  std::string line = FormatFineShare(cost, 1);
  if (budget > 0 && std::isfinite(budget)) {
    absl::StrAppendFormat(&line, " of one CPU; it may be %s%s, and %.2f s are saved for a burst",
                          FormatFineShare(budget, 1),
                          governor.of_targets() ? absl::StrFormat(" (%g%% of what targets use)",
                                                                  100 * governor.share())
                                                : "",
                          governor.saved_s());
    if (cost > budget) line += ": OVER BUDGET";
  } else {
    line += " of one CPU, no budget";
  }
  text += WrapAfter("  in all     ", line, PageColumns());
  AppendPayer(governor, true, text);
  AppendPayer(governor, false, text);
  absl::StrAppend(&text, "    others    ", FormatFineShare(governor.fixed_cost(), 1),
                  ", mean of a minute: answers, unwind rules, the memory timeline\n");
  if (governor.changes() == 0) {
    text += "  nothing was given up since it started\n";
  } else {
    absl::StrAppend(&text, "  ", FormatCount(governor.changes()),
                    governor.changes() == 1 ? " change" : " changes", " since it started\n");
  }
}

// The parts of several targets as a table, that of one as a line.
void AppendTargetCosts(const GetStatusResponse& status, int64_t duration_ns, std::string& text) {
  Table table({{"target", Table::Align::kLeft},
               {"in path", Table::Align::kRight},
               {"ticks", Table::Align::kRight},
               {"drains", Table::Align::kRight},
               {"switches/s", Table::Align::kRight}});
  for (const profd::v1::TargetStatus& target : status.targets()) {
    const profd::v1::TargetCost& cost = target.cost();
    const auto rate = [&](int64_t ns) { return FormatPerSecond(ns, duration_ns); };
    const std::string switches = FormatRate(cost.switches(), duration_ns);
    const std::string name = CleanName(target.selector());
    if (status.targets_size() == 1) {
      text += WrapAfter("  target     ",
                        absl::StrCat(Shorten(name, 40), ": in path ", rate(cost.in_path_ns()),
                                     ", ticks ", rate(cost.tick_cpu_ns()), ", drains ",
                                     rate(cost.drain_cpu_ns()), ", ", switches, " switches/s"),
                        PageColumns());
      return;
    }
    table.Add({name, rate(cost.in_path_ns()), rate(cost.tick_cpu_ns()), rate(cost.drain_cpu_ns()),
               switches});
  }
  if (!table.empty()) text += table.Render();
}

void AppendCost(const GetStatusResponse& status, int64_t uptime_ns, bool colour,
                std::string& text) {
  const profd::v1::Cost& cost = status.cost();
  const int64_t duration_ns = cost.duration_ns() > 0 ? cost.duration_ns() : uptime_ns;
  text += "\n" + Heading("Cost since it started", colour);
  text += WrapAfter("  daemon     ", DescribeDaemonCost(cost, duration_ns), PageColumns());
  text += WrapAfter("  in path    ",
                    DescribePathCost(cost, duration_ns, status.governor().changes() == 0),
                    PageColumns());
  absl::StrAppend(&text, "  memory     ", FormatBytes(status.memory().daemon_rss_bytes()),
                  " daemon, ", FormatBytes(status.memory().kernel_map_bytes()), " kernel maps, ",
                  FormatBytes(status.memory().store_bytes()), " stored profiles");
  if (status.memory().timeline_bytes() > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(status.memory().timeline_bytes()), " memory timeline");
  }
  text += "\n";
  AppendTargetCosts(status, duration_ns, text);
}

ordered_json GovernorJson(const profd::v1::Governor& governor) {
  ordered_json sources = ordered_json::array();
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    sources.push_back({{"name", source.name()},
                       {"in_path", source.in_path()},
                       {"level", source.level()},
                       {"given_up", source.given_up()},
                       {"cost", source.cost()},
                       {"whole_cost", source.whole_cost()}});
  }
  return {{"budget", governor.budget()},         {"share", governor.share()},
          {"of_targets", governor.of_targets()}, {"saved_s", governor.saved_s()},
          {"fixed_cost", governor.fixed_cost()}, {"changes", governor.changes()},
          {"sources", std::move(sources)}};
}

ordered_json AllocatorJson(const profd::v1::AllocatorStatus& allocator) {
  ordered_json pids = ordered_json::array();
  for (const int32_t pid : allocator.pids()) pids.push_back(pid);
  return {{"pids", std::move(pids)},
          {"module", allocator.module()},
          {"build_id", allocator.build_id()},
          {"allocator", allocator.allocator()},
          {"version", allocator.version()},
          {"found_by", allocator.found_by()},
          {"places", allocator.places()},
          {"wrong_places", allocator.wrong_places()},
          {"watched", allocator.watched()},
          {"allocated", ToJson(allocator.allocated())},
          {"freed", ToJson(allocator.freed())},
          {"note", allocator.note()},
          {"live_since_ns", allocator.live_since_ns()},
          {"live_bytes", allocator.live_bytes()},
          {"live_objects", allocator.live_objects()},
          {"sample_bytes", allocator.sample_bytes()},
          {"live_note", allocator.live_note()}};
}

}  // namespace

std::string RenderStatusText(const GetStatusResponse& status, int64_t now_ns, bool colour) {
  const int64_t uptime_ns =
      status.started_ns() > 0 ? std::max<int64_t>(now_ns - status.started_ns(), 0) : 0;
  std::string text = Heading(absl::StrCat("profd ", CleanName(status.daemon_version()),
                                          " on Linux ", CleanName(status.kernel_release())),
                             colour);
  absl::StrAppend(&text, "  running since ", FormatTime(status.started_ns()), " (",
                  FormatDuration(uptime_ns), ")\n");
  if (status.oldest_ns() > 0) {
    absl::StrAppend(&text, "  can be asked about everything since ", FormatTime(status.oldest_ns()),
                    "\n");
  } else {
    text += "  has nothing stored yet\n";
  }
  if (status.paused()) text += "  PAUSED: nothing is collected until profd gets SIGUSR2\n";
  absl::StrAppend(&text, "  watches ", FormatCount(status.threads()), " threads, ",
                  status.tick_interval_ns() > 0
                      ? absl::StrCat("one tick in ", FormatDuration(status.tick_interval_ns()))
                      : "without ticks",
                  "\n");

  text += "\n" + Heading("Targets", colour);
  AppendTargets(status, text);
  text += "\n" + Heading("Layers", colour);
  AppendLayers(status, text);
  AppendBudget(status, colour, text);
  if (!status.missing().empty()) {
    text += "\n" + Heading("Missing", colour);
    for (const std::string& missing : status.missing()) {
      text += Wrap(CleanName(missing), PageColumns(), "  ");
    }
  }
  AppendAllocators(status, colour, text);
  AppendModules(status, colour, text);
  AppendLosses(status, colour, text);

  AppendCost(status, uptime_ns, colour, text);
  std::string capabilities;
  for (const std::string& capability : status.capabilities()) {
    absl::StrAppend(&capabilities, capabilities.empty() ? "" : " ", CleanName(capability));
  }
  text += "\n" + Heading("Capabilities", colour);
  text += Wrap(capabilities.empty() ? "none" : capabilities, PageColumns(), "  ");
  return text;
}

std::string RenderStatusJson(const GetStatusResponse& status) {
  ordered_json layers = ordered_json::array();
  for (const auto& layer : status.layers()) {
    layers.push_back({{"name", layer.name()}, {"on", layer.on()}, {"note", layer.note()}});
  }
  ordered_json targets = ordered_json::array();
  for (const auto& target : status.targets()) {
    ordered_json pids = ordered_json::array();
    for (const int32_t pid : target.pids()) pids.push_back(pid);
    targets.push_back({{"selector", target.selector()},
                       {"pids", std::move(pids)},
                       {"threads", target.threads()},
                       {"cost", ToJson(target.cost())}});
  }
  ordered_json missing = ordered_json::array();
  for (const std::string& text : status.missing()) missing.push_back(text);
  ordered_json modules = ordered_json::array();
  for (const auto& module : status.module_list()) {
    modules.push_back({{"path", module.path()},
                       {"build_id", module.build_id()},
                       {"rules", module.rules()},
                       {"note", module.note()}});
  }
  ordered_json allocators = ordered_json::array();
  for (const auto& allocator : status.allocators()) allocators.push_back(AllocatorJson(allocator));
  ordered_json unknown = ordered_json::array();
  for (const auto& process : status.unknown_allocators()) {
    unknown.push_back({{"pid", process.pid()}, {"name", process.name()}});
  }
  ordered_json programs = ordered_json::array();
  for (const auto& program : status.programs()) {
    programs.push_back(
        {{"name", program.name()}, {"recursion_misses", program.recursion_misses()}});
  }
  ordered_json capabilities = ordered_json::array();
  for (const std::string& capability : status.capabilities()) capabilities.push_back(capability);
  return DumpJson({{"format", "profd-status"},
                   {"version", 1},
                   {"daemon_version", status.daemon_version()},
                   {"kernel_release", status.kernel_release()},
                   {"started_ns", status.started_ns()},
                   {"paused", status.paused()},
                   {"tick_interval_ns", status.tick_interval_ns()},
                   {"oldest_ns", status.oldest_ns()},
                   {"switch_entry_ns", status.switch_entry_ns()},
                   {"layers", std::move(layers)},
                   {"targets", std::move(targets)},
                   {"missing", std::move(missing)},
                   {"losses", ToJson(status.losses())},
                   {"cost", ToJson(status.cost())},
                   {"memory",
                    {{"daemon_rss_bytes", status.memory().daemon_rss_bytes()},
                     {"kernel_map_bytes", status.memory().kernel_map_bytes()},
                     {"store_bytes", status.memory().store_bytes()},
                     {"timeline_bytes", status.memory().timeline_bytes()}}},
                   {"threads", status.threads()},
                   {"modules", status.modules()},
                   {"module_list", std::move(modules)},
                   {"allocators", std::move(allocators)},
                   {"unknown_allocators", std::move(unknown)},
                   {"programs", std::move(programs)},
                   {"capabilities", std::move(capabilities)},
                   {"governor", GovernorJson(status.governor())}});
}

}  // namespace profctl
