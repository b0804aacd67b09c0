#include "daemon/kernel/multi_probes.h"

#include <bpf/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <latch>
#include <optional>
#include <thread>

#include "daemon/base/fd.h"
#include "daemon/base/start_thread.h"
#include "daemon/kernel/probe.h"

namespace profd {
namespace {

UniqueFd LoadNothing() {
  bpf_insn nothing[2]{};
  nothing[0].code = BPF_ALU64 | BPF_MOV | BPF_K;  // r0 = 0
  nothing[1].code = BPF_JMP | BPF_EXIT;
  bpf_prog_load_opts options{};
  options.sz = sizeof(options);
  options.expected_attach_type = static_cast<bpf_attach_type>(kUprobeMulti);
  return UniqueFd(
      bpf_prog_load(BPF_PROG_TYPE_KPROBE, "nothing", "GPL", nothing, std::size(nothing), &options));
}

// Why a link for the process `pid` is refused. Its offset cannot be read, so no probe comes of it.
int WhyNoLink(int program, pid_t pid) {
  UprobeMultiAttr attr{};
  attr.program = static_cast<uint32_t>(program);
  attr.attach_type = kUprobeMulti;
  attr.path = reinterpret_cast<uintptr_t>("/proc/self/exe");
  attr.offsets = sizeof(uint64_t);  // of the page at address 0, which nobody can map
  attr.count = 1;
  attr.pid = static_cast<uint32_t>(pid);
  const UniqueFd link(
      static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, offsetof(UprobeMultiAttr, pad))));
  return link.ok() ? 0 : errno;
}

}  // namespace

// The commit has the kernel look for a process where it looked for a thread. So the number of a
// thread that is not the main one is refused before the offsets are read, or after.
bool ProbesSeeAllThreads() {
  const UniqueFd program = LoadNothing();
  if (!program.ok()) return true;
  std::latch told(1), asked(1);
  pid_t thread_id = 0;
  std::optional<std::thread> other = StartThread([&] {
    thread_id = gettid();
    told.count_down();
    asked.wait();
  });
  if (!other) return true;
  told.wait();
  const int why = WhyNoLink(program.get(), thread_id);
  asked.count_down();
  other->join();
  return why != EFAULT;
}

}  // namespace profd
