#include "daemon/kernel/probe_link.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace profd {
namespace {

// The fields of union bpf_attr that BPF_LINK_CREATE reads for kUprobeMulti.
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

}  // namespace

UniqueFd LinkProbes(int program, const char* path, int32_t pid, std::span<const uint64_t> offsets,
                    std::span<const uint64_t> cookies, std::span<const uint64_t> semaphores) {
  UprobeMultiAttr attr{};
  attr.program = static_cast<uint32_t>(program);
  attr.attach_type = kUprobeMulti;
  attr.path = reinterpret_cast<uintptr_t>(path);
  attr.offsets = reinterpret_cast<uintptr_t>(offsets.data());
  attr.ref_counts = reinterpret_cast<uintptr_t>(semaphores.data());
  attr.cookies = reinterpret_cast<uintptr_t>(cookies.data());
  attr.count = static_cast<uint32_t>(offsets.size());
  attr.pid = static_cast<uint32_t>(pid);
  return UniqueFd(
      static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, offsetof(UprobeMultiAttr, pad))));
}

}  // namespace profd
