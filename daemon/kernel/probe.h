// Probes: a kernel program at places in a file, for one process or all that map it.
#ifndef PROFD_DAEMON_KERNEL_PROBE_H_
#define PROFD_DAEMON_KERNEL_PROBE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"

struct bpf_link;
struct bpf_program;

namespace profd {

struct LinkDeleter {
  void operator()(bpf_link* link) const;
};
using UniqueLink = std::unique_ptr<bpf_link, LinkDeleter>;

// Where in a file a probe is to stand, and the cookie that says so (PROFD_PROBE_COOKIE).
struct ProbePlace {
  uint64_t offset = 0;
  uint64_t cookie = 0;
  // Where in the file a count of the probes that stand lies, 16 bits, which the kernel keeps in the
  // memory of each process; 0: there is none.
  uint64_t semaphore = 0;
};

// A program attached to places of a file, in one way or the other; gone with this.
struct PlaceLinks {
  UniqueFd multi;
  std::vector<UniqueLink> single;
};

// Stands where probes stand, for no process: it puts nothing into anyone's memory, and as it goes
// the kernel takes out every breakpoint there that no probe needs. A SIGKILL that hits profd while
// it puts probes in or takes them out makes the kernel leave breakpoints behind; the guard's
// descriptors are still open then and close as profd ends, when no signal disturbs any more. See
// docs/adr/0017.
using ProbeGuard = std::shared_ptr<const PlaceLinks>;

// Gone with this. Removing them takes tens of milliseconds: the kernel waits for all programs.
struct Probe {
  Probe() = default;
  Probe(Probe&&) noexcept = default;
  // What stood here goes as in the destructor: the guard last.
  Probe& operator=(Probe other) noexcept {
    guard.swap(other.guard);
    std::swap(links, other.links);
    return *this;
  }

  ProbeGuard guard;  // empty in our own process
  PlaceLinks links;
};

// Thread-safe.
class Probes {
 public:
  // Puts probes of a loaded program into a file, for one process or every one with 0.
  absl::StatusOr<Probe> Put(const bpf_program* program, int file, int32_t pid,
                            std::span<const ProbePlace> places);

 private:
  struct Site {
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::pair<uint64_t, uint64_t>> places;  // offset and semaphore
    auto operator<=>(const Site&) const = default;
  };

  // The guard of these places, which all probes there share. Empty when the kernel gives none.
  ProbeGuard Guard(const bpf_program* program, int file, std::span<const ProbePlace> places);

  absl::Mutex mutex_;
  std::map<Site, std::weak_ptr<const PlaceLinks>> guards_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_PROBE_H_
