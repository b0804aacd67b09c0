// Options that several of profctl's commands have.
#ifndef PROFD_CLIENT_COMMAND_LINE_SHARED_OPTIONS_H_
#define PROFD_CLIENT_COMMAND_LINE_SHARED_OPTIONS_H_

#include <string>
#include <vector>

#include "client/command_line/command_line.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace profctl {

// The group of options about the picture.
inline constexpr char kFlameGraph[] = "Flame graph";

template <typename Infos>
std::vector<std::string> NamesOf(const Infos& infos) {
  std::vector<std::string> names;
  for (const auto& info : infos) names.emplace_back(info.name);
  return names;
}

void AddTargets(CLI::App* command, const char* about, Typed& typed);
void AddWindow(CLI::App* command, Typed& typed);
// Options that select the window and the processes.
void AddScope(CLI::App* command, Typed& typed);
// `colours`: it has a choice of colours.
void AddFlameGraph(CLI::App* command, bool colours, Typed& typed);
void AddKinds(CLI::App* command, const char* about, Typed& typed);
void AddReasons(CLI::App* command, const char* about, Typed& typed);
// Options that select stacks.
void AddStacks(CLI::App* command, Typed& typed);
void AddDebugFiles(CLI::App* command, Typed& typed);
CLI::Option* AddDebuginfod(CLI::App* command, Typed& typed);
void AddShortNames(CLI::App* command, Typed& typed);
// How frames are told apart. `lines`: also by their lines.
void AddFrames(CLI::App* command, bool lines, Typed& typed);
// How frames are told apart, and where data goes.
void AddFramesAndOutput(CLI::App* command, Typed& typed);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMAND_LINE_SHARED_OPTIONS_H_
