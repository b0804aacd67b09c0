// profctl from its command line to its exit status, against a server in this process.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/answer/group_by.h"
#include "client/answer/json.h"
#include "client/answer/view.h"
#include "client/command_line/cli.h"
#include "client/command_line/command_line.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/memory.h"
#include "client/render/pprof.h"
#include "client/render/speedscope.h"
#include "client/render/status.h"
#include "client/render/summary.h"
#include "client/text/text.h"
#include "client/usage/completion.h"
#include "client/usage/usage.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "profd/v1/profiler.grpc.pb.h"
#include "re2/re2.h"
#include "tests/support/machine.h"
#include "tests/unit/fixture_memory.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/fixture_status.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeDaemon final : public profd::v1::Profiler::Service {
 public:
  grpc::Status Fetch(grpc::ServerContext*, const profd::v1::FetchRequest* request,
                     grpc::ServerWriter<profd::v1::Profile>* writer) override {
    asked = *request;
    ++fetches;
    std::vector<profd::v1::GroupKey> keys;
    for (const int key : request->group_by()) keys.push_back(static_cast<profd::v1::GroupKey>(key));
    // A test may change it as soon as its client has given up.
    const std::vector<profd::v1::Profile> parts = raw ? *raw : answer.Parts(keys);
    for (const profd::v1::Profile& part : parts) {
      if (!writer->Write(part)) return outcome;
    }
    if (!request->has_baseline() && !unasked) return outcome;
    for (profd::v1::Profile& part : baseline.Parts(keys)) {
      part.set_window(1);
      if (!writer->Write(part)) break;
    }
    return outcome;
  }
  grpc::Status GetStatus(grpc::ServerContext*, const profd::v1::GetStatusRequest*,
                         profd::v1::GetStatusResponse* response) override {
    *response = status;
    return outcome;
  }
  grpc::Status GetMemory(grpc::ServerContext*, const profd::v1::GetMemoryRequest* request,
                         profd::v1::GetMemoryResponse* response) override {
    asked_memory = *request;
    *response = memory;
    return memory_outcome;
  }

  grpc::Status GetStacks(grpc::ServerContext*, const profd::v1::GetStacksRequest* request,
                         grpc::ServerWriter<profd::v1::Profile>* writer) override {
    asked_stacks = *request;
    profd::v1::Profile whole = answer.Message({});
    whole.clear_samples();
    whole.mutable_look()->set_threads(static_cast<uint64_t>(whole.threads_size()));
    writer->Write(whole);
    return outcome;
  }

  profd::v1::GetStacksRequest asked_stacks;
  AnswerWriter answer = ServerAnswer();
  AnswerWriter baseline = ServerAnswer();
  bool unasked = false;  // sends the baseline even so
  int fetches = 0;
  std::optional<std::vector<profd::v1::Profile>> raw;  // sent instead
  profd::v1::GetStatusResponse status;
  profd::v1::GetMemoryResponse memory = GrowingMemory();
  grpc::Status outcome, memory_outcome;
  profd::v1::FetchRequest asked;
  profd::v1::GetMemoryRequest asked_memory;
};

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

// What profctl makes of an answer.
std::string Summary(const AnswerWriter& answer, const std::string& filter = "") {
  const Profile profile = answer.Build();
  View view = MakeView(profile, false);
  view.filter = filter;
  return RenderSummary(view, false);
}
std::string FlameGraph(const AnswerWriter& answer, const FlameGraphOptions& options = {},
                       const std::string& filter = "") {
  const Profile profile = answer.Build();
  View view = MakeView(profile, false);
  view.filter = filter;
  return RenderFlameGraph(view, options);
}
std::string Folded(const AnswerWriter& answer, bool idle = false) {
  const Profile profile = answer.Build();
  return RenderFolded(MakeView(profile, idle));
}

// What ServerAnswer lost.
constexpr char kServerLoss[] = "profctl: lost 4 torn_walk, 40.0 ms (usual, nothing to do)\n";

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("PROFCTL_SERVER");
    std::string pattern = fs::temp_directory_path() / "profctl-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    before_ = fs::current_path();
    fs::current_path(directory_);
    address_ = "unix://" + (directory_ / "d.sock").string();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), nullptr);
    builder.RegisterService(&daemon_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    server_->Shutdown();
    fs::current_path(before_);
    fs::remove_all(directory_);
  }

  Outcome RunAt(const std::string& address, std::vector<std::string> arguments) {
    std::vector<std::string> all = {"profctl", "--server", address};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<const char*> argv;
    for (const std::string& argument : all) argv.push_back(argument.c_str());
    std::ostringstream out, err;
    const int code = profctl::Run(static_cast<int>(argv.size()), argv.data(), out, err, {});
    return {code, out.str(), err.str()};
  }
  Outcome Do(std::vector<std::string> arguments) { return RunAt(address_, std::move(arguments)); }

  // Every error is one line that begins with the program's name.
  void ExpectFailure(const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err, "profctl: " + message + "\n");
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  void ExpectUsageError(const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "profctl: " + message + " (see profctl --help)\n");
    EXPECT_THAT(outcome.out, IsEmpty());
  }

  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.is_regular_file() && !entry.is_symlink()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string Content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  FakeDaemon daemon_;
  std::unique_ptr<grpc::Server> server_;
  fs::path directory_, before_;
  std::string address_;
};

