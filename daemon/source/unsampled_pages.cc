#include "daemon/source/unsampled_pages.h"

#include <algorithm>

#include "daemon/memory/process_memory.h"

namespace profd {
namespace {

constexpr int64_t kPageBytes = 4'096;
// With fewer faults in a drain a process is not read; one fault may add 2 MiB.
constexpr int64_t kLeastFaults = 16;
// Smaller growth is not entered.
constexpr int64_t kLeastBytes = 1 << 20;
// Most processes that are read when sampling stops, and at each drain.
constexpr size_t kMostProcesses = 256;
// How often to check whether entered memory is gone.
constexpr int64_t kLookInterval = 5'000'000'000;

}  // namespace

int64_t UnsampledPages::RestOf(int32_t pid, Sampled sampled) const {
  const absl::StatusOr<ProcessDirectory> directory = ProcessDirectory::Open(proc_, pid);
  if (!directory.ok()) return -1;
  const absl::StatusOr<std::string> status = directory->Read("status");
  if (!status.ok()) return -1;
  const std::optional<int64_t> anon = ParseStatus(*status).anon;
  return anon ? std::max<int64_t>(0, *anon - sampled(pid)) : -1;
}

void UnsampledPages::Begin(const std::set<int32_t>& pids, Sampled sampled) {
  if (off_) return;
  off_ = true;
  size_t looks = 0;
  for (const int32_t pid : pids) {
    if (++looks > kMostProcesses) break;
    const int64_t rest = RestOf(pid, sampled);
    if (rest < 0) continue;
    Process& process = processes_[pid];
    process.before = std::max<int64_t>(0, rest - process.unsampled);
  }
}

void UnsampledPages::Enter(int32_t pid, Process& process, int64_t unsampled) {
  if (unsampled < kLeastBytes) unsampled = 0;
  if (unsampled == process.unsampled) return;
  process.unsampled = unsampled;
  const ThreadId id{static_cast<uint64_t>(pid)};
  if (unsampled > 0) {
    entries_.Add(id, 0, {.thread = process.thread, .stack = StackId{}, .bytes = unsampled});
  } else {
    entries_.RemoveProcess(id);
  }
}

void UnsampledPages::Drain(int64_t now_ns, ProcessOf process_of, Sampled sampled,
                           ProfileDelta& delta) {
  if (off_) {
    std::map<int32_t, Faults> faults;
    for (const ThreadLedger& ledger : delta.ledgers) {
      // Without kernel accounting, any thread may have had faults.
      const int64_t count =
          delta.books_on ? ledger.delta.minor_faults + ledger.delta.major_faults : kLeastFaults;
      const int32_t pid = count > 0 ? process_of(ledger.thread) : 0;
      if (pid <= 0) continue;
      Faults& of = faults[pid];
      of.all += count;
      if (count <= of.most) continue;
      of.most = count;
      of.thread = ledger.thread;
    }
    size_t looks = 0;
    for (const auto& [pid, of] : faults) {
      if (of.all < kLeastFaults) continue;
      if (++looks > kMostProcesses) break;
      const int64_t rest = RestOf(pid, sampled);
      if (rest < 0) continue;
      const auto [it, is_new] = processes_.try_emplace(pid);
      Process& process = it->second;
      // A new process: memory that it did not touch itself is inherited from its parent.
      if (is_new) process.before = std::max<int64_t>(0, rest - of.all * kPageBytes);
      if (process.unsampled == 0) process.thread = of.thread;
      Enter(pid, process, std::max(process.unsampled, rest - process.before));
    }
  }
  if (now_ns >= next_look_ns_) {
    next_look_ns_ = now_ns + kLookInterval;
    for (auto& [pid, process] : processes_) {
      if (process.unsampled == 0) continue;
      const int64_t rest = RestOf(pid, sampled);
      if (rest >= 0) Enter(pid, process, std::min(process.unsampled, rest));
    }
  }
  entries_.Finish(delta);
}

void UnsampledPages::KeepOnly(const std::set<int32_t>& pids) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    if (pids.contains(it->first)) {
      ++it;
    } else {
      entries_.RemoveProcess(ThreadId{static_cast<uint64_t>(it->first)});
      it = processes_.erase(it);
    }
  }
}

void UnsampledPages::Forget(int32_t pid) {
  entries_.RemoveProcess(ThreadId{static_cast<uint64_t>(pid)});
  processes_.erase(pid);
}

}  // namespace profd
