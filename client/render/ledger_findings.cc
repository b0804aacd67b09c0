#include "client/render/ledger_findings.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "client/render/new_finding.h"
#include "client/render/occupants.h"

namespace profctl {
namespace {

using profd::v1::Finding;
using profd::v1::FindingThread;

constexpr double kLeastDelay = 0.1;      // of the time in which threads could run
constexpr double kLeastWaited = 0.01;    // the same, of the window
constexpr double kLeastOccupied = 0.2;   // of the time in the run queue
constexpr double kLeastThrottled = 0.2;  // of the periods of a CPU quota
constexpr int64_t kLeastPeriods = 5;
constexpr double kBusy = 0.9;  // of a thread's time
constexpr double kLeastBusyWindow = 0.5;
constexpr size_t kMostBusyThreads = 3;
constexpr double kMostOfCpu = 0.5;  // of the time on a CPU

struct Totals {
  int64_t on_cpu_ns = 0;
  int64_t run_queue_ns = 0;
};

int64_t RunQueueOf(const Thread& thread) {
  int64_t sum = 0;
  for (const profd::v1::ReasonTotal& off : thread.ledger.off()) {
    if (off.reason() == profd::v1::REASON_RUNQUEUE) sum += off.time_ns();
  }
  return sum;
}

Totals TotalsOf(const Profile& profile) {
  Totals totals;
  for (const Thread& thread : profile.threads) {
    totals.on_cpu_ns += thread.ledger.on_cpu_ns();
    totals.run_queue_ns += RunQueueOf(thread);
  }
  return totals;
}

void AddThread(const Thread& thread, int64_t time_ns, Finding* finding) {
  FindingThread* added = finding->add_top_threads();
  added->set_pid(thread.pid);
  added->set_tid(thread.tid);
  added->set_name(thread.name);
  added->set_time_ns(time_ns);
  added->set_wall_ns(thread.ledger.wall_ns());
}

// The group that had most of the CPU time, unless none had half of it.
void SetCpuGroup(const Profile& profile, int64_t on_cpu_ns, Finding* finding) {
  const std::vector<std::string> names = ThreadGroupNames(profile);
  std::map<std::string, std::pair<int64_t, size_t>> groups;  // time, threads
  for (size_t i = 0; i < names.size(); ++i) {
    auto& [time_ns, threads] = groups[names[i]];
    time_ns += profile.threads[i].ledger.on_cpu_ns();
    threads++;
  }
  const auto most = std::max_element(
      groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  const auto [time_ns, threads] = most->second;
  const double share = static_cast<double>(time_ns) / static_cast<double>(on_cpu_ns);
  // Of no time at all it is not a number.
  if (groups.size() < 2 || !(share >= kMostOfCpu)) return;
  finding->set_cpu_group(most->first);
  finding->set_cpu_threads(static_cast<uint32_t>(threads));
  finding->set_cpu_share(share);
}

}  // namespace

void FindThrottling(const View& view, std::vector<Finding>& findings) {
  const Profile& profile = *view.profile;
  const profd::v1::Process* worst = nullptr;
  for (const profd::v1::Process& process : profile.message->processes()) {
    const profd::v1::CpuQuota& quota = process.cpu_quota();
    if (quota.periods() < kLeastPeriods ||
        static_cast<double>(quota.throttled_periods()) <
            kLeastThrottled * static_cast<double>(quota.periods())) {
      continue;
    }
    if (worst == nullptr || quota.throttled_ns() > worst->cpu_quota().throttled_ns()) {
      worst = &process;
    }
  }
  if (worst == nullptr) return;
  const profd::v1::CpuQuota& quota = worst->cpu_quota();
  // Processes of one cgroup have the same numbers.
  const std::string numbers = quota.SerializeAsString();
  uint32_t processes = 0;
  for (const profd::v1::Process& process : profile.message->processes()) {
    if (process.cpu_quota().SerializeAsString() == numbers) ++processes;
  }
  Finding finding = NewFinding(view, profd::v1::FINDING_RULE_CPU_QUOTA);
  finding.set_value(quota.throttled_ns());
  finding.set_share(static_cast<double>(quota.throttled_periods()) /
                    static_cast<double>(quota.periods()));
  finding.set_process(worst->name());
  finding.set_pid(worst->pid());
  finding.set_processes(processes);
  *finding.mutable_cpu_quota() = quota;
  findings.push_back(std::move(finding));
}

void FindDelay(const View& view, std::vector<Finding>& findings) {
  const Profile& profile = *view.profile;
  const Totals totals = TotalsOf(profile);
  const int64_t runnable = totals.on_cpu_ns + totals.run_queue_ns;
  const auto delay = static_cast<double>(totals.run_queue_ns);
  if (runnable <= 0 || delay < kLeastDelay * static_cast<double>(runnable) ||
      delay < kLeastWaited * static_cast<double>(WindowNs(profile))) {
    return;
  }
  const auto worst = std::max_element(
      profile.threads.begin(), profile.threads.end(),
      [](const Thread& a, const Thread& b) { return RunQueueOf(a) < RunQueueOf(b); });
  Finding finding = NewFinding(view, profd::v1::FINDING_RULE_RUN_QUEUE);
  SetShare(totals.run_queue_ns, runnable, &finding);
  AddThread(*worst, RunQueueOf(*worst), &finding);
  for (profd::v1::Occupant& occupant : LargestOccupants(profile, kLeastOccupied)) {
    finding.mutable_occupants()->Add(std::move(occupant));
  }
  if (finding.occupants().empty()) SetCpuGroup(profile, totals.on_cpu_ns, &finding);
  findings.push_back(std::move(finding));
}

void FindBusy(const View& view, std::vector<Finding>& findings) {
  const Profile& profile = *view.profile;
  std::vector<const Thread*> busy;
  const double least = kLeastBusyWindow * static_cast<double>(WindowNs(profile));
  for (const Thread& thread : profile.threads) {
    const auto wall = static_cast<double>(thread.ledger.wall_ns());
    if (wall > 0 && wall >= least &&
        static_cast<double>(thread.ledger.on_cpu_ns()) >= kBusy * wall) {
      busy.push_back(&thread);
    }
  }
  if (busy.empty()) return;
  std::stable_sort(busy.begin(), busy.end(), [](const Thread* a, const Thread* b) {
    return a->ledger.on_cpu_ns() > b->ledger.on_cpu_ns();
  });
  Finding finding = NewFinding(view, profd::v1::FINDING_RULE_BUSY_THREADS);
  SetShare(busy[0]->ledger.on_cpu_ns(), busy[0]->ledger.wall_ns(), &finding);
  finding.set_threads(static_cast<uint32_t>(busy.size()));
  if (busy.size() > kMostBusyThreads) busy.resize(kMostBusyThreads);
  for (const Thread* thread : busy) AddThread(*thread, thread->ledger.on_cpu_ns(), &finding);
  findings.push_back(std::move(finding));
}

}  // namespace profctl
