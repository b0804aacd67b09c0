#include "daemon/source/look.h"

#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/source/record.h"

namespace profd {
namespace {

ThreadInfo InfoOf(const profd_look& found) {
  return {.id = ThreadId{found.visit.thread_id},
          .pid = found.pid,
          .tid = found.tid,
          .target = found.target_id,
          .name = CommToString(found.comm),
          .process = CommToString(found.process),
          .start_ns = static_cast<int64_t>(found.start),
          .process_start_ns = static_cast<int64_t>(found.process_start)};
}

// One look in the making.
class Looker {
 public:
  Looker(absl::FunctionRef<bool(const ThreadInfo&)> keep, size_t most) : keep_(keep), most_(most) {}

  absl::Status Add(std::span<const uint8_t> bytes) {
    ASSIGN_OR_RETURN(const auto found, DecodeRecord<profd_look>(bytes));
    const bool running = found.visit.outcome == PROFD_VISIT_RUNNING;
    if (!running && found.visit.reason >= PROFD_REASON_COUNT) {
      return absl::DataLossError(
          absl::StrCat("a look found a wait for reason ", found.visit.reason));
    }
    ++look.visited;
    look.walks += running ? 0 : 1;
    ThreadInfo info = InfoOf(found);
    // Of another PID namespace: no number names it here.
    if (info.pid == 0 || !keep_(info)) return absl::OkStatus();
    if (look.threads.size() >= most_) {
      ++look.left_out;
      return absl::OkStatus();
    }
    LookedThread& thread = look.threads.emplace_back();
    thread.info = std::move(info);
    thread.running = running;
    thread.looked_ns = static_cast<int64_t>(found.now);
    if (found.since != 0) thread.since_ns = static_cast<int64_t>(found.since);
    if (running) return absl::OkStatus();
    thread.reason = static_cast<Reason>(found.visit.reason);
    thread.syscall = found.visit.sysno;
    if (found.names_object != 0) thread.object = found.visit.arg0;
    ASSIGN_OR_RETURN(StackTrace stack, DecodeStack(bytes.subspan(sizeof(found))));
    thread.stack = stack.id;
    if (stack.walk == WalkResult{PROFD_WALK_TORN}) ++look.torn;
    const size_t used = sizeof(found) + PROFD_STACK_HEADER_SIZE + stack.frames.size() * 8;
    Keep(std::move(stack));
    if (found.object == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(StackTrace object, DecodeStack(bytes.subspan(used)));
    thread.described = object.id;
    Keep(std::move(object));
    return absl::OkStatus();
  }

  Look look;

 private:
  void Keep(StackTrace stack) {
    if (!known_.insert(stack.id).second) return;
    look.stacks.push_back(std::make_shared<const StackTrace>(std::move(stack)));
  }

  const absl::FunctionRef<bool(const ThreadInfo&)> keep_;
  const size_t most_;
  absl::flat_hash_set<StackId> known_;
};

}  // namespace

absl::StatusOr<Look> TakeLook(LookKernel* kernel, const Clock* clock,
                              absl::FunctionRef<bool(const ThreadInfo&)> keep, size_t most) {
  Looker looker(keep, most);
  absl::Status decoded;
  looker.look.begin_ns = clock->MonotonicNs();
  const int64_t cpu_ns = clock->ThreadCpuNs();
  RETURN_IF_ERROR(
      kernel->Look([&](std::span<const uint8_t> bytes) { decoded.Update(looker.Add(bytes)); }));
  RETURN_IF_ERROR(decoded);
  looker.look.end_ns = clock->MonotonicNs();
  looker.look.cpu_ns = clock->ThreadCpuNs() - cpu_ns;
  return std::move(looker.look);
}

}  // namespace profd
