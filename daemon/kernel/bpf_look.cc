// Looks in the running kernel.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "bpf/abi/stack.h"
#include "bpf/profd.skel.h"
#include "daemon/base/clock.h"
#include "daemon/kernel/bpf_kernel.h"

namespace profd {
namespace {

// Of a stack record that begins there; 0: it is not there as a whole.
size_t StackSize(std::span<const uint8_t> bytes) {
  if (bytes.size() < PROFD_STACK_HEADER_SIZE) return 0;
  profd_stack_record stack;
  std::memcpy(&stack, bytes.data(), PROFD_STACK_HEADER_SIZE);
  const size_t frames = size_t{stack.kernel_frames} + stack.user_frames;
  return PROFD_STACK_HEADER_SIZE + frames * sizeof(uint64_t);
}

// Of a struct profd_look with its stack and its object.
size_t LookSize(std::span<const uint8_t> bytes) {
  profd_look look;
  if (bytes.size() < sizeof(look)) return 0;
  std::memcpy(&look, bytes.data(), sizeof(look));
  const size_t stack = StackSize(bytes.subspan(sizeof(look)));
  if (stack == 0 || bytes.size() < sizeof(look) + stack)
    return stack == 0 ? 0 : sizeof(look) + stack;
  if (look.object == 0) return sizeof(look) + stack;
  const size_t object = StackSize(bytes.subspan(sizeof(look) + stack));
  return object == 0 ? 0 : sizeof(look) + stack + object;
}

}  // namespace

absl::Status BpfKernel::Look(const RecordSink& sink) {
  if (!look_link_) {
    return absl::UnimplementedError(absl::StrCat(
        "the kernel refused the program that looks at threads: ", refusal(KernelLayer::kLook)));
  }
  const absl::MutexLock lock(&look_mutex_);
  skeleton_->bss->look_instant_ns = static_cast<uint64_t>(MonotonicNs());
  return RunSizedIterator(look_link_, "look", LookSize, sink);
}

}  // namespace profd
