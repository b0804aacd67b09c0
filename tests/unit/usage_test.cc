// Help, completions and man pages, as real shells and man read them.
#include "client/usage/usage.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "client/command_line/command_line.h"
#include "client/io/terminal.h"
#include "client/text/text.h"
#include "client/usage/completion.h"
#include "client/usage/help.h"
#include "client/usage/man_page.h"
#include "daemon/config/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

CommandUsage ProfctlUsage() {
  Typed typed;
  CLI::App app;
  DefineCommandLine(app, typed);
  return DescribeCommand(app);
}

CommandUsage ProfdUsage() {
  CommandUsage usage;
  profd::WithCommandLine([&](const CLI::App& app) { usage = DescribeCommand(app); });
  return usage;
}

TEST(UsageTest, EveryCommandOffersJsonAndStatesItsExitStatus) {
  for (const CommandUsage& command : ProfctlUsage().commands) {
    if (command.name == "completion") continue;  // its output is for a shell
    SCOPED_TRACE(command.name);
    EXPECT_THAT(command.notes, HasSubstr("Exit status:"));
    const auto format =
        std::find_if(command.options.begin(), command.options.end(), [](const OptionUsage& option) {
          return option.names == std::vector<std::string>{"--format"};
        });
    ASSERT_NE(format, command.options.end());
    EXPECT_THAT(format->choices, Contains("json"));
  }
}

// A file that is there as long as the test.
class TestFile {
 public:
  explicit TestFile(const std::string& content) {
    std::string pattern = std::filesystem::temp_directory_path() / "profctl-usage-XXXXXX";
    close(mkstemp(pattern.data()));
    path_ = pattern;
    std::ofstream(path_) << content;
  }
  ~TestFile() { std::filesystem::remove(path_); }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Output of a command of sh, with what it says on stderr.
std::string Shell(const std::string& command) {
  std::string output;
  FILE* pipe = popen(absl::StrCat("{ ", command, "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return "cannot start sh";
  std::array<char, 4096> buffer;
  while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), size);
  }
  return pclose(pipe) == 0 ? output : output + "(failed)";
}

bool Has(const std::string& program) {
  return Shell(absl::StrCat("command -v ", program, " >/dev/null && printf yes")) == "yes";
}

// What bash offers for the last of `words`, in the way that complete -F calls the function.
std::vector<std::string> BashOffers(const std::string& program, const std::string& script,
                                    const std::vector<std::string>& words) {
  const TestFile file(script);
  std::string typed;
  for (const std::string& word : words) absl::StrAppend(&typed, " '", word, "'");
  const TestFile driver(absl::StrCat("set -u\nsource ", file.path(), "\ncomplete -p ", program,
                                     " | grep -q -- '-F _", program, " '\nCOMP_WORDS=(", typed,
                                     ")\nCOMP_CWORD=", words.size() - 1, "\n_", program,
                                     "\nprintf '%s\\n' \"${COMPREPLY[@]-}\"\n"));
  const std::string output = Shell(absl::StrCat("bash --norc ", driver.path()));
  return absl::StrSplit(output, '\n', absl::SkipEmpty());
}

TEST(UsageTest, OptionsAreReadFromTheirDefinition) {
  const CommandUsage usage = ProfctlUsage();
  EXPECT_EQ(usage.name, "profctl");
  ASSERT_FALSE(usage.commands.empty());  // the golden of the help lists them
  const CommandUsage& fetch = usage.commands[0];
  EXPECT_EQ(fetch.name, "fetch");
  const auto find = [&](const std::string& name) {
    for (const OptionUsage& option : fetch.options) {
      if (std::count(option.names.begin(), option.names.end(), name) > 0) return option;
    }
    ADD_FAILURE() << "no " << name;
    return OptionUsage();
  };
  EXPECT_THAT(find("--format").choices,
              ElementsAre("svg", "text", "folded", "json", "pprof", "speedscope"));
  EXPECT_EQ(find("--format").value, "FORMAT");
  EXPECT_THAT(find("--output").names, ElementsAre("-o", "--output"));
  EXPECT_THAT(find("--output").choices, IsEmpty());
  EXPECT_EQ(find("--kind").choices.size(), AllSampleTypes().size());
  EXPECT_EQ(find("--kind").standard, "offcpu");
  EXPECT_TRUE(find("--reason").list);
  EXPECT_EQ(find("--reason").value, "R[,R...]");
  EXPECT_EQ(find("--reason").choices.size(), AllReasons().size());
  EXPECT_EQ(find("--idle").value, "");
  EXPECT_EQ(usage.options.back().variable, "PROFCTL_SERVER");
  // What is hidden stays so.
  for (const OptionUsage& option : ProfdUsage().options) {
    EXPECT_THAT(option.names, Not(Contains("--daemon-budget")));
  }
}

