// profctl from its command line to its exit status, against a server in this process.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli.h"
#include "client/group_by.h"
#include "client/text.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "profd/v1/profiler.grpc.pb.h"
#include "re2/re2.h"
#include "tests/support/machine.h"
#include "tests/unit/fixture_memory.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class FakeDaemon final : public profd::v1::Profiler::Service {
 public:
  grpc::Status Fetch(grpc::ServerContext*, const profd::v1::FetchRequest* request,
                     grpc::ServerWriter<profd::v1::Profile>* writer) override {
    asked = *request;
    std::vector<profd::v1::GroupKey> keys;
    for (const int key : request->group_by()) keys.push_back(static_cast<profd::v1::GroupKey>(key));
    // A test may change it as soon as its client has given up.
    const std::vector<profd::v1::Profile> parts = raw ? *raw : answer.Parts(keys);
    for (const profd::v1::Profile& part : parts) {
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

  AnswerWriter answer = ServerAnswer();
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
  void ExpectFailure(const Outcome& outcome, int code, const std::string& part) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("profctl: "));
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
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
  EXPECT_THAT(Files(), ::testing::ElementsAre("profd-reth-4242-20260131T130600Z.svg"));
  EXPECT_THAT(outcome.out, HasSubstr("tokio-rt-worker"));
  EXPECT_THAT(outcome.out, HasSubstr("Flame graph: profd-reth-4242-20260131T130600Z.svg"));
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(Content(Files()[0]), StartsWith("<?xml"));
}

TEST_F(CommandsTest, NeverReplacesAFileThatWasNotNamed) {
  ASSERT_EQ(Do({"fetch"}).code, 0);
  ASSERT_EQ(Do({"fetch"}).code, 0);
  ASSERT_EQ(Do({"fetch", "--format", "svg"}).code, 0);
  EXPECT_THAT(Files(), ::testing::ElementsAre("profd-reth-4242-20260131T130600Z-1.svg",
                                              "profd-reth-4242-20260131T130600Z-2.svg",
                                              "profd-reth-4242-20260131T130600Z.svg"));
}

TEST_F(CommandsTest, DataGoesToStdoutAndRemarksToStderr) {
  const Outcome folded = Do({"fetch", "--format", "folded"});
  ASSERT_EQ(folded.code, 0) << folded.err;
  EXPECT_THAT(folded.out, HasSubstr("mdbx_txn_commit"));
  EXPECT_THAT(folded.out, Not(HasSubstr("profctl:")));
  EXPECT_THAT(folded.err, HasSubstr("517 s of idle waits folded away; --idle shows them"));
  EXPECT_THAT(folded.err, HasSubstr("lost 4 torn_walk"));
  const Outcome json = Do({"fetch", "--format", "json", "-o", "-"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["sample_types"][0]["name"], "offcpu");
  EXPECT_THAT(Do({"fetch", "-o", "-"}).out, StartsWith("<?xml"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, IdleShowsIdleWaits) {
  EXPECT_THAT(Do({"fetch", "--format", "folded"}).out, Not(HasSubstr("park_condvar")));
  const Outcome shown = Do({"fetch", "--format", "folded", "--idle"});
  EXPECT_THAT(shown.out, HasSubstr("park_condvar"));
  EXPECT_THAT(shown.err, Not(HasSubstr("folded away")));
}

TEST_F(CommandsTest, FormatFollowsTheFile) {
  for (const char* name : {"a.svg", "a.folded", "a.json", "a.pb.gz", "a.speedscope.json"}) {
    const Outcome outcome = Do({"fetch", "-o", name});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, StartsWith("Off-CPU time of reth (4242)\n"));
    EXPECT_THAT(outcome.out, HasSubstr(std::string(": ") + name));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
  EXPECT_THAT(Content("a.svg"), StartsWith("<?xml"));
  EXPECT_THAT(Content("a.folded"), HasSubstr(";[lock] "));
  EXPECT_THAT(Content("a.json"), StartsWith("{\"window\":0,"));
  EXPECT_THAT(Content("a.pb.gz"), StartsWith("\x1f\x8b"));
  EXPECT_THAT(Content("a.speedscope.json"), HasSubstr("speedscope.app/file-format-schema.json"));
  ASSERT_EQ(Do({"fetch", "-o", "x", "--format", "json"}).code, 0);
  EXPECT_THAT(Content("x"), StartsWith("{"));
  ExpectFailure(Do({"fetch", "-o", "a.png"}), 2, "cannot tell the format of 'a.png'");
}

TEST_F(CommandsTest, FilesAppearWholeOrNotAtAll) {
  std::ofstream("old.json") << "old";
  fs::create_symlink("old.json", "link.json");
  ASSERT_EQ(Do({"fetch", "-o", "link.json"}).code, 0);
  EXPECT_TRUE(fs::is_symlink("link.json"));
  EXPECT_THAT(Content("old.json"), StartsWith("{"));
  // The summary is not lost with the file.
  for (const auto& [arguments, error] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"fetch", "-o", "missing/a.svg"}, "cannot write missing/a.svg"},
           {{"fetch", "-o", "/dev/full", "--format", "json"},
            "cannot write /dev/full: No space left on device"}}) {
    Outcome outcome = Do(arguments);
    EXPECT_THAT(outcome.out, StartsWith("Off-CPU time of reth (4242)\n"));
    outcome.out.clear();
    ExpectFailure(outcome, 1, error);
  }
  daemon_.raw = ServerAnswer().Parts();
  daemon_.raw->pop_back();
  ExpectFailure(Do({"fetch", "-o", "new.json"}), 1, "answer incomplete");
  EXPECT_THAT(Files(), ::testing::ElementsAre("old.json"));
}

