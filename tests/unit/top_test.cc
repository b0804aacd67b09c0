// `profctl top`: rows, keys, and the layout on screens of all sizes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/text/cells.h"
#include "client/text/text.h"
#include "client/top/layout.h"
#include "client/top/model.h"
#include "client/top/rows.h"
#include "client/top/snapshot.h"
#include "client/top/top_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_looks.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

Snapshot ServerSnapshot(profd::v1::Profile looks = LooksMessage()) {
  Answer interval;
  interval.profiles.push_back(ServerAnswer().Build());
  interval.profiles.push_back(interval.profiles[0]);
  interval.profiles[1].threads[1].heap.emplace().set_bytes(60ll << 20);
  return MakeSnapshot(std::move(interval), ReadLooksOf(looks));
}

class TopTest : public ::testing::Test {
 protected:
  // As the program does: rows, then the screen.
  const TopScreen& Draw(size_t columns, size_t lines) {
    rows_ = MakeRows(snapshot_, state_.wanted);
    view_.snapshot = &snapshot_;
    view_.rows = &rows_;
    screen_ = Compose(view_, {.columns = columns, .rows = lines}, &state_);
    return screen_;
  }

  void Type(const std::string& keys) {
    for (const char c : keys) Press(Key::Code::kCharacter, std::string(1, c));
  }
  void Press(Key::Code code, const std::string& text = {}) {
    profctl::Press({code, text}, rows_.rows, screen_.extent, &state_);
    Draw(columns_, lines_);
  }

  // Styles as letters below each line that has more than the plain one.
  static std::string WithStyles(const TopScreen& screen) {
    static constexpr std::string_view kLetters = ".THS-crldwEK";
    std::string text;
    for (const StyledLine& line : screen.lines) {
      std::string styles, words;
      for (const Span& span : line) {
        words += span.text;
        styles.append(DisplayWidth(span.text), kLetters[static_cast<size_t>(span.style)]);
      }
      text += words + "|\n";
      if (styles.find_first_not_of('.') != std::string::npos) text += styles + "\n";
    }
    return text;
  }
  static std::string Text(const TopScreen& screen) {
    std::string text;
    for (const StyledLine& line : screen.lines) {
      for (const Span& span : line) text += span.text;
      text += "\n";
    }
    return text;
  }

  Snapshot snapshot_ = ServerSnapshot();
  TopState state_;
  TopRows rows_;
  TopView view_ = {.server = "unix:///run/profd/profd.sock",
                   .snapshot = nullptr,
                   .rows = nullptr,
                   .error = "",
                   .age_ns = 0,
                   .interval_ns = 2 * kSecond};
  TopScreen screen_;
  size_t columns_ = 80, lines_ = 24;
};

TEST_F(TopTest, MatchesGoldens) {
  ExpectGolden(WithStyles(Draw(80, 24)), "top-80x24.txt");
  ExpectGolden(WithStyles(Draw(160, 50)), "top-160x50.txt");
  ExpectGolden(WithStyles(Draw(40, 12)), "top-40x12.txt");
  ExpectGolden(WithStyles(Draw(60, 6)), "top-60x6.txt");
  state_.wanted.grouping = Grouping::kReason;
  ExpectGolden(WithStyles(Draw(100, 20)), "top-reasons.txt");
  state_.wanted.grouping = Grouping::kName;
  Draw(80, 24);
  Press(Key::Code::kEnter);
  ExpectGolden(WithStyles(Draw(80, 60)), "top-details.txt");
  Type("?");
  ExpectGolden(WithStyles(Draw(80, 40)), "top-help.txt");
}

TEST_F(TopTest, TroubleIsOnTheScreen) {
  view_.error = "cannot connect to profd at unix:///run/profd/profd.sock: no such socket";
  view_.age_ns = 12 * kSecond;
  EXPECT_THAT(Text(Draw(80, 24)), HasSubstr("No answer, trying again; this is 12.0 s old: cannot"));
  EXPECT_THAT(Text(Draw(40, 3)), HasSubstr("No answer"));
  view_.error.clear();
  EXPECT_THAT(Text(Draw(80, 24)), HasSubstr("Waiting for profd at unix:///run"));
  view_.age_ns = 5 * kSecond;
  EXPECT_THAT(Text(Draw(80, 24)), Not(HasSubstr("Waiting for profd")));
  view_.snapshot = nullptr;
  view_.rows = nullptr;
  EXPECT_THAT(Text(Compose(view_, {.columns = 80, .rows = 24}, &state_)),
              HasSubstr("Waiting for profd at unix:///run"));
}

