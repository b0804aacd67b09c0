// Finds, by their instructions, the copies of jemalloc's event that link-time optimisation put into
// other functions.
#ifndef PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
#define PROFD_DAEMON_HEAP_INLINED_EVENTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace profd {

// Where a copy stores a thread's new byte count as that of its last event. Registers have their
// numbers in instruction encodings: rax 0, rcx 1 ...
struct InlinedEvent {
  // Of the probe's instruction, in the searched code; in a module's info, in its file. It is the
  // next jump after the store, which the kernel emulates (probe_point.h), or the store itself.
  uint64_t offset = 0;
  uint8_t value_register = 0;  // the new count
  // Its growth since the last event. Empty: the probe is on the store, and the old count is still
  // in memory.
  std::optional<uint8_t> growth_register = std::nullopt;
  uint8_t thread_register = 0;  // address of the thread's data (tsd)
  int32_t last_event = 0;       // offset there of the count as of the last event, bytes
  friend bool operator==(const InlinedEvent&, const InlinedEvent&) = default;
};

// Copies of the event in one function, ascending:
//
//   mov x, v
//   sub x, [tsd + last]     growth since the last event
//   mov [tsd + last], v     <- here, unless
//   cmp [tsd + state], 2    within the next instructions; the byte itself or a register
//   ja                      <- x and v are still valid, and no other path leads here
//   cmp byte [tsd + 1], 0   the thread is not in the allocator already
//
// `code` are the x86-64 instructions of a function from its first one on; they may be any bytes.
// Thread-safe.
std::vector<InlinedEvent> FindInlinedEvents(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_INLINED_EVENTS_H_
