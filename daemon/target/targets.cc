#include "daemon/target/targets.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// How often processes are listed at most until nobody new is found: a child that is forked after
// its parent was listed and before it was marked inherits no mark.
constexpr int kMostListings = 8;

// `roots` and everything that descends from them.
std::vector<int32_t> WithDescendants(const std::vector<ProcessInfo>& processes,
                                     std::vector<int32_t> roots) {
  std::unordered_multimap<int32_t, int32_t> children;
  for (const ProcessInfo& process : processes) children.emplace(process.parent, process.pid);
  std::unordered_set<int32_t> seen(roots.begin(), roots.end());
  for (size_t i = 0; i < roots.size(); ++i) {
    const auto [begin, end] = children.equal_range(roots[i]);
    for (auto it = begin; it != end; ++it) {
      if (seen.insert(it->second).second) roots.push_back(it->second);
    }
  }
  return roots;
}

}  // namespace

absl::StatusOr<bool> Targets::MarkPid(int32_t pid, uint32_t target) {
  if (pid == getpid()) return false;
  ASSIGN_OR_RETURN(const UniqueFd pidfd, OpenPidfd(pid));
  return kernel_->Mark(pidfd.get(), target);
}

absl::Status Targets::MarkRunning() {
  bool marked = true;
  for (int listing = 0; marked && listing < kMostListings; ++listing) {
    marked = false;
    const std::vector<ProcessInfo> processes = ListProcesses();
    for (uint32_t i = 0; i < selectors_.size(); ++i) {
      std::vector<int32_t> roots;
      for (const ProcessInfo& process : processes) {
        if (process.pid != getpid() && selectors_[i].Matches(process)) roots.push_back(process.pid);
      }
      if (listing == 0 && roots.empty() && selectors_[i].pid()) {
        return absl::NotFoundError(absl::StrCat("no process with PID ", *selectors_[i].pid()));
      }
      for (const int32_t pid : WithDescendants(processes, std::move(roots))) {
        const absl::StatusOr<bool> fresh = MarkPid(pid, i + 1);
        marked |= fresh.ok() && *fresh;
        // One that has ended meanwhile is no error, unless the user named it.
        const bool named = listing == 0 && selectors_[i].pid() == pid;
        if (!fresh.ok() && (!absl::IsNotFound(fresh.status()) || named)) return fresh.status();
      }
    }
  }
  return absl::OkStatus();
}

bool Targets::MarkAll(const std::vector<int32_t>& pids, uint32_t target) {
  bool marked = false;
  for (const int32_t pid : pids) {
    const absl::StatusOr<bool> fresh = MarkPid(pid, target);
    marked |= fresh.ok() && *fresh;
    if (!fresh.ok() && !absl::IsNotFound(fresh.status())) {
      spdlog::warn("cannot follow PID {}: {}", pid, fresh.status().ToString());
    }
  }
  return marked;
}

bool Targets::OnExec(int32_t pid) {
  const auto process = ReadProcess(pid);
  if (!process.ok()) return false;
  for (uint32_t i = 0; i < selectors_.size(); ++i) {
    if (selectors_[i].pid() || !selectors_[i].Matches(*process)) continue;
    bool marked = MarkAll({pid}, i + 1);
    // It may have had children before.
    const auto family = ReadFamily(pid);
    marked |= MarkAll(family.ok() ? *family : WithDescendants(ListProcesses(), {pid}), i + 1);
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
      marked |= MarkAll(WithDescendants(processes, {process.pid}), i + 1);
    }
  }
  return marked;
}

}  // namespace profd
