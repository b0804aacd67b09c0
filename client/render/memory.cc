#include "client/render/memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/caption.h"
#include "client/render/heap.h"
#include "client/render/memory_figures.h"
#include "client/render/plot.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using profd::v1::GetMemoryResponse;
using profd::v1::MemoryPoint;
using profd::v1::ProcessMemory;

constexpr int kMostThreads = 5;
constexpr size_t kAxisColumns = 12;

std::string Bytes(int64_t bytes) { return FormatValue(bytes, Unit::kBytes); }

// "1.30 of 2.00 GiB".
std::string PartOf(int64_t part, int64_t whole) {
  std::string first = Bytes(part);
  const std::string second = Bytes(whole);
  const size_t space = first.find(' ');
  if (first.substr(space) == second.substr(second.find(' '))) first.resize(space);
  return absl::StrCat(first, " of ", second);
}

// "42 min", "3.1 h": as precise as a forecast can be.
std::string Span(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.0f min", seconds / 60);
  if (seconds < 48 * 3600) return absl::StrFormat("%.1f h", seconds / 3600);
  if (seconds < 366.0 * 86400) return absl::StrFormat("%.0f days", seconds / 86400);
  return "more than a year";
}

std::string Rate(double per_second) {
  if (per_second < 9.995) return absl::StrFormat("%.2f/s", per_second);
  return FormatCount(static_cast<uint64_t>(std::min(per_second, 9e18))) + "/s";
}

std::string BytesPerMinute(double rate) {
  return Bytes(static_cast<int64_t>(std::min(std::abs(rate), 9e18))) + "/min";
}

void AppendLine(std::string_view label, const std::string& content, std::string& text) {
  if (content.empty()) return;
  text += WrapAfter("  " + PadRight(label, 14), content, PageColumns());
}

void AppendTo(std::string* list, std::string_view separator, const std::string& item) {
  if (!list->empty()) list->append(separator);
  list->append(item);
}