TEST_F(CommandsTest, WritesAFlameGraphAndPrintsASummary) {
  const Outcome outcome = Do({"fetch"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(Files(), ElementsAre("profd-reth-4242-20260131T130600Z.svg"));
  EXPECT_EQ(outcome.out, Summary(ServerAnswer()) +
                             "\nFlame graph: profd-reth-4242-20260131T130600Z.svg (open it in a "
                             "browser)\n");
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(Content(Files()[0]), FlameGraph(ServerAnswer()));
}

TEST_F(CommandsTest, NeverReplacesAFileThatWasNotNamed) {
  ASSERT_EQ(Do({"fetch"}).code, 0);
  ASSERT_EQ(Do({"fetch"}).code, 0);
  ASSERT_EQ(Do({"fetch", "--format", "svg"}).code, 0);
  EXPECT_THAT(Files(), ElementsAre("profd-reth-4242-20260131T130600Z-1.svg",
                                   "profd-reth-4242-20260131T130600Z-2.svg",
                                   "profd-reth-4242-20260131T130600Z.svg"));
}

TEST_F(CommandsTest, DataGoesToStdoutAndRemarksToStderr) {
  const std::string remarks =
      std::string("profctl: 517 s of idle waits folded away; --idle shows them\n") + kServerLoss;
  const Outcome folded = Do({"fetch", "--format", "folded"});
  ASSERT_EQ(folded.code, 0) << folded.err;
  EXPECT_EQ(folded.out, Folded(ServerAnswer()));
  EXPECT_EQ(folded.err, remarks);
  const Outcome json = Do({"fetch", "--format", "json", "-o", "-"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.out, WrittenJson(ServerAnswer()));
  EXPECT_EQ(json.err, kServerLoss) << "nothing is folded away";
  const Outcome svg = Do({"fetch", "-o", "-"});
  EXPECT_EQ(svg.out, FlameGraph(ServerAnswer()));
  EXPECT_EQ(svg.err, remarks);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, IdleShowsIdleWaits) {
  EXPECT_NE(Folded(ServerAnswer(), true), Folded(ServerAnswer(), false));
  EXPECT_EQ(Do({"fetch", "--format", "folded"}).out, Folded(ServerAnswer(), false));
  const Outcome shown = Do({"fetch", "--format", "folded", "--idle"});
  EXPECT_EQ(shown.out, Folded(ServerAnswer(), true));
  EXPECT_EQ(shown.err, kServerLoss);
}

TEST_F(CommandsTest, FormatFollowsTheFile) {
  const Profile profile = ServerAnswer().Build();
  const Profile ungrouped = ServerAnswer().Build({});
  const std::vector<View> views = {MakeView(profile, false)};
  const std::string json = WrittenJson(ServerAnswer());
  const std::vector<std::array<std::string, 3>> files = {
      {"a.svg", "Flame graph: a.svg (open it in a browser)\n", FlameGraph(ServerAnswer())},
      {"a.folded", "Folded stacks: a.folded\n", Folded(ServerAnswer())},
      {"a.json", "JSON: a.json\n", json},
      {"a.pb.gz", "pprof: a.pb.gz\n", *RenderPprof({MakeView(ungrouped, false)})},
      {"a.speedscope.json", "speedscope: a.speedscope.json\n", RenderSpeedscope(views)}};
  for (const auto& [name, written, content] : files) {
    const Outcome outcome = Do({"fetch", "-o", name});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    // What is not grouped has a summary of its own.
    if (name != "a.json" && name != "a.pb.gz") {
      EXPECT_EQ(outcome.out, Summary(ServerAnswer()) + "\n" + written);
    }
    EXPECT_TRUE(outcome.out.ends_with("\n\n" + written)) << outcome.out;
    EXPECT_THAT(outcome.err, IsEmpty());
    EXPECT_EQ(Content(name), content) << name;
  }
  ASSERT_EQ(Do({"fetch", "-o", "x", "--format", "json"}).code, 0);
  EXPECT_EQ(Content("x"), json);
}

TEST_F(CommandsTest, FilesAppearWholeOrNotAtAll) {
  std::ofstream("old.json") << "old";
  fs::create_symlink("old.json", "link.json");
  ASSERT_EQ(Do({"fetch", "-o", "link.json"}).code, 0);
  EXPECT_TRUE(fs::is_symlink("link.json"));
  EXPECT_EQ(Content("old.json"), WrittenJson(ServerAnswer()));
  // The summary is not lost with the file.
  for (const auto& [arguments, error] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"fetch", "-o", "missing/a.svg"},
            "cannot write missing/a.svg: No such file or directory"},
           {{"fetch", "-o", "/dev/full", "--format", "svg"},
            "cannot write /dev/full: No space left on device"}}) {
    Outcome outcome = Do(arguments);
    EXPECT_EQ(outcome.out, Summary(ServerAnswer()) + "\n");
    outcome.out.clear();
    ExpectFailure(outcome, error);
  }
  daemon_.raw = ServerAnswer().Parts();
  daemon_.raw->pop_back();
  ExpectFailure(Do({"fetch", "-o", "new.json"}),
                "the answer is incomplete: the stream ended before its last part; try again, or "
                "see profd's log");
  EXPECT_THAT(Files(), ElementsAre("old.json"));
}

