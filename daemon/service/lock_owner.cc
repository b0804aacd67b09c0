#include "daemon/service/lock_owner.h"

#include <linux/futex.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/memory/process_memory.h"
#include "daemon/service/text.h"
#include "daemon/target/procfs.h"

namespace profd {
namespace {

// Value of the futex in a mutex for which threads may wait.
constexpr uint32_t kContended = 2;

// A field of /proc/PID/task/TID/status; empty: there is none.
absl::string_view FieldOf(absl::string_view status, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (absl::StartsWith(line, name)) return absl::StripAsciiWhitespace(line.substr(name.size()));
  }
  return {};
}

}  // namespace

std::optional<int32_t> OwnerInMutex(const unsigned char (&bytes)[16]) {
  // struct __pthread_mutex_s: the futex, a count, the owner. With priority inheritance the kernel
  // keeps the owner in the futex too.
  uint32_t futex = 0;
  int32_t owner = 0;
  std::memcpy(&futex, bytes, sizeof(futex));
  std::memcpy(&owner, bytes + 8, sizeof(owner));
  if ((futex & FUTEX_WAITERS) != 0) owner = static_cast<int32_t>(futex & FUTEX_TID_MASK);
  const bool contended = futex == kContended || (futex & FUTEX_WAITERS) != 0;
  if (!contended || owner <= 0) return std::nullopt;
  return owner;
}

absl::StatusOr<std::optional<LockOwner>> OwnerOfMutex(const ProcessId& process, uint64_t address) {
  ASSIGN_OR_RETURN(const ProcessDirectory directory,
                   ProcessDirectory::Open("/proc", process.pid, process.start_ns));
  unsigned char bytes[16];
  RETURN_IF_ERROR(ReadMemory(process.pid, address, bytes, sizeof(bytes)));
  const std::optional<int32_t> owner = OwnerInMutex(bytes);
  if (!owner) return std::nullopt;
  // The process may name its threads otherwise than we do: then its owner is another thread here.
  const absl::StatusOr<std::string> status =
      directory.Read(absl::StrCat("task/", *owner, "/status").c_str());
  if (!status.ok()) return std::nullopt;
  const absl::string_view numbers = FieldOf(*status, "NSpid:");
  if (numbers != absl::StrCat(*owner)) return std::nullopt;
  const absl::string_view name = FieldOf(*status, "Name:");
  return LockOwner{.tid = *owner,
                   .name = CleanText(std::string_view(name.data(), name.size()), kMaxNameText)};
}

}  // namespace profd