std::string DescribeNow(const ProcessMemory& process) {
  const MemoryPoint& now = Last(process);
  std::string text = now.has_rss_bytes() ? "RSS " + Bytes(now.rss_bytes()) : "RSS unknown";
  if (process.has_peak_rss_bytes()) {
    absl::StrAppend(&text, ", peak ", Bytes(process.peak_rss_bytes()), " in this window");
  }
  if (now.has_pss_bytes()) {
    absl::StrAppend(&text, "; PSS ", Bytes(now.pss_bytes()));
    if (now.pss_error_bytes() > 0) absl::StrAppend(&text, " ± ", Bytes(now.pss_error_bytes()));
    const int64_t age_ns = now.has_pss_time_ns() ? now.time_ns() - now.pss_time_ns() : 0;
    if (age_ns >= 1'000'000'000)
      absl::StrAppend(&text, ", read ", FormatDuration(age_ns), " earlier");
  }
  return text;
}

std::string DescribeParts(const MemoryPoint& now) {
  std::string text;
  const auto add = [&](bool known, const char* name, int64_t bytes) {
    if (!known) return;
    std::string part = absl::StrCat(name, " ", Bytes(bytes));
    if (now.rss_bytes() > 0) {
      absl::StrAppend(&part, " (",
                      FormatShare(static_cast<double>(bytes), static_cast<double>(now.rss_bytes())),
                      ")");
    }
    AppendTo(&text, ", ", part);
  };
  add(now.has_anon_bytes(), "anonymous", now.anon_bytes());
  add(now.has_file_bytes(), "file", now.file_bytes());
  add(now.has_shmem_bytes(), "shmem", now.shmem_bytes());
  return text;
}

std::string DescribeRest(const MemoryPoint& now) {
  std::string text;
  if (now.has_swap_bytes()) AppendTo(&text, ", ", "swap " + Bytes(now.swap_bytes()));
  if (now.has_page_table_bytes()) {
    AppendTo(&text, ", ", "page tables " + Bytes(now.page_table_bytes()));
  }
  if (now.has_threads()) {
    AppendTo(&text, ", ", CountThreads(static_cast<uint64_t>(now.threads())));
  }
  return text;
}

std::string DescribeCgroup(const ProcessMemory& process) {
  const MemoryPoint& now = Last(process);
  if (!now.has_cgroup_current_bytes()) return "";
  std::string text;
  if (now.has_cgroup_limit_bytes()) {
    text = absl::StrCat(PartOf(now.cgroup_current_bytes(), now.cgroup_limit_bytes()), " (",
                        FormatShare(static_cast<double>(now.cgroup_current_bytes()),
                                    static_cast<double>(now.cgroup_limit_bytes())),
                        ")");
  } else {
    text = Bytes(now.cgroup_current_bytes()) + ", no limit";
  }
  const auto add = [&](const char* what, int64_t begin, int64_t end) {
    if (end <= 0) return;
    absl::StrAppend(&text, "; ", what, " ", FormatCount(static_cast<uint64_t>(end)),
                    end == 1 ? " time" : " times", ", ",
                    FormatCount(static_cast<uint64_t>(std::max<int64_t>(end - begin, 0))),
                    " in this window");
  };
  const MemoryPoint& begin = First(process);
  add("reached its limit", begin.cgroup_limit_hits(), now.cgroup_limit_hits());
  add("exceeded memory.high", begin.cgroup_high_hits(), now.cgroup_high_hits());
  add("OOM killer KILLED a process", begin.cgroup_oom_kills(), now.cgroup_oom_kills());
  if (process.has_cgroup()) absl::StrAppend(&text, "; ", CleanName(process.cgroup().path()));
  return text;
}

std::string DescribeGrowth(const ProcessMemory& process) {
  const MemoryPoint& begin = First(process);
  const MemoryPoint& now = Last(process);
  if (DurationNs(process) <= 0 || !begin.has_rss_bytes() || !now.has_rss_bytes()) {
    return "unknown: only one reading so far";
  }
  std::string text = absl::StrCat(FormatGrowth(now.rss_bytes() - begin.rss_bytes()), " of RSS in ",
                                  FormatDuration(DurationNs(process)));
  const std::optional<Trend> trend = RssTrend(process);
  if (!trend) return text;
  if (trend->direction == 0) return text + "; steady";
  absl::StrAppend(&text, "; ", trend->direction > 0 ? "GROWS" : "shrinks", " by ",
                  BytesPerMinute(trend->bytes_per_minute));
  if (const std::optional<double> seconds = SecondsToLimit(process, trend)) {
    absl::StrAppend(&text, "; at that rate it reaches the cgroup limit in ", Span(*seconds));
  }
  return text;
}

std::string DescribeHeap(const ProcessMemory& process, int64_t heap_ns) {
  if (!process.has_allocated_bytes() || !process.has_freed_bytes()) return "";
  std::string text = absl::StrCat(FormatByteRate(process.allocated_bytes(), heap_ns), " (",
                                  Bytes(process.allocated_bytes()), "), freed ",
                                  FormatByteRate(process.freed_bytes(), heap_ns), " (",
                                  Bytes(process.freed_bytes()), ")");
  if (!process.allocator().empty()) absl::StrAppend(&text, ", ", CleanName(process.allocator()));
  if (process.has_net_allocated_bytes()) {
    absl::StrAppend(&text, "; net ", FormatGrowth(process.net_allocated_bytes()),
                    " since profd started watching");
  }
  return text;
}

std::string DescribeLive(const ProcessMemory& process) {
  if (!process.has_live_bytes()) return "";
  std::string text = Bytes(process.live_bytes());
  if (process.live_counted()) {
    text += ", counted by the allocator";
  } else if (!KnowsWholeHeap(process)) {
    absl::StrAppend(&text, " of the memory allocated since ", FormatTime(process.live_since_ns()));
  }
  if (const std::optional<int64_t> rest = Fragmentation(process)) {
    absl::StrAppend(
        &text, "; fragmentation and allocator caches: ", Bytes(*rest), " (",
        FormatShare(static_cast<double>(*rest), static_cast<double>(Last(process).anon_bytes())),
        " of anonymous memory)");
  } else if (const MemoryPoint& now = Last(process);
             KnowsWholeHeap(process) && now.has_anon_bytes()) {
    absl::StrAppend(&text, "; about ",
                    Bytes(process.live_bytes() - now.anon_bytes() - now.swap_bytes()),
                    " of it is not resident");
  }
  return text;
}

std::string DescribeMappings(const ProcessMemory& process) {
  if (!process.has_mapped_bytes()) return "";
  std::string text =
      absl::StrCat(Bytes(process.mapped_bytes()), " mapped, ", Bytes(process.unmapped_bytes()),
                   " unmapped: ", FormatGrowth(process.mapped_bytes() - process.unmapped_bytes()));
  if (process.returned_bytes() > 0) {
    absl::StrAppend(&text, "; ", Bytes(process.returned_bytes()), " returned");
  }
  return text + "; 'profctl fetch --kind mapped' shows who";
}

std::string DescribeFaults(const ProcessMemory& process) {
  const std::optional<double> minor = PerSecond(process, MinorFaults);
  const std::optional<double> major = PerSecond(process, MajorFaults);
  std::string text;
  if (minor) AppendTo(&text, ", ", "minor " + Rate(*minor));
  if (major) AppendTo(&text, ", ", "major " + Rate(*major));
  return text;
}

// "13:05:00".
std::string ClockTime(int64_t ns) { return FormatTime(ns).substr(11, 8); }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;

  void Add(const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  double Span() const { return std::max(high - low, 0.0); }
};

void AppendPlot(const ProcessMemory& process, bool unicode, std::string& text) {
  PlotShape shape;
  shape.unicode = unicode;
  shape.columns = std::min(shape.columns, PageColumns() - kAxisColumns - 2);
  const std::vector<double> rss = Resample(process, Rss, shape.Width());
  std::vector<double> anonymous = Resample(process, Anonymous, shape.Width());
  Range of_rss, of_anonymous, axis;
  of_rss.Add(rss);
  of_anonymous.Add(anonymous);
  axis.Add(rss);
  axis.Add(anonymous);
  if (DurationNs(process) <= 0 || axis.high <= 0) return;
  // Small movements of the RSS would be invisible next to its distance from the anonymous memory.
  const bool alone = of_rss.Span() > kLeastChangeShare * of_rss.high &&
                     of_rss.Span() < axis.Span() / 3 && of_anonymous.Span() < 2 * of_rss.Span();
  if (alone) {
    axis = of_rss;
    anonymous.assign(anonymous.size(), std::numeric_limits<double>::quiet_NaN());
  }
  // The axis starts at 0, unless all values are in its upper half.
  const double margin = std::max(axis.Span() / 20, axis.high / 1000);
  const double low = axis.low < axis.high / 2 ? 0 : axis.low - margin;
  const double high = axis.high + margin;
  const auto label = [](double value) {
    return PadLeft(FormatBytes(static_cast<uint64_t>(std::min(value, 9e18))), kAxisColumns);
  };
  text += Line("  ", alone ? "RSS (anonymous memory is below this range)"
                           : "RSS (line) and anonymous memory (area)");
  const std::vector<std::string> rows = DrawPlot(shape, rss, anonymous, low, high);
  for (size_t row = 0; row < rows.size(); ++row) {
    std::string line(kAxisColumns, ' ');
    if (row == 0) line = label(high);
    if (row + 1 == rows.size()) line = label(low);
    absl::StrAppend(&text, line, unicode ? " \xe2\x94\x82" : " |", rows[row], "\n");
  }
  text += std::string(kAxisColumns + 1, ' ') + (unicode ? "\xe2\x94\x94" : "+");
  for (size_t i = 0; i < shape.columns; ++i) text += unicode ? "\xe2\x94\x80" : "-";
  text += "\n";
  const std::string begin = ClockTime(First(process).time_ns());
  const std::string end = FormatTime(Last(process).time_ns()).substr(11);
  text += std::string(kAxisColumns + 2, ' ') + begin + PadLeft(end, shape.columns - begin.size()) +
          "\n";
}

void AppendSites(const ProcessMemory& process, std::string& text) {
  if (process.sites().empty()) return;
  Table table({{"allocated", Table::Align::kRight},
               {"share", Table::Align::kRight},
               {"function", Table::Align::kLeft}});
  for (const profd::v1::AllocationSite& site : process.sites()) {
    const auto whole = static_cast<double>(site.process_bytes());
    std::string share = FormatShare(static_cast<double>(site.bytes()), whole);
    if (site.error_bytes() > 0) {
      absl::StrAppend(&share, " ± ", FormatShare(static_cast<double>(site.error_bytes()), whole));
    }
    table.Add({Bytes(site.bytes()), share, CleanName(site.function())});
  }
  text += table.Render();
}

// The threads that allocated most, if there are several.
void AppendThreads(const ProcessMemory& process, std::string& text) {
  if (process.threads_size() < 2) return;
  Table table({{"allocated", Table::Align::kRight},
               {"freed", Table::Align::kRight, 1},
               {"net", Table::Align::kRight},
               {"thread", Table::Align::kLeft}});
  for (int i = 0; i < std::min(process.threads_size(), kMostThreads); ++i) {
    const profd::v1::ThreadHeap& thread = process.threads(i);
    table.Add({Bytes(thread.allocated_bytes()), Bytes(thread.freed_bytes()),
               FormatGrowth(thread.allocated_bytes() - thread.freed_bytes()),
               absl::StrCat(CleanName(thread.name()), " (", thread.tid(), ")")});
  }
  text += table.Render();
}

void AppendProcess(const MemoryReport& report, const ProcessMemory& process, bool colour,
                   bool unicode, std::string& text) {
  std::string title = absl::StrCat(CleanName(process.name()), " (", process.pid(), "), ",
                                   process.ended() ? "EXITED, started " : "started ",
                                   FormatTime(process.started_ns()));
  text += "\n" + Heading(title, colour);
  const MemoryPoint& now = Last(process);
  AppendLine(process.ended() || report.past ? "at the end" : "now", DescribeNow(process), text);
  AppendLine("consists of", DescribeParts(now), text);
  AppendLine("other", DescribeRest(now), text);
  AppendLine("cgroup", DescribeCgroup(process), text);
  AppendLine("growth", DescribeGrowth(process), text);
  AppendLine("allocated", DescribeHeap(process, report.memory.heap_ns()), text);
  AppendLine("live heap", DescribeLive(process), text);
  AppendLine("address space", DescribeMappings(process), text);
  AppendLine("page faults", DescribeFaults(process), text);
  AppendLine("note", CleanName(process.note()), text);
  AppendPlot(process, unicode, text);
  AppendSites(process, text);
  AppendThreads(process, text);
}

// Processes that the page does not show in full.
void AppendOthers(const GetMemoryResponse& memory, std::string& text) {
  const int others = memory.processes_size() - kMostMemoryBlocks;
  if (others <= 0 && memory.processes_left_out() == 0) return;
  double rss = 0;
  for (int i = kMostMemoryBlocks; i < memory.processes_size(); ++i) {
    rss += Rss(Last(memory.processes(i))).value_or(0);
  }
  const auto count = static_cast<uint64_t>(std::max(others, 0)) + memory.processes_left_out();
  std::string line = absl::StrCat("and ", FormatCount(count),
                                  count == 1 ? " smaller process" : " smaller processes");
  if (others > 0) {
    absl::StrAppend(&line, " with an RSS of ",
                    FormatBytes(static_cast<uint64_t>(std::min(rss, 9e18))));
  }
  text += "\n" + Line("", line + "; --target shows one, --format json all");
}

}  // namespace

