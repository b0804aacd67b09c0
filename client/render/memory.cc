#include "client/render/memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/heap.h"
#include "client/render/json_parts.h"
#include "client/render/plot.h"
#include "client/render/table.h"
#include "client/text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;
using profd::v1::GetMemoryResponse;
using profd::v1::MemoryPoint;
using profd::v1::ProcessMemory;

constexpr int kMostThreads = 5;
constexpr size_t kAxisColumns = 12;
constexpr int64_t kMostFigure = int64_t{1} << 62;
constexpr double kSecondNs = 1e9;
constexpr double kLeastTrendS = 10;
constexpr double kLeastTrendShare = 0.002;
// Values that a trend is fitted to.
constexpr size_t kTrendValues = 120;

const MemoryPoint& First(const ProcessMemory& process) { return process.points(0); }
const MemoryPoint& Last(const ProcessMemory& process) {
  return process.points(process.points_size() - 1);
}
int64_t DurationNs(const ProcessMemory& process) {
  return Last(process).time_ns() - First(process).time_ns();
}

std::optional<double> Rss(const MemoryPoint& point) {
  if (!point.has_rss_bytes()) return std::nullopt;
  return static_cast<double>(point.rss_bytes());
}
std::optional<double> Anonymous(const MemoryPoint& point) {
  if (!point.has_anon_bytes()) return std::nullopt;
  return static_cast<double>(point.anon_bytes());
}
std::optional<double> MinorFaults(const MemoryPoint& point) {
  if (!point.has_minor_faults()) return std::nullopt;
  return static_cast<double>(point.minor_faults());
}
std::optional<double> MajorFaults(const MemoryPoint& point) {
  if (!point.has_major_faults()) return std::nullopt;
  return static_cast<double>(point.major_faults());
}

// What a cumulative figure grew by in a second.
std::optional<double> PerSecond(const ProcessMemory& process, MemoryFigure figure) {
  const std::optional<double> begin = figure(First(process)), end = figure(Last(process));
  const int64_t duration_ns = DurationNs(process);
  if (!begin || !end || *end < *begin || duration_ns <= 0) return std::nullopt;
  return (*end - *begin) / static_cast<double>(duration_ns) * kSecondNs;
}

std::optional<Trend> RssTrend(const ProcessMemory& process) {
  return FitTrend(Resample(process, Rss, kTrendValues), DurationNs(process));
}

// Seconds until the cgroup's limit is reached at the rate at which the process grows.
std::optional<double> SecondsToLimit(const ProcessMemory& process,
                                     const std::optional<Trend>& trend) {
  const MemoryPoint& now = Last(process);
  if (!trend || trend->direction <= 0 || !now.has_cgroup_current_bytes() ||
      !now.has_cgroup_limit_bytes() || process.ended()) {
    return std::nullopt;
  }
  const auto room = static_cast<double>(now.cgroup_limit_bytes() - now.cgroup_current_bytes());
  return std::max(room, 0.0) / trend->bytes_per_minute * 60;
}

// All of the live heap is known, not only what was allocated later. A program needs a moment to
// start its allocator, and profd one to find it.
bool KnowsWholeHeap(const ProcessMemory& process) {
  constexpr int64_t kMomentNs = 2'000'000'000;
  return process.has_live_bytes() && process.live_since_ns() - kMomentNs <= process.started_ns();
}

// Resident or swapped anonymous memory that is not live heap. Not known where more is live than
// that: memory that is not resident then hides it.
std::optional<int64_t> Fragmentation(const ProcessMemory& process) {
  const MemoryPoint& now = Last(process);
  if (!KnowsWholeHeap(process) || !now.has_anon_bytes()) return std::nullopt;
  const int64_t rest = now.anon_bytes() + now.swap_bytes() - process.live_bytes();
  return rest < 0 ? std::nullopt : std::optional(rest);
}

std::string Bytes(int64_t bytes) { return FormatValue(bytes, Unit::kBytes); }

// "1.30 of 2.00 GiB".
std::string PartOf(int64_t part, int64_t whole) {
  std::string first = Bytes(part);
  const std::string second = Bytes(whole);
  const size_t space = first.find(' ');
  if (first.substr(space) == second.substr(second.find(' '))) first.resize(space);
  return absl::StrCat(first, " of ", second);
}

