#include "client/command_line/read_options.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/answer/group_by.h"
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "client/io/output.h"
#include "client/text/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"
#include "re2/re2.h"

namespace profctl {
namespace {

constexpr char kGraphsOnly[] = "applies only to flame graphs; remove it, or write an .svg file";

absl::Status Wrong(std::string_view option, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(option), ": ", std::string(what)));
}

absl::Status CheckRegex(std::string_view option, const std::string& pattern) {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  const RE2 regex(pattern, quiet);
  if (regex.ok()) return absl::OkStatus();
  return Wrong(option, absl::StrCat("'", CleanName(pattern),
                                    "' is not a regular expression: ", CleanName(regex.error())));
}

absl::Status ReadWindow(const Typed& typed, profd::v1::Window& request) {
  if (!typed.since.empty() && !typed.from.empty()) {
    return Wrong("--since", "cannot be combined with --from; use one of them");
  }
  if (!typed.since.empty()) {
    const absl::StatusOr<int64_t> since = ParseDuration(typed.since);
    if (!since.ok()) return Wrong("--since", std::string(since.status().message()));
    if (*since <= 0) return Wrong("--since", "must be longer than 0");
    request.set_since_ns(*since);
  }
  TimeContext context = {.now_ns = profd::WallNs()};
  if (!typed.from.empty()) {
    const absl::StatusOr<int64_t> from = ParseTime(typed.from, context);
    if (!from.ok()) return Wrong("--from", std::string(from.status().message()));
    if (*from >= context.now_ns) return Wrong("--from", "is in the future");
    request.set_begin_ns(*from);
    context.after_ns = *from;
  }
  if (!typed.to.empty()) {
    const absl::StatusOr<int64_t> to = ParseTime(typed.to, context);
    if (!to.ok()) return Wrong("--to", std::string(to.status().message()));
    if (*to <= request.begin_ns()) return Wrong("--to", "must be after --from");
    if (*to > context.now_ns) {
      return Wrong("--to", "is in the future; leave it out for a window up to now");
    }
    request.set_end_ns(*to);
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status ReadTargets(const Typed& typed, Request& request) {
  for (const std::string& target : typed.targets) {
    if (target.empty()) return Wrong("--target", "is empty; give a PID or a regular expression");
    RETURN_IF_ERROR(CheckRegex("--target", target));
    request.add_targets(target);
  }
  return absl::OkStatus();
}

// --target and --thread.
template <typename Request>
absl::Status ReadThreadsWanted(const Typed& typed, Request& request) {
  RETURN_IF_ERROR(ReadTargets(typed, request));
  RETURN_IF_ERROR(CheckRegex("--thread", typed.thread));
  request.set_thread_regex(typed.thread);
  return absl::OkStatus();
}

void ReadReasons(const Typed& typed, profd::v1::FetchRequest& request) {
  for (const std::string& name : typed.reasons) {
    const Reason reason = *ParseReason(name);
    const auto& have = request.reasons();
    if (std::find(have.begin(), have.end(), reason) == have.end()) request.add_reasons(reason);
  }
}

absl::Status ReadKinds(const Typed& typed, profd::v1::FetchRequest& request) {
  bool reasons = false, waits = false;
  for (const std::string& name : typed.kinds) {
    const SampleTypeInfo& kind = *FindSampleType(name);
    reasons = reasons || kind.HasReasons();
    waits = waits || kind.IsOfWaits();
    const auto& have = request.sample_types();
    if (std::find(have.begin(), have.end(), name) == have.end()) request.add_sample_types(name);
  }
  const auto drop = [&] { return "; remove it, or --kind " + typed.kinds.front(); };
  if (!reasons && !typed.reasons.empty()) {
    return Wrong("--reason", "only waits have reasons" + drop());
  }
  if (!waits && typed.idle) return Wrong("--idle", "only waits can be idle" + drop());
  return absl::OkStatus();
}

absl::Status ReadPixels(std::string_view option, const std::optional<int>& typed, int least,
                        int most, int* pixels) {
  if (!typed) return absl::OkStatus();
  if (*typed < least || *typed > most) {
    return Wrong(option, absl::StrCat(*typed, " is not between ", least, " and ", most, " pixels"));
  }
  *pixels = *typed;
  return absl::OkStatus();
}

absl::StatusOr<MinWidth> ReadMinWidth(const std::string& typed) {
  absl::string_view number = typed;
  MinWidth width;
  width.percent = absl::ConsumeSuffix(&number, "%");
  const bool plain = !number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.';
  });
  const double most = width.percent ? 100 : kMostGraphWidth;
  if (!plain || !absl::SimpleAtod(number, &width.value) || width.value > most) {
    return Wrong("--min-width", absl::StrCat("'", CleanName(typed),
                                             "' is not a width; use pixels (0.1) or a percentage "
                                             "of the whole (0.5%)"));
  }
  return width;
}