TEST(UsageTest, HelpFitsTheTerminal) {
  for (const size_t columns : {40, 60, 80, 100, 120}) {
    Typed typed;
    CLI::App app;
    app.formatter(std::make_shared<HelpFormatter>(columns));
    DefineCommandLine(app, typed);
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      for (const absl::string_view line : absl::StrSplit(command->help(), '\n')) {
        // Tables and examples are as wide as they are.
        const size_t most =
            line.empty() || line[0] != ' ' ? columns : std::max<size_t>(columns, 95);
        EXPECT_LE(DisplayWidth({line.data(), line.size()}), most) << command->get_name();
      }
    }
  }
}

TEST(UsageTest, TablesOfTheDaemonsHelpAreWrapped) {
  profd::WithCommandLine([](const CLI::App& app) {
    const std::string help = app.help();
    for (const absl::string_view line : absl::StrSplit(help, '\n')) {
      EXPECT_LE(DisplayWidth({line.data(), line.size()}), 120u) << line;
    }
    const std::string table = HelpFormatter(60).make_footer(&app);
    EXPECT_THAT(table, HasSubstr("\n  rules           unwind rules; 0 to 16G, default 48M\n"));
    EXPECT_THAT(table, HasSubstr("\n  malloc-stacks   calls to glibc's malloc by thread and\n"
                                 "                  stack, in a burst; 1 to 1048576, default\n"
                                 "                  8192\n"));
  });
}

TEST(UsageTest, ColumnsFollowTheTerminal) {
  EXPECT_EQ(ChooseColumns(nullptr, {}), std::nullopt) << "not a terminal";
  EXPECT_EQ(ChooseColumns("x", {}), std::nullopt);
  EXPECT_EQ(ChooseColumns(nullptr, 80), 80u);
  EXPECT_EQ(ChooseColumns("90", 80), 90u);
  EXPECT_EQ(ChooseColumns("90", {}), 90u);
  for (const char* bad : {"", "0", "-5", "x"}) EXPECT_EQ(ChooseColumns(bad, 80), 80u) << bad;
  EXPECT_EQ(ChooseColumns(nullptr, 10), 40u);
  EXPECT_EQ(ChooseColumns("100000", {}), 120u);
}

TEST(CompletionTest, BashOffersCommandsOptionsAndValues) {
  if (!Has("bash")) GTEST_SKIP() << "bash is not installed";
  const std::string script = BashCompletion(ProfctlUsage());
  const auto offers = [&](const std::vector<std::string>& words) {
    return BashOffers("profctl", script, words);
  };
  EXPECT_THAT(offers({"profctl", ""}),
              IsSupersetOf({"fetch", "diff", "memory", "status", "completion", "--server"}));
  EXPECT_THAT(offers({"profctl", "me"}), ElementsAre("memory"));
  EXPECT_THAT(offers({"profctl", "fetch", "--kind", "un"}), ElementsAre("unmapped"));
  EXPECT_THAT(offers({"profctl", "fetch", "--kind", "=", "al"}), ElementsAre("alloc"));
  EXPECT_THAT(offers({"profctl", "fetch", "--kind", "="}), Contains("alloc"));
  EXPECT_THAT(offers({"profctl", "fetch", "--reason", "lock,di"}), ElementsAre("lock,disk"));
  EXPECT_THAT(offers({"profctl", "fetch", "--in"}), ElementsAre("--inverted"));
  EXPECT_THAT(offers({"profctl", "memory", "--in"}), IsEmpty());
  EXPECT_THAT(offers({"profctl", "status", "--format", ""}), ElementsAre("text", "json"));
  EXPECT_THAT(offers({"profctl", "--server", "x:1", "fetch", "--by", ""}),
              IsSupersetOf({"name", "thread", "reason", "module"}));
  EXPECT_THAT(offers({"profctl", "fetch", "--by", "name,mod"}), ElementsAre("name,module"));
  EXPECT_THAT(offers({"profctl", "fetch", "--kind", "alloc,fr"}), ElementsAre("alloc,free"));
  EXPECT_THAT(offers({"profctl", "diff", "--norm"}), ElementsAre("--normalized"));
  EXPECT_THAT(offers({"profctl", "completion", "f"}), ElementsAre("fish"));
  EXPECT_THAT(offers({"profctl", "fetch", "--since", ""}), IsEmpty());
  EXPECT_THAT(offers({"profctl", "fetch", "-o", "/etc/host"}), Contains("/etc/hosts"));
  EXPECT_THAT(BashOffers("profd", BashCompletion(ProfdUsage()), {"profd", "--log-level", "d"}),
              ElementsAre("debug"));
}

