// Recognises jemalloc's functions for sampled objects by their instructions, in a module without
// symbols.
#ifndef PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_
#define PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd {

enum class ObjectShape : uint8_t { kNone, kBorn, kGone };

// The number of bytes that are examined at most.
inline constexpr size_t kObjectShapeBytes = 2048;

// Which of the functions of jemalloc 5.3.0 and 5.3.1 `code` is. `code` are the x86-64 instructions
// of a function from its first one on. Code that does all of this:
//
//   t = [[context]]             the lock of the context's thread
//   [context + 0x20 .. 0x38]    four counts of the context, all read and written
//   mov byte [context + 0x80], 0
//
// is prof_malloc_sample_object, if the context is its fifth argument. Without the last line, and
// with context = [info + 8], info the third or fourth argument, it is prof_free_sampled_object.
//
// `code` may be any bytes and may end anywhere. Thread-safe.
ObjectShape ShapeOfObjectFunction(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_