// The first flame graph option that was given, or "".
std::string_view GivenGraphOption(const Typed& typed) {
  if (!typed.title.empty()) return "--title";
  if (typed.width) return "--width";
  if (typed.frame_height) return "--height";
  if (!typed.min_width.empty()) return "--min-width";
  if (!typed.colours.empty()) return "--colors";
  if (typed.inverted) return "--inverted";
  if (typed.reversed) return "--reverse";
  return "";
}

absl::Status ReadGraph(const Typed& typed, FlameGraphOptions& graph) {
  graph.title = typed.title;
  graph.inverted = typed.inverted;
  graph.reversed = typed.reversed;
  if (!typed.colours.empty()) graph.colours = ParseColourScheme(typed.colours);
  if (!typed.min_width.empty()) {
    ASSIGN_OR_RETURN(graph.min_width, ReadMinWidth(typed.min_width));
  }
  if (typed.width) graph.width = 0;
  RETURN_IF_ERROR(ReadPixels("--width", typed.width, kLeastGraphWidth, kMostGraphWidth,
                             graph.width ? &*graph.width : nullptr));
  return ReadPixels("--height", typed.frame_height, kLeastFrameHeight, kMostFrameHeight,
                    &graph.frame_height);
}

LateNameOptions ReadDebug(const Typed& typed) {
  return {.debug = {.files = typed.debug_files,
                    .directories = typed.debug_directories,
                    .servers = typed.debug_servers},
          .lines = typed.lines || !typed.no_inlines};
}

FrameChoice ReadFrames(const Typed& typed) {
  return {.inlines = !typed.no_inlines, .lines = typed.lines, .short_names = typed.short_names};
}

// Where an answer is written and how it is shown.
absl::Status ReadOutput(const Typed& typed, FetchOptions& options) {
  options.show_idle = typed.idle;
  options.frames = ReadFrames(typed);
  options.output = typed.output;
  if (!typed.format.empty()) {
    options.format = ParseFormat(typed.format);
  } else if (!typed.output.empty() && typed.output != "-" && !FormatOfFile(typed.output)) {
    return Wrong("-o", absl::StrCat("no format is known for '", CleanName(typed.output),
                                    "'; end it in .svg, .txt, .folded, .json, .pb.gz or "
                                    ".speedscope.json, or use --format"));
  }
  if (const std::string_view given = GivenGraphOption(typed);
      !given.empty() && FormatOf(options) != Format::kSvg) {
    return Wrong(given, kGraphsOnly);
  }
  return ReadGraph(typed, options.graph);
}
// An update costs profd some milliseconds; the store keeps an hour.
constexpr std::chrono::nanoseconds kShortestInterval = std::chrono::milliseconds(200);
constexpr std::chrono::nanoseconds kLongestInterval = std::chrono::hours(1);

// What all commands that print a page have in common.
template <typename Options>
Options OfPage(const Typed& typed) {
  Options options;
  options.server = typed.server;
  options.json = typed.page_format == "json";
  return options;
}

