#include "client/reason.h"

#include <algorithm>
#include <array>

namespace profctl {
namespace {

constexpr size_t kOther = profd::v1::REASON_OTHER - 1;

constexpr std::array<ReasonInfo, 14> kReasons = {{
    {profd::v1::REASON_RUNQUEUE, "runqueue", "ready to run, waiting for a CPU"},
    {profd::v1::REASON_RECLAIM, "reclaim", "freeing memory before it may go on"},
    {profd::v1::REASON_FAULT, "fault", "a page it touched had to be brought in"},
    {profd::v1::REASON_FSYNC, "fsync", "forcing written data to the disk"},
    {profd::v1::REASON_LOCK, "lock", "a lock or condition (futex)"},
    {profd::v1::REASON_DISK, "disk", "reading or writing files"},
    {profd::v1::REASON_POLL, "poll", "waiting for work (epoll, poll, io_uring)"},
    {profd::v1::REASON_NET, "net", "a socket: recv, send, accept, connect"},
    {profd::v1::REASON_SLEEP, "sleep", "sleeping by its own wish"},
    {profd::v1::REASON_PIPE, "pipe", "the other end of a pipe"},
    {profd::v1::REASON_CHILD, "child", "a child process to end"},
    {profd::v1::REASON_SIGNAL, "signal", "a signal to arrive"},
    {profd::v1::REASON_OTHER, "other", "another system call"},
    {profd::v1::REASON_ON_CPU, "on-cpu", "running on a CPU (wall)"},
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
