#include "tests/system/harness/schedstat.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"

namespace profd::e2e {
namespace {

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
      times.read_wall_ns = WallNs();
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
  const Schedstat before = ReadSchedstat(pids);
  absl::StatusOr<Answer> answer = daemon.Fetch(request);
  if (!answer.ok()) return answer.status();
  const Schedstat after = ReadSchedstat(pids);
  Edge edge;
  edge.wall_ns = answer->header.end_ns();
  edge.stolen_ns = StolenNs();
  edge.answer = *std::move(answer);
  for (const auto& [tid, first] : before) {
    const auto second = after.find(tid);
    if (second == after.end()) continue;
    const ThreadTimes& last = second->second;
    const double share =
        std::clamp(static_cast<double>(edge.wall_ns - first.read_wall_ns) /
                       static_cast<double>(last.read_wall_ns - first.read_wall_ns + 1),
                   0.0, 1.0);
    const auto between = [share](int64_t a, int64_t b) {
      return a + static_cast<int64_t>(share * static_cast<double>(b - a));
    };
    edge.threads[tid] = {edge.wall_ns, between(first.on_cpu_ns, last.on_cpu_ns),
                         between(first.runqueue_ns, last.runqueue_ns)};
  }
  return edge;
}

}  // namespace profd::e2e
