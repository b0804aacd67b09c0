#include "daemon/service/wait_object.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr int32_t kFutexWait = 455;  // SYS_futex_wait, since Linux 6.7

enum class ObjectKind { kFutex, kSemaphores, kDescriptor };

ObjectKind KindOf(int32_t syscall) {
  if (syscall == SYS_futex || syscall == kFutexWait) return ObjectKind::kFutex;
  if (syscall == SYS_semop || syscall == SYS_semtimedop) return ObjectKind::kSemaphores;
  return ObjectKind::kDescriptor;
}

}  // namespace

std::string ObjectText(int32_t syscall, uint64_t argument) {
  switch (KindOf(syscall)) {
    case ObjectKind::kFutex:
      return absl::StrCat("futex 0x", absl::Hex(argument));
    case ObjectKind::kSemaphores:
      return absl::StrCat("semaphores ", static_cast<int32_t>(argument));
    case ObjectKind::kDescriptor:
      break;
  }
  return absl::StrCat("fd ", static_cast<int32_t>(argument));
}

bool IsDescriptor(int32_t syscall) { return KindOf(syscall) == ObjectKind::kDescriptor; }

const std::string& OpenFiles::Find(int32_t pid, uint64_t descriptor) {
  if (descriptor > std::numeric_limits<int32_t>::max()) return none_;
  const auto known = found_.find({pid, descriptor});
  if (known != found_.end()) return known->second;
  if (found_.size() >= most_) return none_;
  char target[kMaxPathText];
  const std::string link = absl::StrCat(proc_, "/", pid, "/fd/", descriptor);
  const ssize_t n = readlink(link.c_str(), target, sizeof(target));
  const size_t length = n > 0 ? static_cast<size_t>(n) : 0;
  return found_.emplace(std::pair(pid, descriptor), CleanText({target, length}, kMaxPathText))
      .first->second;
}

}  // namespace profd
