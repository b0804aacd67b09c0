#include "client/command_line/shared_options.h"

#include "CLI/CLI.hpp"
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "client/render/flamegraph_svg.h"
#include "client/usage/usage.h"

namespace profctl {

void AddTargets(CLI::App* command, const char* about, Typed& typed) {
  command->add_option("--target", typed.targets, about)
      ->type_name("PID|REGEX")
      ->allow_extra_args(false);
}

void AddWindow(CLI::App* command, Typed& typed) {
  command
      ->add_option("--since", typed.since,
                   "Length of the window up to --to: 90s, 5min, 1h30m (default: 60s)")
      ->type_name("DURATION");
  command->add_option("--from", typed.from, "Start of the window: 14:00, yesterday 14:00, RFC 3339")
      ->type_name("TIME");
  command->add_option("--to", typed.to, "End of the window (default: now)")->type_name("TIME");
}

void AddScope(CLI::App* command, Typed& typed) {
  AddWindow(command, typed);
  AddTargets(command, "Only this PID, or processes whose name matches; repeatable", typed);
}

void AddFlameGraph(CLI::App* command, bool colours, Typed& typed) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* about) {
    return command->add_option(name, value, about)->type_name(type)->group(kFlameGraph);
  };
  add("--title", typed.title, "TEXT", "Title (default: what was profiled)");
  add("--width", typed.width, "PIXELS", "Width in pixels (default: as wide as the browser window)");
  add("--height", typed.frame_height, "PIXELS", "Height of a frame in pixels (default: 18)");
  add("--min-width", typed.min_width, "PIXELS|PERCENT",
      "Leave out narrower frames: pixels, or a percentage such as 0.5% (default: 0.1)");
  if (colours) {
    add("--colors", typed.colours, "COLORS", "Colours of frames (default: kind; wall: state)")
        ->check(OneOf(NamesOf(AllColourSchemes()), "a colour scheme"));
  }
  command->add_flag("--inverted", typed.inverted, "Root at the top (an icicle graph)")
      ->group(kFlameGraph);
  command
      ->add_flag("--reverse", typed.reversed,
                 "Merge stacks from the innermost frame: the reason first, then the callers")
      ->group(kFlameGraph);
}

void AddKinds(CLI::App* command, const char* about, Typed& typed) {
  command->add_option("--kind", typed.kinds, about)
      ->type_name("KIND[,KIND...]")
      ->check(OneOf(NamesOf(AllSampleTypes()), "a kind of profile"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("offcpu");
}

void AddReasons(CLI::App* command, const char* about, Typed& typed) {
  command->add_option("--reason", typed.reasons, about)
      ->type_name("R[,R...]")
      ->check(OneOf(NamesOf(AllReasons()), "a reason"))
      ->delimiter(',')
      ->allow_extra_args(false);
}

void AddStacks(CLI::App* command, Typed& typed) {
  command->add_option("--thread", typed.thread, "Only threads whose name matches")
      ->type_name("REGEX");
  AddReasons(command, "Only waits for these reasons", typed);
  command->add_flag("--idle", typed.idle, "Show idle waits too");
}

void AddDebugFiles(CLI::App* command, Typed& typed) {
  command
      ->add_option("--debug-file", typed.debug_files,
                   "Name functions by this debug file or unstripped program; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--debug-dir", typed.debug_directories,
                   "Look here for debug files, by build-id and at each file; repeatable")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

CLI::Option* AddDebuginfod(CLI::App* command, Typed& typed) {
  return command
      ->add_option("--debuginfod", typed.debug_servers,
                   "Ask this debuginfod server for debug files; repeatable")
      ->type_name("URL")
      ->allow_extra_args(false);
}

void AddShortNames(CLI::App* command, Typed& typed) {
  command->add_flag("--short-names", typed.short_names,
                    "Shorten generics and templates: walk<...>");
}

void AddFrames(CLI::App* command, bool lines, Typed& typed) {
  command->add_flag("--no-inlines", typed.no_inlines,
                    "Do not show inlined functions as frames of their own");
  if (lines) {
    command->add_flag("--lines", typed.lines,
                      "Separate the lines of a function: function (file:12)");
  }
  AddShortNames(command, typed);
}

void AddFramesAndOutput(CLI::App* command, Typed& typed) {
  AddFrames(command, true, typed);
  command->add_option("-o,--output", typed.output, "File to write; - is stdout")->type_name("FILE");
  command
      ->add_option("--format", typed.format,
                   "Output format; text is the summary alone (default: from the file name)")
      ->type_name("FORMAT")
      ->check(OneOf({"svg", "text", "folded", "json", "pprof", "speedscope"}, "a format"));
}

}  // namespace profctl
