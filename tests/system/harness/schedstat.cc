#include "tests/system/harness/schedstat.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"

namespace profd::e2e {
namespace {

// Longer than a runnable thread waits for its turn.
constexpr milliseconds kCharged(100);

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

}  // namespace

Schedstat ReadSchedstat(const std::vector<int>& pids) {
  Schedstat threads;
  for (const int pid : pids) {
    const std::string tasks = absl::StrCat("/proc/", pid, "/task");
    for (const int tid : Numbers(tasks)) {
      std::ifstream file(absl::StrCat(tasks, "/", tid, "/schedstat"));
      ThreadTimes times;
      if (!(file >> times.on_cpu_ns >> times.runqueue_ns)) continue;
      threads[tid] = times;
    }
  }
  return threads;
}

std::vector<int> WithChildren(int pid) {
  std::vector<int> found = {pid};
  for (const int candidate : Numbers("/proc")) {
    std::ifstream file(absl::StrCat("/proc/", candidate, "/stat"));
    std::string line;
    if (!std::getline(file, line)) continue;
    // The name in brackets may hold anything; the parent is the second field behind it.
    const size_t bracket = line.rfind(')');
    if (bracket == std::string::npos) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(line.substr(bracket + 1), ' ', absl::SkipEmpty());
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
  edge.before = ReadSchedstat(pids);
  absl::StatusOr<Answer> answer = daemon.Fetch(request);
  if (!answer.ok()) return answer.status();
  std::this_thread::sleep_for(kCharged);
  edge.after = ReadSchedstat(pids);
  edge.wall_ns = answer->coverage().end_ns();
  edge.stolen_ns = StolenNs();
  edge.answer = *std::move(answer);
  return edge;
}

}  // namespace profd::e2e