// "42 min", "3.1 h": about as exact as a forecast is.
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
  std::string text = now.has_rss_bytes() ? "RSS " + Bytes(now.rss_bytes()) : "RSS not known";
  if (process.has_peak_rss_bytes()) {
    absl::StrAppend(&text, ", at most ", Bytes(process.peak_rss_bytes()), " in this window");
  }
  if (now.has_pss_bytes()) {
    absl::StrAppend(&text, "; PSS ", Bytes(now.pss_bytes()));
    if (now.pss_error_bytes() > 0) absl::StrAppend(&text, " ± ", Bytes(now.pss_error_bytes()));
    const int64_t age_ns = now.has_pss_time_ns() ? now.time_ns() - now.pss_time_ns() : 0;
    if (age_ns >= 1'000'000'000) absl::StrAppend(&text, ", ", FormatDuration(age_ns), " before");
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
    AppendTo(&text, ", ",
             FormatCount(static_cast<uint64_t>(now.threads())) +
                 (now.threads() == 1 ? " thread" : " threads"));
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
                    " of them in this window");
  };
  const MemoryPoint& begin = First(process);
  add("met its limit", begin.cgroup_limit_hits(), now.cgroup_limit_hits());
  add("passed memory.high", begin.cgroup_high_hits(), now.cgroup_high_hits());
  add("had a process KILLED for want of memory", begin.cgroup_oom_kills(), now.cgroup_oom_kills());
  if (process.has_cgroup()) absl::StrAppend(&text, "; ", CleanName(process.cgroup().path()));
  return text;
}

std::string DescribeGrowth(const ProcessMemory& process) {
  const MemoryPoint& begin = First(process);
  const MemoryPoint& now = Last(process);
  if (DurationNs(process) <= 0 || !begin.has_rss_bytes() || !now.has_rss_bytes()) {
    return "not known yet: it was read once";
  }
  std::string text = absl::StrCat(FormatGrowth(now.rss_bytes() - begin.rss_bytes()), " of RSS in ",
                                  FormatDuration(DurationNs(process)));
  const std::optional<Trend> trend = RssTrend(process);
  if (!trend) return text;
  if (trend->direction == 0) return text + "; steady";
  absl::StrAppend(&text, "; ", trend->direction > 0 ? "GROWS" : "shrinks", " by ",
                  BytesPerMinute(trend->bytes_per_minute));
  if (const std::optional<double> seconds = SecondsToLimit(process, trend)) {
    absl::StrAppend(&text, ", and at that rate meets the cgroup's limit in ", Span(*seconds));
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
                    " since it is watched");
  }
  return text;
}

std::string DescribeLive(const ProcessMemory& process) {
  if (!process.has_live_bytes()) return "";
  std::string text = Bytes(process.live_bytes());
  if (process.live_counted()) {
    text += ", counted by the allocator";
  } else if (!KnowsWholeHeap(process)) {
    absl::StrAppend(&text, " of what was allocated since ", FormatTime(process.live_since_ns()));
  }
  if (const std::optional<int64_t> rest = Fragmentation(process)) {
    absl::StrAppend(
        &text, "; fragmentation and what the allocator keeps: ", Bytes(*rest), ", ",
        FormatShare(static_cast<double>(*rest), static_cast<double>(Last(process).anon_bytes())),
        " of the anonymous memory");
  } else if (const MemoryPoint& now = Last(process);
             KnowsWholeHeap(process) && now.has_anon_bytes()) {
    absl::StrAppend(&text, "; about ",
                    Bytes(process.live_bytes() - now.anon_bytes() - now.swap_bytes()),
                    " of it are not resident");
  }
  return text;
}

std::string DescribeMappings(const ProcessMemory& process) {
  if (!process.has_mapped_bytes()) return "";
  std::string text =
      absl::StrCat(Bytes(process.mapped_bytes()), " mapped, ", Bytes(process.unmapped_bytes()),
                   " unmapped: ", FormatGrowth(process.mapped_bytes() - process.unmapped_bytes()));
  if (process.returned_bytes() > 0) {
    absl::StrAppend(&text, "; pages of ", Bytes(process.returned_bytes()), " handed back");
  }
  return text + "; 'profctl fetch --kind mapped' says by whom";
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
  const std::vector<double> rss = Resample(process, Rss, shape.Width());
  std::vector<double> anonymous = Resample(process, Anonymous, shape.Width());
  Range of_rss, of_anonymous, axis;
  of_rss.Add(rss);
  of_anonymous.Add(anonymous);
  axis.Add(rss);
  axis.Add(anonymous);
  if (DurationNs(process) <= 0 || axis.high <= 0) return;
  // Where the RSS moves, but by little beside what lies between it and the anonymous memory, there
  // would be nothing to see of it.
  const bool alone = of_rss.Span() > kLeastTrendShare * of_rss.high &&
                     of_rss.Span() < axis.Span() / 3 && of_anonymous.Span() < 2 * of_rss.Span();
  if (alone) {
    axis = of_rss;
    anonymous.assign(anonymous.size(), std::numeric_limits<double>::quiet_NaN());
  }
  // From 0, unless all there is to see would lie at the top then.
  const double margin = std::max(axis.Span() / 20, axis.high / 1000);
  const double low = axis.low < axis.high / 2 ? 0 : axis.low - margin;
  const double high = axis.high + margin;
  const auto label = [](double value) {
    return PadLeft(FormatBytes(static_cast<uint64_t>(std::min(value, 9e18))), kAxisColumns);
  };
  text +=
      alone ? "  RSS; anonymous memory lies below\n" : "  RSS as a line, anonymous memory filled\n";
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
               {"most of it by", Table::Align::kLeft, 70}});
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

