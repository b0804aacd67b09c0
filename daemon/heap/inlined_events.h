// Finds the copies of jemalloc's event that a linker put into other functions, by their instructions.
#ifndef PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
#define PROFD_DAEMON_HEAP_INLINED_EVENTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace profd {

// An instruction that stores a thread's new count of bytes as that of its last event. Before it runs
// the old one is still there. Registers are numbered as instructions number them: rax 0, rcx 1 ...
struct InlinedEvent {
  uint64_t offset = 0;  // of the instruction in the code searched; in a module's info: in its file
  uint8_t value_register = 0;   // the new count
  uint8_t thread_register = 0;  // where the thread's data (tsd) lies
  int32_t last_event = 0;       // of the count as of the last event, from there, bytes
  friend bool operator==(const InlinedEvent&, const InlinedEvent&) = default;
};

// Copies of the event in one function, ascending:
//
//   sub x, [tsd + last]     how much since the last event; x is a copy of v
//   mov [tsd + last], v     <- here
//   cmp [tsd + state], 2    within the next instructions, the byte itself or a register
//   cmp byte [tsd + 1], 0   the thread is not in the allocator already
//
// `code` are x86-64 instructions from the function's first one on, and may be anything. Thread-safe.
std::vector<InlinedEvent> FindInlinedEvents(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
