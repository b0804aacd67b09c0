// Recognises jemalloc's event function by its first instructions, in a module without symbols.
#ifndef PROFD_DAEMON_HEAP_EVENT_SHAPE_H_
#define PROFD_DAEMON_HEAP_EVENT_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd {

// The number of bytes that are examined at most.
inline constexpr size_t kEventShapeBytes = 360;

// Whether `code`, the x86-64 instructions of a function from its first one on, begins like
// te_event_trigger(tsd, ctx) of jemalloc 5.3.0 and 5.3.1 as optimising compilers build it:
//
//   p = [ctx + 8]    address of the thread's byte count
//   q = [ctx + 16]   address of that count as of the last event
//   v = [p], w = [q]
//   [q] = v
//
// `code` may be any bytes and may end anywhere. Thread-safe.
bool HasEventShape(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_EVENT_SHAPE_H_
