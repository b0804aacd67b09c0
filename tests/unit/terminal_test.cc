// Pages and tables on terminals of different widths.
#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/render/diff.h"
#include "client/render/memory.h"
#include "client/render/status.h"
#include "client/render/summary.h"
#include "client/render/table.h"
#include "client/text/text.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_memory.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/fixture_status.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

constexpr int64_t kNowNs = 1'769'868'300'000'000'000;

// The output is a terminal while it lives.
class TerminalOf {
 public:
  explicit TerminalOf(size_t columns) { SetTerminalColumns(columns); }
  ~TerminalOf() { SetTerminalColumns(std::nullopt); }
  TerminalOf(const TerminalOf&) = delete;
  TerminalOf& operator=(const TerminalOf&) = delete;
};

void ExpectFits(const std::string& page, size_t columns) {
  std::istringstream lines(page);
  std::string line;
  while (std::getline(lines, line)) EXPECT_LE(DisplayWidth(line), columns) << line;
}

std::string Summary(const AnswerWriter& answer) {
  const Profile profile = answer.Build();
  return RenderSummary(MakeView(profile, true), false);
}

std::string Status() {
  profd::v1::GetStatusResponse status = PlainStatus();
  status.MergeFrom(AllocatorsStatus());
  status.MergeFrom(ShedStatus());
  return RenderStatusText(status, kNowNs, false);
}

TEST(TerminalTest, PagesFit) {
  for (const size_t columns : {120, 80, 60, 40}) {
    const TerminalOf terminal(columns);
    const MemoryReport memory = {.memory = ManyMemories(), .past = false};
    const std::array<std::pair<const char*, std::string>, 4> pages = {{
        {"summary", Summary(ProcessesAnswer())},
        {"alloc", Summary(AllocAnswer())},
        {"memory", RenderMemoryText(memory, false, false)},
        {"status", Status()},
    }};
    for (const auto& [name, page] : pages) {
      ExpectGolden(page, absl::StrCat("terminal-", columns, "-", name, ".txt"));
      ExpectFits(page, columns);
    }
    for (const AnswerWriter& answer :
         {ServerAnswer(), IdleAnswer(), ShedAnswer(), FreeAnswer(), UncoveredAnswer(),
          UnwatchedAnswer(), ResidentAnswer(), MappedAnswer()}) {
      ExpectFits(Summary(answer), columns);
    }
  }
}

Table Names() {
  Table table({{"path", Table::Align::kLeft},
               {"bytes", Table::Align::kRight},
               {"waits", Table::Align::kRight, 1},
               {"function", Table::Align::kLeft}});
  table.Add({"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "1,234,567", "12", "je_malloc"});
  table.Add({"/bin/a", "7", "9,999,999", "std::_Function_handler<void (), main>::_M_invoke"});
  return table;
}

TEST(TableTest, OtherProgramsGetWholeNames) {
  ExpectGolden(Names().Render(), "table.txt");
  ExpectGolden(Summary(ProcessesAnswer()), "terminal-none-summary.txt");
  ExpectGolden(Status(), "terminal-none-status.txt");
}

TEST(TableTest, NamesLoseTheirMiddleAndNumbersNothing) {
  std::string tables;
  for (const size_t columns : {120, 100, 80, 60, 50, 40}) {
    const TerminalOf terminal(columns);
    const std::string table = Names().Render();
    ExpectFits(table, columns);
    EXPECT_NE(table.find("1,234,567"), std::string::npos);
    absl::StrAppend(&tables, columns, "\n", table);
  }
  ExpectGolden(tables, "tables.txt");
}

TEST(TableTest, NumbersThatDoNotFitStay) {
  Table table({{"a", Table::Align::kRight}, {"b", Table::Align::kRight}});
  table.Add({std::string(30, '1'), std::string(30, '2')});
  const TerminalOf terminal(40);
  EXPECT_EQ(table.Render(), "  " + std::string(29, ' ') + "a  " + std::string(29, ' ') + "b\n  " +
                                std::string(30, '1') + "  " + std::string(30, '2') + "\n");
}

TEST(TableTest, HeadingsAreWrappedAndBold) {
  const TerminalOf terminal(40);
  EXPECT_EQ(Heading("Threads by non-idle waiting time (shares of wall time)", true),
            "\033[1mThreads by non-idle waiting time (shares\nof wall time)\033[0m\n");
}

}  // namespace
}  // namespace profctl
