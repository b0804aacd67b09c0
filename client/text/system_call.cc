#include "client/text/system_call.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace profctl {
namespace {

struct SystemCall {
  int32_t number;
  std::string_view name;
};

constexpr std::array<SystemCall, 52> kSystemCalls = {{
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_open, "open"},
    {SYS_close, "close"},
    {SYS_poll, "poll"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_select, "select"},
    {SYS_msync, "msync"},
    {SYS_pause, "pause"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_sendfile, "sendfile"},
    {SYS_connect, "connect"},
    {SYS_accept, "accept"},
    {SYS_sendto, "sendto"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_execve, "execve"},
    {SYS_wait4, "wait4"},
    {SYS_semop, "semop"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_sync, "sync"},
    {SYS_futex, "futex"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_waitid, "waitid"},
    {SYS_openat, "openat"},
    {SYS_pselect6, "pselect6"},
    {SYS_ppoll, "ppoll"},
    {SYS_splice, "splice"},
    {SYS_tee, "tee"},
    {SYS_sync_file_range, "sync_file_range"},
    {SYS_vmsplice, "vmsplice"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_accept4, "accept4"},
    {SYS_preadv, "preadv"},
    {SYS_pwritev, "pwritev"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_syncfs, "syncfs"},
    {SYS_sendmmsg, "sendmmsg"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {441, "epoll_pwait2"},
}};

}  // namespace

std::string SystemCallName(int32_t number) {
  const auto* const it =
      std::find_if(kSystemCalls.begin(), kSystemCalls.end(),
                   [number](const SystemCall& call) { return call.number == number; });
  if (it == kSystemCalls.end()) return absl::StrCat("system call ", number);
  return std::string(it->name);
}

}  // namespace profctl