// Those that allocated most, where there are several.
void AppendThreads(const ProcessMemory& process, std::string& text) {
  if (process.threads_size() < 2) return;
  Table table({{"allocated", Table::Align::kRight},
               {"freed", Table::Align::kRight},
               {"net", Table::Align::kRight},
               {"by the thread", Table::Align::kLeft, 50}});
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
                                   process.ended() ? "ENDED, ran since " : "runs since ",
                                   FormatTime(process.started_ns()));
  text += "\n" + Heading(ClipEnd(title, PageColumns()), colour);
  const MemoryPoint& now = Last(process);
  AppendLine(process.ended() || report.past ? "at the end" : "now", DescribeNow(process), text);
  AppendLine("made of", DescribeParts(now), text);
  AppendLine("besides", DescribeRest(now), text);
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

// What the page does not tell in full.
void AppendOthers(const GetMemoryResponse& memory, std::string& text) {
  const int others = memory.processes_size() - kMostMemoryBlocks;
  if (others <= 0 && memory.processes_left_out() == 0) return;
  double rss = 0;
  for (int i = kMostMemoryBlocks; i < memory.processes_size(); ++i) {
    rss += Rss(Last(memory.processes(i))).value_or(0);
  }
  const auto count = static_cast<uint64_t>(std::max(others, 0)) + memory.processes_left_out();
  absl::StrAppend(&text, "\nand ", FormatCount(count),
                  count == 1 ? " smaller process" : " smaller processes");
  if (others > 0) {
    absl::StrAppend(&text, " with an RSS of ",
                    FormatBytes(static_cast<uint64_t>(std::min(rss, 9e18))));
  }
  text += "; --target asks for one, --format json for all\n";
}

ordered_json OrNull(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
ordered_json OrNull(bool known, int64_t value) {
  return known ? ordered_json(value) : ordered_json(nullptr);
}

// Every field under its name in the protocol; null: not known.
ordered_json PointJson(const MemoryPoint& point) {
  const google::protobuf::Descriptor& type = *MemoryPoint::descriptor();
  const google::protobuf::Reflection& reflection = *MemoryPoint::GetReflection();
  ordered_json json;
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    const bool known = !field->has_presence() || reflection.HasField(point, field);
    json[field->name()] = OrNull(known, reflection.GetInt64(point, field));
  }
  return json;
}

ordered_json GrowthJson(const ProcessMemory& process) {
  const std::optional<Trend> trend = RssTrend(process);
  if (!trend) return nullptr;
  const char* direction = trend->direction > 0   ? "grows"
                          : trend->direction < 0 ? "shrinks"
                                                 : "steady";
  return {{"rss_bytes_per_minute", trend->bytes_per_minute},
          {"direction", direction},
          {"seconds_to_limit", OrNull(SecondsToLimit(process, trend))}};
}

