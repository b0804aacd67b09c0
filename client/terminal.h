// What the terminal is, and can show.
#ifndef PROFD_CLIENT_TERMINAL_H_
#define PROFD_CLIENT_TERMINAL_H_

#include <cstddef>
#include <optional>

namespace profctl {

struct Terminal {
  bool colour = false;    // stdout shows it
  bool progress = false;  // stderr shows a line that changes
  size_t columns = 100;   // of pages
};

// Of stdout and stderr.
Terminal DetectTerminal();

// Columns of a page: what the variable COLUMNS says, else the width of the terminal, else 100.
// Never under 60, where tables would break, nor over 120, where lines would be hard to read.
size_t ChooseColumns(const char* variable, std::optional<size_t> terminal_width);

}  // namespace profctl

#endif  // PROFD_CLIENT_TERMINAL_H_
