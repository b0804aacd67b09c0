#include "daemon/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/golden.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Outcome {
  ParsedOptions parsed;
  std::string out, err;
};

Outcome Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "profd");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.parsed = ParseOptions(static_cast<int>(arguments.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

Options Accepted(std::vector<std::string> arguments) {
  const Outcome outcome = Parse(std::move(arguments));
  EXPECT_EQ(outcome.parsed.exit_code, std::nullopt) << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err, IsEmpty());
  return outcome.parsed.options;
}

TEST(BudgetTest, PercentageOfTargetsPartOfOneCpuOrOff) {
  const std::tuple<const char*, double, bool> good[] = {
      {"1%", 0.01, true},       {"0.5%", 0.005, true}, {".25%", 0.0025, true},
      {"100%", 1, true},        {"02%", 0.02, true},   {"2.%", 0.02, true},
      {"0.02cpu", 0.02, false}, {"1cpu", 1, false},    {".5cpu", 0.5, false}};
  for (const auto& [text, share, of_targets] : good) {
    const auto parsed = ParseBudget(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_DOUBLE_EQ(parsed->share, share) << text;
    EXPECT_EQ(parsed->of_targets, of_targets) << text;
  }
  EXPECT_EQ(ParseBudget("off")->share, kNoBudget);
}

TEST(BudgetTest, AnythingElseIsRefused) {
  for (const char* text :
       {"",     "%",    "1",        "0%",  "0.0%", "-1%",    "+1%",   "100.1%", "1e1%", "nan%",
        "inf%", "1 %",  " 1%",      "1% ", "1%%",  "1.2.3%", ".%",    "0x1%",   "1,5%", "Off",
        "off%", "none", "infinity", "cpu", "0cpu", "2cpu",   "1 cpu", "1%cpu"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseBudget(text).status())) << "\"" << text << "\"";
  }
}

TEST(OptionsTest, DefaultsNeedNoArguments) {
  const Options options = Accepted({});
  EXPECT_THAT(options.targets, IsEmpty());
  EXPECT_THAT(options.listen, StartsWith("unix:///"));
  EXPECT_EQ(options.tick_ns, 10'000'000);
  EXPECT_TRUE(options.books && options.per_switch && options.tick);
  EXPECT_DOUBLE_EQ(options.budget.share, 0.01);
  EXPECT_TRUE(options.budget.of_targets);
  EXPECT_EQ(options.log_level, "info");
}

TEST(OptionsTest, EveryOption) {
  const Options options = Accepted({"--target", "4711", "--target=op-reth", "--listen",
                                    "127.0.0.1:1", "--tick=5ms", "--disable", "books",
                                    "--disable=switch", "--log-level", "debug", "--budget=0.5cpu"});
  EXPECT_THAT(options.targets, ElementsAre("4711", "op-reth"));
  EXPECT_EQ(options.listen, "127.0.0.1:1");
  EXPECT_EQ(options.tick_ns, 5'000'000);
  EXPECT_FALSE(options.books);
  EXPECT_FALSE(options.per_switch);
  EXPECT_TRUE(options.tick);
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_DOUBLE_EQ(options.budget.share, 0.5);
  EXPECT_FALSE(options.budget.of_targets);
}

TEST(OptionsTest, LayersMayBeListed) {
  const Options options = Accepted({"--disable", "tick,switch"});
  EXPECT_TRUE(options.books);
  EXPECT_FALSE(options.per_switch);
  EXPECT_FALSE(options.tick);
}

TEST(OptionsTest, EveryLayerMayBeLeftOut) {
  const Options options =
      Accepted({"--disable", "books,switch,tick,heap,faults,mappings,cpu,disk"});
  EXPECT_FALSE(options.books || options.per_switch || options.tick);
  EXPECT_FALSE(options.heap || options.faults || options.mappings || options.disk);
  EXPECT_TRUE(Accepted({}).mappings);
  EXPECT_EQ(options.cpu_interval_ns, 0);
}

TEST(OptionsTest, CpuRateHasBounds) {
  EXPECT_EQ(Accepted({}).cpu_interval_ns, 1'000'000'000 / 99);
  EXPECT_EQ(Accepted({"--cpu-rate", "1"}).cpu_interval_ns, 1'000'000'000);
  EXPECT_EQ(Accepted({"--cpu-rate", "1000"}).cpu_interval_ns, 1'000'000);
}

TEST(OptionsTest, TickHasBounds) {
  EXPECT_EQ(Accepted({"--tick", "1ms"}).tick_ns, 1'000'000);
  EXPECT_EQ(Accepted({"--tick", "1s"}).tick_ns, 1'000'000'000);
  EXPECT_EQ(Accepted({"--tick", "0.02s"}).tick_ns, 20'000'000);
}

TEST(OptionsTest, BurstsHaveALengthAndAnInterval) {
  EXPECT_EQ(Accepted({}).burst_ns, 20'000'000);
  EXPECT_EQ(Accepted({}).burst_interval_ns, 5'000'000'000);
  const Options options = Accepted({"--malloc-burst", "5ms/200ms"});
  EXPECT_EQ(options.burst_ns, 5'000'000);
  EXPECT_EQ(options.burst_interval_ns, 200'000'000);
  EXPECT_EQ(Accepted({"--malloc-burst", "20ms/1min"}).burst_interval_ns, 60'000'000'000);
  EXPECT_EQ(Accepted({"--disable", "bursts"}).burst_interval_ns, 0);
}

TEST(OptionsTest, LimitsAreNumbersInBytesAlsoWithAUnit) {
  const Limits defaults = Accepted({}).limits;
  EXPECT_EQ(defaults.counters, 65536U);
  EXPECT_EQ(defaults.ring, 2U << 20);
  const Limits limits = Accepted({"--limit", "counters=100", "--limit", "ring=64K", "--limit",
                                  "rules=0", "--limit", "store=3M", "--limit", "timeline=1G"})
                            .limits;
  EXPECT_EQ(limits.counters, 100U);
  EXPECT_EQ(limits.ring, 64U << 10);
  EXPECT_EQ(limits.rules, 0U);
  EXPECT_EQ(limits.store, 3U << 20);
  EXPECT_EQ(limits.timeline, 1U << 30);
  EXPECT_EQ(limits.known_stacks, defaults.known_stacks);
  EXPECT_EQ(Accepted({"--limit", "rules=4096"}).limits.rules, 4096U);
}

TEST(OptionsTest, WrongUsageIsOneLineAndExitCode2) {
  const std::vector<std::string> wrong[] = {
      {"--cpu-rate", "0"},
      {"--cpu-rate", "1001"},
      {"--tick", "999us"},
      {"--tick", "1001ms"},
      {"--tick", "0ms"},
      {"--tick", "10"},
      {"--tick", ""},
      {"--tick"},
      {"--tick", "5ms", "--tick", "6ms"},
      {"--budget", "1"},
      {"--budget", "101%"},
      {"--budget"},
      {"--daemon-budget", "0.5%"},
      {"--malloc-burst", "20ms"},
      {"--malloc-burst", "20ms/100ms"},
      {"--malloc-burst", "500us/5s"},
      {"--malloc-burst", "101ms/5s"},
      {"--malloc-burst", "20ms/3601s"},
      {"--malloc-burst", "/"},
      {"--malloc-burst"},
      {"--disable", "stacks"},
      {"--disable", "tick,stacks"},
      {"--disable"},
      {"--limit"},
      {"--limit", "counters"},
      {"--limit", "counters="},
      {"--limit", "counters=0"},
      {"--limit", "counters=+1"},
      {"--limit", "counters=1K"},
      {"--limit", "modules=65537"},
      {"--limit", "ring=2K"},
      {"--limit", "ring=12K"},
      {"--limit", "store=99999999999999999999"},
      {"--limit", "store=18446744073709551615K"},
      {"--limit", "ring=1M,rules=1M"},
      {"--limit", "rings=1M"},
      {"--log-level", "loud"},
      {"--target"},
      {"--target", "a", "b"},
      {"--unknown"},
      {"-x"},
      {"4711"},
  };
  std::string page;
  for (const auto& arguments : wrong) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = Parse(arguments);
    EXPECT_EQ(outcome.parsed.exit_code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    absl::StrAppend(&page, "$ profd ", absl::StrJoin(arguments, " "), "\n", outcome.err);
  }
  profctl::ExpectGolden(page, "profd-usage-errors.txt");
}

TEST(OptionsTest, OldOptionSaysWhatToWrite) {
  const Outcome outcome = Parse({"--daemon-budget", "off"});
  EXPECT_EQ(outcome.parsed.exit_code, 2);
  EXPECT_EQ(
      outcome.err,
      "profd: --daemon-budget was removed; --budget now limits the overhead of everything that "
      "profd does (see profd --help)\n");
}

TEST(OptionsTest, HelpAndVersionAreAnswers) {
  setenv("COLUMNS", "100", 1);
  const Outcome help = Parse({"--help"});
  EXPECT_EQ(help.parsed.exit_code, 0);
  EXPECT_THAT(help.err, IsEmpty());
  profctl::ExpectGolden(help.out, "profd-help.txt");
  const Outcome version = Parse({"--version"});
  EXPECT_EQ(version.parsed.exit_code, 0);
  EXPECT_EQ(version.out, "profd " PROFD_VERSION "\n");
}

}  // namespace
}  // namespace profd