ordered_json ProcessJson(const ProcessMemory& process, int64_t heap_ns) {
  const auto heap_s = static_cast<double>(heap_ns) / kSecondNs;
  const auto rate = [&](bool known, int64_t bytes) {
    return known && heap_s > 0 ? ordered_json(static_cast<double>(bytes) / heap_s)
                               : ordered_json(nullptr);
  };
  ordered_json points = ordered_json::array();
  for (const MemoryPoint& point : process.points()) points.push_back(PointJson(point));
  ordered_json cgroup = nullptr;
  if (process.has_cgroup()) {
    cgroup = {{"path", process.cgroup().path()}, {"version", process.cgroup().version()}};
  }
  ordered_json sites = ordered_json::array();
  for (const profd::v1::AllocationSite& site : process.sites()) {
    sites.push_back({{"function", site.function()},
                     {"bytes", site.bytes()},
                     {"error_bytes", site.error_bytes()}});
  }
  ordered_json threads = ordered_json::array();
  for (const profd::v1::ThreadHeap& thread : process.threads()) {
    threads.push_back({{"tid", thread.tid()},
                       {"name", thread.name()},
                       {"allocated_bytes", thread.allocated_bytes()},
                       {"freed_bytes", thread.freed_bytes()},
                       {"net_bytes", thread.allocated_bytes() - thread.freed_bytes()}});
  }
  const std::optional<int64_t> fragmentation = Fragmentation(process);
  return {{"pid", process.pid()},
          {"name", process.name()},
          {"started_ns", process.started_ns()},
          {"ended", process.ended()},
          {"peak_rss_bytes", OrNull(process.has_peak_rss_bytes(), process.peak_rss_bytes())},
          {"cgroup", std::move(cgroup)},
          {"growth", GrowthJson(process)},
          {"minor_faults_per_s", OrNull(PerSecond(process, MinorFaults))},
          {"major_faults_per_s", OrNull(PerSecond(process, MajorFaults))},
          {"allocator", process.allocator()},
          {"allocated_bytes", OrNull(process.has_allocated_bytes(), process.allocated_bytes())},
          {"freed_bytes", OrNull(process.has_freed_bytes(), process.freed_bytes())},
          {"allocated_bytes_per_s", rate(process.has_allocated_bytes(), process.allocated_bytes())},
          {"freed_bytes_per_s", rate(process.has_freed_bytes(), process.freed_bytes())},
          {"net_allocated_bytes",
           OrNull(process.has_net_allocated_bytes(), process.net_allocated_bytes())},
          {"live_bytes", OrNull(process.has_live_bytes(), process.live_bytes())},
          {"live_since_ns", OrNull(process.has_live_bytes(), process.live_since_ns())},
          {"live_counted", process.live_counted()},
          {"fragmentation_bytes", OrNull(fragmentation.has_value(), fragmentation.value_or(0))},
          {"mapped_bytes", OrNull(process.has_mapped_bytes(), process.mapped_bytes())},
          {"unmapped_bytes", OrNull(process.has_unmapped_bytes(), process.unmapped_bytes())},
          {"returned_bytes", OrNull(process.has_returned_bytes(), process.returned_bytes())},
          {"sites", std::move(sites)},
          {"threads", std::move(threads)},
          {"note", process.note()},
          {"points", std::move(points)}};
}

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the answer is damaged (", std::string(what),
                                          "); are profd and profctl of the same version?"));
}

bool IsFigure(int64_t value) { return value >= 0 && value <= kMostFigure; }

}  // namespace

absl::Status CheckMemory(const GetMemoryResponse& memory) {
  const google::protobuf::Descriptor& type = *MemoryPoint::descriptor();
  const google::protobuf::Reflection& reflection = *MemoryPoint::GetReflection();
  for (const ProcessMemory& process : memory.processes()) {
    if (process.points().empty()) return Damaged("a process without points");
    int64_t before = 0;
    for (const MemoryPoint& point : process.points()) {
      for (int i = 0; i < type.field_count(); ++i) {
        const int64_t figure = reflection.GetInt64(point, type.field(i));
        if (!IsFigure(figure)) return Damaged("impossible sizes");
      }
      if (point.time_ns() < before) return Damaged("points that go back in time");
      before = point.time_ns();
    }
    for (const int64_t figure :
         {process.started_ns(), process.peak_rss_bytes(), process.allocated_bytes(),
          process.freed_bytes(), process.live_bytes(), process.mapped_bytes(),
          process.unmapped_bytes(), process.returned_bytes()}) {
      if (!IsFigure(figure)) return Damaged("impossible sizes");
    }
    for (const profd::v1::ThreadHeap& thread : process.threads()) {
      if (!IsFigure(thread.allocated_bytes()) || !IsFigure(thread.freed_bytes())) {
        return Damaged("impossible sizes");
      }
    }
  }
  return absl::OkStatus();
}