// What commands that follow waits have in common: the request has no filter, they select threads.
template <typename Options>
absl::StatusOr<Options> ReadActivityScope(const Typed& typed) {
  auto options = OfPage<Options>(typed);
  options.frames = ReadFrames(typed);
  RETURN_IF_ERROR(ReadWindow(typed, options.window));
  profd::v1::FetchRequest checked;
  RETURN_IF_ERROR(ReadThreadsWanted(typed, checked));
  options.choice = {typed.targets, typed.thread};
  return options;
}

}  // namespace

absl::StatusOr<FetchOptions> ReadFetch(const Typed& typed) {
  FetchOptions options;
  options.server = typed.server;
  ReadFrames(typed).SetRequest(&options.request);
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadKinds(typed, options.request));
  ReadReasons(typed, options.request);
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  if (!typed.by.empty()) {
    ASSIGN_OR_RETURN(options.group_by, ParseGroupBy(absl::StrJoin(typed.by, ",")));
  }
  if (!typed.debug_files.empty() || !typed.debug_directories.empty() ||
      !typed.debug_servers.empty()) {
    options.debug = ReadDebug(typed);
  }
  RETURN_IF_ERROR(ReadOutput(typed, options));
  RETURN_IF_ERROR(CheckFormat(options));
  return options;
}

absl::StatusOr<SymbolizeOptions> ReadSymbolize(const Typed& typed) {
  SymbolizeOptions options;
  options.file = typed.saved;
  options.fetch.debug = ReadDebug(typed);
  RETURN_IF_ERROR(ReadOutput(typed, options.fetch));
  return options;
}

absl::StatusOr<MemoryOptions> ReadMemory(const Typed& typed) {
  auto options = OfPage<MemoryOptions>(typed);
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadTargets(typed, options.request));
  return options;
}

absl::StatusOr<LocksOptions> ReadLocks(const Typed& typed) {
  auto options = OfPage<LocksOptions>(typed);
  options.frames = ReadFrames(typed);
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  options.show_idle = typed.idle;
  if (typed.lock_sort == "samples") options.order = LockOrder::kSamples;
  if (typed.lock_sort == "threads") options.order = LockOrder::kThreads;
  return options;
}

absl::StatusOr<StacksOptions> ReadStacks(const Typed& typed) {
  auto options = OfPage<StacksOptions>(typed);
  options.frames = ReadFrames(typed);
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  options.show_idle = typed.idle;
  return options;
}

absl::StatusOr<ThreadsOptions> ReadThreads(const Typed& typed) {
  auto options = OfPage<ThreadsOptions>(typed);
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  options.sort = ParseThreadSort(typed.thread_sort);
  options.by_name = typed.threads_by == "name";
  return options;
}

absl::StatusOr<TopOptions> ReadTop(const Typed& typed, bool screen) {
  TopOptions options;
  options.feed.server = typed.server;
  options.json = typed.page_format == "json";
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.feed.interval));
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.feed.looks));
  const absl::StatusOr<int64_t> interval = ParseDuration(typed.interval);
  if (!interval.ok()) return Wrong("--interval", std::string(interval.status().message()));
  if (*interval < kShortestInterval.count() || *interval > kLongestInterval.count()) {
    return Wrong("--interval", absl::StrCat(CleanName(typed.interval), " is not between ",
                                            FormatDuration(kShortestInterval.count()), " and ",
                                            FormatDuration(kLongestInterval.count())));
  }
  options.feed.length = std::chrono::nanoseconds(*interval);
  RETURN_IF_ERROR(CheckRegex("--filter", typed.filter));
  options.wanted = {.grouping = ParseGrouping(typed.top_by),
                    .sort = ParseTopSort(typed.top_sort),
                    .filter = typed.filter,
                    .hide_idle = typed.hide_idle};
  if (typed.once && typed.rounds) {
    return Wrong("--once", "cannot be combined with --rounds; use one of them");
  }
  options.rounds = typed.once ? 1 : typed.rounds;
  options.batch = typed.batch || options.rounds || options.json || !screen;
  return options;
}

