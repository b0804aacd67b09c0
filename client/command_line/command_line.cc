#include "client/command_line/command_line.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/analysis/ledger_rows.h"
#include "client/answer/group_by.h"
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "client/command_line/shared_options.h"
#include "client/render/flamegraph_svg.h"
#include "client/text/text.h"
#include "client/top/rows.h"
#include "client/usage/notes.h"
#include "client/usage/usage.h"

namespace profctl {
namespace {

constexpr char kAbout[] = "Queries profd: what processes wait for, run and allocate.";

constexpr char kFileOrWindow[] = "FILE|FROM..TO";

template <typename Infos>
void AppendMeanings(const char* heading, const Infos& infos, std::string& notes) {
  absl::StrAppend(&notes, "\n", heading, ":\n");
  for (const auto& info : infos) {
    absl::StrAppend(&notes, "  ", PadRight(absl::StrCat(std::string(info.name), " "), 10),
                    std::string(info.meaning), "\n");
  }
}

std::string FetchNotes() {
  std::string notes =
      "Without -o and --format, prints a summary and writes a flame graph to the current\n"
      "directory, named after process and time. With -o, prints the summary and writes FILE. With\n"
      "--format alone, writes the data to stdout, without a summary.\n"
      "\n"
      "Idle waits (poll, sleep, parked workers) are folded away unless --idle is given; the\n"
      "summary says how much time that was.\n";
  AppendMeanings("Kinds of profile (--kind)", AllSampleTypes(), notes);
  AppendMeanings("What a thread waits for (--reason)", AllReasons(), notes);
  notes +=
      "\nFormats (--format):\n"
      "  svg         flame graph for any browser\n"
      "  folded      one line per stack, with ns or bytes\n"
      "  json        the complete answer\n"
      "  pprof       for pprof and tools that read its files\n"
      "  speedscope  for speedscope.app\n";
  AppendMeanings("Groups of stacks (--by)", AllGroupBys(), notes);
  AppendMeanings("Colours (--colors)", AllColourSchemes(), notes);
  notes += kTimes;
  notes +=
      "\nExamples:\n"
      "  profctl fetch --since 5min --target postgres\n"
      "  profctl fetch --from 'yesterday 14:00' --to 14:05 --reason lock,disk\n"
      "  profctl fetch --kind alloc --by thread -o alloc.svg\n"
      "  profctl fetch --inverted --colors safe --title 'Before the fix' -o before.svg\n"
      "  profctl fetch --format json | jq .losses\n";
  return notes + kExitStatus;
}

void AddFetch(CLI::App& app, Typed& typed) {
  CLI::App* fetch = app.add_subcommand("fetch", "Write a window as flame graph, stacks or data");
  fetch->footer(FetchNotes());
  AddKinds(fetch, "What to show; see the kinds below", typed);
  AddScope(fetch, typed);
  AddStacks(fetch, typed);
  fetch
      ->add_option("--by", typed.by,
                   "How to group stacks (default: name; JSON and pprof are not grouped)")
      ->type_name("BY[,BY...]")
      ->check(OneOf(NamesOf(AllGroupBys()), "a group"))
      ->delimiter(',')
      ->allow_extra_args(false);
  AddFramesAndOutput(fetch, typed);
  AddDebugFiles(fetch, typed);
  AddDebuginfod(fetch, typed);
  AddFlameGraph(fetch, true, typed);
}

void AddSymbolize(CLI::App& app, Typed& typed) {
  CLI::App* symbolize = app.add_subcommand(
      "symbolize", "Name the functions of a saved answer from debug files on this machine");
  symbolize->footer(absl::StrCat(kSymbolizeNotes, kExitStatus));
  symbolize->add_option("ANSWER", typed.saved, "JSON that fetch wrote")
      ->type_name("ANSWER")
      ->required();
  AddDebugFiles(symbolize, typed);
  AddDebuginfod(symbolize, typed)->envname("DEBUGINFOD_URLS")->delimiter(' ');
  symbolize->add_flag("--idle", typed.idle, "Show idle waits too");
  AddFramesAndOutput(symbolize, typed);
  AddFlameGraph(symbolize, true, typed);
}

void AddTextOrJson(CLI::App* command, Typed& typed) {
  command->add_option("--format", typed.page_format, "A page to read, or JSON for programs")
      ->type_name("FORMAT")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
}

void AddDiff(CLI::App& app, Typed& typed) {
  CLI::App* diff = app.add_subcommand("diff", "Compare two windows or files");
  diff->footer(absl::StrCat(kDiffNotes, kTimes, kExitStatus));
  diff->add_option("A", typed.side_a, "A: a file or a window")
      ->type_name(kFileOrWindow)
      ->required();
  diff->add_option("B", typed.side_b, "B: what to compare it with")
      ->type_name(kFileOrWindow)
      ->required();
  AddKinds(diff, "What to compare (one kind)", typed);
  AddTargets(diff, "In windows, only this PID, or processes whose name matches; repeatable", typed);
  AddStacks(diff, typed);
  AddShortNames(diff, typed);
  diff->add_flag("--normalized", typed.normalized, "Compare shares of the totals, not rates");
  diff->add_option(
          "--fail-over", typed.fail_over,
          "Exit with 3 if a stack grew significantly, by more than this share of A's total")
      ->type_name("PERCENT");
  diff->add_option("-o,--output", typed.output, "File to write; - is stdout")->type_name("FILE");
  diff->add_option("--format", typed.diff_format,
                   "A page to read, JSON for programs, or a flame graph (default: from the file "
                   "name, else text)")
      ->type_name("FORMAT")
      ->check(OneOf({"text", "json", "svg"}, "a format"));
  AddFlameGraph(diff, false, typed);
  diff->add_option("--width-of", typed.width_of,
                   "What the width of a frame stands for: A, B, or for each stack the larger of "
                   "both (default: b)")
      ->type_name("SIDE")
      ->check(OneOf({"a", "b", "max"}, "a side"))
      ->group(kFlameGraph);
}

void AddWhy(CLI::App& app, Typed& typed) {
  CLI::App* why = app.add_subcommand("why", "Show what causes waits, from waker to waker");
  why->footer(absl::StrCat(kWhyNotes, kTimes, kExitStatus));
  AddWindow(why, typed);
  AddTargets(why, "Start from this PID, or processes whose name matches; repeatable", typed);
  why->add_option("--thread", typed.thread, "Start from threads whose name matches")
      ->type_name("REGEX");
  AddReasons(why, "Start from waits for these reasons", typed);
  why->add_option("--depth", typed.depth, "Number of wakers to follow in a row")
      ->type_name("N")
      ->capture_default_str();
  AddFrames(why, false, typed);
  AddTextOrJson(why, typed);
}

void AddBottlenecks(CLI::App& app, Typed& typed) {
  CLI::App* bottlenecks = app.add_subcommand(
      "bottlenecks", "Show what limits throughput, and what removing it would gain at most");
  bottlenecks->footer(absl::StrCat(kBottlenecksNotes, kTimes, kExitStatus));
  AddWindow(bottlenecks, typed);
  AddTargets(bottlenecks, "Start from this PID, or processes whose name matches; repeatable",
             typed);
  bottlenecks->add_option("--thread", typed.thread, "Start from threads whose name matches")
      ->type_name("REGEX");
  bottlenecks->add_option("--top", typed.top, "Number of bottlenecks of each knot, up to 100")
      ->type_name("N")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  AddFrames(bottlenecks, false, typed);
  AddTextOrJson(bottlenecks, typed);
}

void AddStacksNow(CLI::App& app, Typed& typed) {
  CLI::App* stacks =
      app.add_subcommand("stacks", "Show what every thread does now, with its stack");
  stacks->footer(absl::StrCat(kStacksNotes, kExitStatus));
  AddTargets(stacks, "Only this PID, or processes whose name matches; repeatable", typed);
  stacks->add_option("--thread", typed.thread, "Only threads whose name matches")
      ->type_name("REGEX");
  stacks->add_flag("--idle", typed.idle, "Show the stacks of idle threads too");
  AddFrames(stacks, true, typed);
  AddTextOrJson(stacks, typed);
}

void AddThreads(CLI::App& app, Typed& typed) {
  CLI::App* threads =
      app.add_subcommand("threads", "Show what each thread did in a window, as a table");
  std::string notes = kThreadsNotes;
  AppendMeanings("Orders of rows (--sort)", AllThreadSorts(), notes);
  threads->footer(absl::StrCat(notes, kTimes, kExitStatus));
  AddScope(threads, typed);
  threads->add_option("--thread", typed.thread, "Only threads whose name matches")
      ->type_name("REGEX");
  threads->add_option("--sort", typed.thread_sort, "What comes first; see the orders below")
      ->type_name("ORDER")
      ->check(OneOf(NamesOf(AllThreadSorts()), "an order"))
      ->capture_default_str();
  threads
      ->add_option("--by", typed.threads_by,
                   "A row for each thread, or for threads whose names differ only in a number")
      ->type_name("BY")
      ->check(OneOf({"thread", "name"}))
      ->capture_default_str();
  AddTextOrJson(threads, typed);
}

void AddTop(CLI::App& app, Typed& typed) {
  CLI::App* top = app.add_subcommand("top", "Show what threads do, refreshing in the terminal");
  std::string notes = kTopNotes;
  AppendMeanings("Groups of threads (--by)", AllGroupings(), notes);
  AppendMeanings("Orders of rows (--sort)", AllTopSorts(), notes);
  top->footer(absl::StrCat(notes, kTopExamples, kExitStatus));
  top->add_option("--interval", typed.interval, "Time between two updates: 500ms, 2s, 1min")
      ->type_name("DURATION")
      ->capture_default_str();
  AddTargets(top, "Only this PID, or processes whose name matches; repeatable", typed);
  top->add_option("--thread", typed.thread, "Only threads whose name matches")->type_name("REGEX");
  top->add_option("--filter", typed.filter, "Show only what matches, as if typed after /")
      ->type_name("REGEX");
  top->add_flag("--hide-idle", typed.hide_idle, "Hide threads that are idle now");
  top->add_option("--by", typed.top_by, "What a row is; see the groups below")
      ->type_name("BY")
      ->check(OneOf(NamesOf(AllGroupings()), "a group"))
      ->capture_default_str();
  top->add_option("--sort", typed.top_sort, "What comes first; see the orders below")
      ->type_name("ORDER")
      ->check(OneOf(NamesOf(AllTopSorts()), "an order"))
      ->capture_default_str();
  top->add_flag("-b,--batch", typed.batch,
                "Print update after update; the default if the output is not a terminal");
  top->add_option("-n,--rounds", typed.rounds, "Print this many updates, then exit")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000).description(""));
  top->add_flag("--once", typed.once, "Print one update, then exit");
  AddTextOrJson(top, typed);
}