std::string RenderMemoryText(const MemoryReport& report, bool colour, bool unicode) {
  const GetMemoryResponse& memory = report.memory;
  std::string text = Heading(
      absl::StrCat(
          "Memory of ",
          FormatCount(static_cast<uint64_t>(memory.processes_size()) + memory.processes_left_out()),
          memory.processes_size() == 1 ? " process" : " processes"),
      colour);
  std::string window =
      absl::StrCat(FormatTime(memory.begin_ns()), " to ", FormatTime(memory.end_ns()));
  if (memory.begin_ns() >= 0 && memory.end_ns() > memory.begin_ns()) {
    absl::StrAppend(&window, " (", FormatDuration(memory.end_ns() - memory.begin_ns()), ")");
  }
  text += Line("  ", absl::StrCat(window, " on ", CleanName(memory.hostname())));
  if (memory.processes().empty()) {
    text += "\nNo memory data for any process in this window.\n";
  }
  for (int i = 0; i < std::min(memory.processes_size(), kMostMemoryBlocks); ++i) {
    AppendProcess(report, memory.processes(i), colour, unicode, text);
  }
  AppendOthers(memory, text);
  std::string notes;
  for (const std::string& note : memory.notes())
    notes += Wrap(CleanName(note), PageColumns(), "  ");
  for (const profd::v1::Loss& loss : memory.losses()) {
    notes += Wrap("lost " + DescribeLoss(loss), PageColumns(), "  ");
  }
  if (!notes.empty()) absl::StrAppend(&text, "\n", Heading("Missing", colour), notes);
  return text;
}