absl::StatusOr<WhyOptions> ReadWhy(const Typed& typed) {
  ASSIGN_OR_RETURN(auto options, ReadActivityScope<WhyOptions>(typed));
  profd::v1::FetchRequest checked;
  ReadReasons(typed, checked);
  for (const int reason : checked.reasons()) {
    if (reason == profd::v1::REASON_ON_CPU) return Wrong("--reason", "on-cpu is not a wait");
    options.reasons.push_back(static_cast<Reason>(reason));
  }
  if (typed.depth < 1 || typed.depth > kMostDepth) {
    return Wrong("--depth", absl::StrCat(typed.depth, " is not between 1 and ", kMostDepth));
  }
  options.depth = typed.depth;
  return options;
}

absl::StatusOr<BottlenecksOptions> ReadBottlenecks(const Typed& typed) {
  ASSIGN_OR_RETURN(auto options, ReadActivityScope<BottlenecksOptions>(typed));
  options.top = typed.top;
  return options;
}

absl::StatusOr<WorstOptions> ReadWorst(const Typed& typed) {
  auto options = OfPage<WorstOptions>(typed);
  options.frames = ReadFrames(typed);
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  ReadReasons(typed, options.request);
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  options.request.mutable_longest()->set_limit(typed.limit);
  options.request.mutable_longest()->set_idle(typed.idle);
  return options;
}

absl::StatusOr<DiffOptions> ReadDiff(const Typed& typed) {
  DiffOptions options;
  options.server = typed.server;
  options.show_idle = typed.idle;
  options.normalized = typed.normalized;
  // Answers to compare may know more or less of what was inlined.
  options.frames = {.inlines = false, .short_names = typed.short_names};
  RETURN_IF_ERROR(ReadKinds(typed, options.request));
  if (options.request.sample_types_size() != 1)
    return Wrong("--kind", "compares one kind at a time");
  ReadReasons(typed, options.request);
  RETURN_IF_ERROR(ReadThreadsWanted(typed, options.request));
  options.output = typed.output;
  if (!typed.diff_format.empty()) {
    options.format = *ParseDiffFormat(typed.diff_format);
  } else if (!typed.output.empty() && typed.output != "-") {
    const std::optional<DiffFormat> format = DiffFormatOfFile(typed.output);
    if (!format) {
      return Wrong("-o", absl::StrCat("no format is known for '", CleanName(typed.output),
                                      "'; end it in .svg, .json or .txt, or use --format"));
    }
    options.format = *format;
  }
  if (const std::string_view given =
          typed.width_of.empty() ? GivenGraphOption(typed) : std::string_view("--width-of");
      !given.empty() && options.format != DiffFormat::kSvg) {
    return Wrong(given, kGraphsOnly);
  }
  RETURN_IF_ERROR(ReadGraph(typed, options.graph));
  if (!typed.width_of.empty()) options.width = *ParseWidthOf(typed.width_of);
  if (!typed.fail_over.empty()) {
    absl::string_view digits(typed.fail_over);
    double percent = 0;
    if (!absl::ConsumeSuffix(&digits, "%") || !absl::SimpleAtod(digits, &percent) ||
        !(percent >= 0) || percent > 1e6) {
      return Wrong("--fail-over", absl::StrCat("'", CleanName(typed.fail_over),
                                               "' is not a percentage; use one such as 10%"));
    }
    options.fail_over = percent / 100;
  }
  const int64_t now_ns = profd::WallNs();
  ASSIGN_OR_RETURN(options.a, ParseDiffSide(typed.side_a, now_ns));
  ASSIGN_OR_RETURN(options.b, ParseDiffSide(typed.side_b, now_ns));
  return options;
}

}  // namespace profctl
