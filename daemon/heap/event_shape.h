// Tells jemalloc's event function by its first instructions, for a module without symbols.
#ifndef PROFD_DAEMON_HEAP_EVENT_SHAPE_H_
#define PROFD_DAEMON_HEAP_EVENT_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd {

// As many bytes as are ever looked at. With fewer, less is seen of the function.
inline constexpr size_t kEventShapeBytes = 360;

// Whether `code`, x86-64 instructions from the first one of a function on, begins as optimising
// compilers make te_event_trigger(tsd, ctx) of jemalloc 5.3.0 and 5.3.1 begin:
//
//   p = [ctx + 8]    where the thread counts its bytes
//   q = [ctx + 16]   where it keeps that number as of its last event
//   v = [p], w = [q]
//   [q] = v
//
// `code` may end anywhere and be anything. Thread-safe.
bool HasEventShape(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_EVENT_SHAPE_H_
