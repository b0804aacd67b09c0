// How profd behaves as a program: what it accepts, follows, survives and refuses.
#include "tests/system/harness/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "tests/system/harness/checks.h"
#include "tests/system/harness/servers.h"
#include "tests/system/harness/target.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr auto kErr = Subprocess::Stream::kStderr;
// profd reads what its targets run before it ticks for the first time.
constexpr int64_t kBeforeFirstTick = 1'500'000'000;

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  void Start(const Daemon::Options& options) {
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(options);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }
  void StartTarget(const std::vector<std::string>& scenario) {
    absl::StatusOr<std::unique_ptr<Target>> target = Target::Start(scenario);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }
  // Runs profd where it must not get as far as serving.
  Finished Refused(const std::vector<std::string>& arguments) {
    absl::StatusOr<Finished> finished = RunToEnd(DaemonCommand(arguments), seconds(20));
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *std::move(finished) : Finished{-1, "", ""};
  }
  std::string Said() { return daemon_->process().Output(kErr); }
  std::string Listen() { return "unix://" + directory_.path() + "/profd.sock"; }

  TemporaryDirectory directory_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(DaemonTest, BadArgumentsExitWithTwo) {
  const std::vector<std::vector<std::string>> bad = {
      {"--no-such-option"},
      {"--tick", "soon"},
      {"--tick", "0ms"},
      {"--tick", "-5ms"},
      {"--target", "("},
      {"--target", ""},
      {"--disable", "nothing"},
      {"--log-level", "shrill"},
      {"--listen", "nowhere"},
      {"--listen", "unix://"},
      {"stray"},
  };
  for (std::vector<std::string> arguments : bad) {
    const std::string line =
        absl::StrCat(arguments[0], " ", arguments.size() > 1 ? arguments[1] : "");
    if (arguments[0] != "--listen") {
      arguments.insert(arguments.end(), {"--listen", Listen()});
    }
    const Finished finished = Refused(arguments);
    EXPECT_EQ(finished.code, 2) << line << "\n" << finished.err;
    EXPECT_THAT(finished.err, Not(IsEmpty())) << line;
  }
}

TEST_F(DaemonTest, UnknownPidIsAnError) {
  // A PID that was just given back.
  const absl::StatusOr<Finished> gone = RunToEnd({{"sh", "-c", "echo $$"}}, seconds(10));
  ASSERT_TRUE(gone.ok());
  const std::string pid = gone->out.substr(0, gone->out.find('\n'));
  const Finished finished = Refused({"--target", pid, "--listen", Listen()});
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(pid));
}

