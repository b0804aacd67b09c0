// Code that looks like an event of jemalloc and is none: only what comes by there tells.
#include <cstdint>

#include "tests/targets/meter.h"

namespace {

// As te_ctx_t of jemalloc 5.3 begins.
struct Context {
  uint64_t is_alloc;
  uint64_t* current;
  uint64_t* last_event;
};

uint64_t counts[4096];
volatile uint64_t sum;

}  // namespace

extern "C" {

KEEP_FRAME void Decoy(void* self, Context* context) {
  const uint64_t now = *context->current;
  const uint64_t before = *context->last_event;
  *context->last_event = now;
  sum = sum + now - before + reinterpret_cast<uintptr_t>(self);
}

// A copy of the event, with the bytes of its thread's data in another order than any jemalloc's.
KEEP_FRAME void InlinedDecoy(void* self, uint64_t now);
asm(R"(
  .text
  .type InlinedDecoy, @function
InlinedDecoy:
  .cfi_startproc
  mov %rsi, %rax
  sub 8(%rdi), %rax
  mov %rsi, 8(%rdi)
  cmpb $2, 832(%rdi)
  ja 1f
  cmpb $0, 1(%rdi)
  jne 1f
  nop
1:
  ret
  .cfi_endproc
  .size InlinedDecoy, . - InlinedDecoy
)");

void RunDecoys() {
  static thread_local unsigned calls = 0;
  if (++calls % 64 != 0) return;
  // Counts that lie far from each other, and such that no event is ever due.
  Context far = {1, &counts[0], &counts[2048]};
  Context near = {1, &counts[8], &counts[16]};
  ++counts[0];
  ++counts[8];
  Decoy(counts, &far);
  Decoy(counts, &near);
  counts[0x200] = 0xff07;
  InlinedDecoy(&counts[0x200], counts[0]);
}
}
