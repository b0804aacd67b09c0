// What a client may ask for, checked.
#ifndef PROFD_DAEMON_SERVICE_REQUEST_H_
#define PROFD_DAEMON_SERVICE_REQUEST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/profile/profile.h"
#include "daemon/profile/sample_type.h"
#include "daemon/service/filter.h"
#include "daemon/service/line_wish.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"
#include "re2/re2.h"

namespace profd {

// What every request for a window says.
struct RequestScope {
  Window window;       // monotonic; end_ns is the arrival of the request when `to_now`
  bool to_now = true;  // the window reaches up to the request
  std::vector<TargetFilter> targets;  // empty: all
  std::shared_ptr<const RE2> thread;  // null: all

  bool MatchesTarget(int32_t pid, const std::string& process) const;
  bool MatchesThread(const ThreadInfo& info) const;
};

struct FetchPlan : RequestScope {
  std::vector<const SampleTypeInfo*> types;  // one at least, each once
  std::array<bool, kReasonCount> reasons{};
  bool running = true;  // of the type "wall": time on a CPU too
  std::vector<v1::GroupKey> group_by;
  struct Longest {
    size_t limit = 0;
    bool idle = false;
  };
  std::optional<Longest> longest;        // the longest waits instead of samples
  std::optional<RequestScope> baseline;  // the second window, of the same processes and threads
  LineWish lines = LineWish::kNone;

  bool Asks(Kind kind) const;
  // A type with waits, and one with reasons.
  bool AsksWaits() const { return std::ranges::any_of(types, &SampleTypeInfo::IsOfWaits); }
  bool AsksReasons() const { return std::ranges::any_of(types, &SampleTypeInfo::HasReasons); }
  // A type of disk requests.
  bool AsksDisk() const {
    return Asks(Kind::kDisk) || Asks(Kind::kDiskQueue) || Asks(Kind::kDiskBytes);
  }
  // File syncs are told of: they were asked for, or waits for them.
  bool TellsSyncs() const {
    const bool waits = AsksWaits() && !Asks(Kind::kLocks);
    return Asks(Kind::kSync) || (waits && !longest && reasons[static_cast<size_t>(Reason::kFsync)]);
  }
  // Samples with this key are in the answer, or in its values of that type.
  bool Shows(const SampleKey& key) const;
  bool Shows(const SampleTypeInfo& type, const SampleKey& key) const;
  // What there was at the end of the window is needed.
  bool NeedsLevels() const;
};

// `now_ns` is monotonic, `wall_offset_ns` what WallOffsetNs() gives. Errors: InvalidArgument with
// one line for the user.
absl::StatusOr<FetchPlan> ParseFetch(const v1::FetchRequest& request, int64_t now_ns,
                                     int64_t wall_offset_ns);

struct MemoryPlan : RequestScope {
  size_t max_points = 0;
  size_t max_sites = 0;
};
absl::StatusOr<MemoryPlan> ParseMemory(const v1::GetMemoryRequest& request, int64_t now_ns,
                                       int64_t wall_offset_ns);

// What is asked of debug info: of FetchRequest and GetStacksRequest.
template <typename Request>
LineWish ReadLineWish(const Request& request) {
  if (request.inlines()) return LineWish::kInlines;
  return request.source_lines() ? LineWish::kLines : LineWish::kNone;
}

// Threads as they are now. Without a window.
absl::StatusOr<RequestScope> ParseStacks(const v1::GetStacksRequest& request);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_REQUEST_H_