TEST_F(DaemonTest, HelpAndVersion) {
  const Finished help = Refused({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* option : {"--target", "--listen", "--tick", "--log-level"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
  EXPECT_EQ(Refused({"--version"}).code, 0);
}

TEST_F(DaemonTest, SaysWhatItAttachedToAndEndsCleanly) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  EXPECT_THAT(Said(), HasSubstr("profd: attached"));
  struct stat st;
  ASSERT_EQ(stat(daemon_->socket().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0007, 0U) << "the socket must not be open to everyone";
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
  EXPECT_NE(stat(daemon_->socket().c_str(), &st), 0) << "the socket was left behind";
  EXPECT_FALSE(target_->process().Wait(milliseconds(0)).has_value()) << "the target ended";
}

TEST_F(DaemonTest, StatusListsLayersTargetsAndCost) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  ASSERT_NO_FATAL_FAILURE(
      Start({.targets = {std::to_string(target_->pid())}, .arguments = {"--tick", "20ms"}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  std::vector<std::string> layers;
  for (const v1::LayerStatus& layer : status->layers()) {
    layers.push_back(layer.name());
    EXPECT_TRUE(layer.on()) << layer.DebugString();
  }
  EXPECT_THAT(layers, testing::UnorderedElementsAre("books", "switch", "tick", "heap", "faults",
                                                    "mappings", "bursts"));
  EXPECT_EQ(status->tick_interval_ns(), 20'000'000);
  ASSERT_EQ(status->targets_size(), 1);
  EXPECT_THAT(status->targets(0).pids(), testing::ElementsAre(target_->pid()));
  EXPECT_EQ(status->targets(0).threads(), 1U);
  EXPECT_GT(status->memory().daemon_rss_bytes(), 1U << 20);
  EXPECT_GT(status->memory().kernel_map_bytes(), 0U);
  EXPECT_LE(std::abs(status->started_ns() - WallNs()), int64_t{60'000'000'000});
  EXPECT_GT(status->oldest_ns(), 0);
  EXPECT_GT(status->cost().daemon_cpu_ns(), 0);
  EXPECT_GE(status->modules(), 2U);
  EXPECT_FALSE(status->programs().empty());
  for (const v1::ProgramStatus& program : status->programs()) {
    EXPECT_EQ(program.recursion_misses(), 0U) << program.name();
  }
  bool rules = false;
  for (const v1::ModuleStatus& module : status->module_list()) {
    if (absl::StrContains(module.path(), "libc.so.6")) rules = module.rules() > 1000;
  }
  EXPECT_TRUE(rules) << "no unwind rules of libc";
}

// A process that did all its waiting before profd came, and goes on with it.
TEST_F(DaemonTest, AlreadyBlockedWhenItStarts) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"deadlock"}));
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> report = target_->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  const int64_t before = WallNs();
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  const int64_t after = WallNs();
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  std::this_thread::sleep_for(seconds(2));  // the length of the experiment
  const auto answer = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GE(answer->header.begin_ns(), before);
  for (const SelfMeasured& self : report->threads) {
    const v1::Thread* thread = answer->FindThread(self.tid);
    ASSERT_NE(thread, nullptr);
    EXPECT_TRUE(AddsUp(*thread));
    EXPECT_EQ(thread->on_cpu_ns(), 0);
    EXPECT_EQ(OffNs(*thread, v1::REASON_LOCK), thread->wall_ns()) << thread->DebugString();
    EXPECT_GE(thread->wall_ns(), answer->header.end_ns() - after);
    EXPECT_LE(thread->wall_ns(), answer->header.end_ns() - before);
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(DaemonTest, FollowsARestartOfANamedTarget) {
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {"^waiter$"}}));
  const int64_t begin = WallNs();
  std::vector<int> pids;
  for (int i = 0; i < 2; ++i) {
    ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
    ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
    pids.push_back(target_->pid());
    target_->process().Signal(SIGKILL);
    ASSERT_TRUE(target_->process().Wait(seconds(10)).has_value());
  }
  for (const int pid : pids) {
    const auto answer = daemon_->FetchProcess(pid, begin);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_NE(answer->FindThread(pid), nullptr);
    EXPECT_TRUE(answer->FindThread(pid)->exited());
  }
  EXPECT_EQ(daemon_->Stop(), 0);
}

// By PID: children and what they exec belong to the target, whatever their names.
TEST_F(DaemonTest, FollowsChildrenOfAPid) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"fork", "200"}));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> forked = target_->AwaitReport();
  ASSERT_TRUE(forked.ok()) << forked.status();
  ASSERT_TRUE(target_->process().LineWith(Subprocess::Stream::kStdout, "ready", seconds(10)));
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> executed = target_->AwaitReport();
  ASSERT_TRUE(executed.ok()) << executed.status();
  const auto answer = daemon_->FetchProcess(forked->pid);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NE(answer->FindThread(forked->pid), nullptr);
  EXPECT_NE(answer->FindThread(executed->Named("napper").front()->tid), nullptr);
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(DaemonTest, OutlivesItsTarget) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"naps", "20000", "25"}));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> report = target_->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  target_->process().CloseStdin();
  ASSERT_EQ(target_->process().Wait(seconds(10)), 0);
  const auto answer = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const SelfMeasured& self = *report->Named("napper").front();
  ASSERT_NE(answer->FindThread(self.tid), nullptr);
  ExpectWholeLife(*answer->FindThread(self.tid), self);
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->targets_size(), 1);
  EXPECT_THAT(status->targets(0).pids(), IsEmpty());
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
}

