#include "client/cli.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/commands/diff.h"
#include "client/commands/fetch.h"
#include "client/commands/memory.h"
#include "client/commands/status.h"
#include "client/connection.h"
#include "client/group_by.h"
#include "client/kind.h"
#include "client/reason.h"
#include "client/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"
#include "re2/re2.h"

namespace profctl {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitGrew = 3;  // diff --fail-over

constexpr char kAbout[] =
    "Asks profd where the time of a process went while it was not running, and what it allocated.";
constexpr char kExamples[] =
    "Examples:\n"
    "  profctl fetch                          the last minute: a flame graph and a summary\n"
    "  profctl fetch --since 5m --thread '^tokio' --reason lock,disk\n"
    "  profctl fetch --from 2026-01-31T13:05:00Z --to 2026-01-31T13:06:00Z\n"
    "  profctl fetch --format folded --idle | sort -t' ' -k2 -n | tail\n"
    "  profctl fetch --kind alloc             who allocated memory in the last minute, how much\n"
    "  profctl fetch --kind rss               who touched the memory that is resident now\n"
    "  profctl fetch --kind mapped            who mapped memory: heap growth, large blocks\n"
    "  profctl fetch -o wait.json             everything, for a program\n"
    "  profctl memory --since 10m             what memory is made of, and does it grow\n"
    "  profctl status                         is it running, what is missing, what does it cost\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 the command line is wrong, 3 more than diff --fail-over.";

constexpr char kDiffNotes[] =
    "A and B are each a file that 'fetch --format json' wrote, or a window FROM..TO, where each "
    "end\n"
    "is an instant or how long ago it is.\n"
    "\n"
    "A stack changed when its difference is larger than the stated errors allow: a z test for "
    "each\n"
    "stack, corrected for their number (Holm, 5 % for all together), and at least 0.5 % of the "
    "total.\n"
    "\n"
    "Examples:\n"
    "  profctl diff 10m..5m 5m..now           the last five minutes against those before\n"
    "  profctl diff good.json 5m              a file against now\n"
    "  profctl diff --kind alloc --fail-over 10% before.json after.json";

constexpr char kMemoryNotes[] =
    "For each process, the largest RSS first:\n"
    "  now          RSS: pages of the process in memory; PSS: shared ones divided among sharers\n"
    "  made of      anonymous: heap and stacks; file: mapped files, which can be read again;\n"
    "               shmem: shared memory and tmpfs\n"
    "  cgroup       use and the tightest limit: what the OOM killer goes by\n"
    "  growth       of the RSS, by least squares over the window: GROWS, steady or shrinks, and\n"
    "               when the limit is met if that goes on\n"
    "  allocated    and freed, exact, where the allocator is watched; who allocated most stands\n"
    "               below the plot, and in 'profctl fetch --kind alloc'\n"
    "  address space  private memory that was mapped and unmapped, by the calls of the libc\n"
    "\n"
    "Examples:\n"
    "  profctl memory                         the last minute\n"
    "  profctl memory --since 1h              is there a leak?\n"
    "  profctl memory --target reth --format json | jq '.processes[0].points[-1]'";

std::string FetchNotes() {
  std::string notes =
      "Without -o and --format a flame graph is written to the current directory, named after\n"
      "process and time, and a summary is printed. Waits that are only idleness (poll, sleep,\n"
      "parked workers) are folded away unless --idle is given; the summary says how much.\n"
      "\nKinds of profile:\n";
  for (const SampleTypeInfo& info : AllSampleTypes()) {
    absl::StrAppend(&notes, "  ", PadRight(info.name, 10), std::string(info.meaning), "\n");
  }
  notes += "\nGroups of stacks (--by), one or several with commas between them:\n";
  for (const GroupByInfo& info : AllGroupBys()) {
    absl::StrAppend(&notes, "  ", PadRight(info.name, 10), std::string(info.meaning), "\n");
  }
  notes += "\nReasons, the last frame of every stack of an offcpu profile:\n";
  for (const ReasonInfo& info : AllReasons()) {
    absl::StrAppend(&notes, "  ", PadRight(info.name, 10), std::string(info.meaning), "\n");
  }
  return notes;
}

// What was typed, before it is checked.
struct Typed {
  std::string server = kDefaultServer;
  std::string since, from, to, thread, output, format;
  std::string by, fail_over, diff_format = "text", status_format = "text", memory_format = "text";
  std::vector<std::string> kinds = {"offcpu"}, targets, reasons, sides;
  bool idle = false, normalized = false, colour = false;
};

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
    return Wrong("--since", "cannot be combined with --from; give one of them");
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
    if (*from >= context.now_ns) return Wrong("--from", "lies in the future");
    request.set_begin_ns(*from);
    context.after_ns = *from;
  }
  if (!typed.to.empty()) {
    const absl::StatusOr<int64_t> to = ParseTime(typed.to, context);
    if (!to.ok()) return Wrong("--to", std::string(to.status().message()));
    if (*to <= request.begin_ns()) return Wrong("--to", "must lie after --from");
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

absl::Status CheckTextOrJson(const std::string& format) {
  if (format == "text" || format == "json") return absl::OkStatus();
  return Wrong("--format", absl::StrCat("'", CleanName(format), "' is not text or json"));
}

absl::Status ReadReasons(const Typed& typed, profd::v1::FetchRequest& request) {
  for (const std::string& name : typed.reasons) {
    const std::optional<Reason> reason = ParseReason(name);
    if (!reason) {
      std::string known;
      for (const ReasonInfo& info : AllReasons()) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(info.name));
      }
      return Wrong("--reason",
                   absl::StrCat("'", CleanName(name), "' is not a reason; there are ", known));
    }
    const auto& have = request.reasons();
    if (std::find(have.begin(), have.end(), *reason) == have.end()) request.add_reasons(*reason);
  }
  return absl::OkStatus();
}