TEST_F(CommandsTest, ADirectoryThatCannotBeWrittenLosesTheFileAlone) {
  REQUIRE_FACT("root");  // to become somebody who may not write
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory_ / "d.sock").c_str(), 0666), 0);
  ASSERT_EQ(seteuid(65534), 0);
  Outcome outcome = Do({"fetch"});
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(outcome.out, Summary(ServerAnswer()));
  outcome.out.clear();
  ExpectFailure(outcome,
                "cannot write profd-reth-4242-20260131T130600Z.svg: Permission denied; choose "
                "another place with -o FILE, or leave the graph out with --format text");
}

TEST_F(CommandsTest, TheSummaryAlone) {
  const Outcome printed = Do({"fetch", "--format", "text"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out, Summary(ServerAnswer()));
  EXPECT_EQ(printed.err, "");
  const std::string path = (directory_ / "summary.txt").string();
  const Outcome written = Do({"fetch", "-o", path});
  EXPECT_EQ(written.out, "Summary: " + path + "\n") << written.err;
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), printed.out);
}

TEST_F(CommandsTest, StacksAndThreadsAskForWhatIsGiven) {
  const Outcome stacks = Do({"stacks", "--target", "4242", "--thread", "^tokio"});
  ASSERT_EQ(stacks.code, 0) << stacks.err;
  EXPECT_EQ(daemon_.asked_stacks.targets(0), "4242");
  EXPECT_EQ(daemon_.asked_stacks.thread_regex(), "^tokio");
  EXPECT_TRUE(stacks.out.starts_with("Threads of reth (4242)\n")) << stacks.out;
  EXPECT_TRUE(nlohmann::json::parse(Do({"stacks", "--format", "json"}).out).contains("threads"));
  ExpectUsageError(Do({"stacks", "--thread", "("}),
                   "--thread: '(' is not a regular expression: missing ): (");

  ExpectUsageError(Do({"threads", "--since", "0s"}), "--since: must be longer than 0");
  // The fake daemon has waits alone.
  daemon_.outcome = grpc::Status(grpc::StatusCode::NOT_FOUND, "nobody");
  EXPECT_EQ(Do({"threads", "--since", "10s", "--thread", "x"}).code, 1);
  EXPECT_EQ(daemon_.asked.window().since_ns(), 10'000'000'000);
  EXPECT_EQ(daemon_.asked.thread_regex(), "x");
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("offcpu", "alloc"));
}

TEST_F(CommandsTest, GraphOptionsReachTheFile) {
  ASSERT_EQ(Do({"fetch", "--title", "Before <it>", "--width", "800", "--height", "24", "--inverted",
                "--reverse", "--colors", "safe", "--min-width", "2%", "-o", "a.svg"})
                .code,
            0);
  EXPECT_EQ(Content("a.svg"), FlameGraph(ServerAnswer(), {.title = "Before <it>",
                                                          .width = 800,
                                                          .frame_height = 24,
                                                          .min_width = {2, true},
                                                          .colours = ColourScheme::kSafe,
                                                          .inverted = true,
                                                          .reversed = true}));
}

TEST_F(CommandsTest, EveryTimeThatIsPrintedIsATime) {
  daemon_.status.set_started_ns(1'769'864'700'000'000'000);
  daemon_.status.set_oldest_ns(1'769'864'701'000'000'000);
  std::string pages = Do({"fetch"}).out;
  pages += Do({"memory"}).out + Do({"status"}).out;
  ASSERT_EQ(Files().size(), 1u);
  pages += Content(Files()[0]);
  const RE2 time(R"((\d{4}-\d\d-\d\d[T ][0-9:.]+(?:Z|[+-][0-9:]+)?|\b\d\d:\d\d:\d\dZ?))");
  re2::StringPiece rest(pages);
  std::string text;
  int count = 0;
  while (RE2::FindAndConsume(&rest, time, &text)) {
    const TimeContext context = {.now_ns = 1'800'000'000'000'000'000};
    EXPECT_TRUE(ParseTime(text, context).ok()) << text;
    ++count;
  }
  EXPECT_GE(count, 10) << pages;
}

CommandUsage ProfctlUsage() {
  Typed typed;
  CLI::App app;
  DefineCommandLine(app, typed);
  return DescribeCommand(app);
}

TEST_F(CommandsTest, CompletionNeedsNoDaemon) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = RunAt("unix:///nonexistent", {"completion", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, shell == std::string("bash")  ? BashCompletion(ProfctlUsage())
                           : shell == std::string("zsh") ? ZshCompletion(ProfctlUsage())
                                                         : FishCompletion(ProfctlUsage()));
  }
}

