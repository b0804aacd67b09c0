#include "client/render/cost.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr double kSecond = 1e9;
// Keeps quotients of short durations within int64_t.
constexpr double kMost = 9e18;

std::string Share(double ns, int64_t duration_ns) {
  return FormatFineShare(ns, static_cast<double>(duration_ns));
}

std::string Each(double ns, uint64_t count) {
  return FormatDuration(std::llround(std::clamp(ns / static_cast<double>(count), -kMost, kMost)));
}

// The mean of a switch; none if no switch cost anything.
std::string DescribeSwitches(double ns, uint64_t switches, SwitchLayer layer) {
  if (ns <= 0 && layer == SwitchLayer::kPartlyOn) layer = SwitchLayer::kOff;
  switch (layer) {
    case SwitchLayer::kOn:
      return absl::StrCat(", ", Each(ns, switches), " on average");
    case SwitchLayer::kPartlyOn:
      return absl::StrCat(", ", Each(ns, switches),
                          " on average, including those while the switch layer was off");
    case SwitchLayer::kOff:
      return " with the switch layer off";
  }
  return "";
}

}  // namespace

std::string FormatPerSecond(int64_t ns, int64_t duration_ns) {
  if (duration_ns <= 0) return "-";
  const double rate = static_cast<double>(ns) / static_cast<double>(duration_ns) * kSecond;
  return FormatDuration(static_cast<int64_t>(std::clamp(std::round(rate), -kMost, kMost))) + "/s";
}

std::string FormatRate(uint64_t count, int64_t duration_ns) {
  if (duration_ns <= 0) return "-";
  const double rate = static_cast<double>(count) / static_cast<double>(duration_ns) * kSecond;
  return FormatCount(static_cast<uint64_t>(std::min(std::round(rate), kMost)));
}

std::string DescribeDaemonCost(const profd::v1::Cost& cost, int64_t duration_ns) {
  std::vector<std::pair<const char*, int64_t>> parts = {
      {"ticks", cost.tick_cpu_ns()},
      {"drains", cost.drain_cpu_ns()},
      {"unwind rules", cost.rules_cpu_ns()},
      {"queries", cost.answers_cpu_ns()},
  };
  if (cost.memory_cpu_ns() > 0) parts.emplace_back("memory timeline", cost.memory_cpu_ns());
  std::string text =
      absl::StrCat(Share(static_cast<double>(cost.daemon_cpu_ns()), duration_ns), " of one CPU (",
                   FormatPerSecond(cost.daemon_cpu_ns(), duration_ns), "):");
  auto rest = static_cast<double>(cost.daemon_cpu_ns());
  for (const auto& [name, ns] : parts) {
    absl::StrAppend(&text, " ", name, " ", Share(static_cast<double>(ns), duration_ns), ",");
    rest -= static_cast<double>(ns);
  }
  // The parts are read after the total and may slightly exceed it.
  absl::StrAppend(&text, " rest ", Share(std::max(rest, 0.0), duration_ns));
  return text;
}

std::string DescribePathCost(const profd::v1::Cost& cost, int64_t duration_ns, SwitchLayer layer) {
  const auto heap = static_cast<double>(cost.heap_in_path_ns());
  const auto faults = static_cast<double>(cost.fault_in_path_ns());
  const auto mappings = static_cast<double>(cost.mapping_in_path_ns());
  const auto cpu = static_cast<double>(cost.cpu_in_path_ns());
  const auto disk = static_cast<double>(cost.disk_in_path_ns());
  const auto wakers = static_cast<double>(cost.waker_in_path_ns());
  const auto stacks = static_cast<double>(cost.switch_stack_in_path_ns());
  const auto bursts = static_cast<double>(cost.burst_in_path_ns());
  const auto total = static_cast<double>(cost.in_path_ns());
  std::string text = absl::StrCat(
      Share(total, duration_ns), " of one CPU (", FormatPerSecond(cost.in_path_ns(), duration_ns),
      "): ", FormatCount(cost.switches()), cost.switches() == 1 ? " switch" : " switches");
  if (cost.switches() > 0) {
    // The parts are read separately and may slightly exceed the total.
    const double rest =
        std::max(total - heap - faults - mappings - cpu - disk - wakers - stacks - bursts, 0.0);
    text += DescribeSwitches(rest, cost.switches(), layer);
  }
  const auto add = [&](std::string_view what, double ns, uint64_t count, std::string_view unit) {
    if (count == 0) return;
    absl::StrAppend(&text, "; ", std::string(what), " ", Share(ns, duration_ns), " (",
                    FormatCount(count), " ", std::string(unit), ", ", Each(ns, count),
                    " on average)");
  };
  add("allocations", heap, cost.heap_events(), "events");
  add("page faults", faults, cost.faults(), "faults");
  add("mapping calls", mappings, cost.mapping_calls(), "calls");
  add("on-CPU samples", cpu, cost.cpu_samples(), "samples");
  add("disk requests and file syncs", disk, cost.disk_requests(), "requests and calls");
  add("wake-ups", wakers, cost.wakes(), "wake-ups");
  add("stacks of switches", stacks, cost.switch_stacks(), "stacks");
  add("bursts of malloc", bursts, cost.burst_calls(), "calls");
  return text;
}

}  // namespace profctl