absl::Status ReadKinds(const Typed& typed, profd::v1::FetchRequest& request) {
  bool waits = false;
  for (const std::string& name : typed.kinds) {
    const SampleTypeInfo* kind = FindSampleType(name);
    if (kind == nullptr) {
      std::string known;
      for (const SampleTypeInfo& info : AllSampleTypes()) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(info.name));
      }
      return Wrong("--kind", absl::StrCat("'", CleanName(name),
                                          "' is not a kind of profile; there are ", known));
    }
    waits = waits || kind->kind == profd::Kind::kWait;
    const auto& have = request.sample_types();
    if (std::find(have.begin(), have.end(), name) == have.end()) request.add_sample_types(name);
  }
  if (!waits) {
    const std::string drop = "; drop it, or --kind " + typed.kinds.front();
    if (!typed.reasons.empty()) return Wrong("--reason", "only waits have reasons" + drop);
    if (typed.idle) return Wrong("--idle", "only waits are idle" + drop);
  }
  return absl::OkStatus();
}

absl::StatusOr<FetchOptions> ReadFetch(const Typed& typed) {
  FetchOptions options;
  options.server = typed.server;
  options.show_idle = typed.idle;
  options.output = typed.output;
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadKinds(typed, options.request));
  RETURN_IF_ERROR(ReadReasons(typed, options.request));
  RETURN_IF_ERROR(ReadTargets(typed, options.request));
  RETURN_IF_ERROR(CheckRegex("--thread", typed.thread));
  options.request.set_thread_regex(typed.thread);
  if (!typed.format.empty()) {
    options.format = ParseFormat(typed.format);
    if (!options.format) {
      return Wrong("--format", absl::StrCat("'", CleanName(typed.format),
                                            "' is not svg, folded, json, pprof or speedscope"));
    }
  } else if (!typed.output.empty() && typed.output != "-" && !FormatOfFile(typed.output)) {
    return Wrong("-o", absl::StrCat("cannot tell the format of '", CleanName(typed.output),
                                    "'; end it in .svg, .folded, .json, .pb.gz or "
                                    ".speedscope.json, or give --format"));
  }
  if (!typed.by.empty()) {
    absl::StatusOr<std::vector<GroupKey>> keys = ParseGroupBy(typed.by);
    if (!keys.ok()) return Wrong("--by", std::string(keys.status().message()));
    options.group_by = *std::move(keys);
  }
  RETURN_IF_ERROR(CheckFormat(options));
  return options;
}

