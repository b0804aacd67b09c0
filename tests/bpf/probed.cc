#include "tests/bpf/probed.h"

extern "C" [[gnu::noinline]] void ProfdTestHeapEvent(void* /*tsd*/, profd::FakeEvent* event) {
  *event->last = *event->current;
  asm volatile("" ::: "memory");
}
asm(R"(
  .text
  .globl ProfdTestInlinedEvent
  .type ProfdTestInlinedEvent, @function
ProfdTestInlinedEvent:
  .cfi_startproc
  mov %rdi, 8(%rsi)
  ret
  .cfi_endproc
  .size ProfdTestInlinedEvent, .-ProfdTestInlinedEvent
)");
extern "C" [[gnu::noipa]] void ProfdTestStoredEvent(uint64_t /*value*/, uint64_t* /*thread_data*/,
                                                    uint64_t /*growth*/) {
  asm volatile("" ::: "memory");
}
asm(R"(
  .text
  .globl ProfdTestSlowPath, ProfdTestObjectBorn, ProfdTestObjectGone
  .type ProfdTestSlowPath, @function
  .type ProfdTestObjectBorn, @function
  .type ProfdTestObjectGone, @function
ProfdTestSlowPath:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestSlowPath, .-ProfdTestSlowPath
ProfdTestObjectBorn:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestObjectBorn, .-ProfdTestObjectBorn
ProfdTestObjectGone:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestObjectGone, .-ProfdTestObjectGone
)");
asm(R"(
  .text
  .globl ProfdTestPlaces
  .type ProfdTestPlaces, @function
ProfdTestPlaces:
  .cfi_startproc
  .rept 64
  nop
  .endr
  ret
  .cfi_endproc
  .size ProfdTestPlaces, .-ProfdTestPlaces
)");
extern "C" [[gnu::noinline]] void ProfdTestMakesObject(uint64_t size, uint64_t usable,
                                                       uint64_t context) {
  ProfdTestObjectBorn(0, 0x5000, size, usable, context);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] void ProfdTestAllocates(profd::FakeEvent* event) {
  ProfdTestHeapEvent(nullptr, event);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] void ProfdTestFrees(profd::FakeEvent* event) {
  ProfdTestHeapEvent(nullptr, event);
  asm volatile("" ::: "memory");
}

namespace profd {

void FakeAllocator::Allocate(uint64_t bytes) {
  EndEvent();
  allocated += bytes;
  FakeEvent event{true, &allocated, &allocated_last};
  ProfdTestAllocates(&event);
  EndEvent();
}
void FakeAllocator::Free(uint64_t bytes) {
  EndEvent();
  freed += bytes;
  FakeEvent event{false, &freed, &freed_last};
  ProfdTestFrees(&event);
  EndEvent();
}

}  // namespace profd