std::optional<Trend> FitTrend(const std::vector<double>& values, int64_t duration_ns) {
  const double duration_s = static_cast<double>(duration_ns) / kSecondNs;
  const auto at = [&](size_t i) {
    return duration_s * static_cast<double>(i) / static_cast<double>(values.size() - 1);
  };
  double n = 0, sum_t = 0, sum_v = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    n += 1;
    sum_t += at(i);
    sum_v += values[i];
  }
  if (n < 3 || duration_s < kLeastTrendS) return std::nullopt;
  const double mean_t = sum_t / n;
  const double mean_v = sum_v / n;
  double tt = 0, tv = 0, vv = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double t = at(i) - mean_t;
    const double v = values[i] - mean_v;
    tt += t * t;
    tv += t * v;
    vv += v * v;
  }
  if (!(tt > 0)) return std::nullopt;
  const double slope = tv / tt;
  // Standard deviation around the line.
  const double noise = std::sqrt(std::max(vv - slope * tv, 0.0) / n);
  const double change = slope * duration_s;
  Trend trend{.bytes_per_minute = slope * 60, .direction = 0};
  if (std::abs(change) > std::max(kLeastTrendShare * mean_v, 2 * noise)) {
    trend.direction = change > 0 ? 1 : -1;
  }
  return trend;
}

std::vector<double> Resample(const ProcessMemory& process, MemoryFigure figure, size_t count) {
  std::vector<double> values(count, std::numeric_limits<double>::quiet_NaN());
  if (process.points().empty()) return values;
  const int64_t begin_ns = First(process).time_ns();
  const auto duration = static_cast<double>(DurationNs(process));
  int next = 0;  // the first point that does not lie before the instant
  for (size_t i = 0; i < count; ++i) {
    const double at =
        duration * static_cast<double>(i) / static_cast<double>(std::max<size_t>(count - 1, 1));
    const auto offset = [&](int point) {
      return static_cast<double>(process.points(point).time_ns() - begin_ns);
    };
    while (next + 1 < process.points_size() && offset(next) < at) ++next;
    const std::optional<double> after = figure(process.points(next));
    if (!after) continue;
    values[i] = *after;
    if (next == 0 || offset(next) <= at) continue;
    const std::optional<double> before = figure(process.points(next - 1));
    if (!before) continue;
    const double part = (at - offset(next - 1)) / (offset(next) - offset(next - 1));
    values[i] = *before + (*after - *before) * part;
  }
  return values;
}

std::string RenderMemoryText(const MemoryReport& report, bool colour, bool unicode) {
  const GetMemoryResponse& memory = report.memory;
  std::string text = Heading(
      absl::StrCat(
          "Memory of ",
          FormatCount(static_cast<uint64_t>(memory.processes_size()) + memory.processes_left_out()),
          memory.processes_size() == 1 ? " process" : " processes"),
      colour);
  absl::StrAppend(&text, "  ", FormatTime(memory.begin_ns()), " to ", FormatTime(memory.end_ns()));
  if (memory.begin_ns() >= 0 && memory.end_ns() > memory.begin_ns()) {
    absl::StrAppend(&text, " (", FormatDuration(memory.end_ns() - memory.begin_ns()), ")");
  }
  absl::StrAppend(&text, " on ", CleanName(memory.hostname()), "\n");
  if (memory.processes().empty()) {
    text += "\nNothing is known of any process's memory in this window.\n";
  }
  for (int i = 0; i < std::min(memory.processes_size(), kMostMemoryBlocks); ++i) {
    AppendProcess(report, memory.processes(i), colour, unicode, text);
  }
  AppendOthers(memory, text);
  std::string notes;
  for (const std::string& note : memory.notes())
    notes += Wrap(CleanName(note), PageColumns(), "  ");
  for (const profd::v1::Loss& loss : memory.losses()) {
    notes += Wrap(absl::StrCat("lost ", FormatCount(loss.count()), " ", CleanName(loss.cause()),
                               ": ", CleanName(loss.help())),
                  PageColumns(), "  ");
  }
  if (!notes.empty()) absl::StrAppend(&text, "\n", Heading("Missing", colour), notes);
  return text;
}

std::string RenderMemoryJson(const MemoryReport& report) {
  const GetMemoryResponse& memory = report.memory;
  ordered_json processes = ordered_json::array();
  for (const ProcessMemory& process : memory.processes()) {
    processes.push_back(ProcessJson(process, memory.heap_ns()));
  }
  ordered_json notes = ordered_json::array();
  for (const std::string& note : memory.notes()) notes.push_back(note);
  return DumpJson({{"format", "profd-memory"},
                   {"version", 1},
                   {"hostname", memory.hostname()},
                   {"begin_ns", memory.begin_ns()},
                   {"end_ns", memory.end_ns()},
                   {"heap_ns", memory.heap_ns()},
                   {"processes_left_out", memory.processes_left_out()},
                   {"processes_unwatched", memory.processes_unwatched()},
                   {"notes", std::move(notes)},
                   {"losses", ToJson(memory.losses())},
                   {"processes", std::move(processes)}});
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