absl::StatusOr<MemoryOptions> ReadMemory(const Typed& typed) {
  MemoryOptions options;
  options.server = typed.server;
  RETURN_IF_ERROR(ReadWindow(typed, *options.request.mutable_window()));
  RETURN_IF_ERROR(ReadTargets(typed, options.request));
  RETURN_IF_ERROR(CheckTextOrJson(typed.memory_format));
  options.json = typed.memory_format == "json";
  return options;
}

absl::StatusOr<DiffOptions> ReadDiff(const Typed& typed) {
  DiffOptions options;
  options.server = typed.server;
  options.show_idle = typed.idle;
  options.normalized = typed.normalized;
  RETURN_IF_ERROR(ReadKinds(typed, options.request));
  if (options.request.sample_types_size() != 1) return Wrong("--kind", "give one kind to compare");
  RETURN_IF_ERROR(ReadReasons(typed, options.request));
  RETURN_IF_ERROR(ReadTargets(typed, options.request));
  RETURN_IF_ERROR(CheckRegex("--thread", typed.thread));
  options.request.set_thread_regex(typed.thread);
  RETURN_IF_ERROR(CheckTextOrJson(typed.diff_format));
  options.json = typed.diff_format == "json";
  if (!typed.fail_over.empty()) {
    absl::string_view digits(typed.fail_over);
    double percent = 0;
    if (!absl::ConsumeSuffix(&digits, "%") || !absl::SimpleAtod(digits, &percent) ||
        !(percent >= 0) || percent > 1e6) {
      return Wrong("--fail-over", absl::StrCat("'", CleanName(typed.fail_over),
                                               "' is not a share; write it like 10%"));
    }
    options.fail_over = percent / 100;
  }
  const int64_t now_ns = profd::WallNs();
  ASSIGN_OR_RETURN(options.a, ParseDiffSide(typed.sides[0], now_ns));
  ASSIGN_OR_RETURN(options.b, ParseDiffSide(typed.sides[1], now_ns));
  return options;
}

// The options that say which window and which processes.
void AddScope(CLI::App* command, Typed& typed) {
  command
      ->add_option("--since", typed.since,
                   "Length of the window up to its end: 60s, 5m, 1h30m (default 60s)")
      ->type_name("DURATION");
  command->add_option("--from", typed.from, "Begin of the window: RFC 3339 or seconds since 1970")
      ->type_name("TIME");
  command->add_option("--to", typed.to, "End of the window (default: now)")->type_name("TIME");
  command
      ->add_option("--target", typed.targets,
                   "Only processes with this PID or name; may be repeated")
      ->type_name("PID|REGEX")
      ->allow_extra_args(false);
}

