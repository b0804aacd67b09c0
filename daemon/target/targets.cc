#include "daemon/target/targets.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/base/own_process.h"

namespace profd {
namespace {

// How often processes are listed at most until nobody new is found: a child that is forked after
// its parent was listed and before it was marked inherits no mark.
constexpr int kMostListings = 8;

// profd, or one of the processes that read debug info for it.
bool IsOwn(const ProcessInfo& process) {
  return process.pid == getpid() ||
         (process.parent == getpid() && process.comm == kLineProcessName);
}

// `roots` and everything that descends from them.
std::vector<ProcessInfo> WithDescendants(const std::vector<ProcessInfo>& processes,
                                         std::vector<ProcessInfo> roots) {
  std::unordered_multimap<int32_t, const ProcessInfo*> children;
  for (const ProcessInfo& process : processes) children.emplace(process.parent, &process);
  std::unordered_set<int32_t> seen;
  for (const ProcessInfo& root : roots) seen.insert(root.pid);
  for (size_t i = 0; i < roots.size(); ++i) {
    const auto [begin, end] = children.equal_range(roots[i].pid);
    for (auto it = begin; it != end; ++it) {
      if (seen.insert(it->second->pid).second) roots.push_back(*it->second);
    }
  }
  return roots;
}

}  // namespace

absl::StatusOr<bool> Targets::MarkProcess(const ProcessInfo& process, uint32_t target) {
  if (IsOwn(process)) return false;
  ASSIGN_OR_RETURN(const UniqueFd pidfd, OpenPidfd(process.pid));
  // The PID may have been reused since the process was listed. If the listed process still runs,
  // it had its PID all the time, so the pidfd is its own.
  if (!IsRunning(process)) {
    return absl::NotFoundError(absl::StrCat("no process with PID ", process.pid));
  }
  return kernel_->Mark(pidfd.get(), target);
}

absl::Status Targets::MarkRunning() {
  bool marked = true;
  for (int listing = 0; marked && listing < kMostListings; ++listing) {
    marked = false;
    const std::vector<ProcessInfo> processes = ListProcesses();
    for (uint32_t i = 0; i < selectors_.size(); ++i) {
      std::vector<ProcessInfo> roots;
      for (const ProcessInfo& process : processes) {
        if (!IsOwn(process) && selectors_[i].Matches(process)) roots.push_back(process);
      }
      if (listing == 0 && roots.empty() && selectors_[i].pid()) {
        return absl::NotFoundError(absl::StrCat("no process with PID ", *selectors_[i].pid()));
      }
      for (const ProcessInfo& process : WithDescendants(processes, std::move(roots))) {
        const absl::StatusOr<bool> fresh = MarkProcess(process, i + 1);
        marked |= fresh.ok() && *fresh;
        // One that has ended meanwhile is no error, unless the user named it.
        const bool named = listing == 0 && selectors_[i].pid() == process.pid;
        if (!fresh.ok() && (!absl::IsNotFound(fresh.status()) || named)) return fresh.status();
      }
    }
  }
  return absl::OkStatus();
}

bool Targets::MarkAll(const std::vector<ProcessInfo>& processes, uint32_t target) {
  bool marked = false;
  for (const ProcessInfo& process : processes) {
    const absl::StatusOr<bool> fresh = MarkProcess(process, target);
    marked |= fresh.ok() && *fresh;
    if (!fresh.ok() && !absl::IsNotFound(fresh.status())) {
      LogWarning("cannot follow PID ", process.pid, ": ", fresh.status().ToString());
    }
  }
  return marked;
}

bool Targets::OnExec(int32_t pid) {
  const auto process = ReadProcess(pid);
  if (!process.ok()) return false;
  for (uint32_t i = 0; i < selectors_.size(); ++i) {
    if (selectors_[i].pid() || !selectors_[i].Matches(*process)) continue;
    bool marked = MarkAll({*process}, i + 1);
    // It may have had children before.
    const auto family = ReadFamily(pid);
    marked |= MarkAll(family.ok() ? *family : WithDescendants(ListProcesses(), {*process}), i + 1);
    return marked;
  }
  return false;
}

bool Targets::Rescan() {
  const bool names = std::any_of(selectors_.begin(), selectors_.end(),
                                 [](const Selector& selector) { return !selector.pid(); });
  if (!names) return false;
  bool marked = false;
  const std::vector<ProcessInfo> processes = ListProcesses();
  for (const ProcessInfo& process : processes) {
    for (uint32_t i = 0; i < selectors_.size(); ++i) {
      if (selectors_[i].pid() || !selectors_[i].Matches(process)) continue;
      marked |= MarkAll(WithDescendants(processes, {process}), i + 1);
    }
  }
  return marked;
}

}  // namespace profd
