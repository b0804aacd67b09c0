// Any bytes given as a record of the kernel programs are decoded within their bounds or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <variant>

#include "bpf/abi.h"
#include "tests/support/any_record.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto record = profd::DecodeAny({data, size});
  if (!record.ok()) return 0;
  if (const auto* stack = std::get_if<profd::StackTrace>(&*record)) {
    Require(stack->frames.size() <= PROFD_MAX_FRAMES);
    Require(stack->kernel_frames <= stack->frames.size());
    Require(stack->frames.size() * sizeof(stack->frames[0]) + PROFD_STACK_HEADER_SIZE <= size);
    Require(static_cast<unsigned>(stack->walk) < PROFD_WALK_COUNT);
  } else if (const auto* thread = std::get_if<profd_thread_record>(&*record)) {
    Require(profd::CommToString(thread->comm).size() <= sizeof(thread->comm));
  } else if (const auto* exec = std::get_if<profd_exec_record>(&*record)) {
    Require(profd::CommToString(exec->comm).size() <= sizeof(exec->comm));
  }
  return 0;
}
