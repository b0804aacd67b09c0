#include "daemon/profile/identity.h"

#include "absl/strings/ascii.h"

namespace profd {
namespace {

constexpr int64_t kProcStepNs = 10'000'000;
constexpr size_t kContainerIdLength = 64;

bool IsLowerHex(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
}

}  // namespace

int64_t StartAsInProc(int64_t start_ns) { return start_ns / kProcStepNs * kProcStepNs; }

ProcessId ProcessIdOf(const ThreadInfo& info) {
  return {info.pid, StartAsInProc(info.process_start_ns)};
}

std::string ContainerIdOf(std::string_view cgroup) {
  std::string_view last;
  for (size_t begin = 0; begin < cgroup.size();) {
    size_t end = begin;
    while (end < cgroup.size() && IsLowerHex(cgroup[end])) end++;
    if (end - begin == kContainerIdLength) last = cgroup.substr(begin, end - begin);
    begin = end + 1;
  }
  return std::string(last);
}

}  // namespace profd