void AddWorst(CLI::App& app, Typed& typed) {
  CLI::App* worst = app.add_subcommand("worst", "Show the longest single waits of a window");
  std::string notes = kWorstNotes;
  AppendMeanings("What a thread waits for (--reason)", AllReasons(), notes);
  worst->footer(absl::StrCat(notes, kTimes, kExitStatus));
  AddScope(worst, typed);
  AddStacks(worst, typed);
  worst->add_option("--limit", typed.limit, "Number of waits, up to 1000")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddFrames(worst, true, typed);
  AddTextOrJson(worst, typed);
}

void AddLocks(CLI::App& app, Typed& typed) {
  CLI::App* locks =
      app.add_subcommand("locks", "List the most contended locks and who released them");
  locks->footer(absl::StrCat(kLocksNotes, kTimes, kExitStatus));
  AddScope(locks, typed);
  locks->add_option("--thread", typed.thread, "Only threads whose name matches")
      ->type_name("REGEX");
  locks->add_flag("--idle", typed.idle, "Also show waits that are not contention");
  locks->add_option("--sort", typed.lock_sort, "What comes first")
      ->type_name("COLUMN")
      ->check(OneOf({"time", "samples", "threads"}))
      ->capture_default_str();
  AddFrames(locks, false, typed);
  AddTextOrJson(locks, typed);
}

}  // namespace

