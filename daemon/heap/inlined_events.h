// Finds the copies of jemalloc's event that a linker put into other functions, by their
// instructions.
#ifndef PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
#define PROFD_DAEMON_HEAP_INLINED_EVENTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace profd {

// Where a copy stores a thread's new count of bytes as that of its last event. Registers are
// numbered as instructions number them: rax 0, rcx 1 ...
struct InlinedEvent {
  // Of the instruction for a probe, in the code searched; in a module's info: in its file. It is
  // the next jump after the store, which the kernel emulates (probe_point.h), or the store itself.
  uint64_t offset = 0;
  uint8_t value_register = 0;  // the new count
  // How much it has grown since the last event. Empty: the store is still to come, and the old
  // count is still there.
  std::optional<uint8_t> growth_register = std::nullopt;
  uint8_t thread_register = 0;  // where the thread's data (tsd) lies
  int32_t last_event = 0;       // of the count as of the last event, from there, bytes
  friend bool operator==(const InlinedEvent&, const InlinedEvent&) = default;
};

// Copies of the event in one function, ascending:
//
//   mov x, v
//   sub x, [tsd + last]     how much since the last event
//   mov [tsd + last], v     <- here, unless
//   cmp [tsd + state], 2    within the next instructions, the byte itself or a register
//   ja                      <- x and v are still there, and no other way leads here
//   cmp byte [tsd + 1], 0   the thread is not in the allocator already
//
// `code` are x86-64 instructions from the function's first one on, and may be anything.
// Thread-safe.
std::vector<InlinedEvent> FindInlinedEvents(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