TEST_F(CommandsTest, ADirectoryThatCannotBeWrittenLosesTheFileAlone) {
  REQUIRE_FACT("root");  // to become somebody who may not write
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory_ / "d.sock").c_str(), 0666), 0);
  ASSERT_EQ(seteuid(65534), 0);
  Outcome outcome = Do({"fetch"});
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(outcome.out, HasSubstr("How far this can be trusted"));
  outcome.out.clear();
  ExpectFailure(outcome, 1, "cannot write profd-reth-4242-20260131T130600Z.svg: Permission denied");
}

TEST_F(CommandsTest, GraphOptionsReachTheFile) {
  ASSERT_EQ(Do({"fetch", "--title", "Before <it>", "--width", "800", "--height", "24", "--inverted",
                "--reverse", "--colors", "safe", "--min-width", "2%", "-o", "a.svg"})
                .code,
            0);
  const std::string svg = Content("a.svg");
  for (const char* part : {"<title>Before &lt;it&gt;</title>", "width=\"800\"", "data-row=\"24\"",
                           "data-inverted=\"1\"", "reversed: stacks", "frames too narrow"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
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

TEST_F(CommandsTest, CompletionNeedsNoDaemon) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = RunAt("unix:///nonexistent", {"completion", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("unmapped"));
  }
  ExpectFailure(Do({"completion"}), 2, "SHELL is required");
  ExpectFailure(Do({"completion", "csh"}), 2, "'csh' is not bash, zsh or fish");
}

TEST_F(CommandsTest, AsksForWhatWasTyped) {
  const Outcome outcome =
      Do({"fetch", "--since", "5m", "--to", "1769864760", "--target", "4242", "--target", "^re",
          "--thread", "tokio", "--reason", "lock,disk", "--reason", "lock", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(daemon_.asked.window().since_ns(), 300'000'000'000);
  EXPECT_EQ(daemon_.asked.window().end_ns(), 1'769'864'760'000'000'000);
  EXPECT_THAT(daemon_.asked.targets(), ::testing::ElementsAre("4242", "^re"));
  EXPECT_EQ(daemon_.asked.thread_regex(), "tokio");
  EXPECT_THAT(daemon_.asked.reasons(),
              ::testing::ElementsAre(profd::v1::REASON_LOCK, profd::v1::REASON_DISK));
  ASSERT_EQ(Do({"fetch", "--from", "2020-01-31T13:05:00Z", "--format", "json"}).code, 0);
  EXPECT_EQ(daemon_.asked.window().begin_ns(), 1'580'475'900'000'000'000);
  EXPECT_EQ(daemon_.asked.window().since_ns(), 0);
}

TEST_F(CommandsTest, WrongCommandLines) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "no command: say fetch, diff, memory or status"},
      {{"dance"}, "dance"},
      {{"fetch", "--bogus"}, "--bogus"},
      {{"fetch", "--since"}, "--since"},
      {{"fetch", "--since", "60"}, "--since: '60' is not a duration"},
      {{"fetch", "--since", "0s"}, "--since: must be longer than 0"},
      {{"fetch", "--since", "-5s"}, "--since"},
      {{"fetch", "--since", "5s", "--from", "1"}, "cannot be combined"},
      {{"fetch", "--from", "noon"}, "--from: 'noon' is not a time"},
      {{"fetch", "--from", "9000000000"}, "lies in the future"},
      {{"fetch", "--from", "20", "--to", "10"}, "--to: must lie after --from"},
      {{"fetch", "--target", "("}, "--target: '(' is not a regular expression"},
      {{"fetch", "--target", ""}, "--target"},
      {{"fetch", "--thread", "["}, "--thread: '[' is not a regular expression"},
      {{"fetch", "--reason", "boredom"}, "'boredom' is not a reason; there are runqueue"},
      {{"fetch", "--format", "gif"}, "'gif' is not a format; there are svg, folded, json"},
      {{"fetch", "--by", "moon"}, "'moon' is not a group; there are name, thread, process"},
      {{"fetch", "--kind", "heap"}, "'heap' is not a kind of profile; there are offcpu, alloc"},
      {{"fetch", "--width", "7"}, "--width: 7 is not between 320 and 16384 pixels"},
      {{"fetch", "--height", "tall"}, "--height"},
      {{"fetch", "--height", "9"}, "--height: 9 is not between 10 and 64 pixels"},
      {{"fetch", "--min-width", "x"}, "--min-width: 'x' is not a width"},
      {{"fetch", "--min-width", "101%"}, "--min-width: '101%' is not a width"},
      {{"fetch", "--min-width", "nan"}, "--min-width: 'nan' is not a width"},
      {{"fetch", "--colors", "x"}, "--colors: 'x' is not a colour scheme; there are kind, safe"},
      {{"fetch", "--title", "x", "--format", "json"}, "--title: only flame graphs have it"},
      {{"fetch", "--inverted", "-o", "x.folded"}, "--inverted: only flame graphs have it"},
      {{"fetch", "--kind", "alloc", "--reason", "lock"}, "--reason: only waits have reasons; drop"},
      {{"fetch", "--kind", "cpu", "--reason", "lock"}, "--reason: only waits have reasons; drop"},
      {{"fetch", "--kind", "alloc,free", "--format", "folded"}, "--kind: one file of this format"},
      {{"fetch", "--kind", "alloc,free", "-o", "x.svg"}, "--kind: one file of this format"},
      {{"fetch", "--idle", "--kind", "free"}, "--idle: only waits are idle; drop it, or --kind"},
      {{"status", "--format", "svg"}, "'svg' is not text or json"},
      {{"memory", "--format", "svg"}, "'svg' is not text or json"},
      {{"memory", "--since", "5s", "--from", "1"}, "cannot be combined"},
      {{"diff", "5m"}, "B is required"},
      {{"diff", "5m", "yesterday's"}, "is neither a file nor a window"},
      {{"diff", "5m", "6m", "--kind", "alloc,free"}, "--kind: give one kind"},
      {{"diff", "5m", "6m", "--fail-over", "ten"}, "'ten' is not a share"},
      {{"memory", "--since", "0s"}, "--since: must be longer than 0"},
      {{"memory", "--target", "("}, "--target: '(' is not a regular expression"},
      {{"memory", "--kind", "alloc"}, "--kind"},
  };
  for (const auto& [arguments, part] : wrong) ExpectFailure(Do(arguments), 2, part);
  for (const char* address : {"", "nonsense", "unix://relative", "unix:///", "host:", ":1",
                              "host:99999", "host:x", "a b:1", "http://x:1"}) {
    ExpectFailure(RunAt(address, {"status"}), 2, "is not an address of profd");
  }
}

TEST_F(CommandsTest, HelpTeaches) {
  const Outcome help = Do({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  const Outcome fetch = Do({"fetch", "--help"});
  EXPECT_EQ(fetch.code, 0);
  for (const ReasonInfo& reason : AllReasons()) {
    EXPECT_THAT(fetch.out, HasSubstr("  " + std::string(reason.name) + " "));
  }
  EXPECT_THAT(fetch.out, HasSubstr("--kind"));
  for (const SampleTypeInfo& kind : AllSampleTypes()) {
    EXPECT_THAT(fetch.out, HasSubstr("  " + std::string(kind.name) + " "));
    EXPECT_THAT(fetch.out, HasSubstr(std::string(kind.meaning)));
  }
  EXPECT_THAT(help.out, HasSubstr("profctl fetch --kind alloc"));
  EXPECT_THAT(help.out, HasSubstr("profctl memory --since 10m"));
  const Outcome memory = Do({"memory", "--help"});
  EXPECT_EQ(memory.code, 0);
  for (const char* part : {"--since", "--target", "--color", "PSS", "OOM", "is there a leak?"}) {
    EXPECT_THAT(memory.out, HasSubstr(part));
  }
  EXPECT_THAT(Do({"--version"}).out, StartsWith("profctl "));
}

TEST_F(CommandsTest, SaysWhyTheDaemonCannotBeReached) {
  const std::string nobody = "unix://" + (directory_ / "nobody.sock").string();
  ExpectFailure(RunAt(nobody, {"fetch"}), 1, "no such socket");
  ExpectFailure(RunAt(nobody, {"status"}), 1, "sudo profd --target");
  ExpectFailure(RunAt(nobody, {"status"}), 1, nobody);
  std::ofstream(directory_ / "file") << "";
  ExpectFailure(RunAt("unix://" + (directory_ / "file").string(), {"status"}), 1,
                "nobody listens there");
  ExpectFailure(RunAt("unix:///" + std::string(200, 'x'), {"status"}), 1, "longer than");
  ExpectFailure(RunAt("127.0.0.1:1", {"status"}), 1, "cannot connect to profd at 127.0.0.1:1");
}

TEST_F(CommandsTest, SaysThatTheSocketIsForbidden) {
  REQUIRE_FACT("root");
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory_ / "d.sock").c_str(), 0600), 0);
  ASSERT_EQ(seteuid(65534), 0);
  const Outcome outcome = Do({"status"});
  ASSERT_EQ(seteuid(0), 0);
  ExpectFailure(outcome, 1, "permission denied on the socket");
}

TEST_F(CommandsTest, ServerFromTheEnvironment) {
  setenv("PROFCTL_SERVER", address_.c_str(), 1);
  const char* argv[] = {"profctl", "status"};
  std::ostringstream out, err;
  EXPECT_EQ(profctl::Run(2, argv, out, err, {}), 0) << err.str();
  unsetenv("PROFCTL_SERVER");
}

TEST_F(CommandsTest, ErrorsOfTheDaemonComeWithARemedy) {
  const std::vector<std::pair<grpc::StatusCode, std::string>> errors = {
      {grpc::StatusCode::NOT_FOUND, "'profctl status' lists what it watches"},
      {grpc::StatusCode::UNAVAILABLE, "see its log"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "ask for less"},
      {grpc::StatusCode::UNIMPLEMENTED, "of another version"},
      {grpc::StatusCode::INVALID_ARGUMENT, "no target\nmatches"},
  };
  daemon_.raw.emplace();
  for (const auto& [code, part] : errors) {
    daemon_.outcome = grpc::Status(code, "no target\nmatches");
    const Outcome outcome = Do({"fetch"});
    ExpectFailure(outcome, 1,
                  code == grpc::StatusCode::INVALID_ARGUMENT ? "no target?matches" : part);
    EXPECT_THAT(outcome.err, HasSubstr(address_));
  }
}

TEST_F(CommandsTest, DamagedAnswersAreRefused) {
  daemon_.raw = ServerAnswer().Parts();
  daemon_.raw->erase(daemon_.raw->begin() + 1);
  ExpectFailure(Do({"fetch"}), 1, "the answer is damaged");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, AllocationsFromTheCommandLineToTheFile) {
  ASSERT_EQ(Do({"fetch"}).code, 0);
  EXPECT_THAT(daemon_.asked.sample_types(), ::testing::ElementsAre("offcpu"));
  ASSERT_EQ(Do({"fetch", "--kind", "offcpu", "--reason", "lock", "--idle"}).code, 0);

  daemon_.answer = AllocAnswer();
  const Outcome outcome = Do({"fetch", "--kind", "alloc", "--thread", "tokio"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(daemon_.asked.sample_types(), ::testing::ElementsAre("alloc"));
  EXPECT_THAT(outcome.out, StartsWith("Memory allocated by reth (4242)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Stacks only of: thread tokio"));
  EXPECT_THAT(outcome.out, HasSubstr("Flame graph: profd-reth-4242-alloc-20260131T130600Z.svg"));
  EXPECT_THAT(Content("profd-reth-4242-alloc-20260131T130600Z.svg"),
              HasSubstr("Memory allocated: reth (4242)"));
  const Outcome folded = Do({"fetch", "--kind", "alloc", "--format", "folded"});
  EXPECT_THAT(folded.out, HasSubstr("BranchNodeRef::rlp"));
  EXPECT_THAT(folded.err, Not(HasSubstr("idle")));
  const std::string text = Do({"fetch", "--kind", "alloc", "--format", "json"}).out;
  EXPECT_EQ(nlohmann::json::parse(text)["sample_types"][0]["unit"], "bytes");

  daemon_.answer = FreeAnswer();
  const Outcome freed = Do({"fetch", "--kind", "free"});
  ASSERT_EQ(freed.code, 0) << freed.err;
  EXPECT_THAT(daemon_.asked.sample_types(), ::testing::ElementsAre("free"));
  EXPECT_THAT(freed.out, StartsWith("Memory freed by redis-server (77)\n"));
}

TEST_F(CommandsTest, AnAnswerOfAnotherKindIsRefused) {
  daemon_.answer = FreeAnswer();
  ExpectFailure(Do({"fetch", "--kind", "alloc"}), 1, "the answer is damaged");
  ExpectFailure(Do({"fetch"}), 1, "the answer is damaged");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CommandsTest, GroupsAreAskedFor) {
  using namespace profd::v1;  // NOLINT: the keys
  ASSERT_EQ(Do({"fetch"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(),
              ::testing::ElementsAre(GROUP_KEY_PROCESS_NAME, GROUP_KEY_THREAD_NAME));
  ASSERT_EQ(Do({"fetch", "--format", "json"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(), IsEmpty());
  ASSERT_EQ(Do({"fetch", "--by", "thread,process", "--format", "folded"}).code, 0);
  EXPECT_THAT(daemon_.asked.group_by(),
              ::testing::ElementsAre(GROUP_KEY_PROCESS, GROUP_KEY_THREAD));
  for (const GroupByInfo& info : AllGroupBys()) {
    const Outcome outcome =
        Do({"fetch", "--by", std::string(info.name), "--format", "json", "-o", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(daemon_.asked.group_by(), ::testing::ElementsAreArray(info.keys));
  }
}

TEST_F(CommandsTest, MissingAllocationsAreRemarkedOn) {
  daemon_.answer = UncoveredAnswer();
  const std::string remarks = Do({"fetch", "--kind", "alloc", "--format", "folded"}).err;
  EXPECT_THAT(remarks, HasSubstr("profctl: allocations were not watched for 12.0 s of 60.0 s: "));
  EXPECT_THAT(remarks, HasSubstr("profctl: events no probe saw: 1,152 with 78.0 MiB, "));
  daemon_.answer = UnwatchedAnswer();
  const Outcome none = Do({"fetch", "--kind", "alloc", "--format", "folded"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_EQ(none.err,
            "profctl: allocations were not watched in this window: 'profctl status' says why\n");
}

// jemalloc that is watched in one file, and is not in another.
profd::v1::GetStatusResponse AllocatorsStatus() {
  profd::v1::GetStatusResponse status;
  profd::v1::LayerStatus& layer = *status.add_layers();
  layer.set_name("heap");
  layer.set_on(true);
  profd::v1::AllocatorStatus& watched = *status.add_allocators();
  for (const int pid : {4242, 4243}) watched.add_pids(pid);
  watched.set_module("/usr/local/bin/reth");
  watched.set_build_id("ab12");
  watched.set_allocator("jemalloc");
  watched.set_version("5.3.0");
  watched.set_found_by("symbol");
  watched.set_watched(true);
  watched.mutable_allocated()->set_bytes(int64_t{1331} << 20);
  watched.mutable_allocated()->set_events(20'800);
  watched.mutable_allocated()->set_weight_bytes(int64_t{1300} << 20);
  watched.mutable_freed()->set_bytes(int64_t{1200} << 20);
  watched.mutable_freed()->set_events(9'600);
  watched.mutable_freed()->set_weight_bytes(int64_t{600} << 20);
  watched.mutable_freed()->set_gaps(9'600);
  watched.mutable_freed()->set_unseen_bytes(int64_t{600} << 20);
  watched.set_live_since_ns(1'769'864'700'000'000'000);
  watched.set_live_bytes(int64_t{12} << 20);
  watched.set_live_objects(1234);
  watched.set_sample_bytes(1 << 19);
  profd::v1::AllocatorStatus& unwatched = *status.add_allocators();
  for (int pid = 100; pid < 1100; ++pid) unwatched.add_pids(pid);
  unwatched.set_module("/opt/\x1b/lib" + std::string(200, 'x') + ".so");
  unwatched.set_allocator("jemalloc");
  unwatched.set_note(
      "the file has no symbols and no function of its shape; install its debug file, or start the "
      "program with a library that has symbols");
  unwatched.set_live_note(
      "the live heap is not known: jemalloc runs without profiling; start the process with "
      "MALLOC_CONF=prof:true");
  return status;
}

TEST_F(CommandsTest, StatusSaysThatProfdIsPaused) {
  for (const bool paused : {false, true}) {
    daemon_.status.set_paused(paused);
    const Outcome text = Do({"status"});
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out.find("PAUSED") != std::string::npos, paused);
    EXPECT_EQ(nlohmann::json::parse(Do({"status", "--format", "json"}).out)["paused"], paused);
  }
}

TEST_F(CommandsTest, StatusTellsTheAllocators) {
  daemon_.status = AllocatorsStatus();
  profd::v1::Cost& cost = *daemon_.status.mutable_cost();
  cost.set_duration_ns(60'000'000'000);
  cost.set_in_path_ns(64'000'000);
  cost.set_heap_in_path_ns(16'000'000);
  cost.set_heap_events(20'000);
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  heap      on\n"));
  EXPECT_THAT(text.out,
              HasSubstr("\nAllocators, and what was counted since they are watched\n"
                        "  jemalloc 5.3.0 in /usr/local/bin/reth\n"
                        "    processes  2 (4242 4243)\n"
                        "    watched    yes, point to watch found by symbol\n"
                        "    allocated  1.30 GiB in 20,800 events, coverage 100.0%\n"
                        "    freed      1.17 GiB in 9,600 events, coverage 50.0%; events no probe "
                        "saw: 9,600 with 600 MiB,\n"
                        "               50.0% of all\n"
                        "    live       12.0 MiB in 1,234 objects since 2026-01-31T13:05:00Z, "
                        "one sampled in 512 KiB\n"));
  EXPECT_THAT(text.out, HasSubstr("\n    processes  1,000 (100 101 102 103 104 105 106 107 ...)\n"
                                  "    watched    NO, point to watch not found\n"
                                  "    live       the live heap is not known: jemalloc runs "
                                  "without profiling; start the process with\n"
                                  "               MALLOC_CONF=prof:true\n"
                                  "    note       the file has no symbols and no function of its "
                                  "shape; install its debug"));
  EXPECT_THAT(text.out, HasSubstr("0 switches; allocations 0.027%, 20,000 events, 800 ns\n"));
  std::istringstream lines(text.out);
  std::string line;
  while (std::getline(lines, line)) {
    EXPECT_LE(DisplayWidth(line), 100u) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }

  const auto json = nlohmann::json::parse(Do({"status", "--format", "json"}).out);
  ASSERT_EQ(json["allocators"].size(), 2u);
  const auto& watched = json["allocators"][0];
  EXPECT_EQ(watched["pids"], nlohmann::json({4242, 4243}));
  EXPECT_EQ(watched["module"], "/usr/local/bin/reth");
  EXPECT_EQ(watched["build_id"], "ab12");
  EXPECT_EQ(watched["allocator"], "jemalloc");
  EXPECT_EQ(watched["version"], "5.3.0");
  EXPECT_EQ(watched["found_by"], "symbol");
  EXPECT_EQ(watched["watched"], true);
  EXPECT_EQ(watched["allocated"]["bytes"], int64_t{1331} << 20);
  EXPECT_EQ(watched["freed"]["unseen_bytes"], int64_t{600} << 20);
  EXPECT_EQ(watched["live_since_ns"], 1'769'864'700'000'000'000);
  EXPECT_EQ(watched["live_bytes"], 12 << 20);
  EXPECT_EQ(watched["live_objects"], 1234);
  EXPECT_EQ(watched["sample_bytes"], 1 << 19);
  EXPECT_EQ(watched["live_note"], "");
  EXPECT_EQ(json["allocators"][1]["watched"], false);
  EXPECT_EQ(json["allocators"][1]["live_since_ns"], 0);
  EXPECT_THAT(json["allocators"][1]["live_note"].get<std::string>(), StartsWith("the live heap"));
  EXPECT_THAT(json["allocators"][1]["note"].get<std::string>(), StartsWith("the file has no sym"));
  EXPECT_EQ(json["cost"]["heap_events"], 20'000);
}

TEST_F(CommandsTest, StatusWithoutAllocators) {
  // A daemon that does not look for any.
  EXPECT_THAT(Do({"status"}).out, Not(HasSubstr("Allocators")));
  EXPECT_THAT(nlohmann::json::parse(Do({"status", "--format", "json"}).out)["allocators"],
              IsEmpty());
  daemon_.status.add_layers()->set_name("heap");
  EXPECT_THAT(Do({"status"}).out,
              HasSubstr("\nAllocators, and what was counted since they are watched\n"
                        "  none that is known in these processes\n"));
  for (int i = 0; i < 10; ++i) {
    profd::v1::ProcessName& process = *daemon_.status.add_unknown_allocators();
    process.set_pid(100 + i);
    process.set_name(i == 0 ? "go-server\x1b" : "envoy");
  }
  EXPECT_THAT(
      Do({"status"}).out,
      AllOf(HasSubstr("  none known in  go-server? (100), envoy (101), "), HasSubstr("envoy (107)"),
            Not(HasSubstr("envoy (108)")), HasSubstr("and 2 more")));
  const auto json = nlohmann::json::parse(Do({"status", "--format", "json"}).out);
  EXPECT_THAT(json["unknown_allocators"], ::testing::SizeIs(10));
  EXPECT_EQ(json["unknown_allocators"][9]["pid"], 109);
}

TEST_F(CommandsTest, HostileAllocatorsStayAPage) {
  daemon_.status = AllocatorsStatus();
  profd::v1::HeapTotal& total = *daemon_.status.mutable_allocators(0)->mutable_allocated();
  total.set_bytes(INT64_MIN);
  total.set_weight_bytes(INT64_MIN);
  total.set_unseen_bytes(INT64_MAX);
  total.set_gaps(UINT64_MAX);
  daemon_.status.mutable_allocators(0)->set_live_bytes(INT64_MIN);
  daemon_.status.mutable_allocators(0)->set_live_objects(INT64_MIN);
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("    live       0 B in 0 objects since 2026-"));
  EXPECT_THAT(text.out, HasSubstr("    allocated  0 B in 20,800 events, coverage 0.0%; events no"));
}

TEST_F(CommandsTest, StatusForPeopleAndMachines) {
  profd::v1::GetStatusResponse& status = daemon_.status;
  status.set_daemon_version("0.1.0");
  status.set_kernel_release("6.12.0");
  status.set_started_ns(1'769'864'700'000'000'000);
  status.set_oldest_ns(1'769'864'701'000'000'000);
  status.set_tick_interval_ns(10'000'000);
  status.set_threads(54);
  status.set_modules(2);
  profd::v1::TargetStatus& target = *status.add_targets();
  target.set_selector("^reth$\x1b");
  target.add_pids(4242);
  target.set_threads(54);
  status.add_targets()->set_selector("postgres");
  profd::v1::LayerStatus& layer = *status.add_layers();
  layer.set_name("switch");
  layer.set_on(true);
  status.add_missing("kernel names: CAP_SYSLOG is missing; start profd with it");
  profd::v1::ModuleStatus& module = *status.add_module_list();
  module.set_path("/usr/lib/weird.so");
  module.set_note("no .eh_frame");
  status.add_programs()->set_name("on_switch");
  status.mutable_programs(0)->set_recursion_misses(3);
  status.mutable_memory()->set_daemon_rss_bytes(30 << 20);
  status.add_capabilities("cap_bpf");

  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"profd 0.1.0 on Linux 6.12.0", "2026-01-31T13:05:00Z", "^reth$?: 1 process, 54 threads",
        "postgres: no such process yet", "switch    on", "CAP_SYSLOG is missing", "weird.so",
        "on_switch were skipped", "30.0 MiB daemon", "cap_bpf"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const Outcome json = Do({"status", "--format", "json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["targets"][0]["pids"][0], 4242);
  EXPECT_EQ(parsed["programs"][0]["recursion_misses"], 3);
  EXPECT_EQ(parsed["memory"]["daemon_rss_bytes"], 30 << 20);
}

// A daemon under load: the per-switch layer is shed, the tick is slowed.
profd::v1::GetStatusResponse ShedStatus() {
  profd::v1::GetStatusResponse status;
  status.set_started_ns(1'769'864'700'000'000'000);
  status.set_tick_interval_ns(40'000'000);
  profd::v1::Cost& cost = *status.mutable_cost();
  cost.set_duration_ns(100'000'000'000);
  cost.set_daemon_cpu_ns(1'500'000'000);
  cost.set_tick_cpu_ns(1'000'000'000);
  cost.set_drain_cpu_ns(200'000'000);
  cost.set_rules_cpu_ns(30'000'000);
  cost.set_answers_cpu_ns(20'000'000);
  cost.set_in_path_ns(300'000'000);
  cost.set_switches(1'000'000);
  profd::v1::TargetStatus& target = *status.add_targets();
  target.set_selector("^reth$");
  target.mutable_cost()->set_target(1);
  target.mutable_cost()->set_in_path_ns(300'000'000);
  target.mutable_cost()->set_tick_cpu_ns(1'000'000'000);
  target.mutable_cost()->set_drain_cpu_ns(200'000'000);
  target.mutable_cost()->set_switches(1'000'000);
  *cost.add_targets() = target.cost();
  profd::v1::Governor& governor = *status.mutable_governor();
  governor.set_budget(0.02);
  governor.set_share(0.01);
  governor.set_of_targets(true);
  governor.set_saved_s(0.25);
  governor.set_fixed_cost(0.0005);
  governor.set_changes(2);
  profd::v1::GovernedSource& per_switch = *governor.add_sources();
  per_switch.set_name("switch");
  per_switch.set_in_path(true);
  per_switch.set_level(1);
  per_switch.set_given_up("exact time by reason: the tick's shares are used instead");
  per_switch.set_whole_cost(0.0412);
  profd::v1::GovernedSource& tick = *governor.add_sources();
  tick.set_name("tick");
  tick.set_level(5);
  tick.set_given_up(
      "threads that only wait are visited at one tick of 16, a tick every 40 ms instead of every "
      "10 ms");
  tick.set_cost(0.0178);
  tick.set_whole_cost(0.062);
  return status;
}

TEST_F(CommandsTest, StatusTellsTheBudgetAndWhatIsGivenUp) {
  daemon_.status = ShedStatus();
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"\nBudget, and the cost in the last second\n"
        "  in all     1.83% of one CPU; it may be 2.00% (1% of what targets use), and 0.25 s are "
        "saved for a\n"
        "             burst\n"
        "  in path    0%\n"
        "    switch    0% at level 1, whole it would be 4.12%; given up: exact time by reason: the "
        "tick's\n"
        "              shares are used instead\n"
        "  daemon     1.78%\n"
        "    tick      1.78% at level 5, whole it would be 6.20%; given up: threads that only wait "
        "are\n"
        "              visited at one tick of 16, a tick every 40 ms instead of every 10 ms\n"
        "    others    0.050%, mean of a minute: answers, unwind rules, the memory timeline\n"
        "  2 changes since it started\n",
        "\nCost since it started\n"
        "  daemon     1.50% of one CPU (15.0 ms/s): ticks 1.00%, drains 0.20%, rules 0.030%, "
        "answers 0.020%,\n"
        "             rest 0.25%\n"
        "  in path    0.30% of one CPU (3.00 ms/s): 1,000,000 switches, 300 ns each on average, "
        "shed or not\n"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  EXPECT_THAT(text.out, HasSubstr("  target     ^reth$: in path 3.00 ms/s, ticks 10.0 ms/s, drains "
                                  "2.00 ms/s, 10,000 switches/s\n"));
  EXPECT_THAT(text.out, HasSubstr("one tick in 40.0 ms"));

  const auto json = nlohmann::json::parse(Do({"status", "--format", "json"}).out);
  EXPECT_EQ(json["governor"]["budget"], 0.02);
  EXPECT_EQ(json["governor"]["share"], 0.01);
  EXPECT_EQ(json["governor"]["of_targets"], true);
  EXPECT_EQ(json["governor"]["saved_s"], 0.25);
  EXPECT_EQ(json["governor"]["fixed_cost"], 0.0005);
  EXPECT_EQ(json["governor"]["changes"], 2);
  EXPECT_EQ(json["governor"]["sources"][0]["name"], "switch");
  EXPECT_EQ(json["governor"]["sources"][0]["in_path"], true);
  EXPECT_EQ(json["governor"]["sources"][0]["whole_cost"], 0.0412);
  EXPECT_EQ(json["governor"]["sources"][1]["level"], 5);
  EXPECT_EQ(json["governor"]["sources"][1]["cost"], 0.0178);
  EXPECT_THAT(json["governor"]["sources"][1]["given_up"].get<std::string>(),
              StartsWith("threads that only wait"));
  EXPECT_EQ(json["cost"]["rules_cpu_ns"], 30'000'000);
  EXPECT_EQ(json["cost"]["answers_cpu_ns"], 20'000'000);
  EXPECT_EQ(json["cost"]["duration_ns"], 100'000'000'000);
  EXPECT_EQ(json["cost"]["targets"][0]["target"], 1);
  EXPECT_EQ(json["targets"][0]["cost"]["drain_cpu_ns"], 200'000'000);
}

TEST_F(CommandsTest, StatusOfSeveralTargetsWithoutABudget) {
  daemon_.status = ShedStatus();
  daemon_.status.add_targets()->set_selector("postgres");
  daemon_.status.mutable_governor()->set_budget(0);
  daemon_.status.mutable_governor()->set_changes(0);
  profd::v1::GovernedSource& per_switch = *daemon_.status.mutable_governor()->mutable_sources(0);
  per_switch.set_level(0);
  per_switch.set_cost(0.0412);
  daemon_.status.mutable_governor()->mutable_sources(1)->set_cost(0.025);
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  in all     6.67% of one CPU, no budget\n"
                                  "  in path    4.12%\n"
                                  "    switch    4.12%, gives everything\n"
                                  "  daemon     2.50%\n"));
  EXPECT_THAT(text.out, HasSubstr("nothing was given up since it started"));
  EXPECT_THAT(text.out, HasSubstr("  target      in path      ticks     drains  switches/s\n"
                                  "  ^reth$    3.00 ms/s  10.0 ms/s  2.00 ms/s      10,000\n"
                                  "  postgres     0 ns/s     0 ns/s     0 ns/s           0\n"));
}

TEST_F(CommandsTest, StatusOfADaemonWithoutAGovernor) {
  const Outcome text = Do({"status"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, Not(HasSubstr("Budget")));
  const auto json = nlohmann::json::parse(Do({"status", "--format", "json"}).out);
  EXPECT_THAT(json["governor"]["sources"], IsEmpty());
}

TEST_F(CommandsTest, MissingLayersAreRemarkedOn) {
  daemon_.answer = ShedAnswer();
  const std::string gap = "per-switch layer was shed for 12.0 s of 60.0 s: reasons of that time";
  EXPECT_THAT(Do({"fetch", "--format", "folded"}).err, HasSubstr("profctl: the " + gap));
  EXPECT_THAT(Do({"fetch"}).out, HasSubstr("  The " + gap));
  EXPECT_THAT(Do({"fetch", "-o", "-"}).out, HasSubstr("the " + gap));
}

TEST_F(CommandsTest, MemoryAsksOnceForTheWindowAndForItsSites) {
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
  EXPECT_THAT(daemon_.asked_memory.targets(), ::testing::ElementsAre("4242", "^re"));
  EXPECT_EQ(daemon_.asked_memory.max_sites(), 5u);
  EXPECT_THAT(text.out, StartsWith("Memory of 1 process\n"));
  EXPECT_THAT(text.out, HasSubstr("GROWS by"));
  EXPECT_THAT(text.out, HasSubstr("BranchNodeRef::rlp"));
  EXPECT_THAT(Files(), IsEmpty());

  ASSERT_EQ(Do({"memory", "--from", "2020-01-31T13:05:00Z"}).code, 0);
  EXPECT_EQ(daemon_.asked_memory.window().begin_ns(), 1'580'475'900'000'000'000);
  const auto json = nlohmann::json::parse(Do({"memory", "--format", "json"}).out);
  EXPECT_EQ(json["format"], "profd-memory");
  EXPECT_EQ(json["processes"][0]["sites"].size(), 1u);
}

TEST_F(CommandsTest, MemoryErrorsAreOneLine) {
  daemon_.memory_outcome = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  ExpectFailure(Do({"memory"}), 1, "of another version");
  daemon_.memory_outcome = grpc::Status(grpc::StatusCode::NOT_FOUND, "no process matches \"x\"");
  ExpectFailure(Do({"memory", "--target", "x"}), 1, "no process matches");
  daemon_.memory_outcome = grpc::Status::OK;
  daemon_.memory.mutable_processes(0)->clear_points();
  ExpectFailure(Do({"memory"}), 1, "the answer is damaged");
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
  EXPECT_THAT(Do({"memory"}).out, Not(HasSubstr("\x1b[1m")));
  EXPECT_THAT(Do({"memory", "--color"}).out, HasSubstr("\x1b[1m"));
}

TEST_F(CommandsTest, TheCostOfReadingMemoryIsTold) {
  daemon_.status = ShedStatus();
  EXPECT_THAT(Do({"status"}).out, Not(HasSubstr("memory 0")));
  daemon_.status.mutable_cost()->set_memory_cpu_ns(100'000'000);
  daemon_.status.mutable_memory()->set_timeline_bytes(3 << 20);
  const Outcome text = Do({"status"});
  EXPECT_THAT(text.out, HasSubstr("memory 0.10%, rest"));
  EXPECT_THAT(text.out, HasSubstr("3.00 MiB memory timeline"));
  const auto json = nlohmann::json::parse(Do({"status", "--format", "json"}).out);
  EXPECT_EQ(json["cost"]["memory_cpu_ns"], 100'000'000);
  EXPECT_EQ(json["memory"]["timeline_bytes"], 3 << 20);
}

TEST_F(CommandsTest, DiffComparesFilesAndWindows) {
  ASSERT_EQ(Do({"fetch", "-o", "a.json"}).code, 0);
  const Outcome same = Do({"diff", "a.json", "a.json", "--fail-over", "0%"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("Nothing changed"));
  // The same answer by name, from the daemon.
  const Outcome window = Do({"diff", "a.json", "5m", "--target", "reth"});
  EXPECT_EQ(window.code, 0) << window.err;
  EXPECT_THAT(window.out, HasSubstr("Nothing changed"));
  EXPECT_THAT(daemon_.asked.targets(), ::testing::ElementsAre("reth"));
  EXPECT_GT(daemon_.asked.window().begin_ns(), 0);

  const uint32_t thread = daemon_.answer.AddThread(4242, 5000, "reth", "new-thread", 1, 0);
  daemon_.answer.AddSample(thread, profd::v1::REASON_DISK,
                           {{"grown", "reth", profd::v1::FRAME_KIND_APPLICATION}}, 60'000'000'000,
                           100'000'000);
  const Outcome grew = Do({"diff", "a.json", "5m", "--fail-over", "10%"});
  EXPECT_EQ(grew.code, 3) << grew.err;
  EXPECT_THAT(grew.out, HasSubstr("1. +1.00 s/s (new)"));
  EXPECT_THAT(grew.err, IsEmpty());
  EXPECT_EQ(Do({"diff", "a.json", "5m", "--fail-over", "90%"}).code, 0);
  const auto json = nlohmann::json::parse(Do({"diff", "a.json", "5m", "--format", "json"}).out);
  EXPECT_EQ(json["changed"], 1);
  EXPECT_EQ(json["rows"][0]["group"], "reth/new-thread");

  std::ofstream("bad.json") << "{\"strings\": [\"\"]}";
  ExpectFailure(Do({"diff", "bad.json", "a.json"}), 1, "bad.json: the answer is damaged");
  std::ofstream("worse.json") << "moon";
  ExpectFailure(Do({"diff", "worse.json", "a.json"}), 1, "worse.json: not a profile in JSON");
  ExpectFailure(Do({"diff", "a.json", "a.json", "--kind", "alloc"}), 1, "holds no 'alloc'");
}

TEST_F(CommandsTest, AnEmptyAnswerIsAnAnswer) {
  daemon_.answer = AnswerWriter();
  const Outcome outcome = Do({"fetch"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("No thread matches in this window."));
  EXPECT_THAT(Files(), ::testing::ElementsAre(EndsWith(".svg")));
  EXPECT_THAT(Do({"fetch", "--format", "folded"}).out, IsEmpty());
}

}  // namespace
}  // namespace profctl