TEST_F(CommandsTest, AsksForWhatWasTyped) {
  const Outcome outcome =
      Do({"fetch", "--since", "5m", "--to", "1769864760", "--target", "4242", "--target", "^re",
          "--thread", "tokio", "--reason", "lock,disk", "--reason", "lock", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(daemon_.asked.window().since_ns(), 300'000'000'000);
  EXPECT_EQ(daemon_.asked.window().end_ns(), 1'769'864'760'000'000'000);
  EXPECT_THAT(daemon_.asked.targets(), ElementsAre("4242", "^re"));
  EXPECT_EQ(daemon_.asked.thread_regex(), "tokio");
  EXPECT_THAT(daemon_.asked.reasons(), ElementsAre(profd::v1::REASON_LOCK, profd::v1::REASON_DISK));
  ASSERT_EQ(Do({"fetch", "--from", "2020-01-31T13:05:00Z", "--format", "json"}).code, 0);
  EXPECT_EQ(daemon_.asked.window().begin_ns(), 1'580'475'900'000'000'000);
  EXPECT_EQ(daemon_.asked.window().since_ns(), 0);
}

TEST_F(CommandsTest, WrongCommandLines) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"completion"},
      {"completion", "csh"},
      {"fetch", "-o", "a.png"},
      {"dance"},
      {"fetsh"},
      {"fetch", "--sinse", "5s"},
      {"fetch", "--sinse=5s"},
      {"fetch", "redis"},
      {"fetch", "--bogus"},
      {"fetch", "--since"},
      {"fetch", "--since", "60"},
      {"fetch", "--since", "0s"},
      {"fetch", "--since", "-5s"},
      {"fetch", "--since", "5s", "--from", "1"},
      {"fetch", "--from", "noon"},
      {"fetch", "--from", "9000000000"},
      {"fetch", "--from", "20", "--to", "10"},
      {"fetch", "--target", "("},
      {"fetch", "--target", ""},
      {"fetch", "--thread", "["},
      {"fetch", "--reason", "boredom"},
      {"fetch", "--format", "gif"},
      {"fetch", "--by", "moon"},
      {"fetch", "--kind", "heap"},
      {"fetch", "--width", "7"},
      {"fetch", "--height", "tall"},
      {"fetch", "--height", "9"},
      {"fetch", "--min-width", "x"},
      {"fetch", "--min-width", "101%"},
      {"fetch", "--min-width", "nan"},
      {"fetch", "--colors", "x"},
      {"fetch", "--title", "x", "--format", "json"},
      {"fetch", "--inverted", "-o", "x.folded"},
      {"fetch", "--kind", "alloc", "--reason", "lock"},
      {"fetch", "--kind", "cpu", "--reason", "lock"},
      {"fetch", "--kind", "alloc,free", "--format", "folded"},
      {"fetch", "--kind", "alloc,free", "-o", "x.svg"},
      {"fetch", "--idle", "--kind", "free"},
      {"status", "--format", "svg"},
      {"memory", "--format", "svg"},
      {"memory", "--since", "5s", "--from", "1"},
      {"diff", "5m"},
      {"diff", "5m", "yesterday's"},
      {"diff", "5m", "6m", "--kind", "alloc,free"},
      {"diff", "5m", "6m", "--fail-over", "ten"},
      {"diff", "5m", "6m", "-o", "diff.png"},
      {"diff", "5m", "6m", "--format", "folded"},
      {"diff", "5m", "6m", "--width-of", "b"},
      {"diff", "5m", "6m", "--format", "svg", "--width-of", "c"},
      {"diff", "5m", "6m", "--format", "json", "--inverted"},
      {"diff", "5m", "6m", "--format", "svg", "--width", "5"},
      {"memory", "--since", "0s"},
      {"memory", "--target", "("},
      {"memory", "--kind", "alloc"},
      {"stacks", "--since", "5s"},
      {"stacks", "--thread", "("},
      {"threads", "--sort", "x"},
      {"top", "--interval", "10ms"},
      {"top", "--filter", "("},
      {"top", "--once", "--rounds", "2"},
      {"why", "--depth", "0"},
      {"why", "--depth", "21"},
      {"why", "--reason", "on-cpu"},
      {"why", "--thread", "["},
      {"why", "--target", ""},
      {"why", "--idle"},
  };
  std::string page;
  for (const std::vector<std::string>& arguments : wrong) {
    const Outcome outcome = Do(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    absl::StrAppend(&page, "$ profctl ", absl::StrJoin(arguments, " "), "\n", outcome.err);
  }
  ExpectGolden(page, "usage-errors.txt");
  for (const std::string address : {"", "nonsense", "unix://relative", "unix:///", "host:", ":1",
                                    "host:99999", "host:x", "a b:1", "http://x:1"}) {
    ExpectUsageError(RunAt(address, {"status"}),
                     "'" + address + "' is not a valid address; use unix:///PATH or HOST:PORT");
  }
  ExpectUsageError(RunAt("/run/x.sock", {"status"}),
                   "'/run/x.sock' is not a valid address; use unix:///run/x.sock");
}

TEST_F(CommandsTest, HelpMatchesGolden) {
  EXPECT_EQ(Do({"--version"}).out, "profctl " PROFD_VERSION "\n");
  for (const char* command : {"", "fetch", "diff", "why", "bottlenecks", "worst", "locks", "stacks",
                              "threads", "top", "memory", "status", "completion"}) {
    std::vector<std::string> arguments = {"--help"};
    if (*command != '\0') arguments.insert(arguments.begin(), command);
    const Outcome help = Do(arguments);
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.err, IsEmpty());
    std::string text = help.out;
    // The address of this test stands for the default.
    absl::StrReplaceAll({{address_, "unix:///run/profd/profd.sock"}}, &text);
    ExpectGolden(text, absl::StrCat("help", *command == '\0' ? "" : "-", command, ".txt"));
  }
}

TEST_F(CommandsTest, HelpHasEveryValue) {
  const std::string fetch = "\n" + Do({"fetch", "--help"}).out;
  const auto expect_line = [&](std::string_view name, std::string_view meaning) {
    const std::string line =
        "\n  " + PadRight(absl::StrCat(std::string(name), " "), 10) + std::string(meaning) + "\n";
    EXPECT_NE(fetch.find(line), std::string::npos) << line;
  };
  for (const ReasonInfo& reason : AllReasons()) expect_line(reason.name, reason.meaning);
  for (const SampleTypeInfo& kind : AllSampleTypes()) expect_line(kind.name, kind.meaning);
  for (const GroupByInfo& group : AllGroupBys()) expect_line(group.name, group.meaning);
  for (const ColourSchemeInfo& info : AllColourSchemes()) expect_line(info.name, info.meaning);
}