void DefineCommandLine(CLI::App& app, Typed& typed) {
  app.name("profctl");
  app.description(kAbout);
  app.set_version_flag("--version", std::string("profctl ") + PROFD_VERSION,
                       "Show the version and exit");
  app.set_help_flag("-h,--help", "Show this help and exit");
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.footer(absl::StrCat(kNotes, kTimes, kExitStatus));
  app.add_option("--server", typed.server, "Where profd listens: unix:///PATH or HOST:PORT")
      ->envname("PROFCTL_SERVER")
      ->type_name("ADDR")
      ->capture_default_str();
  AddFetch(app, typed);
  AddDiff(app, typed);
  AddSymbolize(app, typed);
  AddWhy(app, typed);
  AddBottlenecks(app, typed);
  AddWorst(app, typed);
  AddLocks(app, typed);
  CLI::App* memory = app.add_subcommand("memory", "Show the memory of processes and how it grows");
  memory->footer(absl::StrCat(kMemoryNotes, kTimes, kExitStatus));
  AddScope(memory, typed);
  AddTextOrJson(memory, typed);
  memory->add_flag("--color", typed.colour, "Use colours even if the output is not a terminal");
  AddStacksNow(app, typed);
  AddThreads(app, typed);
  AddTop(app, typed);
  CLI::App* status =
      app.add_subcommand("status", "Show what profd watches, what is missing, losses and overhead");
  status->footer(absl::StrCat(kStatusNotes, kExitStatus));
  AddTextOrJson(status, typed);
  status->add_flag("--names", typed.status_names,
                   "Add how functions of the last minute got their names");
  CLI::App* completion = app.add_subcommand("completion", "Print a completion script for a shell");
  completion->footer(kCompletionNotes);
  completion->add_option("SHELL", typed.shell, "The shell")
      ->type_name("SHELL")
      ->required()
      ->check(OneOf({"bash", "zsh", "fish"}));
}

}  // namespace profctl
