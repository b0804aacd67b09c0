#include "client/top/snapshot.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

Snapshot MakeSnapshot(Answer interval, absl::StatusOr<Looks> looks) {
  Snapshot snapshot;
  snapshot.interval = std::move(interval);
  if (looks.ok()) {
    snapshot.looks = *std::move(looks);
  } else {
    snapshot.looks_error = std::string(looks.status().message());
  }
  std::map<std::pair<int32_t, int32_t>, size_t> places;  // in threads, by PID and TID
  for (LedgerRow& row :
       LedgerRows(snapshot.waits(), &snapshot.interval.profiles[1], false, ThreadSort::kName)) {
    places[{row.pid, row.tid}] = snapshot.threads.size();
    snapshot.threads.push_back({std::move(row), nullptr});
  }
  if (snapshot.looks) {
    for (const ThreadLook& look : snapshot.looks->threads) {
      const Thread& thread = snapshot.looks->profile().threads[look.thread];
      const auto [it, fresh] =
          places.try_emplace({thread.pid, thread.tid}, snapshot.threads.size());
      if (fresh) {  // it began after the interval
        LedgerRow row;
        row.name = thread.name;
        row.process = thread.process;
        row.pid = thread.pid;
        row.tid = thread.tid;
        row.threads = 1;
        snapshot.threads.push_back({std::move(row), nullptr});
      }
      snapshot.threads[it->second].look = &look;
    }
  }
  for (const TopThread& thread : snapshot.threads) {
    if (thread.ledger.pid != snapshot.threads.front().ledger.pid) snapshot.many_processes = true;
  }
  return snapshot;
}

std::string DescribeNow(const ThreadLook* look) {
  if (look == nullptr) return "-";
  if (look->Runs()) return "on CPU";
  if (look->Queues()) return "run queue";
  if (!look->idle.empty()) return absl::StrCat("idle: ", CleanName(look->idle));
  return std::string(DescribeReason(look->reason).name);
}

}  // namespace profctl
