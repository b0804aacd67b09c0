#include "daemon/target/guarded_file.h"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>

namespace profd {
namespace {

constexpr uintptr_t kPage = 4096;

// Read by the signal handler: plain atomics, set before the mapping is used.
std::atomic<uintptr_t> guard_begin{0};
std::atomic<uintptr_t> guard_end{0};
std::atomic<bool> guard_hit{false};

void OnBusError(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (address >= guard_begin.load() && address < guard_end.load()) {
    void* page = reinterpret_cast<void*>(address & ~(kPage - 1));
    if (mmap(page, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
      guard_hit = true;
      return;
    }
  }
  signal(SIGBUS, SIG_DFL);  // the instruction faults again and ends the process
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardedFile>> GuardedFile::Map(int fd) {
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  if (!installed) return absl::InternalError("cannot handle SIGBUS");
  if (guard_begin.load() != 0) return absl::FailedPreconditionError("a file is guarded already");
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Map(fd));
  std::unique_ptr<GuardedFile> guarded(new GuardedFile(std::move(file)));
  const auto begin = reinterpret_cast<uintptr_t>(guarded->bytes().data());
  guard_hit = false;
  guard_end = begin + ((guarded->bytes().size() + kPage - 1) & ~(kPage - 1));
  guard_begin = begin;
  return guarded;
}

GuardedFile::~GuardedFile() {
  guard_begin = 0;
  guard_end = 0;
}

bool GuardedFile::torn() const { return guard_hit.load(); }

}  // namespace profd
