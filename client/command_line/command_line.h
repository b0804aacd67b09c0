// The definition of profctl's command line. Help, completions and the man page are made from it.
#ifndef PROFD_CLIENT_COMMAND_LINE_COMMAND_LINE_H_
#define PROFD_CLIENT_COMMAND_LINE_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "client/io/connection.h"

namespace CLI {
class App;
}  // namespace CLI

namespace profctl {

// The arguments as typed, not yet parsed.
struct Typed {
  std::string server = kDefaultServer;
  std::string since, from, to, thread, output, format;
  std::string page_format = "text";  // of commands that print a page
  std::string thread_sort = "cpu", threads_by = "thread";
  std::string diff_format;
  int depth = 5;  // of why
  int top = 5;    // of bottlenecks
  std::string lock_sort = "time";
  std::vector<std::string> kinds = {"offcpu"}, targets, reasons, by;
  bool idle = false, colour = false, status_names = false;
  bool no_inlines = false, lines = false, short_names = false;
  std::vector<std::string> debug_files, debug_directories, debug_servers;
  std::string saved;  // of symbolize
  // Of flame graphs.
  std::string title, colours, min_width;
  std::optional<int> width, frame_height;
  bool inverted = false, reversed = false;
  // Of worst.
  uint32_t limit = 20;
  // Of top.
  std::string interval = "2s", top_by = "thread", top_sort = "cpu", filter;
  bool batch = false, once = false, hide_idle = false;
  std::optional<uint32_t> rounds;
  // Of diff.
  std::string side_a, side_b, fail_over, width_of;
  bool normalized = false;
  std::string shell;
};

// `typed` must outlive `app`.
void DefineCommandLine(CLI::App& app, Typed& typed);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMAND_LINE_COMMAND_LINE_H_