std::string DescribeMemoryLine(const profd::v1::MemoryLine& line, int64_t heap_ns) {
  std::string text;
  if (line.has_rss_bytes()) {
    text = "RSS " + Bytes(line.rss_bytes());
    if (line.has_rss_growth_bytes() && line.growth_ns() > 0) {
      absl::StrAppend(&text, " (", FormatGrowth(line.rss_growth_bytes()), " in ",
                      FormatDuration(line.growth_ns()), ")");
    }
  }
  if (line.has_anon_bytes()) AppendTo(&text, ", ", "anonymous " + Bytes(line.anon_bytes()));
  if (line.has_cgroup_current_bytes()) {
    AppendTo(&text, ", ",
             "cgroup " + (line.has_cgroup_limit_bytes()
                              ? PartOf(line.cgroup_current_bytes(), line.cgroup_limit_bytes())
                              : Bytes(line.cgroup_current_bytes())));
  }
  if (line.has_allocated_bytes() && line.has_freed_bytes() && heap_ns > 0) {
    AppendTo(&text, "; ",
             absl::StrCat("allocated ", FormatByteRate(line.allocated_bytes(), heap_ns), ", freed ",
                          FormatByteRate(line.freed_bytes(), heap_ns)));
  }
  if (line.processes() > 1 && !text.empty()) {
    text = absl::StrCat(FormatCount(line.processes()), " processes: ", text);
  }
  return text;
}

}  // namespace profctl
