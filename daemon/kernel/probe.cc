#include "daemon/kernel/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/capability.h"
#include "daemon/base/log.h"
#include "daemon/kernel/probe_link.h"

namespace profd {
namespace {

// The kernel opens it by name; this one leads to the file whatever became of its own.
std::string PathOf(int file) { return absl::StrCat("/proc/self/fd/", file); }

bool IsMulti(const bpf_program* program) {
  return bpf_program__expected_attach_type(program) == static_cast<bpf_attach_type>(kUprobeMulti);
}

absl::StatusOr<PlaceLinks> LinkMulti(const bpf_program* program, int file, int32_t pid,
                                     std::span<const ProbePlace> places) {
  const std::string path = PathOf(file);
  std::vector<uint64_t> offsets, cookies, semaphores;
  for (const ProbePlace& place : places) {
    offsets.push_back(place.offset);
    cookies.push_back(place.cookie);
    semaphores.push_back(place.semaphore);
  }
  PlaceLinks links;
  links.multi =
      LinkProbes(bpf_program__fd(program), path.c_str(), pid, offsets, cookies, semaphores);
  if (!links.multi.ok()) return ErrnoStatus("attach a probe", errno);
  return links;
}

absl::StatusOr<PlaceLinks> LinkEach(const bpf_program* program, int file, int32_t pid,
                                    std::span<const ProbePlace> places) {
  const std::string path = PathOf(file);
  PlaceLinks links;
  // CAP_PERFMON, which is enough for other perf events, is not for these.
  const RaisedCapability raised(CAP_SYS_ADMIN);
  for (const ProbePlace& place : places) {
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = place.semaphore,
                .bpf_cookie = place.cookie);
    UniqueLink link(bpf_program__attach_uprobe_opts(program, pid == 0 ? -1 : pid, path.c_str(),
                                                    place.offset, &options));
    if (!link) {
      const int reason = errno;
      return ErrnoStatus(reason == EACCES || reason == EPERM
                             ? "attach a probe (needs CAP_SYS_ADMIN before Linux 6.6)"
                             : "attach a probe",
                         reason);
    }
    links.single.push_back(std::move(link));
  }
  return links;
}

absl::StatusOr<PlaceLinks> Link(const bpf_program* program, int file, int32_t pid,
                                std::span<const ProbePlace> places) {
  return IsMulti(program) ? LinkMulti(program, file, pid, places)
                          : LinkEach(program, file, pid, places);
}

// A process that is not a target. A link for it affects no process once it has exited, at the
// latest when this is destroyed.
class Nobody {
 public:
  // `lively`: the process runs as long as this object, with a copy of our memory. Otherwise it has
  // exited already.
  explicit Nobody(bool lively) {
    if (!lively) {
      const pid_t child = vfork();
      if (child == 0) _exit(0);
      pid_ = child;
      siginfo_t info{};
      // The child still uses our memory for a moment after vfork() returned.
      if (pid_ > 0) waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
      return;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = _Fork();
    if (pid_ == 0) {
      // It also exits when we do.
      close(ends[1]);
      char byte;
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
    close(ends[0]);
    alive_.reset(ends[1]);
  }
  ~Nobody() {
    alive_.reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

  pid_t pid() const { return pid_; }  // -1: there is none

 private:
  pid_t pid_ = -1;
  UniqueFd alive_;  // the process exits when this closes
};

}  // namespace

void LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

ProbeGuard Probes::Guard(const bpf_program* program, int file, std::span<const ProbePlace> places) {
  struct stat status{};
  if (fstat(file, &status) != 0) return nullptr;
  Site site{.device = status.st_dev, .inode = status.st_ino, .places = {}};
  for (const ProbePlace& place : places) site.places.emplace_back(place.offset, place.semaphore);
  absl::MutexLock lock(&mutex_);
  std::erase_if(guards_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = guards_.find(site); known != guards_.end()) {
    if (ProbeGuard guard = known->second.lock()) return guard;
  }
  // perf events cannot be attached to a process that has exited.
  const Nobody nobody(!IsMulti(program));
  if (nobody.pid() < 0) return nullptr;
  absl::StatusOr<PlaceLinks> links = Link(program, file, nobody.pid(), places);
  if (!links.ok()) {
    LogDebug("no guard for probes: ", links.status().ToString());
    return nullptr;
  }
  auto guard = std::make_shared<const PlaceLinks>(*std::move(links));
  guards_.insert_or_assign(std::move(site), guard);
  return guard;
}

absl::StatusOr<Probe> Probes::Put(const bpf_program* program, int file, int32_t pid,
                                  std::span<const ProbePlace> places) {
  Probe probe;
  // Our own memory ends with us, so it needs no guard.
  if (pid != getpid()) probe.guard = Guard(program, file, places);
  ASSIGN_OR_RETURN(probe.links, Link(program, file, pid, places));
  return probe;
}

}  // namespace profd
