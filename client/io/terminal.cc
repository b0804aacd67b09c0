#include "client/io/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "absl/strings/numbers.h"

namespace profctl {
namespace {

constexpr size_t kFewestColumns = 40;
constexpr size_t kMostColumns = 120;

std::optional<size_t> WidthOf(int fd) {
  winsize size{};
  if (isatty(fd) == 0 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return size.ws_col;
}

}  // namespace

std::optional<size_t> ChooseColumns(const char* variable, std::optional<size_t> terminal_width) {
  std::optional<size_t> columns = terminal_width;
  size_t said = 0;
  if (variable != nullptr && absl::SimpleAtoi(variable, &said) && said > 0) columns = said;
  if (columns) columns = std::clamp(*columns, kFewestColumns, kMostColumns);
  return columns;
}

Terminal DetectTerminal() {
  const char* term = std::getenv("TERM");
  const bool moves = term != nullptr && std::string_view(term) != "dumb";
  // https://no-color.org: any non-empty value says no.
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  Terminal terminal;
  terminal.colour = !refused && moves && isatty(STDOUT_FILENO) != 0;
  terminal.progress = moves && isatty(STDERR_FILENO) != 0;
  terminal.screen = moves && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  terminal.columns = ChooseColumns(std::getenv("COLUMNS"), WidthOf(STDOUT_FILENO));
  return terminal;
}

}  // namespace profctl