TEST_F(CommandsTest, SaysWhyTheDaemonCannotBeReached) {
  const std::string start =
      "; start it with 'sudo profd --target PID|REGEX', or set its address with --server or "
      "PROFCTL_SERVER";
  const std::string nobody = "unix://" + (directory_ / "nobody.sock").string();
  for (const char* command : {"fetch", "status", "memory"}) {
    ExpectFailure(RunAt(nobody, {command}), "cannot connect to profd at " + nobody +
                                                ": no such socket; profd is probably not running" +
                                                start);
  }
  std::ofstream(directory_ / "file") << "";
  const std::string file = "unix://" + (directory_ / "file").string();
  ExpectFailure(RunAt(file, {"status"}), "cannot connect to profd at " + file +
                                             ": nothing listens there; profd has probably exited" +
                                             start);
  const std::string longest = "unix:///" + std::string(200, 'x');
  ExpectFailure(RunAt(longest, {"status"}),
                "the socket path of " + longest + " is longer than 107 bytes");
  ExpectFailure(RunAt("127.0.0.1:1", {"status"}),
                "cannot connect to profd at 127.0.0.1:1: no profd answers there; check its "
                "--listen HOST:PORT and any firewall");
}

TEST_F(CommandsTest, SaysThatTheSocketIsForbidden) {
  REQUIRE_FACT("root");
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory_ / "d.sock").c_str(), 0600), 0);
  ASSERT_EQ(seteuid(65534), 0);
  const Outcome outcome = Do({"status"});
  ASSERT_EQ(seteuid(0), 0);
  ExpectFailure(outcome, "cannot connect to profd at " + address_ +
                             ": permission denied on the socket; run profctl as root or as a user "
                             "with write access to it (ls -l " +
                             (directory_ / "d.sock").string() + ")");
}

TEST_F(CommandsTest, ServerFromTheEnvironment) {
  setenv("PROFCTL_SERVER", address_.c_str(), 1);
  const char* argv[] = {"profctl", "status"};
  std::ostringstream out, err;
  EXPECT_EQ(profctl::Run(2, argv, out, err, {}), 0) << err.str();
  unsetenv("PROFCTL_SERVER");
}

TEST_F(CommandsTest, ErrorsOfTheDaemonComeWithARemedy) {
  const std::vector<std::pair<grpc::StatusCode, std::string>> remedies = {
      {grpc::StatusCode::NOT_FOUND, "; 'profctl status' lists what it watches"},
      {grpc::StatusCode::UNAVAILABLE, "; it is stopping or has exited; see its log"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "; try again, or request less"},
      {grpc::StatusCode::UNIMPLEMENTED, "; the server is not profd, or a different version"},
      {grpc::StatusCode::DEADLINE_EXCEEDED,
       "; it did not answer in time; use a shorter window, or see its log"},
      {grpc::StatusCode::INVALID_ARGUMENT, ""},
  };
  daemon_.raw.emplace();
  for (const auto& [code, remedy] : remedies) {
    daemon_.outcome = grpc::Status(code, "no target\nmatches");
    ExpectFailure(Do({"fetch"}), "profd at " + address_ + ": no target?matches" + remedy);
  }
}

std::string Damaged(const std::string& why) {
  return "the answer is damaged (" + why + "); check that profd and profctl have the same version";
}

TEST_F(CommandsTest, DamagedAnswersAreRefused) {
  daemon_.raw = ServerAnswer().Parts();
  daemon_.raw->erase(daemon_.raw->begin() + 1);
  ExpectFailure(Do({"fetch"}), Damaged("a sample refers to an unknown stack"));
  // Names are there even if nothing refers to what they name: pprof's tables have all of it.
  constexpr uint32_t kNoString = 1'000'000;
  daemon_.raw = ServerAnswer().Parts();
  daemon_.raw->front().add_mappings()->set_headers_id(kNoString);
  ExpectFailure(Do({"fetch", "--format", "pprof", "-o", "x.pb.gz"}),
                Damaged("a mapping has an unknown name"));
  for (const auto set : {&profd::v1::Function::set_name, &profd::v1::Function::set_file,
                         &profd::v1::Function::set_suffix, &profd::v1::Function::add_other_names}) {
    daemon_.raw = ServerAnswer().Parts();
    (daemon_.raw->front().add_functions()->*set)(kNoString);
    ExpectFailure(Do({"fetch"}), Damaged("a function has an unknown name"));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, AllocationsFromTheCommandLineToTheFile) {
  ASSERT_EQ(Do({"fetch"}).code, 0);
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("offcpu"));
  ASSERT_EQ(Do({"fetch", "--kind", "offcpu", "--reason", "lock", "--idle"}).code, 0);

  daemon_.answer = AllocAnswer();
  const Outcome outcome = Do({"fetch", "--kind", "alloc", "--thread", "tokio"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("alloc"));
  EXPECT_EQ(outcome.out, Summary(AllocAnswer(), "thread tokio") +
                             "\nFlame graph: profd-reth-4242-alloc-20260131T130600Z.svg (open it "
                             "in a browser)\n");
  EXPECT_EQ(Content("profd-reth-4242-alloc-20260131T130600Z.svg"),
            FlameGraph(AllocAnswer(), {}, "thread tokio"));
  const Outcome folded = Do({"fetch", "--kind", "alloc", "--format", "folded"});
  EXPECT_EQ(folded.out, Folded(AllocAnswer()));
  EXPECT_THAT(folded.err, IsEmpty());
  const std::string text = Do({"fetch", "--kind", "alloc", "--format", "json"}).out;
  EXPECT_EQ(nlohmann::json::parse(text)["sample_types"][0]["unit"], "bytes");

  daemon_.answer = FreeAnswer();
  const Outcome freed = Do({"fetch", "--kind", "free"});
  ASSERT_EQ(freed.code, 0) << freed.err;
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("free"));
  EXPECT_EQ(freed.out,
            Summary(FreeAnswer()) +
                "\nFlame graph: profd-redis-server-77-free-20260131T130600Z.svg (open it "
                "in a browser)\n");
}