TEST_F(TopTest, EveryPageFitsEveryScreen) {
  view_.error = "an error that is longer than most of these screens are wide";
  for (const TopState::Page page :
       {TopState::Page::kTable, TopState::Page::kDetails, TopState::Page::kHelp}) {
    for (const bool typing : {false, true}) {
      for (size_t columns = 1; columns < 140; columns += 7) {
        for (size_t lines = 1; lines < 40; lines += 3) {
          state_.page = page;
          state_.typing = typing;
          const TopScreen& screen = Draw(columns, lines);
          ASSERT_LE(screen.lines.size(), lines);
          ASSERT_FALSE(screen.lines.empty());
          for (const StyledLine& line : screen.lines) {
            size_t width = 0;
            for (const Span& span : line) width += DisplayWidth(span.text);
            ASSERT_LE(width, columns) << columns << "x" << lines;
          }
          ASSERT_LT(screen.cursor.value_or(0), columns);
          state_.opened = rows_.rows[0].key;
        }
      }
    }
  }
}

TEST_F(TopTest, EachThreadIsInOneRow) {
  for (const GroupingInfo& info : AllGroupings()) {
    RowsWanted wanted;
    wanted.grouping = info.grouping;
    const TopRows rows = MakeRows(snapshot_, wanted);
    size_t threads = 0;
    int64_t wall = 0;
    for (const TopRow& row : rows.rows) {
      threads += row.threads.size();
      wall += row.ledger.wall_ns;
    }
    EXPECT_EQ(threads, snapshot_.threads.size()) << info.name;
    EXPECT_EQ(threads, rows.threads);
    int64_t whole = 0;
    for (const TopThread& thread : snapshot_.threads) whole += thread.ledger.wall_ns;
    EXPECT_EQ(wall, whole);
  }
}

TEST_F(TopTest, AThreadThatBeganAfterTheIntervalIsThere) {
  const auto is_hog = [](const TopThread& thread) { return thread.ledger.name == "hog"; };
  const auto it = std::find_if(snapshot_.threads.begin(), snapshot_.threads.end(), is_hog);
  ASSERT_NE(it, snapshot_.threads.end());
  EXPECT_EQ(it->ledger.wall_ns, 0);
  EXPECT_EQ(DescribeNow(it->look), "on CPU");
}

TEST_F(TopTest, FilterIsARegexOrText) {
  const auto count = [&](const std::string& filter) {
    RowsWanted wanted;
    wanted.filter = filter;
    const TopRows rows = MakeRows(snapshot_, wanted);
    EXPECT_EQ(rows.threads + rows.filtered, snapshot_.threads.size());
    return rows.threads;
  };
  EXPECT_EQ(count(""), snapshot_.threads.size());
  EXPECT_EQ(count("HOG"), 0U);
  EXPECT_EQ(count("hog"), 1U);
  EXPECT_EQ(count("^4399$"), 1U);
  EXPECT_EQ(count("^399"), 0U);
  EXPECT_EQ(count("on CPU"), 1U);
  EXPECT_GT(count("lock"), 1U);
  EXPECT_GT(count("mdbx_"), 0U);        // a function
  EXPECT_EQ(count("("), count("\\("));  // no regular expression
  RowsWanted wanted;
  wanted.filter = "(";
  EXPECT_TRUE(MakeRows(snapshot_, wanted).filter_is_text);
}

TEST_F(TopTest, KeysSelectSortAndFilter) {
  Draw(columns_, lines_);
  const std::string first = rows_.rows[0].key;
  Type("j");
  EXPECT_EQ(state_.place, 1U);
  const std::string second = state_.selected;
  // The selection stays on its row in another order.
  Type("r");
  EXPECT_EQ(rows_.rows[state_.place].key, second);
  EXPECT_TRUE(state_.wanted.reversed);
  Type("r");
  Press(Key::Code::kHome);
  EXPECT_EQ(state_.selected, first);
  Press(Key::Code::kEnd);
  EXPECT_EQ(state_.place, rows_.rows.size() - 1);
  Press(Key::Code::kDown);
  EXPECT_EQ(state_.place, rows_.rows.size() - 1);

  Type("/hoq");
  EXPECT_THAT(Text(screen_), HasSubstr("All threads are hidden"));
  EXPECT_THAT(Text(screen_), HasSubstr("Filter: hoq"));
  EXPECT_EQ(screen_.cursor, 11U);
  Press(Key::Code::kBackspace);
  Type("g");
  EXPECT_EQ(state_.wanted.filter, "hog");
  EXPECT_EQ(state_.wanted.grouping, Grouping::kThread);
  Press(Key::Code::kEnter);
  EXPECT_FALSE(state_.typing);
  EXPECT_EQ(rows_.rows.size(), 1U);
  Type("/x");
  Press(Key::Code::kEscape);
  EXPECT_EQ(state_.wanted.filter, "hog");
  Press(Key::Code::kEscape);
  EXPECT_EQ(state_.wanted.filter, "");

  for (size_t i = 0; i < AllTopSorts().size(); ++i) Type("s");
  EXPECT_EQ(state_.wanted.sort, TopSort(ThreadSort::kCpu));
  for (size_t i = 0; i < AllGroupings().size(); ++i) Type("G");
  EXPECT_EQ(state_.wanted.grouping, Grouping::kThread);
  Type("i");
  EXPECT_GT(rows_.idle_hidden, 0U);
  Type(" ");
  EXPECT_TRUE(state_.paused);
  EXPECT_THAT(Text(screen_), HasSubstr("PAUSED"));
  Type("q");
  EXPECT_TRUE(state_.quit);
}

