// Properties of the terminal.
#ifndef PROFD_CLIENT_IO_TERMINAL_H_
#define PROFD_CLIENT_IO_TERMINAL_H_

#include <cstddef>
#include <optional>

namespace profctl {

struct Terminal {
  bool colour = false;                 // stdout shows it
  bool progress = false;               // stderr shows a line that changes
  bool screen = false;                 // stdin and stdout are one, for full-screen programs
  std::optional<size_t> columns = {};  // of stdout; none: it is not a terminal
};

// Of stdout and stderr.
Terminal DetectTerminal();

// The variable COLUMNS, else the width of the terminal, if there is one. At least 40, below which
// tables break, and at most 120, above which lines are hard to read.
std::optional<size_t> ChooseColumns(const char* variable, std::optional<size_t> terminal_width);

}  // namespace profctl

#endif  // PROFD_CLIENT_IO_TERMINAL_H_
