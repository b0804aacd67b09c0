#include "tests/system/harness/heap.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"
#include "tests/support/places.h"
#include "tests/system/harness/checks.h"

namespace profd::e2e {

std::string AllocBinary(const std::string& variant) { return test::InBuild(variant); }

bool IsBuilt(const std::string& variant) {
  // Without its library it is linked with none.
  const bool released = absl::StrContains(variant, "_jemalloc_5.");
  return access(AllocBinary(variant).c_str(), X_OK) == 0 &&
         (!released || access(AllocBinary("jemallocs.why").c_str(), F_OK) != 0);
}

std::string WhyNoStandin() {
  const auto why = ReadWholeFile(AllocBinary("standin.why"));
  if (!why.ok()) return "the stand-in in Rust is not built: it needs cargo and make";
  return absl::StrCat("the stand-in in Rust is not built: ", absl::StripSuffix(*why, "\n"));
}

std::unique_ptr<Allocating> Allocating::Start(const std::string& binary,
                                              std::vector<std::string> arguments,
                                              Environment environment) {
  arguments.insert(arguments.begin(), binary);
  auto process = Subprocess::Start({.argv = arguments, .environment = std::move(environment)});
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return nullptr;
  auto self = std::unique_ptr<Allocating>(new Allocating(*std::move(process)));
  if (self->AwaitReady()) return self;
  ADD_FAILURE() << binary << ": " << self->process().Output(Stream::kStderr);
  return nullptr;
}

bool Allocating::AwaitReady() {
  const auto line = process_->LineWith(Stream::kStdout, "ready", seconds(60));
  return line && absl::SimpleAtoi(absl::StripPrefix(*line, "ready "), &ready_pid_);
}

nlohmann::json Allocating::Run() {
  Go();
  EXPECT_TRUE(AwaitReady());
  Go();
  return Account();
}

nlohmann::json Allocating::Account() {
  const auto line = process_->LineWith(Stream::kStdout, "\"total\"", seconds(60));
  EXPECT_TRUE(line.has_value());
  return line ? nlohmann::json::parse(*line) : nlohmann::json();
}

std::optional<int> Allocating::End() {
  process_->CloseStdin();
  return process_->Wait(seconds(60));
}

void HeapTest::SetUp() { SKIP_UNLESS_ROOT(); }

void HeapTest::StartDaemon(const std::string& selector, std::vector<std::string> arguments) {
  daemon_.reset();
  // Nearly every process has a C library, too; that is another test's.
  arguments.insert(arguments.end(), {"--disable", "bursts"});
  auto daemon = Daemon::Start({.targets = {selector}, .arguments = std::move(arguments)});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
}

v1::AllocatorStatus HeapTest::AwaitWatched(int pid, const std::string& module) {
  v1::AllocatorStatus found;
  EXPECT_TRUE(Eventually(seconds(60), [&] {
    const auto status = daemon_->Status();
    if (!status.ok()) return false;
    for (const v1::AllocatorStatus& allocator : status->allocators()) {
      if (std::count(allocator.pids().begin(), allocator.pids().end(), pid) == 0) continue;
      if (!absl::StrContains(allocator.module(), module)) continue;
      found = allocator;
      return allocator.watched();
    }
    return false;
  })) << found.DebugString();
  return found;
}

Answer HeapTest::Fetch(int pid, const std::string& kind) {
  v1::FetchRequest request;
  request.add_targets(std::to_string(pid));
  request.add_sample_types(kind);
  request.mutable_window()->set_since_ns(int64_t{600} * 1'000'000'000);
  absl::StatusOr<Answer> answer = daemon_->Fetch(request);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *std::move(answer) : Answer{};
}

double Coverage(const v1::HeapTotal& heap) {
  const auto seen = static_cast<double>(heap.weight_bytes());
  const double all = seen + static_cast<double>(heap.unseen_bytes());
  return all > 0 ? seen / all : 0;
}

std::map<std::string, int64_t> BytesBy(const Answer& answer, const std::string& prefix) {
  std::map<std::string, int64_t> bytes;
  for (const Sample& sample : answer.samples) {
    std::string name;
    for (const Frame& frame : answer.FramesOf(sample)) {
      if (frame.function.starts_with(prefix)) name = frame.function;
    }
    bytes[name] += sample.value;
  }
  return bytes;
}

int64_t TotalBytes(const Answer& answer) {
  int64_t total = 0;
  for (const Sample& sample : answer.samples) total += sample.value;
  return total;
}

namespace {

bool HasName(const Frame& frame) {
  return frame.found_by != v1::NAME_SOURCE_NONE && frame.found_by != v1::NAME_SOURCE_BOUNDS;
}

// A C library without its symbols names none of its own; nothing else of it is outermost.
bool IsBegin(const Frame& frame) {
  static constexpr absl::string_view kBegins[] = {"clone",        "clone3", "__clone3",
                                                  "start_thread", "_start", "main"};
  if (!HasName(frame)) return absl::StartsWith(frame.module, "libc.so");
  return std::find(std::begin(kBegins), std::end(kBegins), frame.function) != std::end(kBegins);
}

}  // namespace

Told ToldIn(const Answer& answer) {
  double bytes = 0, whole = 0, frames = 0, named = 0;
  for (const Sample& sample : answer.samples) {
    const auto weight = static_cast<double>(sample.value);
    const std::vector<Frame> stack = answer.FramesOf(sample);
    bytes += weight;
    if (answer.IsComplete(sample) && IsBegin(stack.back())) whole += weight;
    for (const Frame& frame : stack) {
      frames += weight;
      if (HasName(frame)) named += weight;
    }
  }
  return {.whole = whole / bytes, .named = named / frames};
}

std::string Incomplete(const Answer& answer) {
  std::string text;
  for (const Sample& sample : answer.samples) {
    if (answer.IsComplete(sample)) continue;
    absl::StrAppend(&text, sample.value, " bytes: ", answer.Describe(sample), "\n");
  }
  return text;
}

double WholeShare(const Answer& answer) {
  int64_t whole = 0, all = 0;
  for (const Sample& sample : answer.samples) {
    const bool complete = answer.IsComplete(sample);
    if (sample.stack == 0 ||
        (!complete && absl::StrContains(answer.Describe(sample), "[memory map busy]"))) {
      continue;
    }
    all += sample.value;
    if (complete) whole += sample.value;
  }
  return all > 0 ? static_cast<double>(whole) / static_cast<double>(all) : 0;
}

double UsableBytes(const nlohmann::json& account, const std::string& what) {
  return account.at("total").at(what).at("usable").get<double>();
}

void ExpectAddsUp(const Answer& answer) {
  std::map<uint32_t, int64_t> by_thread;
  for (const Sample& sample : answer.samples) {
    EXPECT_GE(sample.value, 0);
    by_thread[sample.thread] += sample.value;
  }
  int64_t total = 0;
  for (size_t i = 0; i < answer.threads.size(); ++i) {
    const Thread& thread = answer.threads[i];
    EXPECT_EQ(by_thread[static_cast<uint32_t>(i)], thread.heap.bytes())
        << thread.name << ": " << thread.heap.DebugString();
    total += thread.heap.bytes();
  }
  EXPECT_EQ(answer.type().total().bytes(), total);
}

void ExpectExactByThread(const Answer& answer, const nlohmann::json& account,
                         const std::string& what, int allocators) {
  for (const nlohmann::json& self : account["threads"]) {
    // One that had no event may be left out.
    const Thread* thread = answer.FindThread(self["tid"].get<int>());
    const int64_t bytes = thread == nullptr ? 0 : thread->heap.bytes();
    EXPECT_NEAR(static_cast<double>(bytes),
                static_cast<double>(self["counted"][what].get<int64_t>()), allocators * kInterval)
        << self.dump();
  }
}

}  // namespace profd::e2e