TEST_F(CommandsTest, AnAnswerOfAnotherKindIsRefused) {
  daemon_.answer = FreeAnswer();
  const std::string damaged = Damaged("it does not have the requested sample types");
  ExpectFailure(Do({"fetch", "--kind", "alloc"}), damaged);
  ExpectFailure(Do({"fetch"}), damaged);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, GroupsAreAskedFor) {
  using namespace profd::v1;  // NOLINT: the keys
  ASSERT_EQ(Do({"fetch"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(), ElementsAre(GROUP_KEY_PROCESS_NAME, GROUP_KEY_THREAD_NAME));
  ASSERT_EQ(Do({"fetch", "--format", "json"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(), IsEmpty());
  ASSERT_EQ(Do({"fetch", "--by", "thread,process", "--format", "folded"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(), ElementsAre(GROUP_KEY_PROCESS, GROUP_KEY_THREAD));
  for (const GroupByInfo& info : AllGroupBys()) {
    const Outcome outcome =
        Do({"fetch", "--by", std::string(info.name), "--format", "json", "-o", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(daemon_.asked.group_by(), ::testing::ElementsAreArray(info.keys));
  }
}

TEST_F(CommandsTest, MissingAllocationsAreRemarkedOn) {
  daemon_.answer = UncoveredAnswer();
  EXPECT_EQ(
      Do({"fetch", "--kind", "alloc", "--format", "folded"}).err,
      "profctl: allocations were not watched for 12.0 s of 60.0 s: memory allocated during "
      "that time is unknown\n"
      "profctl: no probe saw 1,152 events with 78.0 MiB (52.0% of the bytes); their bytes are "
      "attributed to the stacks that were seen\n");
  daemon_.answer = UnwatchedAnswer();
  const Outcome none = Do({"fetch", "--kind", "alloc", "--format", "folded"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_EQ(none.err,
            "profctl: allocations were not watched in this window: 'profctl status' says why\n");
}

TEST_F(CommandsTest, StatusIsAPageOrAnObject) {
  daemon_.status = AllocatorsStatus();
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, RenderStatusText(daemon_.status, 0, false));
  const Outcome json = Do({"status", "--format", "json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.out, RenderStatusJson(daemon_.status));
}

TEST_F(CommandsTest, StatusCanTellHowFunctionsGotTheirNames) {
  daemon_.status = AllocatorsStatus();
  daemon_.answer = ServerAnswer();
  const Outcome names = Do({"status", "--names"});
  ASSERT_EQ(names.code, 0) << names.err;
  EXPECT_THAT(names.out, HasSubstr("Names of functions in the last minute\n  offcpu     "));
  // The answer has no samples of the CPU.
  EXPECT_THAT(names.out, HasSubstr("\n  cpu        "));
}

TEST_F(CommandsTest, LocksAreAPageOrAnObject) {
  daemon_.answer = AnswerWriter(profd::Kind::kLocks);
  daemon_.answer.AddThread(1, 2, "server", "worker", 100, 0);
  const Outcome page = Do({"locks", "--since", "5min", "--target", "server", "--thread", "^w"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out, ::testing::HasSubstr("Lock contention of server (1)"));
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("locks"));
  EXPECT_THAT(daemon_.asked.targets(), ElementsAre("server"));
  EXPECT_EQ(daemon_.asked.thread_regex(), "^w");
  EXPECT_EQ(daemon_.asked.window().since_ns(), 300'000'000'000);
  const Outcome json = Do({"locks", "--format", "json"});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_THAT(json.out, ::testing::HasSubstr("\"locks\":[]"));
  EXPECT_EQ(daemon_.asked.group_by_size(), 0) << "complete";
  EXPECT_EQ(json.out, Do({"fetch", "--kind", "locks", "--format", "json"}).out);
  EXPECT_EQ(Do({"locks", "--sort", "name"}).code, 2);
  EXPECT_EQ(Do({"locks", "--thread", "("}).code, 2);
}

TEST_F(CommandsTest, MissingLayersAreRemarkedOn) {
  daemon_.answer = ShedAnswer();
  const std::string remarks =
      "profctl: the switch layer was off for 12.0 s of 60.0 s: reasons for 11.0 s of waits are "
      "estimated from 1,120 ticks\n";
  EXPECT_EQ(Do({"fetch", "--format", "folded"}).err, remarks);
  EXPECT_EQ(Do({"fetch", "-o", "-"}).err, remarks);
}

TEST_F(CommandsTest, MemoryAsksOnceForTheWindowAndForItsSites) {
  setenv("LC_ALL", "C", 1);
  daemon_.raw.emplace();  // a Fetch would fail
  profd::v1::AllocationSite& site = *daemon_.memory.mutable_processes(0)->add_sites();
  site.set_function("BranchNodeRef::rlp");
  site.set_bytes(5);
  site.set_process_bytes(10);
  const Outcome text =
      Do({"memory", "--since", "5m", "--to", "1769864760", "--target", "4242", "--target", "^re"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.err, IsEmpty());
  EXPECT_EQ(daemon_.asked_memory.window().since_ns(), 300'000'000'000);
  EXPECT_EQ(daemon_.asked_memory.window().end_ns(), 1'769'864'760'000'000'000);
  EXPECT_THAT(daemon_.asked_memory.targets(), ElementsAre("4242", "^re"));
  EXPECT_EQ(daemon_.asked_memory.max_sites(), 5u);
  const MemoryReport report = {.memory = daemon_.memory, .past = true};
  EXPECT_EQ(text.out, RenderMemoryText(report, false, false));
  EXPECT_THAT(Files(), IsEmpty());

  ASSERT_EQ(Do({"memory", "--from", "2020-01-31T13:05:00Z"}).code, 0);
  EXPECT_EQ(daemon_.asked_memory.window().begin_ns(), 1'580'475'900'000'000'000);
  const auto json = nlohmann::json::parse(Do({"memory", "--format", "json"}).out);
  EXPECT_EQ(json["format"], "profd-memory");
  EXPECT_EQ(json["processes"][0]["sites"].size(), 1u);
}

TEST_F(CommandsTest, MemoryErrorsAreOneLine) {
  daemon_.memory_outcome = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  ExpectFailure(Do({"memory"}), "profd at " + address_ +
                                    ": failed without a message; the server is not profd, or a "
                                    "different version");
  daemon_.memory_outcome = grpc::Status(grpc::StatusCode::NOT_FOUND, "no process matches \"x\"");
  ExpectFailure(Do({"memory", "--target", "x"}),
                "profd at " + address_ +
                    ": no process matches \"x\"; 'profctl status' lists what it watches");
  daemon_.memory_outcome = grpc::Status::OK;
  daemon_.memory.mutable_processes(0)->clear_points();
  ExpectFailure(Do({"memory"}), Damaged("a process without points"));
}

TEST_F(CommandsTest, MemoryPlotsWhatTheTerminalShows) {
  daemon_.memory.mutable_processes(0)->clear_allocated_bytes();
  const auto plots_unicode = [&] {
    return Do({"memory"}).out.find("\xe2\x94\x82") != std::string::npos;
  };
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) unsetenv(name);
  EXPECT_FALSE(plots_unicode());
  setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(plots_unicode());
  setenv("LC_CTYPE", "C", 1);
  EXPECT_FALSE(plots_unicode()) << "it stands above LANG";
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(plots_unicode());
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) unsetenv(name);
  const MemoryReport report = {.memory = daemon_.memory, .past = false};
  EXPECT_EQ(Do({"memory"}).out, RenderMemoryText(report, false, false));
  EXPECT_EQ(Do({"memory", "--color"}).out, RenderMemoryText(report, true, false));
}

TEST_F(CommandsTest, DiffComparesFilesAndWindows) {
  ASSERT_EQ(Do({"fetch", "-o", "a.json"}).code, 0);
  const Outcome same = Do({"diff", "a.json", "a.json", "--fail-over", "0%"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(
      nlohmann::json::parse(Do({"diff", "a.json", "a.json", "--format", "json"}).out)["changed"],
      0);
  // The same answer by name, from the daemon.
  const Outcome window = Do({"diff", "a.json", "5m", "--target", "reth"});
  EXPECT_EQ(window.code, 0) << window.err;
  EXPECT_EQ(window.out, same.out);
  EXPECT_THAT(daemon_.asked.targets(), ElementsAre("reth"));
  EXPECT_GT(daemon_.asked.window().begin_ns(), 0);

  const uint32_t thread = daemon_.answer.AddThread(4242, 5000, "reth", "new-thread", 1, 0);
  daemon_.answer.AddSample(thread, profd::v1::REASON_DISK,
                           {{"grown", "reth", profd::v1::FRAME_KIND_APPLICATION}}, 60'000'000'000,
                           100'000'000);
  const Outcome grew = Do({"diff", "a.json", "5m", "--fail-over", "10%"});
  EXPECT_EQ(grew.code, 3) << grew.err;
  ExpectGolden(grew.out, "diff-grew.txt");
  EXPECT_THAT(grew.err, IsEmpty());
  EXPECT_EQ(Do({"diff", "a.json", "5m", "--fail-over", "90%"}).code, 0);
  const auto json = nlohmann::json::parse(Do({"diff", "a.json", "5m", "--format", "json"}).out);
  EXPECT_EQ(json["changed"], 1);
  EXPECT_EQ(json["rows"][0]["group"], "reth/new-thread");

  std::ofstream("bad.json") << "{\"strings\": [\"\"]}";
  ExpectFailure(Do({"diff", "bad.json", "a.json"}),
                "bad.json: " + Damaged("its first part has no sample types"));
  std::ofstream("worse.json") << "moon";
  profd::v1::Profile none;
  const std::string moon(ParseJson("moon", &none).message());
  ExpectFailure(Do({"diff", "worse.json", "a.json"}), "worse.json: " + CleanName(moon));
  ExpectFailure(Do({"diff", "a.json", "a.json", "--kind", "alloc"}),
                "a.json contains no 'alloc'; use --kind to name one that it contains");
}

TEST_F(CommandsTest, TwoWindowsAreOneRequest) {
  const uint32_t thread = daemon_.baseline.AddThread(4242, 5000, "reth", "old-thread", 1, 0);
  daemon_.baseline.AddSample(thread, profd::v1::REASON_DISK,
                             {{"shrunk", "reth", profd::v1::FRAME_KIND_APPLICATION}},
                             60'000'000'000, 100'000'000);
  const Outcome outcome = Do({"diff", "10m..5m", "5m", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(daemon_.fetches, 1);
  EXPECT_LT(daemon_.asked.baseline().begin_ns(), daemon_.asked.baseline().end_ns());
  EXPECT_EQ(daemon_.asked.baseline().end_ns(), daemon_.asked.window().begin_ns());
  EXPECT_EQ(daemon_.asked.window().end_ns(), 0) << "up to the daemon's now";
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["changed"], 1);
  EXPECT_EQ(json["rows"][0]["frames"][0], "shrunk");
  EXPECT_LT(json["rows"][0]["change"], 0) << "A is the baseline";

  daemon_.unasked = true;
  ExpectFailure(Do({"fetch"}), Damaged("a window that was not asked for"));
}

TEST_F(CommandsTest, DiffWritesAFileAfterItsPage) {
  const Outcome page = Do({"diff", "10m..5m", "5m"});
  ASSERT_EQ(page.code, 0) << page.err;
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const Outcome svg =
      Do({"diff", "10m..5m", "5m", "-o", "x.svg", "--width-of", "max", "--title", "T"});
  ASSERT_EQ(svg.code, 0) << svg.err;
  EXPECT_EQ(svg.out, page.out + "\nFlame graph: x.svg (open it in a browser)\n");
  EXPECT_THAT(read("x.svg"), AllOf(HasSubstr("<title>T</title>"), HasSubstr("width: the larger")));
  EXPECT_EQ(Do({"diff", "10m..5m", "5m", "-o", "x.txt"}).out, page.out + "\nText: x.txt\n");
  EXPECT_EQ(read("x.txt"), page.out);
  EXPECT_EQ(Do({"diff", "10m..5m", "5m", "-o", "x.json"}).out, page.out + "\nJSON: x.json\n");
  EXPECT_EQ(read("x.json"), Do({"diff", "10m..5m", "5m", "--format", "json"}).out);
  EXPECT_EQ(Do({"diff", "10m..5m", "5m", "--format", "svg", "-o", "-", "--width-of", "max",
                "--title", "T"})
                .out,
            read("x.svg"));
  const Outcome named = Do({"diff", "10m..5m", "5m", "--format", "svg"});
  EXPECT_THAT(named.out, HasSubstr("Flame graph: profd-reth-4242-diff-2026"));
  const Outcome nowhere = Do({"diff", "10m..5m", "5m", "-o", "none/x.svg"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.out, page.out + "\n");
}

TEST_F(CommandsTest, WhyAsksForAllProcessesAndSelectsThreads) {
  daemon_.raw = std::vector<profd::v1::Profile>{WakersAndCpu(daemon_.answer)};
  const Outcome page = Do({"why", "--since", "5min"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out, ::testing::HasSubstr("Why tokio-rt-worker waits"));
  EXPECT_EQ(daemon_.asked.window().since_ns(), 300'000'000'000);
  const Outcome json = Do({"why", "--target", "reth", "--thread", "^tokio.*-1$", "--reason", "lock",
                           "--format", "json"});
  EXPECT_EQ(json.code, 0) << json.err;
  const auto chain = nlohmann::json::parse(json.out)["chains"][0];
  EXPECT_EQ(chain["threads"], 1);
  EXPECT_EQ(chain["waits_ns"], 12'000'000'000);
  // Wakers may belong to any process.
  EXPECT_THAT(daemon_.asked.targets(), IsEmpty());
  EXPECT_THAT(daemon_.asked.thread_regex(), IsEmpty());
  EXPECT_THAT(daemon_.asked.reasons(), IsEmpty());
  EXPECT_THAT(daemon_.asked.sample_types(), ElementsAre("wakers", "cpu"));
  const auto process =
      nlohmann::json::parse(Do({"why", "--target", "4242", "--format", "json"}).out);
  EXPECT_EQ(process["chains"].size(), 3);
  EXPECT_GT(process["more_groups"], 0);
  for (const std::vector<std::string>& nobody :
       {std::vector<std::string>{"why", "--thread", "nobody"},
        {"why", "--target", "4243"},
        {"why", "--target", "^cat$"}}) {
    ExpectFailure(Do(nobody), "no thread in this window matches --target and --thread");
  }
}

TEST_F(CommandsTest, AnEmptyAnswerIsAnAnswer) {
  daemon_.answer = AnswerWriter();
  const Outcome outcome = Do({"fetch"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(outcome.out,
            Summary(AnswerWriter()) + "\nFlame graph: " + Files()[0] + " (open it in a browser)\n");
  EXPECT_THAT(Do({"fetch", "--format", "folded"}).out, IsEmpty());
}

}  // namespace
}  // namespace profctl
