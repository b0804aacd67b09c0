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

// Of a struct profd_look with its stack.
size_t LookSize(std::span<const uint8_t> bytes) {
  constexpr size_t kHeader = sizeof(profd_look) + PROFD_STACK_HEADER_SIZE;
  if (bytes.size() < kHeader) return 0;
  profd_stack_record stack;
  std::memcpy(&stack, bytes.data() + sizeof(profd_look), PROFD_STACK_HEADER_SIZE);
  return kHeader + (size_t{stack.kernel_frames} + stack.user_frames) * sizeof(uint64_t);
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
