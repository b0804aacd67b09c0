#include "client/answer/reason.h"

#include <algorithm>
#include <array>

namespace profctl {
namespace {

constexpr size_t kOther = profd::v1::REASON_OTHER - 1;

constexpr std::array<ReasonInfo, 17> kReasons = {{
    {profd::v1::REASON_RUNQUEUE, "runqueue", "a CPU (it is ready to run)"},
    {profd::v1::REASON_RECLAIM, "reclaim", "free memory, which it reclaims itself"},
    {profd::v1::REASON_FAULT, "fault", "a page to be read in (page fault)"},
    {profd::v1::REASON_FSYNC, "fsync", "written data to reach the disk"},
    {profd::v1::REASON_LOCK, "lock", "a lock or condition (futex)"},
    {profd::v1::REASON_DISK, "disk", "a file read or write"},
    {profd::v1::REASON_POLL, "poll", "events (epoll, poll, select, io_uring)"},
    {profd::v1::REASON_NET, "net", "a socket (recv, send, accept, connect)"},
    {profd::v1::REASON_SLEEP, "sleep", "a timer (sleep)"},
    {profd::v1::REASON_PIPE, "pipe", "the other end of a pipe"},
    {profd::v1::REASON_CHILD, "child", "a child process to exit or exec"},
    {profd::v1::REASON_SIGNAL, "signal", "a signal"},
    {profd::v1::REASON_OTHER, "other", "another system call"},
    {profd::v1::REASON_STOPPED, "stopped", "a signal to continue (SIGCONT)"},
    {profd::v1::REASON_TRACED, "traced", "a debugger to let it go on (ptrace)"},
    {profd::v1::REASON_FROZEN, "frozen", "its cgroup to be thawed"},
    {profd::v1::REASON_ON_CPU, "on-cpu", "no wait: it runs on a CPU (wall)"},
}};

}  // namespace

std::span<const ReasonInfo> AllReasons() { return kReasons; }

const ReasonInfo& DescribeReason(Reason reason) {
  const auto it = std::find_if(kReasons.begin(), kReasons.end(),
                               [&](const ReasonInfo& info) { return info.reason == reason; });
  return it == kReasons.end() ? kReasons[kOther] : *it;
}

std::optional<Reason> ParseReason(std::string_view name) {
  const auto it = std::find_if(kReasons.begin(), kReasons.end(),
                               [&](const ReasonInfo& info) { return info.name == name; });
  if (it == kReasons.end()) return std::nullopt;
  return it->reason;
}

}  // namespace profctl
