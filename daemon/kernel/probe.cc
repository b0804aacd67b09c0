#include "daemon/kernel/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// What BPF_LINK_CREATE reads of union bpf_attr for kUprobeMulti.
struct UprobeMultiAttr {
  uint32_t program;
  uint32_t target;
  uint32_t attach_type;
  uint32_t link_flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_counts;
  uint64_t cookies;
  uint32_t count;
  uint32_t flags;
  uint32_t pid;
  uint32_t pad;
};

// The kernel opens it by name; this one leads to the file whatever became of its own.
std::string PathOf(int file) { return absl::StrCat("/proc/self/fd/", file); }

// Sets errno when the result is empty.
UniqueFd LinkMulti(const bpf_program* program, int file, int32_t pid,
                   std::span<const HeapPlace> places) {
  const std::string path = PathOf(file);
  std::vector<uint64_t> offsets, cookies, semaphores;
  for (const HeapPlace& place : places) {
    offsets.push_back(place.offset);
    cookies.push_back(place.cookie);
    semaphores.push_back(place.semaphore);
  }
  UprobeMultiAttr attr{};
  attr.program = static_cast<uint32_t>(bpf_program__fd(program));
  attr.attach_type = kUprobeMulti;
  attr.path = reinterpret_cast<uintptr_t>(path.c_str());
  attr.offsets = reinterpret_cast<uintptr_t>(offsets.data());
  attr.ref_counts = reinterpret_cast<uintptr_t>(semaphores.data());
  attr.cookies = reinterpret_cast<uintptr_t>(cookies.data());
  attr.count = static_cast<uint32_t>(places.size());
  attr.pid = static_cast<uint32_t>(pid);
  return UniqueFd(
      static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, offsetof(UprobeMultiAttr, pad))));
}

// A process that has ended, so that it has no memory, and that nobody has waited for yet.
class Ended {
 public:
  Ended() : pid_(vfork()) {
    if (pid_ == 0) _exit(0);
    siginfo_t info{};
    // It goes on using our memory for a moment after vfork() returned.
    ok_ = pid_ > 0 && waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0;
  }
  ~Ended() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

  bool ok() const { return ok_; }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
  bool ok_ = false;
};

}  // namespace

void LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

ProbeGuard Probes::Guard(const bpf_program* program, int file, std::span<const HeapPlace> places) {
  struct stat status{};
  if (fstat(file, &status) != 0) return nullptr;
  Site site{.device = status.st_dev, .inode = status.st_ino, .places = {}};
  for (const HeapPlace& place : places) site.places.emplace_back(place.offset, place.semaphore);
  absl::MutexLock lock(&mutex_);
  std::erase_if(guards_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = guards_.find(site); known != guards_.end()) {
    if (ProbeGuard guard = known->second.lock()) return guard;
  }
  const Ended nobody;
  UniqueFd link;
  if (nobody.ok()) link = LinkMulti(program, file, nobody.pid(), places);
  if (!link.ok()) {
    spdlog::debug("no guard for probes: {}", ErrnoStatus("a guard", errno).ToString());
    return nullptr;
  }
  auto guard = std::make_shared<const UniqueFd>(std::move(link));
  guards_.insert_or_assign(std::move(site), guard);
  return guard;
}

absl::StatusOr<Probe> Probes::Put(const bpf_program* program, int file, int32_t pid,
                                  std::span<const HeapPlace> places) {
  Probe probe;
  if (bpf_program__expected_attach_type(program) == static_cast<bpf_attach_type>(kUprobeMulti)) {
    // Our own memory goes with us.
    if (pid != getpid()) probe.guard = Guard(program, file, places);
    probe.multi = LinkMulti(program, file, pid, places);
    if (!probe.multi.ok()) return ErrnoStatus("put a probe into a file", errno);
    return probe;
  }
  const std::string path = PathOf(file);
  for (const HeapPlace& place : places) {
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = place.semaphore,
                .bpf_cookie = place.cookie);
    UniqueLink link(bpf_program__attach_uprobe_opts(program, pid == 0 ? -1 : pid, path.c_str(),
                                                    place.offset, &options));
    if (!link) {
      return ErrnoStatus("put a probe into a file (before Linux 6.6 it takes CAP_SYS_ADMIN)", errno);
    }
    probe.single.push_back(std::move(link));
  }
  return probe;
}

}  // namespace profd
