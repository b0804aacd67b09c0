#include "client/render/status.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/answer/kind.h"
#include "client/answer/name_source.h"
#include "client/render/cost.h"
#include "client/render/heap.h"
#include "client/render/table.h"
#include "client/text/text.h"
#include "daemon/govern/budget.h"

namespace profctl {
namespace {

using profd::v1::GetStatusResponse;

constexpr int kMostPids = 8;
constexpr size_t kMostModules = 10;
constexpr size_t kLongestLayer = 24;

// Columns for the names of layers or sources and the gap after them.
template <typename Named>
size_t NameColumns(const Named& named) {
  size_t width = 8;
  for (const auto& each : named) width = std::max(width, each.name().size());
  return std::min(width, kLongestLayer) + 2;
}

void AppendLayers(const GetStatusResponse& status, std::string& text) {
  const size_t width = NameColumns(status.layers());
  for (const profd::v1::LayerStatus& layer : status.layers()) {
    const std::string state =
        absl::StrCat("  ", PadRight(ClipEnd(CleanName(layer.name()), kLongestLayer), width),
                     layer.on() ? "on" : "off");
    if (layer.note().empty()) {
      text += state + "\n";
    } else {
      text += Line(state + (layer.on() ? "   " : "  "), CleanName(layer.note()));
    }
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
    std::string line = absl::StrCat(CleanName(target.selector()), ": ");
    if (target.pids().empty()) {
      line += "no such process yet";
    } else {
      absl::StrAppend(
          &line, FormatCount(static_cast<uint64_t>(target.pids_size())),
          target.pids_size() == 1 ? " process, " : " processes, ", FormatCount(target.threads()),
          target.threads() == 1 ? " thread (" : " threads (", DescribePids(target.pids()), ")");
    }
    text += Line("  ", line);
  }
}

// "1.24 GiB in 19,840 events, coverage 99.8%", and what no probe saw.
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

// "12.0 MiB in 1,234 objects since 2026-01-31T14:05:00Z, one sample per 512 KiB".
std::string DescribeLive(const profd::v1::AllocatorStatus& allocator) {
  std::string text;
  if (allocator.live_since_ns() > 0) {
    text = absl::StrCat(
        FormatValue(allocator.live_bytes(), Unit::kBytes), " in ",
        FormatCount(static_cast<uint64_t>(std::max<int64_t>(0, allocator.live_objects()))),
        " objects since ", FormatTime(allocator.live_since_ns()));
    if (allocator.sample_bytes() > 0) {
      absl::StrAppend(&text, ", one sample per ", FormatBytes(allocator.sample_bytes()));
    }
  }
  if (allocator.live_note().empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ", CleanName(allocator.live_note()));
}

void AppendAllocator(const profd::v1::AllocatorStatus& allocator, std::string& text) {
  std::string line = absl::StrCat("  ", CleanName(allocator.allocator()));
  if (!allocator.version().empty()) absl::StrAppend(&line, " ", CleanName(allocator.version()));
  absl::StrAppend(&line, " in ", CleanName(allocator.module()));
  text += Shorten(line, LineColumns()) + "\n";
  text += Line("    processes  ",
               absl::StrCat(FormatCount(static_cast<uint64_t>(allocator.pids_size())), " (",
                            DescribePids(allocator.pids()), ")"));
  std::string found = allocator.watched() ? "yes" : "NO";
  absl::StrAppend(&found, allocator.found_by().empty()
                              ? ", no place for a probe found"
                              : ", found by " + CleanName(allocator.found_by()));
  if (allocator.wrong_places() > 0) {
    absl::StrAppend(&found, "; probes removed from ", FormatCount(allocator.wrong_places()), " of ",
                    FormatCount(allocator.places()), " places where no allocation event occurred");
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

// Without the layer, the daemon does not look for allocators.
void AppendAllocators(const GetStatusResponse& status, bool colour, std::string& text) {
  const bool looks =
      std::any_of(status.layers().begin(), status.layers().end(),
                  [](const profd::v1::LayerStatus& layer) { return layer.name() == "heap"; });
  if (!looks && status.allocators().empty()) return;
  text += "\n" + Heading("Allocators (bytes since profd started watching them)", colour);
  if (status.allocators().empty()) text += "  no supported allocator in these processes\n";
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
  absl::StrAppend(&unknown, "; use --kind rss for their memory");
  text += WrapAfter("  none found in  ", unknown, PageColumns());
}

// Modules with a note (no complete unwind rules) are listed; the others are counted.
void AppendModules(const GetStatusResponse& status, bool colour, std::string& text) {
  uint64_t rules = 0;
  std::string notes;
  size_t noted = 0;
  for (const profd::v1::ModuleStatus& module : status.module_list()) {
    rules += module.rules();
    if (module.note().empty()) continue;
    if (noted++ >= kMostModules) continue;
    absl::StrAppend(&notes, "  ", Shorten(CleanName(module.path()), LineColumns() - 2), "\n",
                    Line("    ", CleanName(module.note())));
  }
  text += "\n" + Heading("Modules", colour);
  absl::StrAppend(&text, "  ", FormatCount(status.modules()), " with ", FormatCount(rules),
                  " unwind rules\n");
  if (status.module_slots() != 0) {
    absl::StrAppend(&text, "  ", FormatCount(status.module_slots_in_use()), " of ",
                    FormatCount(status.module_slots()), " slots in use\n");
  }
  if (status.retired_modules() != 0) {
    absl::StrAppend(&text, "  ", FormatCount(status.retired_modules()), " retired\n");
  }
  text += notes;
  if (noted > kMostModules) {
    absl::StrAppend(&text, "  and ", noted - kMostModules, " more; --format json lists all\n");
  }
}

void AppendLosses(const GetStatusResponse& status, bool colour, std::string& text) {
  text += "\n" + Heading("Losses since start", colour);
  bool any = false;
  for (const profd::v1::Loss& loss : status.losses()) {
    any = true;
    absl::StrAppend(&text, "  ", FormatCount(loss.count()), " ", CleanName(loss.cause()), "\n",
                    Wrap(CleanName(loss.help()), PageColumns(), "    "));
  }
  for (const profd::v1::ProgramStatus& program : status.programs()) {
    if (program.recursion_misses() == 0) continue;
    any = true;
    text += Line("  ", absl::StrCat("the kernel skipped ", FormatCount(program.recursion_misses()),
                                    program.recursion_misses() == 1 ? " run of " : " runs of ",
                                    CleanName(program.name())));
  }
  if (!any) text += "  none\n";
}

double CostOf(const profd::v1::Governor& governor, bool in_path) {
  double cost = 0;
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    if (source.in_path() == in_path) cost += source.cost();
  }
  return cost;
}

// Overhead in the targets or of profd, and below it that of each source.
void AppendPayer(const profd::v1::Governor& governor, bool in_path, std::string& text) {
  const double fixed = in_path ? 0 : governor.fixed_cost();
  const size_t width = NameColumns(governor.sources());
  absl::StrAppend(&text, in_path ? "  targets    " : "  profd      ",
                  FormatFineShare(CostOf(governor, in_path) + fixed, 1), "\n");
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    if (source.in_path() != in_path) continue;
    std::string line = FormatFineShare(source.cost(), 1);
    if (source.level() == 0) {
      line += ", full detail";
    } else {
      absl::StrAppend(&line, ", level ", source.level(), " (full detail would cost ",
                      FormatFineShare(source.whole_cost(), 1),
                      "); given up: ", CleanName(source.given_up()));
    }
    const std::string name = ClipEnd(CleanName(source.name()), kLongestLayer);
    text += WrapAfter(absl::StrCat("    ", PadRight(name, width)), line, PageColumns());
  }
}

// What --budget would have to be for full detail: "2.4%" or "0.031cpu"; rounded up.
std::string RoomyBudget(const profd::v1::Governor& governor, double whole) {
  const double times = whole / (profd::kComfort * governor.budget());
  if (governor.of_targets()) {
    const double percent = std::ceil(1000 * times * governor.share()) / 10;
    return percent > 100 ? "off" : absl::StrFormat("%.1f%%", percent);
  }
  const double cpus = std::ceil(1000 * times * governor.budget()) / 1000;
  return cpus > 1 ? "off" : absl::StrFormat("%.3fcpu", cpus);
}

// If something is given up: what it would take to give up nothing.
void AppendRoomyBudget(const profd::v1::Governor& governor, std::string& text) {
  double whole = governor.fixed_cost();
  bool given_up = false;
  for (const profd::v1::GovernedSource& source : governor.sources()) {
    whole += source.level() == 0 ? source.cost() : source.whole_cost();
    given_up = given_up || source.level() != 0;
  }
  if (!given_up || !(governor.budget() > 0) || !std::isfinite(governor.budget())) return;
  text += Line("  ", absl::StrCat("full detail of every source would cost ",
                                  FormatFineShare(whole, 1), " of one CPU at this load; --budget ",
                                  RoomyBudget(governor, whole), " has room for it"));
}

void AppendBudget(const GetStatusResponse& status, bool colour, std::string& text) {
  if (!status.has_governor()) return;
  const profd::v1::Governor& governor = status.governor();
  const double budget = governor.budget();
  const double cost = CostOf(governor, true) + CostOf(governor, false) + governor.fixed_cost();
  text += "\n" + Heading("Budget, and overhead in the last second", colour);
  std::string line = FormatFineShare(cost, 1);
  if (budget > 0 && std::isfinite(budget)) {
    absl::StrAppendFormat(
        &line, " of one CPU, limit %s%s, %.2f CPU seconds saved for a burst",
        FormatFineShare(budget, 1),
        governor.of_targets()
            ? absl::StrFormat(" (%g%% of the targets' CPU time)", 100 * governor.share())
            : "",
        governor.saved_s());
    if (cost > budget) {
      line += governor.saved_s() > 0 ? "; spending what was saved" : "; OVER BUDGET";
    }
  } else {
    line += " of one CPU, no budget";
  }
  text += WrapAfter("  total      ", line, PageColumns());
  AppendPayer(governor, true, text);
  AppendPayer(governor, false, text);
  text += Line(absl::StrCat("    ", PadRight("other", NameColumns(governor.sources()))),
               FormatFineShare(governor.fixed_cost(), 1) +
                   ", one-minute mean: queries, unwind rules, memory timeline");
  AppendRoomyBudget(governor, text);
  if (governor.changes() == 0) {
    text += "  full detail since start\n";
  } else {
    absl::StrAppend(&text, "  ", FormatCount(governor.changes()),
                    governor.changes() == 1 ? " change" : " changes", " since start\n");
  }
}

// A table of targets; a line for a single one.
void AppendTargetCosts(const GetStatusResponse& status, int64_t duration_ns, std::string& text) {
  Table table({{"target", Table::Align::kLeft},
               {"in target", Table::Align::kRight},
               {"ticks", Table::Align::kRight, 1},
               {"drains", Table::Align::kRight, 2},
               {"switches/s", Table::Align::kRight}});
  for (const profd::v1::TargetStatus& target : status.targets()) {
    const profd::v1::TargetCost& cost = target.cost();
    const auto rate = [&](int64_t ns) { return FormatPerSecond(ns, duration_ns); };
    const std::string switches = FormatRate(cost.switches(), duration_ns);
    const std::string name = CleanName(target.selector());
    if (status.targets_size() == 1) {
      text += WrapAfter("  target     ",
                        absl::StrCat(Shorten(name, 40), ": in target ", rate(cost.in_path_ns()),
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

// Since the daemon started.
SwitchLayer SwitchLayerOf(const GetStatusResponse& status) {
  if (status.governor().changes() > 0 || status.paused()) return SwitchLayer::kPartlyOn;
  const bool off = std::any_of(
      status.layers().begin(), status.layers().end(),
      [](const profd::v1::LayerStatus& layer) { return layer.name() == "switch" && !layer.on(); });
  return off ? SwitchLayer::kOff : SwitchLayer::kOn;
}

// The process that reads debug info, once it has something to tell.
void AppendLineReader(const GetStatusResponse& status, std::string& text) {
  const profd::v1::LineReaderStatus& reader = status.line_reader();
  if (reader.addresses() == 0 && reader.failures() == 0 && reader.note().empty()) return;
  std::string line = absl::StrCat(
      FormatCount(reader.addresses()), " places read from debug info in ",
      FormatDuration(std::max<int64_t>(reader.cpu_ns(), 0)), " of CPU time (part of queries); ",
      FormatBytes(reader.rss_bytes()), " in processes of their own, ",
      FormatBytes(reader.cache_bytes()), " of profd's memory");
  if (reader.failures() > 0) {
    absl::StrAppend(&line, "; gave up ", FormatCount(reader.failures()),
                    reader.failures() == 1 ? " time" : " times",
                    ": damaged or too large, or the process was killed");
  }
  if (!reader.note().empty()) absl::StrAppend(&line, "; ", CleanName(reader.note()));
  text += WrapAfter("  lines      ", line, PageColumns());
}

void AppendNames(const std::vector<KindNames>& names, bool colour, std::string& text) {
  if (names.empty()) return;
  text += "\n" + Heading("Names of functions in the last minute", colour);
  for (const KindNames& kind : names) {
    text += WrapAfter(absl::StrFormat("  %-10s ", kind.kind),
                      kind.shares.empty() ? CleanName(kind.note) : NameSharesText(kind.shares),
                      PageColumns());
  }
}

void AppendCost(const GetStatusResponse& status, int64_t uptime_ns, bool colour,
                std::string& text) {
  const profd::v1::Cost& cost = status.cost();
  const int64_t duration_ns = cost.duration_ns() > 0 ? cost.duration_ns() : uptime_ns;
  text += "\n" + Heading("Overhead since start", colour);
  text += WrapAfter("  profd      ", DescribeDaemonCost(cost, duration_ns), PageColumns());
  text += WrapAfter("  targets    ", DescribePathCost(cost, duration_ns, SwitchLayerOf(status)),
                    PageColumns());
  std::string memory =
      absl::StrCat(FormatBytes(status.memory().daemon_rss_bytes()), " profd, ",
                   FormatBytes(status.memory().kernel_map_bytes()), " kernel maps, ",
                   FormatBytes(status.memory().store_bytes()), " stored profiles");
  if (status.memory().timeline_bytes() > 0) {
    absl::StrAppend(&memory, ", ", FormatBytes(status.memory().timeline_bytes()),
                    " memory timeline");
  }
  text += Line("  memory     ", memory);
  AppendLineReader(status, text);
  AppendTargetCosts(status, duration_ns, text);
}

}  // namespace

std::string RenderStatusText(const GetStatusResponse& status, int64_t now_ns, bool colour,
                             const std::vector<KindNames>& names) {
  const int64_t uptime_ns =
      status.started_ns() > 0 ? std::max<int64_t>(now_ns - status.started_ns(), 0) : 0;
  std::string text = Heading(absl::StrCat("profd ", CleanName(status.daemon_version()),
                                          " on Linux ", CleanName(status.kernel_release())),
                             colour);
  text += Line("  ", absl::StrCat("running since ", FormatTime(status.started_ns()), " (",
                                  FormatDuration(uptime_ns), ")"));
  if (status.oldest_ns() > 0) {
    absl::StrAppend(&text, "  has data since ", FormatTime(status.oldest_ns()), "\n");
  } else {
    text += "  has no data yet\n";
  }
  if (status.paused()) text += Line("  ", "PAUSED; send SIGUSR2 to profd to resume");
  text += Line(
      "  ", absl::StrCat("watches ", FormatCount(status.threads()), " threads, ",
                         status.tick_interval_ns() > 0
                             ? "mean sampling interval " + FormatDuration(status.tick_interval_ns())
                             : "no ticks"));

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
  AppendNames(names, colour, text);
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

}  // namespace profctl
