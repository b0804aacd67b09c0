#include "client/top/screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Its macros would replace methods.
#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <sys/ioctl.h>

#include "absl/strings/str_cat.h"
#include "client/text/cells.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr int kEscapeDelayMs = 25;  // a key that is sent as ESC and more comes in one piece

// A signal handler cannot have arguments. Never closed: a thread may wake after the screen's end.
std::atomic<int> wake_fd = -1;
std::atomic<bool> quits = false;

void OnSignal(int signal) {
  const int error = errno;
  if (signal != SIGWINCH) quits = true;
  Screen::Wake();
  errno = error;
}

// By the locale; if that is missing, by its name, as in containers without locales.
bool SetUtf8() {
  if (setlocale(LC_CTYPE, "") == nullptr) {
    for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      const char* name = std::getenv(variable);
      if (name == nullptr || *name == '\0') continue;
      const std::string_view text = name;
      if (text.ends_with("UTF-8") || text.ends_with("utf8")) setlocale(LC_CTYPE, "C.UTF-8");
      break;
    }
  }
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

enum Pair : short { kGreen = 1, kYellow, kRed, kCyan, kMagenta };

attr_t WithColour(bool colour, Pair pair, attr_t otherwise) {
  return colour ? static_cast<attr_t>(COLOR_PAIR(pair)) : otherwise;
}

attr_t AttributeOf(Style style, bool colour) {
  switch (style) {
    case Style::kPlain:
      return A_NORMAL;
    case Style::kTitle:
    case Style::kKey:
      return A_BOLD;
    case Style::kHeading:
      return A_BOLD | A_UNDERLINE;
    case Style::kSelected:
      return A_REVERSE;
    case Style::kDim:
      return A_DIM;
    case Style::kOnCpu:
      return WithColour(colour, kGreen, A_NORMAL);
    case Style::kRunQueue:
      return WithColour(colour, kYellow, A_NORMAL);
    case Style::kLock:
      return WithColour(colour, kRed, A_NORMAL);
    case Style::kDisk:
      return WithColour(colour, kCyan, A_NORMAL);
    case Style::kWait:
      return WithColour(colour, kMagenta, A_NORMAL);
    case Style::kError:
      return A_BOLD | WithColour(colour, kRed, A_REVERSE);
  }
  return A_NORMAL;
}

std::string Utf8Of(wint_t point) {
  std::string text;
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | point >> 12);
    text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | point >> 18);
    text += static_cast<char>(0x80 | (point >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
  }
  if (point >= 0x80) text += static_cast<char>(0x80 | (point & 0x3f));
  return text;
}

std::optional<Key::Code> CodeOf(wint_t key) {
  switch (key) {
    case KEY_UP:
      return Key::Code::kUp;
    case KEY_DOWN:
      return Key::Code::kDown;
    case KEY_PPAGE:
      return Key::Code::kPageUp;
    case KEY_NPAGE:
      return Key::Code::kPageDown;
    case KEY_HOME:
      return Key::Code::kHome;
    case KEY_END:
      return Key::Code::kEnd;
    case KEY_LEFT:
      return Key::Code::kLeft;
    case KEY_ENTER:
    case KEY_RIGHT:
      return Key::Code::kEnter;
    case KEY_BACKSPACE:
      return Key::Code::kBackspace;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open(bool colour) {
  if (wake_fd < 0) wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) return profd::ErrnoStatus("cannot create an event for the screen", errno);
  std::unique_ptr<Screen> screen(new Screen);
  screen->utf8_ = SetUtf8();
  if (newterm(nullptr, stdout, stdin) == nullptr) {
    const char* term = std::getenv("TERM");
    return absl::UnavailableError(
        absl::StrCat("cannot use a terminal of type '", CleanName(term == nullptr ? "" : term),
                     "'; set TERM to its type, e.g. xterm, or use --batch"));
  }
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(kEscapeDelayMs);
  curs_set(0);
  screen->colour_ = colour && has_colors() && start_color() != ERR;
  if (screen->colour_) {
    use_default_colors();
    init_pair(kGreen, COLOR_GREEN, -1);
    init_pair(kYellow, COLOR_YELLOW, -1);
    init_pair(kRed, COLOR_RED, -1);
    init_pair(kCyan, COLOR_CYAN, -1);
    init_pair(kMagenta, COLOR_MAGENTA, -1);
  }
  // After ncurses, whose own would end the program, or would not wake Wait.
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (const int signal : {SIGWINCH, SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  return screen;
}

Screen::~Screen() {
  if (stdscr != nullptr && !isendwin()) endwin();
}

ScreenSize Screen::Size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0 &&
      is_term_resized(size.ws_row, size.ws_col)) {
    resizeterm(size.ws_row, size.ws_col);
    clearok(stdscr, TRUE);
  }
  return {.columns = static_cast<size_t>(getmaxx(stdscr)),
          .rows = static_cast<size_t>(getmaxy(stdscr))};
}

void Screen::Draw(const TopScreen& screen) {
  werase(stdscr);
  for (size_t y = 0; y < screen.lines.size(); ++y) {
    wmove(stdscr, static_cast<int>(y), 0);
    for (const Span& span : screen.lines[y]) {
      wattrset(stdscr, static_cast<int>(AttributeOf(span.style, colour_)));
      waddstr(stdscr, ToCells(span.text, utf8_).c_str());
    }
  }
  wattrset(stdscr, A_NORMAL);
  curs_set(screen.cursor ? 1 : 0);
  if (screen.cursor) {
    wmove(stdscr, static_cast<int>(screen.lines.size()) - 1, static_cast<int>(*screen.cursor));
  }
  wrefresh(stdscr);
}

std::optional<Key> Screen::NextKey() {
  wint_t key = 0;
  while (true) {
    const int kind = wget_wch(stdscr, &key);
    if (kind == ERR) return std::nullopt;
    if (kind == KEY_CODE_YES) {
      if (const std::optional<Key::Code> code = CodeOf(key)) return Key{*code};
      continue;  // a key that means nothing here
    }
    if (key == '\r' || key == '\n') return Key{Key::Code::kEnter};
    if (key == 27) return Key{Key::Code::kEscape};
    if (key == 8 || key == 127) return Key{Key::Code::kBackspace};
    if (key != 0) return Key{Key::Code::kCharacter, Utf8Of(key)};
  }
}

void Screen::Wait(std::chrono::milliseconds timeout) {
  pollfd polled[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  if (poll(polled, 2, static_cast<int>(timeout.count())) < 0) return;
  if ((polled[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) quits = true;
  uint64_t count = 0;
  if (polled[1].revents != 0 && read(wake_fd, &count, sizeof(count)) < 0) return;
}

void Screen::Wake() {
  const uint64_t one = 1;
  // Full means that a wake-up is there already.
  if (write(wake_fd, &one, sizeof(one)) < 0) return;
}

bool Screen::Quits() const { return quits; }

}  // namespace profctl