TEST_F(TopTest, DetailsOpenScrollAndClose) {
  lines_ = 10;
  Draw(columns_, lines_);
  Press(Key::Code::kEnter);
  EXPECT_EQ(state_.page, TopState::Page::kDetails);
  Press(Key::Code::kEnd);
  EXPECT_EQ(state_.scroll + screen_.extent.room, screen_.extent.lines);
  const size_t end = state_.scroll;
  Press(Key::Code::kUp);
  EXPECT_EQ(state_.scroll, end - 1);
  Type("?");
  EXPECT_EQ(state_.page, TopState::Page::kHelp);
  Press(Key::Code::kEscape);
  EXPECT_EQ(state_.page, TopState::Page::kDetails);
  // The thread is gone in the next round.
  state_.opened = "gone";
  EXPECT_THAT(Text(Draw(columns_, lines_)), HasSubstr("It is gone"));
  Press(Key::Code::kEscape);
  EXPECT_EQ(state_.page, TopState::Page::kTable);
}

TEST_F(TopTest, WithoutLooksThereAreLedgers) {
  Answer interval;
  interval.profiles.push_back(ServerAnswer().Build());
  interval.profiles.push_back(interval.profiles[0]);
  snapshot_ =
      MakeSnapshot(std::move(interval), absl::FailedPreconditionError("no looks\x1b[31m here"));
  EXPECT_THAT(Text(Draw(80, 24)), HasSubstr("Now is not known: no looks?[31m here"));
  Press(Key::Code::kEnter);
  EXPECT_THAT(Text(screen_), HasSubstr("no looks?[31m here"));
}

TEST_F(TopTest, HostileAndWideNamesKeepTheColumns) {
  profd::v1::Profile message = LooksMessage();
  int changed = 0;
  for (const char* name : {"\x1b[2J\r\nx", "表示スレッド", "e\u0301\u0301\u0301", "\xff\xfe\x80",
                           "\u202egnp", "a\tb\x07"}) {
    for (int i = 0; i < message.strings_size(); ++i) {
      if (message.strings(i) == "hog") message.set_strings(i, name);
    }
    snapshot_ = ServerSnapshot(message);
    state_.wanted.filter.clear();
    for (const StyledLine& line : Draw(60, 30).lines) {
      std::string text;
      for (const Span& span : line) text += span.text;
      EXPECT_EQ(text, CleanName(text));
      for (const bool utf8 : {false, true}) {
        EXPECT_EQ(DisplayWidth(ToCells(text, utf8)), DisplayWidth(text)) << text;
      }
    }
    ++changed;
    for (int i = 0; i < message.strings_size(); ++i) {
      if (message.strings(i) == name) message.set_strings(i, "hog");
    }
  }
  EXPECT_EQ(changed, 6);
}

TEST(CellsTest, WidthsAndReplacements) {
  EXPECT_EQ(DisplayWidth("表示"), 4U);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1U);
  EXPECT_EQ(ToCells("表é", false), "???");
  EXPECT_EQ(ToCells("表é", true), "表é");
  EXPECT_EQ(ToCells("e\u0301x", true), "ex");
  EXPECT_EQ(Shorten("表示表示表示表示", 11), "表示...表示");
  EXPECT_EQ(ClipEnd("表示表示", 6), "表示..");
  EXPECT_EQ(ClipEnd("表示表示", 5), "表..");
}

TEST_F(TopTest, BatchAndJson) {
  rows_ = MakeRows(snapshot_, state_.wanted);
  view_.snapshot = &snapshot_;
  view_.rows = &rows_;
  ExpectGolden(TopText(view_, state_.wanted, false), "top-batch.txt");
  const std::string line = RenderTopJson(snapshot_, rows_);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["rows"].size(), snapshot_.threads.size());
  EXPECT_EQ(json["rows"][0]["threads"][0]["wall_ns"], rows_.rows[0].ledger.wall_ns);
  EXPECT_EQ(json["left_out"], 5);
}

}  // namespace
}  // namespace profctl
