#include "client/top/layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/gaps.h"
#include "client/text/cells.h"
#include "client/text/text.h"
#include "client/top/details.h"

namespace profctl {
namespace {

// Lower screens have no room for more than the table.
constexpr size_t kLowScreen = 8;
// Notes that a screen shows; of a low one none.
constexpr size_t kMostNotes = 3;
// An answer is late after so many intervals.
constexpr int64_t kLateIntervals = 3;

struct HelpLine {
  const char* key;
  const char* meaning;
};
constexpr std::array<HelpLine, 25> kHelp = {{
    {"Up Down j k", "move; also Page Up, Page Down, Home, End"},
    {"Enter", "show the row's waits, and the stacks of its threads"},
    {"Esc", "back; in the table: remove the filter"},
    {"/", "filter by process, thread, PID, TID, reason, object or function:"},
    {"", "a regular expression, or text; Enter keeps it, Esc gives it up"},
    {"g G", "group: thread, name, process, reason, stack"},
    {"s S", "sort: cpu, runq, blocked, wall, switches, alloc, name, now"},
    {"r", "reverse the order"},
    {"i", "hide threads that are idle now, or show them"},
    {"space p", "pause: nothing is asked of profd"},
    {"u", "update now"},
    {"? h", "this page"},
    {"q", "quit"},
    {"", ""},
    {"on-CPU", "shares of the time in the last interval, of the row's threads:"},
    {"run q", "waiting for a CPU"},
    {"blocked", "waiting for anything else"},
    {"idle", "the part of it in which it only waited for work; estimated"},
    {"now", "what it does at this moment; of a group, how many do what"},
    {"for", "since when; of a group, the longest. ?: not known"},
    {"in", "the function that waits; of a group, that of most threads"},
    {"", ""},
    {"colours", "green: on a CPU, yellow: wants one, red: lock, cyan: disk,"},
    {"", "magenta: other waits, dim: idle"},
    {"", "'man profctl' and docs/profctl.md explain more"},
}};

StyledLine Clip(const StyledLine& line, size_t columns) {
  StyledLine clipped;
  for (const Span& span : line) {
    if (columns == 0) break;
    std::string text;
    std::string_view rest = span.text;
    while (!rest.empty()) {
      const std::string_view before = rest;
      const size_t cells = CellsOf(TakeCodePoint(rest));
      if (cells > columns) {
        columns = 0;
        break;
      }
      columns -= cells;
      text.append(before.substr(0, before.size() - rest.size()));
    }
    clipped.push_back({std::move(text), span.style});
  }
  return clipped;
}

size_t WidthOf(const StyledLine& line) {
  size_t width = 0;
  for (const Span& span : line) width += DisplayWidth(span.text);
  return width;
}

std::string Capitalized(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

class Composer {
 public:
  Composer(const TopView& view, const RowsWanted& wanted) : view_(view), wanted_(wanted) {}

  // "reth (4242) on node-7", and when.
  StyledLine Title(size_t columns) const {
    const Snapshot& snapshot = *view_.snapshot;
    const std::string when = FormatTime(snapshot.waits().coverage().end_ns());
    const std::string host = CleanName(snapshot.waits().message->host().hostname());
    const std::string right = host.empty() ? when : absl::StrCat(when, " on ", host);
    const std::string left = DescribeProcesses(snapshot.waits());
    const size_t used = DisplayWidth(left) + DisplayWidth(right) + 2;
    if (used > columns) return {{ClipEnd(left, columns), Style::kTitle}};
    const size_t gap = columns == std::numeric_limits<size_t>::max() ? 2 : columns - used + 2;
    return {{left, Style::kTitle}, {std::string(gap, ' ') + right, Style::kPlain}};
  }

  // How many threads do what, and the CPU time of the interval.
  StyledLine Totals() const {
    const Snapshot& snapshot = *view_.snapshot;
    uint64_t running = 0, queued = 0, waiting = 0, idle = 0;
    int64_t on_cpu_ns = 0;
    for (const TopThread& thread : snapshot.threads) {
      on_cpu_ns += thread.ledger.on_cpu_ns;
      if (thread.look == nullptr) continue;
      ++(thread.look->Runs()         ? running
         : thread.look->Queues()     ? queued
         : thread.look->idle.empty() ? waiting
                                     : idle);
    }
    std::string interval = absl::StrCat("; last ", FormatDuration(WindowNs(snapshot.waits())));
    if (snapshot.seconds() > 0) {
      absl::StrAppend(&interval, ": ",
                      Significant(static_cast<double>(on_cpu_ns) / 1e9 / snapshot.seconds()),
                      " CPUs busy");
    }
    if (!snapshot.looks) {
      return {{CountThreads(snapshot.threads.size()), Style::kPlain}, {interval, Style::kPlain}};
    }
    return {{CountThreads(snapshot.threads.size()) + ": ", Style::kPlain},
            {FormatCount(running) + " on CPU", Style::kOnCpu},
            {", ", Style::kPlain},
            {FormatCount(queued) + " run queue", Style::kRunQueue},
            {", ", Style::kPlain},
            {FormatCount(waiting) + " waiting", Style::kWait},
            {", ", Style::kPlain},
            {FormatCount(idle) + " idle", Style::kDim},
            {interval, Style::kPlain}};
  }

  std::string Selection(bool paused) const {
    std::vector<std::string> parts;
    if (paused) parts.emplace_back("PAUSED");
    parts.push_back(absl::StrCat("by ", std::string(DescribeGrouping(wanted_.grouping).name),
                                 ", sorted by ", std::string(DescribeTopSort(wanted_.sort).name),
                                 wanted_.reversed ? " (reversed)" : ""));
    const TopRows& rows = *view_.rows;
    if (!wanted_.filter.empty()) {
      parts.push_back(absl::StrCat("filter ", rows.filter_is_text ? "as text " : "", "'",
                                   CleanName(wanted_.filter), "': ", FormatCount(rows.filtered),
                                   " hidden"));
    }
    if (wanted_.hide_idle) parts.push_back(FormatCount(rows.idle_hidden) + " idle hidden");
    return absl::StrJoin(parts, "; ");
  }

  // What is missing.
  std::vector<std::string> Notes() const {
    const Snapshot& snapshot = *view_.snapshot;
    std::vector<std::string> notes;
    if (!snapshot.looks) {
      notes.push_back(absl::StrCat("Now is not known: ", CleanName(snapshot.looks_error)));
    } else {
      const profd::v1::LookTotals& totals = snapshot.looks->totals();
      if (totals.left_out() > 0) {
        notes.push_back(absl::StrCat("Now: ", CountThreads(totals.left_out()),
                                     " left out, as there are too many"));
      }
      if (totals.torn() > 0) {
        notes.push_back(
            absl::StrCat("Now: the stacks of ", CountThreads(totals.torn()), " were lost"));
      }
    }
    for (std::string& gap : DescribeGaps(snapshot.waits())) {
      notes.push_back(Capitalized(std::move(gap)));
    }
    return notes;
  }

  // Why what is shown is old; empty if it is not.
  std::string Trouble() const {
    const std::string age = view_.snapshot == nullptr
                                ? ""
                                : absl::StrCat("; this is ", FormatDuration(view_.age_ns), " old");
    if (!view_.error.empty()) {
      return absl::StrCat("No answer, trying again", age, ": ", CleanName(view_.error));
    }
    if (view_.age_ns > kLateIntervals * view_.interval_ns) {
      return absl::StrCat("Waiting for profd at ", CleanName(view_.server), age);
    }
    return "";
  }

 private:
  const TopView& view_;
  const RowsWanted& wanted_;
};

std::vector<StyledLine> HelpLines() {
  std::vector<StyledLine> lines = {{{"Keys and columns of profctl top", Style::kTitle}}, {}};
  for (const HelpLine& line : kHelp) {
    lines.push_back({{PadRight(line.key, 13), Style::kKey}, {line.meaning, Style::kPlain}});
  }
  return lines;
}

StyledLine KeysLine(const TopState& state) {
  const std::vector<std::pair<std::string, std::string>> keys =
      state.page == TopState::Page::kTable
          ? std::vector<std::pair<std::string, std::string>>{{"q", "quit"},     {"?", "help"},
                                                             {"Enter", "open"}, {"/", "filter"},
                                                             {"g", "group"},    {"s", "sort"},
                                                             {"i", "idle"},     {"space", "pause"}}
          : std::vector<std::pair<std::string, std::string>>{
                {"q", "quit"}, {"Esc", "back"}, {"Up Down", "scroll"}, {"space", "pause"}};
  StyledLine line;
  for (const auto& [key, meaning] : keys) {
    line.push_back({key, Style::kKey});
    line.push_back({absl::StrCat(" ", meaning, "  "), Style::kPlain});
  }
  return line;
}

// Text that may be longer than the screen is wide, on two lines at most.
std::vector<StyledLine> Wrapped(const std::string& text, size_t columns, Style style) {
  if (columns < 3) return {{{text, style}}};
  std::vector<StyledLine> lines;
  std::string rest = Wrap(text, columns, "");
  const size_t end = rest.find('\n');
  lines.push_back({{rest.substr(0, end), style}});
  rest = end == std::string::npos ? "" : text.substr(std::min(text.size(), end + 1));
  if (!rest.empty()) lines.push_back({{ClipEnd(rest, columns), style}});
  return lines;
}

std::vector<StyledLine> Head(const TopView& view, const TopState& state, ScreenSize size) {
  const Composer composer(view, state.wanted);
  std::vector<StyledLine> head;
  const std::string trouble = composer.Trouble();
  if (!trouble.empty()) head = Wrapped(trouble, size.columns, Style::kError);
  if (view.snapshot == nullptr) {
    if (head.empty()) head.push_back({{"Waiting for profd at " + CleanName(view.server)}});
    return head;
  }
  const bool low = size.rows < kLowScreen;
  if (!low) {
    head.insert(head.begin(), composer.Title(size.columns));
    head.push_back(composer.Totals());
  }
  if (!low || state.paused || !state.wanted.filter.empty()) {
    head.push_back(
        {{composer.Selection(state.paused), state.paused ? Style::kTitle : Style::kDim}});
  }
  if (low) return head;
  const std::vector<std::string> notes = composer.Notes();
  for (size_t i = 0; i < std::min(notes.size(), kMostNotes); ++i) {
    head.push_back({{ClipEnd(notes[i], size.columns), Style::kDim}});
  }
  return head;
}

StyledLine Selected(const StyledLine& line, size_t columns) {
  std::string text;
  for (const Span& span : line) text += span.text;
  return {{PadRight(text, columns), Style::kSelected}};
}

}  // namespace

TopScreen Compose(const TopView& view, ScreenSize size, TopState* state) {
  size.columns = std::max<size_t>(size.columns, 1);
  size.rows = std::max<size_t>(size.rows, 1);
  TopScreen screen;
  std::vector<StyledLine> head = Head(view, *state, size);
  const bool foot = size.rows >= kLowScreen || state->typing;
  const size_t foot_rows = foot ? 1 : 0;
  // The page has a line at least.
  if (head.size() + foot_rows + 1 > size.rows) {
    head.resize(size.rows > foot_rows + 1 ? size.rows - foot_rows - 1 : 0);
  }
  size_t room = size.rows - std::min(size.rows, head.size() + foot_rows);
  screen.lines = std::move(head);

  std::vector<StyledLine> page;
  size_t first = 0;
  static const std::vector<TopRow> kNoRows;
  const std::vector<TopRow>& rows = view.rows == nullptr ? kNoRows : view.rows->rows;
  if (state->page == TopState::Page::kHelp) {
    page = HelpLines();
  } else if (state->page == TopState::Page::kDetails && view.snapshot != nullptr) {
    const auto it = std::find_if(rows.begin(), rows.end(),
                                 [&](const TopRow& row) { return row.key == state->opened; });
    page = it == rows.end() ? std::vector<StyledLine>{{{"It is gone, or hidden. Esc goes back."}}}
                            : DetailLines(*view.snapshot, *it, size.columns);
  }
  if (state->page == TopState::Page::kTable) {
    if (rows.empty() && view.rows != nullptr) {
      page.push_back({{view.rows->filtered + view.rows->idle_hidden > 0
                           ? "All threads are hidden. Esc removes the filter, i shows idle ones."
                           : "No threads."}});
    }
    if (!rows.empty()) {
      page = RowLines(*view.snapshot, rows, state->wanted.grouping, size.columns);
      if (room > 1) {  // the headings stay
        screen.lines.push_back(page.front());
        --room;
      }
      page.erase(page.begin());
    }
    Follow(rows, room, state);
    first = state->first;
    if (state->place < page.size() && !rows.empty()) {
      page[state->place] = Selected(page[state->place], size.columns);
    }
  } else {
    state->scroll = std::min(state->scroll, page.size() > room ? page.size() - room : 0);
    first = state->scroll;
  }
  screen.extent = {.room = std::max<size_t>(room, 1), .lines = page.size()};
  for (size_t i = first; i < std::min(page.size(), first + room); ++i) {
    screen.lines.push_back(std::move(page[i]));
  }
  if (foot) {
    screen.lines.resize(size.rows - 1);
    screen.lines.push_back(
        state->typing ? StyledLine{{"Filter: ", Style::kKey}, {CleanName(state->wanted.filter)}}
                      : KeysLine(*state));
    if (state->typing) {
      screen.cursor = std::min(WidthOf(screen.lines.back()), size.columns - 1);
    }
  }
  for (StyledLine& line : screen.lines) line = Clip(line, size.columns);
  return screen;
}

std::string TopText(const TopView& view, const RowsWanted& wanted, bool colour) {
  const Composer composer(view, wanted);
  std::vector<StyledLine> lines = {composer.Title(std::numeric_limits<size_t>::max()),
                                   composer.Totals(),
                                   {{composer.Selection(false)}}};
  for (const std::string& note : composer.Notes()) lines.push_back({{note}});
  for (StyledLine& line :
       RowLines(*view.snapshot, view.rows->rows, wanted.grouping, LineColumns())) {
    lines.push_back(std::move(line));
  }
  std::string text;
  for (const StyledLine& line : lines) {
    std::string written;
    for (const Span& span : line) {
      const bool bold = colour && (span.style == Style::kTitle || span.style == Style::kHeading);
      absl::StrAppend(&written, bold ? "\033[1m" : "", span.text, bold ? "\033[0m" : "");
    }
    if (!colour) absl::StripTrailingAsciiWhitespace(&written);
    text += written + "\n";
  }
  return text;
}

}  // namespace profctl
