#include "daemon/kernel/kernel_trials.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <latch>
#include <optional>
#include <span>
#include <thread>

#include "daemon/base/fd.h"
#include "daemon/base/start_thread.h"
#include "daemon/kernel/probe_link.h"

namespace profd {
namespace {

// A program that does nothing.
UniqueFd LoadNothing(bpf_prog_type type, uint32_t attach_type, int type_id = 0) {
  bpf_insn nothing[2]{};
  nothing[0].code = BPF_ALU64 | BPF_MOV | BPF_K;  // r0 = 0
  nothing[1].code = BPF_JMP | BPF_EXIT;
  bpf_prog_load_opts options{};
  options.sz = sizeof(options);
  options.expected_attach_type = static_cast<bpf_attach_type>(attach_type);
  options.attach_btf_id = static_cast<uint32_t>(type_id);
  return UniqueFd(bpf_prog_load(type, "nothing", "GPL", nothing, std::size(nothing), &options));
}

// Why a link for the process `pid` is refused. The page at address 0, which nobody can map, is to
// hold its offset, so no probe comes of it.
int WhyNoLink(int program, pid_t pid) {
  const std::span<const uint64_t> unreadable(reinterpret_cast<const uint64_t*>(sizeof(uint64_t)),
                                             1);
  const UniqueFd link = LinkProbes(program, "/proc/self/exe", pid, unreadable, {}, {});
  return link.ok() ? 0 : errno;
}

}  // namespace

bool MayEnterFunction(int type_id) {
  return LoadNothing(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, type_id).ok();
}

// The commit has the kernel look for a process where it looked for a thread. So the number of a
// thread that is not the main one is refused before the offsets are read, or after.
bool ProbesSeeAllThreads() {
  const UniqueFd program = LoadNothing(BPF_PROG_TYPE_KPROBE, kUprobeMulti);
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