TEST_F(DaemonTest, RefusesASocketInUse) {
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {"^waiter$"}}));
  const Finished second = Refused({"--target", "^waiter$", "--listen", daemon_->server()});
  EXPECT_EQ(second.code, 1) << second.err;
  EXPECT_THAT(second.err, HasSubstr(daemon_->socket()));
  EXPECT_TRUE(daemon_->Status().ok()) << "the first one must go on";
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(DaemonTest, StartsAgainAfterKill) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  const std::string socket = directory_.path() + "/profd.sock";
  const std::string pid = std::to_string(target_->pid());
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {pid}, .socket = socket}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  daemon_->process().Signal(SIGKILL);
  ASSERT_EQ(daemon_->process().Wait(seconds(10)), 128 + SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(socket));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {pid}, .socket = socket}));
  EXPECT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(DaemonTest, DoesNotRemoveAFileThatIsNoSocket) {
  const std::string path = directory_.path() + "/precious";
  std::ofstream(path) << "data";
  const Finished finished = Refused({"--target", "^waiter$", "--listen", "unix://" + path});
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST_F(DaemonTest, RefusesBadRequests) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  const auto code = [&](auto change) {
    v1::FetchRequest request;
    change(&request);
    return daemon_->Fetch(request).status().code();
  };
  EXPECT_EQ(code([](auto*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](auto* r) { r->add_targets("no-such-process"); }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto* r) { r->add_targets("1999999999"); }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](auto* r) { r->add_targets("("); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* r) { r->set_thread_regex("["); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* r) { r->add_reasons(static_cast<v1::Reason>(99)); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* r) { r->set_since_ns(-1); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* r) {
              r->set_begin_ns(WallNs());
              r->set_end_ns(WallNs() - 1'000'000'000);
            }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(daemon_->Stop(), 0);
}

TEST_F(DaemonTest, FiltersThreadsAndReasons) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"mutex", "40"}));
  ASSERT_NO_FATAL_FAILURE(Start({.targets = {std::to_string(target_->pid())}}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  ASSERT_TRUE(target_->Go());
  ASSERT_TRUE(target_->AwaitReport().ok());
  v1::FetchRequest request;
  request.set_thread_regex("^mutex-w");
  request.add_reasons(v1::REASON_LOCK);
  const auto answer = daemon_->Fetch(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->threads.size(), 1U);
  EXPECT_EQ(answer->threads.begin()->second.name(), "mutex-waiter");
  EXPECT_TRUE(AddsUp(answer->threads.begin()->second)) << "the ledger is not filtered by reason";
  EXPECT_FALSE(answer->samples.empty());
  for (const v1::Sample& sample : answer->samples) EXPECT_EQ(sample.reason(), v1::REASON_LOCK);
  EXPECT_EQ(daemon_->Stop(), 0);
}

// Layers can each be off, and every answer says what it stands on.
struct Layers {
  std::string off;
  bool books, per_switch, tick;
};

class LayersTest : public DaemonTest, public testing::WithParamInterface<Layers> {};

TEST_P(LayersTest, TotalsStand) {
  const Layers& layers = GetParam();
  ASSERT_NO_FATAL_FAILURE(StartTarget({"mutex", "120"}));
  ASSERT_NO_FATAL_FAILURE(
      Start({.targets = {std::to_string(target_->pid())}, .arguments = {"--disable", layers.off}}));
  // Without the tick there is no stack to wait for.
  if (layers.tick) {
    ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  }
  ASSERT_TRUE(target_->Go());
  const absl::StatusOr<Report> report = target_->AwaitReport();
  ASSERT_TRUE(report.ok()) << report.status();
  const auto answer = daemon_->FetchProcess(target_->pid());
  ASSERT_TRUE(answer.ok()) << answer.status();

  const int64_t length = answer->header.end_ns() - answer->header.begin_ns();
  EXPECT_TRUE(Near(answer->header.books_ns(), layers.books ? length : 0, 0.001));
  EXPECT_TRUE(Near(answer->header.switch_ns(), layers.per_switch ? length : 0, 0.001));
  EXPECT_TRUE(Near(answer->header.tick_ns(), layers.tick ? length : 0, 0.001,
                   layers.tick ? kBeforeFirstTick : 0));
  const auto status = daemon_->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  for (const v1::LayerStatus& layer : status->layers()) {
    EXPECT_EQ(layer.on(), layer.name() != layers.off);
    if (!layer.on()) {
      EXPECT_THAT(layer.note(), Not(IsEmpty()));
    }
  }

  for (const SelfMeasured& self : report->threads) {
    SCOPED_TRACE(self.name);
    const v1::Thread* thread = answer->FindThread(self.tid);
    ASSERT_NE(thread, nullptr);
    EXPECT_TRUE(Near(thread->wall_ns(), self.LifeNs(), kLedgerTolerance));
    EXPECT_TRUE(AddsUp(*thread));
    EXPECT_TRUE(Near(OffNs(*thread), self.OffNs(), kLedgerTolerance)) << thread->DebugString();
    const v1::Reason reason = self.name == "holder" ? v1::REASON_SLEEP : v1::REASON_LOCK;
    if (layers.per_switch) {
      EXPECT_EQ(thread->estimated_ns(), 0);
      EXPECT_TRUE(
          Near(OffNs(*thread, reason) + OffNs(*thread, v1::REASON_RUNQUEUE), self.OffNs(), 0.02));
    } else {
      EXPECT_TRUE(Near(thread->estimated_ns() + OffNs(*thread, v1::REASON_RUNQUEUE), self.OffNs(),
                       kLedgerTolerance));
      // The reasons are the tick's: each of these threads waits for one reason nearly always.
      EXPECT_TRUE(Near(OffNs(*thread, reason), self.OffNs(), 0.05)) << thread->DebugString();
    }
    if (layers.books) {
      EXPECT_TRUE(Near(thread->books_on_cpu_ns(), self.cpu_ns, kLedgerTolerance, 2'000'000));
    } else {
      EXPECT_EQ(thread->books_on_cpu_ns(), 0);
    }
    uint64_t ticks = 0;
    int64_t time = 0;
    for (const v1::Sample& sample : answer->SamplesOf(*thread)) {
      ticks += sample.ticks();
      time += sample.time_ns();
      if (!layers.tick) {
        EXPECT_EQ(sample.stack(), 0U);
      }
    }
    EXPECT_EQ(ticks > 0, layers.tick);
    EXPECT_TRUE(Near(time, OffNs(*thread), 0.001, 10'000)) << "unsampled time must be shown";
  }
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
}

INSTANTIATE_TEST_SUITE_P(EachOff, LayersTest,
                         testing::Values(Layers{"switch", true, false, true},
                                         Layers{"books", false, true, true},
                                         Layers{"tick", true, true, false}),
                         [](const auto& layers) { return layers.param.off; });

// Without --target: every process that profd sees, but itself.
TEST_F(DaemonTest, WatchesEverythingButItself) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  ASSERT_NO_FATAL_FAILURE(Start({}));
  ASSERT_TRUE(daemon_->AwaitTarget(target_->pid()).has_value()) << Said();
  const auto late = Target::Start({"stuck"});
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(daemon_->AwaitTarget((*late)->pid()).has_value()) << "a process that starts later";
  const auto itself = daemon_->FetchProcess(daemon_->process().pid());
  EXPECT_TRUE(absl::IsNotFound(itself.status())) << itself.status();
  EXPECT_EQ(daemon_->Stop(), 0) << Said();
}

// A port that was free a moment ago, or 0.
int FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), generic, size) != 0 || getsockname(fd.get(), generic, &size) != 0) return 0;
  return ntohs(address.sin_port);
}

TEST_F(DaemonTest, ServesOverTcp) {
  ASSERT_NO_FATAL_FAILURE(StartTarget({"stuck"}));
  const std::string address = absl::StrCat("127.0.0.1:", FreePort());
  const auto daemon = Subprocess::Start(
      DaemonCommand({"--listen", address, "--target", std::to_string(target_->pid())}));
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_TRUE((*daemon)->LineWith(kErr, "profd: ready", seconds(30)).has_value())
      << (*daemon)->Output(kErr);
  const auto status = RunToEnd({{PROFCTL_BINARY, "--server", address, "status"}}, seconds(30));
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, 0) << status->err;
  (*daemon)->Signal(SIGTERM);
  EXPECT_EQ((*daemon)->Wait(seconds(15)), 0);
}

}  // namespace
}  // namespace profd::e2e