TEST(CompletionTest, FishOffersTheSame) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  const TestFile file(FishCompletion(ProfctlUsage()));
  const auto offers = [&](const std::string& typed) {
    return Shell(absl::StrCat("HOME=/nonexistent fish --no-config -c 'source ", file.path(),
                              "; complete -C \"", typed, "\"' 2>/dev/null | cut -f1"));
  };
  EXPECT_EQ(offers("profctl mem"), "memory\n");
  EXPECT_EQ(offers("profctl fetch --kind un"), "unmapped\n");
  EXPECT_EQ(offers("profctl fetch --inv"), "--inverted\n");
  EXPECT_EQ(offers("profctl diff /etc/hostna"), "/etc/hostname\n");
}

TEST(CompletionTest, ZshAndFishAcceptTheScripts) {
  for (const CommandUsage& usage : {ProfctlUsage(), ProfdUsage()}) {
    const TestFile zsh(ZshCompletion(usage)), fish(FishCompletion(usage));
    if (Has("zsh")) {
      EXPECT_EQ(Shell(absl::StrCat("zsh -f -n ", zsh.path())), "");
    }
    if (Has("fish")) {
      EXPECT_EQ(Shell(absl::StrCat("fish --no-execute ", fish.path())), "");
    }
    EXPECT_THAT(ZshCompletion(usage), HasSubstr(absl::StrCat("#compdef ", usage.name, "\n")));
  }
  // Both sides of a comparison may be files.
  EXPECT_THAT(ZshCompletion(ProfctlUsage()),
              AllOf(HasSubstr("'1:FILE|FROM..TO:_files'"), HasSubstr("'2:FILE|FROM..TO:_files'")));
}

TEST(ManPageTest, ManReadsItWithoutAWarningAndNothingIsMissing) {
  for (const auto& [usage, section] : {std::pair(ProfctlUsage(), 1), std::pair(ProfdUsage(), 8)}) {
    const std::string page = RenderManPage(usage, {.section = section,
                                                   .version = "1",
                                                   .date = "2026-01-31",
                                                   .see_also = {"profd(8)", "profctl(1)"}});
    const TestFile file(page);
    if (Has("mandoc")) {
      EXPECT_EQ(Shell(absl::StrCat("mandoc -Tlint -Wwarning ", file.path())), "");
    }
    if (!Has("man")) continue;
    EXPECT_EQ(
        Shell(absl::StrCat("LC_ALL=C.UTF-8 man --warnings -l ", file.path(), " 2>&1 >/dev/null")),
        "");
    const std::string shown = Shell(
        absl::StrCat("LC_ALL=C MANWIDTH=200 MAN_KEEP_FORMATTING= man -l ", file.path(), " | cat"));
    for (const CommandUsage& command : usage.commands) EXPECT_THAT(shown, HasSubstr(command.name));
    const auto check = [&](const CommandUsage& command) {
      for (const OptionUsage& option : command.options) {
        for (const std::string& name : option.names) EXPECT_THAT(shown, HasSubstr(name));
      }
    };
    check(usage);
    std::for_each(usage.commands.begin(), usage.commands.end(), check);
    for (const char* part : {"NAME", "SYNOPSIS", "EXAMPLES", "SEE ALSO"}) {
      EXPECT_THAT(shown, HasSubstr(part));
    }
  }
}

TEST(ManPageTest, TextIsNoRequest) {
  CommandUsage usage;
  usage.name = "x";
  usage.about = ".so /etc/passwd";
  usage.notes = "Notes:\n'quoted\n  .de x\n  \\fBnot bold\n";
  const std::string page =
      RenderManPage(usage, {.section = 1, .version = "1", .date = "2026-01-31", .see_also = {}});
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    EXPECT_FALSE(absl::StartsWith(line, ".so") || absl::StartsWith(line, ".de") ||
                 absl::StartsWith(line, "'"))
        << line;
  }
  EXPECT_THAT(page, HasSubstr("\\efBnot bold"));
}

}  // namespace
}  // namespace profctl
