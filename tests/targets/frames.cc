#include <alloca.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace big_frame {

// Touches both ends of a frame's memory so that it is really there.
KEEP_FRAME void Use(volatile char* memory, size_t size) {
  memory[0] = 1;
  memory[size - 1] = 1;
}

KEEP_FRAME void Frame40000(Meter* meter) {
  char memory[40'000];
  Use(memory, sizeof(memory));
  MeteredSleep(meter, 20'000, 1);
  Use(memory, sizeof(memory));
}

KEEP_FRAME void Frame100000(Meter* meter) {
  char memory[100'000];
  Use(memory, sizeof(memory));
  Frame40000(meter);
  Use(memory, sizeof(memory));
}

// As large as the largest in rustc's own code.
KEEP_FRAME void Frame540000(Meter* meter) {
  char memory[540'000];
  Use(memory, sizeof(memory));
  Frame100000(meter);
  Use(memory, sizeof(memory));
}

// A frame whose size is only known at run time: its rules go by rbp.
KEEP_FRAME void FrameAlloca(Meter* meter, size_t size) {
  auto* memory = static_cast<char*>(alloca(size));
  Use(memory, size);
  Frame540000(meter);
  Use(memory, size);
}

// Aligned beyond the ABI's 16 bytes and of unknown size: its rule is an expression.
KEEP_FRAME void FrameAligned(Meter* meter, size_t size) {
  alignas(128) char aligned[1024];
  auto* memory = static_cast<char*>(alloca(size));
  Use(memory, size);
  Use(aligned, sizeof(aligned));
  FrameAlloca(meter, size);
  Use(aligned, sizeof(aligned));
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("big-frame");
  for (int64_t i = *static_cast<int64_t*>(argument); i > 0; --i) FrameAligned(&meter, 30'000);
  return nullptr;
}

}  // namespace big_frame

void BigFrame(const Arguments& arguments) {
  int64_t count = arguments.Number(0, 100);
  Join(Start(big_frame::Thread, &count));
}

namespace deep {

struct Plan {
  int64_t depth, count;
};

KEEP_FRAME int64_t Descend(Meter* meter, int64_t left) {
  if (left <= 1) {
    MeteredSleep(meter, 20'000);
    return 1;
  }
  return Descend(meter, left - 1) + 1;
}

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter("deep");
  for (int64_t i = 0; i < plan.count; ++i) {
    Check(Descend(&meter, plan.depth) == plan.depth, "recursion");
  }
  return nullptr;
}

}  // namespace deep

void Deep(const Arguments& arguments) {
  deep::Plan plan{arguments.Number(0, 120), arguments.Number(1, 100)};
  Join(Start(deep::Thread, &plan));
}

// Runs a function on another stack. The start of that stack says, as coroutine libraries do, that
// nobody called it: its return address is undefined.
extern "C" void RunOnStack(void* top, void (*body)());
asm(R"(
  .text
  .type RunOnStack, @function
RunOnStack:
  .cfi_startproc
  push %r12
  .cfi_def_cfa_offset 16
  .cfi_offset r12, -16
  mov %rsp, %r12
  .cfi_def_cfa_register r12
  mov %rdi, %rsp
  call CoroutineStart
  mov %r12, %rsp
  .cfi_def_cfa_register rsp
  pop %r12
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size RunOnStack, . - RunOnStack

  .type CoroutineStart, @function
CoroutineStart:
  .cfi_startproc
  .cfi_undefined rip
  sub $8, %rsp
  call *%rsi
  add $8, %rsp
  ret
  .cfi_endproc
  .size CoroutineStart, . - CoroutineStart
)");

namespace coroutine {

constexpr size_t kStackBytes = 256 << 10;

// Neither way of starting a coroutine passes a pointer.
struct State {
  Meter* meter;
  int64_t count;
  ucontext_t caller, routine;
};
thread_local State* state;

KEEP_FRAME void Body() {
  for (int64_t i = 0; i < state->count; ++i) MeteredSleep(state->meter, 20'000);
}

char* NewStack() {
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  Check(stack != MAP_FAILED, "mmap");
  return static_cast<char*>(stack);
}

KEEP_FRAME void* Thread(void* argument) {
  Meter meter("coroutine");
  State own{&meter, *static_cast<int64_t*>(argument), {}, {}};
  state = &own;
  char* stack = NewStack();
  RunOnStack(stack + kStackBytes, Body);
  munmap(stack, kStackBytes);
  return nullptr;
}

KEEP_FRAME void* ContextThread(void* argument) {
  Meter meter("ucontext");
  State own{&meter, *static_cast<int64_t*>(argument), {}, {}};
  state = &own;
  char* stack = NewStack();
  Check(getcontext(&own.routine) == 0, "getcontext");
  own.routine.uc_stack.ss_sp = stack;
  own.routine.uc_stack.ss_size = kStackBytes;
  own.routine.uc_link = &own.caller;
  makecontext(&own.routine, Body, 0);
  Check(swapcontext(&own.caller, &own.routine) == 0, "swapcontext");
  munmap(stack, kStackBytes);
  return nullptr;
}

}  // namespace coroutine

void Coroutine(const Arguments& arguments) {
  int64_t count = arguments.Number(0, 100);
  const pthread_t own = Start(coroutine::Thread, &count);
  const pthread_t context = Start(coroutine::ContextThread, &count);
  Join(own);
  Join(context);
}

namespace signal_handler {

constexpr size_t kStackBytes = 64 << 10;
enum Kind { kOwnStack, kStackBelow, kStackAbove };
constexpr const char* kNames[] = {"signal-own", "signal-below", "signal-above"};

struct Plan {
  Kind kind;
  int64_t count;
  char* stack;
};
thread_local Meter* current;

KEEP_FRAME void Handler(int) { MeteredSleep(current, 20'000); }

KEEP_FRAME void Interrupted(int64_t count) {
  for (int64_t i = 0; i < count; ++i) Check(raise(SIGUSR1) == 0, "raise");
}

KEEP_FRAME void* Thread(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Meter meter(kNames[plan.kind]);
  current = &meter;
  if (plan.stack != nullptr) {
    const bool above = reinterpret_cast<uintptr_t>(plan.stack) >
                       reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    Check(above == (plan.kind == kStackAbove), "place of the signal stack");
    stack_t stack{};
    stack.ss_sp = plan.stack;
    stack.ss_size = kStackBytes;
    Check(sigaltstack(&stack, nullptr) == 0, "sigaltstack");
  }
  Interrupted(plan.count);
  return nullptr;
}

// In .bss, below every thread's stack.
char below[kStackBytes];

}  // namespace signal_handler

void Signal(const Arguments& arguments) {
  using namespace signal_handler;
  // On the main thread's stack, above every other thread's.
  char above[kStackBytes];
  struct sigaction action{};
  action.sa_handler = Handler;
  action.sa_flags = SA_ONSTACK;
  Check(sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
  const int64_t count = arguments.Number(0, 100);
  Plan plans[] = {
      {kOwnStack, count, nullptr}, {kStackBelow, count, below}, {kStackAbove, count, above}};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) threads[i] = Start(Thread, &plans[i]);
  for (const pthread_t thread : threads) Join(thread);
}

}  // namespace waiter
