#include "daemon/lines/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <limits>
#include <vector>

#include "daemon/base/capability.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

// Two numbers above the standard ones: the socket, and room for a file that is passed.
constexpr rlim_t kDescriptors = 32;

absl::Status Limit(int resource, rlim_t value, const char* what) {
  const rlimit limit = {.rlim_cur = value, .rlim_max = value};
  return setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0
             ? absl::OkStatus()
             : ErrnoStatus(what, errno);
}

// Memory, the socket, descriptors that came over it, and the end. What is missing fails with EPERM,
// with which libdw copes. Opening a file is a trap instead: FileAsker asks profd for some.
constexpr int kAllowed[] = {SYS_brk,        SYS_munmap,    SYS_mremap,        SYS_madvise,
                            SYS_read,       SYS_pread64,   SYS_lseek,         SYS_fstat,
                            SYS_newfstatat, SYS_close,     SYS_recvmsg,       SYS_sendmsg,
                            SYS_futex,      SYS_setitimer, SYS_clock_gettime, SYS_rt_sigreturn,
                            SYS_getrandom,  SYS_exit,      SYS_exit_group};
// These two with anything but PROT_EXEC.
constexpr int kNotExecutable[] = {SYS_mmap, SYS_mprotect};

absl::Status FilterCalls() {
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr uint32_t kArch = offsetof(seccomp_data, arch);
  // The low half of the third argument: the protection.
  constexpr uint32_t kProtection = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);
  const auto load = [](uint32_t at) -> sock_filter {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
  };
  const auto give = [](uint32_t value) -> sock_filter { return BPF_STMT(BPF_RET | BPF_K, value); };
  // Skips the next one unless equal.
  const auto equal = [](uint32_t value) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  };
  std::vector<sock_filter> program = {load(kArch),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
                                      give(SECCOMP_RET_KILL_PROCESS), load(kNumber)};
  for (const int call : kAllowed) {
    program.push_back(equal(static_cast<uint32_t>(call)));
    program.push_back(give(SECCOMP_RET_ALLOW));
  }
  program.push_back(equal(SYS_openat));
  program.push_back(give(SECCOMP_RET_TRAP));
  for (const int call : kNotExecutable) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 4));
    program.push_back(load(kProtection));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    program.push_back(give(SECCOMP_RET_ALLOW));
    program.push_back(give(SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(give(SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog filter = {.len = static_cast<unsigned short>(program.size()),
                             .filter = program.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0
             ? absl::OkStatus()
             : ErrnoStatus("filter system calls", errno);
}

}  // namespace

absl::Status GiveUpPrivileges(int keep) {
  const pid_t parent = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoStatus("give up privileges", errno);
  }
  // It may have ended before the first call.
  if (getppid() != parent) return absl::CancelledError("profd has ended");
  if (const UniqueFd oom(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)); oom.ok()) {
    (void)!write(oom.get(), "1000", 4);
  }
  const UniqueCaps none(cap_init());
  if (!none || cap_set_proc(none.get()) != 0) return ErrnoStatus("drop capabilities", errno);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (null.ok()) dup2(null.get(), standard);
  }
  if (keep > STDERR_FILENO + 1) close_range(STDERR_FILENO + 1, static_cast<unsigned>(keep) - 1, 0);
  close_range(static_cast<unsigned>(keep) + 1, std::numeric_limits<unsigned>::max(), 0);
  RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0, "limit core dumps"));
  RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, 0, "limit files"));
  return absl::OkStatus();
}

absl::Status EnterSandbox(const WorkerLimits& limits) {
  // What a hostile file makes of it is not worth a look from outside, nor can it be looked into.
  prctl(PR_SET_DUMPABLE, 0);
  // Targets come first.
  setpriority(PRIO_PROCESS, 0, 5);
  if (limits.data_bytes > 0) {
    RETURN_IF_ERROR(Limit(RLIMIT_DATA, limits.data_bytes, "limit memory"));
  }
  RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, kDescriptors, "limit descriptors"));
  return limits.filter_calls ? FilterCalls() : absl::OkStatus();
}

}  // namespace profd
