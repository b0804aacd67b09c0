#include "tests/system/harness/schedstat.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"

namespace profd::e2e {
namespace {

// A runnable thread's turn comes within this time, or it is left out of the comparison.
constexpr milliseconds kTurn(10'000);
// A thread that runs is charged at scheduler ticks.
constexpr milliseconds kTick(10);

// Numeric names of a directory of /proc; empty when it is gone.
std::vector<int> Numbers(const std::string& directory) {
  std::vector<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    int number;
    if (absl::SimpleAtoi(entry->path().filename().string(), &number)) found.push_back(number);
  }
  return found;
}

std::string TaskFile(int pid, int tid, const char* name) {
  return absl::StrCat("/proc/", pid, "/task/", tid, "/", name);
}

absl::StatusOr<ThreadTimes> ReadTimes(int pid, int tid) {
  std::ifstream file(TaskFile(pid, tid, "schedstat"));
  ThreadTimes times;
  if (!(file >> times.on_cpu_ns >> times.runqueue_ns)) return absl::NotFoundError("ended");
  return times;
}

// Fields of a stat file from the state on; empty when it is gone.
std::vector<std::string> StatFields(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return {};
  // The name in brackets may hold anything.
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  return absl::StrSplit(line.substr(bracket + 1), ' ', absl::SkipEmpty());
}

// The account once it holds all of the time in the queue before this call: the kernel charges that
// when a thread gets its CPU. Until then it is runnable and uses no CPU time.
absl::StatusOr<ThreadTimes> ReadCharged(int pid, int tid) {
  const absl::StatusOr<ThreadTimes> first = ReadTimes(pid, tid);
  if (!first.ok()) return first;
  const auto until = std::chrono::steady_clock::now() + kTurn;
  while (std::chrono::steady_clock::now() < until) {
    const std::vector<std::string> stat = StatFields(TaskFile(pid, tid, "stat"));
    const absl::StatusOr<ThreadTimes> times = ReadTimes(pid, tid);
    if (!times.ok()) return times;
    if (!stat.empty() && (stat[0] != "R" || times->on_cpu_ns != first->on_cpu_ns)) return times;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return absl::DeadlineExceededError("never got its CPU");
}

}  // namespace

Schedstat ReadSchedstat(const std::vector<int>& pids, bool charged) {
  Schedstat threads;
  for (const int pid : pids) {
    for (const int tid : Numbers(absl::StrCat("/proc/", pid, "/task"))) {
      const absl::StatusOr<ThreadTimes> times =
          charged ? ReadCharged(pid, tid) : ReadTimes(pid, tid);
      if (times.ok()) threads[tid] = *times;
    }
  }
  return threads;
}

std::vector<int> WithChildren(int pid) {
  std::vector<int> found = {pid};
  for (const int candidate : Numbers("/proc")) {
    // The parent follows the state.
    const std::vector<std::string> fields = StatFields(absl::StrCat("/proc/", candidate, "/stat"));
    int parent;
    if (fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) && parent == pid) {
      found.push_back(candidate);
    }
  }
  return found;
}

int64_t StolenNs() {
  // user nice system idle iowait irq softirq steal
  std::ifstream stat("/proc/stat");
  std::string name;
  int64_t ticks = 0;
  stat >> name;
  for (int field = 0; field < 8; ++field) stat >> ticks;
  return stat ? ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK)) : 0;
}

absl::StatusOr<Edge> MakeEdge(const Daemon& daemon, const v1::FetchRequest& request,
                              const std::vector<int>& pids) {
  Edge edge;
  edge.stolen_before_ns = StolenNs();
  edge.before = ReadSchedstat(pids);
  absl::StatusOr<Answer> answer = daemon.Fetch(request);
  if (!answer.ok()) return answer.status();
  std::this_thread::sleep_for(kTick);
  edge.after = ReadSchedstat(pids, true);
  edge.wall_ns = answer->coverage().end_ns();
  edge.stolen_after_ns = StolenNs();
  edge.answer = *std::move(answer);
  return edge;
}

}  // namespace profd::e2e
