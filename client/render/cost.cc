#include "client/render/cost.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text.h"

namespace profctl {
namespace {

constexpr double kSecond = 1e9;
// Keeps what is divided by a short duration within int64_t.
constexpr double kMost = 9e18;

std::string Share(double ns, int64_t duration_ns) {
  return FormatFineShare(ns, static_cast<double>(duration_ns));
}

std::string Each(double ns, uint64_t count) {
  return FormatDuration(std::llround(std::clamp(ns / static_cast<double>(count), -kMost, kMost)));
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
      {"rules", cost.rules_cpu_ns()},
      {"answers", cost.answers_cpu_ns()},
  };
  if (cost.memory_cpu_ns() > 0) parts.emplace_back("memory", cost.memory_cpu_ns());
  std::string text =
      absl::StrCat(Share(static_cast<double>(cost.daemon_cpu_ns()), duration_ns), " of one CPU (",
                   FormatPerSecond(cost.daemon_cpu_ns(), duration_ns), "):");
  auto rest = static_cast<double>(cost.daemon_cpu_ns());
  for (const auto& [name, ns] : parts) {
    absl::StrAppend(&text, " ", name, " ", Share(static_cast<double>(ns), duration_ns), ",");
    rest -= static_cast<double>(ns);
  }
  // The parts are read after the whole and may be ahead of it by a little.
  absl::StrAppend(&text, " rest ", Share(std::max(rest, 0.0), duration_ns));
  return text;
}

std::string DescribePathCost(const profd::v1::Cost& cost, int64_t duration_ns, bool always_on) {
  const auto whole = static_cast<double>(cost.in_path_ns());
  const auto heap = static_cast<double>(cost.heap_in_path_ns());
  const auto faults = static_cast<double>(cost.fault_in_path_ns());
  const auto mappings = static_cast<double>(cost.mapping_in_path_ns());
  const auto cpu = static_cast<double>(cost.cpu_in_path_ns());
  const auto bursts = static_cast<double>(cost.burst_in_path_ns());
  std::string text = absl::StrCat(Share(whole, duration_ns), " of one CPU (",
                                  FormatPerSecond(cost.in_path_ns(), duration_ns),
                                  "): ", FormatCount(cost.switches()), " switches");
  if (cost.switches() > 0) {
    // The parts are read apart, and one may be ahead of the whole by a little.
    const double rest = std::max(whole - heap - faults - mappings - cpu - bursts, 0.0);
    absl::StrAppend(&text, ", ", Each(rest, cost.switches()), " each on average",
                    always_on ? "" : ", shed or not");
  }
  if (cost.heap_events() > 0) {
    absl::StrAppend(&text, "; allocations ", Share(heap, duration_ns), ", ",
                    FormatCount(cost.heap_events()), " events, ", Each(heap, cost.heap_events()),
                    " each on average");
  }
  if (cost.faults() > 0) {
    absl::StrAppend(&text, "; page faults ", Share(faults, duration_ns), ", ",
                    FormatCount(cost.faults()), ", ", Each(faults, cost.faults()),
                    " each on average");
  }
  if (cost.mapping_calls() > 0) {
    absl::StrAppend(&text, "; mapping calls ", Share(mappings, duration_ns), ", ",
                    FormatCount(cost.mapping_calls()), ", ", Each(mappings, cost.mapping_calls()),
                    " each on average");
  }
  if (cost.cpu_samples() > 0) {
    absl::StrAppend(&text, "; samples of running code ", Share(cpu, duration_ns), ", ",
                    FormatCount(cost.cpu_samples()), ", ", Each(cpu, cost.cpu_samples()),
                    " each on average");
  }
  if (cost.burst_calls() > 0) {
    absl::StrAppend(&text, "; bursts of malloc ", Share(bursts, duration_ns), ", ",
                    FormatCount(cost.burst_calls()), " calls, ", Each(bursts, cost.burst_calls()),
                    " each on average");
  }
  return text;
}

}  // namespace profctl