int Report(const absl::Status& status, int code, std::ostream& err) {
  if (status.ok()) return 0;
  err << "profctl: " << CleanName(std::string(status.message()))
      << (code == kExitUsage ? " (see profctl --help)" : "") << std::endl;
  return code;
}

}  // namespace

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, bool colour) {
  Typed typed;
  CLI::App app(kAbout, "profctl");
  app.set_version_flag("--version", std::string("profctl ") + PROFD_VERSION);
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.footer(kExamples);
  app.add_option("--server", typed.server, "Where profd listens: unix:///PATH or HOST:PORT")
      ->envname("PROFCTL_SERVER")
      ->type_name("ADDR")
      ->capture_default_str();

  CLI::App* fetch = app.add_subcommand("fetch", "Fetch a window as flame graph, stacks or data");
  fetch->footer(FetchNotes());
  fetch
      ->add_option("--kind", typed.kinds,
                   "What to show: time not running, or bytes of memory (default offcpu)")
      ->type_name("K[,K...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddScope(fetch, typed);
  fetch->add_option("--thread", typed.thread, "Only threads with this name")->type_name("REGEX");
  fetch->add_option("--reason", typed.reasons, "Only stacks that wait for these reasons (offcpu)")
      ->type_name("R[,R...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  fetch->add_flag("--idle", typed.idle, "Show idle waits too (offcpu)");
  fetch
      ->add_option("--by", typed.by,
                   "How stacks are grouped (default: by name; json and pprof: not at all)")
      ->type_name("BY[,BY...]");
  fetch->add_option("-o,--output", typed.output, "File to write; - is stdout")->type_name("FILE");
  fetch->add_option("--format", typed.format, "svg, folded, json, pprof or speedscope")
      ->type_name("FORMAT");

  CLI::App* diff = app.add_subcommand("diff", "Compare two windows or files: what changed");
  diff->footer(kDiffNotes);
  diff->add_option("sides", typed.sides, "What to compare")
      ->type_name("A B")
      ->required()
      ->expected(2);
  diff->add_option("--kind", typed.kinds, "What to compare (default offcpu)")
      ->type_name("KIND")
      ->delimiter(',')
      ->allow_extra_args(false);
  diff->add_option("--target", typed.targets,
                   "Of windows: only processes with this PID or name; may be repeated")
      ->type_name("PID|REGEX")
      ->allow_extra_args(false);
  diff->add_option("--thread", typed.thread, "Of windows: only threads with this name")
      ->type_name("REGEX");
  diff->add_option("--reason", typed.reasons, "Of windows: only these reasons (offcpu)")
      ->type_name("R[,R...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  diff->add_flag("--idle", typed.idle, "Compare idle waits too (offcpu)");
  diff->add_flag("--normalized", typed.normalized, "Compare shares of the total");
  diff->add_option(
          "--fail-over", typed.fail_over,
          "Exit with 3 when a stack that changed grew by more than this share of A's total")
      ->type_name("PERCENT");
  diff->add_option("--format", typed.diff_format, "text or json")
      ->type_name("FORMAT")
      ->capture_default_str();

  CLI::App* status = app.add_subcommand("status", "Show what profd watches, lacks, loses, costs");
  status->add_option("--format", typed.status_format, "text or json")
      ->type_name("FORMAT")
      ->capture_default_str();

  CLI::App* memory =
      app.add_subcommand("memory", "Show what processes hold of memory, and how that changes");
  memory->footer(kMemoryNotes);
  AddScope(memory, typed);
  memory->add_option("--format", typed.memory_format, "text or json")
      ->type_name("FORMAT")
      ->capture_default_str();
  memory->add_flag("--color", typed.colour, "Colour the page, also where it is not a terminal's");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, out, err);
      return 0;
    }
    return Report(absl::InvalidArgumentError(error.what()), kExitUsage, err);
  }

  if (app.get_subcommands().empty()) {
    return Report(absl::InvalidArgumentError("no command: say fetch, diff, memory or status"),
                  kExitUsage, err);
  }
  if (const absl::Status address = CheckAddress(typed.server); !address.ok()) {
    return Report(address, kExitUsage, err);
  }
  if (status->parsed()) {
    if (const absl::Status format = CheckTextOrJson(typed.status_format); !format.ok()) {
      return Report(format, kExitUsage, err);
    }
    return Report(PrintStatus({typed.server, typed.status_format == "json", colour}, out),
                  kExitFailure, err);
  }
  if (memory->parsed()) {
    absl::StatusOr<MemoryOptions> options = ReadMemory(typed);
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    options->colour = colour || typed.colour;
    return Report(PrintMemory(*options, out), kExitFailure, err);
  }
  if (diff->parsed()) {
    absl::StatusOr<DiffOptions> options = ReadDiff(typed);
    if (!options.ok()) return Report(options.status(), kExitUsage, err);
    options->colour = colour;
    bool grew = false;
    const int code = Report(RunDiff(*options, out, &grew), kExitFailure, err);
    return code == 0 && grew ? kExitGrew : code;
  }
  absl::StatusOr<FetchOptions> options = ReadFetch(typed);
  if (!options.ok()) return Report(options.status(), kExitUsage, err);
  options->colour = colour;
  return Report(Fetch(*options, out, err), kExitFailure, err);
}

}  // namespace profctl
