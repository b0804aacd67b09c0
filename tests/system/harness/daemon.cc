#include "tests/system/harness/daemon.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "gtest/gtest.h"
#include "tests/support/places.h"

namespace profd::e2e {
namespace {

constexpr seconds kCallTimeout(60);
// After this, a test that fails says what profd's threads were doing.
constexpr seconds kPromptStop(5);

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
}

// The name, the system call and the kernel's stack of each thread.
std::string WhereThreadsAre(pid_t pid) {
  std::string text;
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    for (const char* file : {"comm", "syscall", "stack"}) {
      std::ostringstream read;
      read << std::ifstream(task.path() / file).rdbuf();  // nothing, if the thread has ended
      absl::StrAppend(&text, read.str());
    }
  }
  return text;
}

}  // namespace

Command DaemonCommand(const std::vector<std::string>& arguments) {
  Command command{{test::InBuild("profd")}};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  return command;
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Options& options) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  daemon->socket_ =
      options.socket.empty() ? daemon->directory_.path() + "/profd.sock" : options.socket;
  std::vector<std::string> arguments = {"--listen", daemon->server(), "--log-level", "info"};
  if (!options.budgets && absl::c_find(options.arguments, "--budget") == options.arguments.end()) {
    arguments.insert(arguments.end(), {"--budget", "off"});
  }
  for (const std::string& target : options.targets) {
    arguments.insert(arguments.end(), {"--target", target});
  }
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  ASSIGN_OR_RETURN(daemon->process_, Subprocess::Start(DaemonCommand(arguments)));
  if (!daemon->process_->LineWith(Subprocess::Stream::kStderr, "profd: attached", seconds(120))) {
    return absl::UnavailableError(absl::StrCat(
        "profd did not become ready: ", daemon->process_->Output(Subprocess::Stream::kStderr)));
  }
  grpc::ChannelArguments channel;
  channel.SetMaxReceiveMessageSize(64 << 20);
  daemon->stub_ = v1::Profiler::NewStub(
      grpc::CreateCustomChannel(daemon->server(), grpc::InsecureChannelCredentials(), channel));
  return daemon;
}

absl::StatusOr<Answer> Daemon::Fetch(const v1::FetchRequest& request) const {
  grpc::ClientContext context;
  SetDeadline(&context);
  return ReadAnswer(stub_->Fetch(&context, request).get());
}

absl::StatusOr<Answer> Daemon::FetchProcess(int pid, int64_t begin_wall_ns) const {
  v1::FetchRequest request;
  request.add_targets(std::to_string(pid));
  if (begin_wall_ns != 0) {
    request.mutable_window()->set_begin_ns(begin_wall_ns);
  } else {
    request.mutable_window()->set_since_ns(int64_t{3600} * 1'000'000'000);
  }
  return Fetch(request);
}

absl::StatusOr<v1::GetStatusResponse> Daemon::Status() const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetStatusResponse response;
  const grpc::Status status = stub_->GetStatus(&context, {}, &response);
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  return response;
}

std::optional<int64_t> Daemon::AwaitTarget(int pid, milliseconds timeout) const {
  int64_t begin = WallNs();
  std::optional<int64_t> edge;
  Eventually(timeout, [&] {
    const int64_t next = WallNs();
    const absl::StatusOr<Answer> answer = FetchProcess(pid, begin);
    begin = next;
    if (!answer.ok()) return false;
    const Thread* leader = answer->FindThread(pid);
    if (leader == nullptr) return false;
    for (const Sample& sample : answer->SamplesOf(*leader)) {
      if (answer->IsComplete(sample)) edge = answer->coverage().end_ns();
    }
    return edge.has_value();
  });
  return edge;
}

std::optional<int> Daemon::Stop(milliseconds timeout) {
  process_->Signal(SIGTERM);
  if (const auto code = process_->Wait(kPromptStop)) return code;
  const std::string threads = WhereThreadsAre(process_->pid());
  const auto code = process_->Wait(timeout);
  if (code != 0) ADD_FAILURE() << "profd was asked to end; then its threads were in\n" << threads;
  return code;
}

absl::StatusOr<Finished> Profctl(const Daemon& daemon, const std::vector<std::string>& arguments,
                                 const std::string& directory) {
  Command command{{test::InBuild("profctl"), "--server", daemon.server()}};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.directory = directory;
  return RunToEnd(command, seconds(60));
}

}  // namespace profd::e2e
