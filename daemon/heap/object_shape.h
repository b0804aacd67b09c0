// Tells jemalloc's functions for sampled objects by their instructions, for a module without
// symbols.
#ifndef PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_
#define PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace profd {

enum class ObjectShape : uint8_t { kNone, kBorn, kGone };

// As many bytes as are ever looked at. With fewer, less is seen of the function.
inline constexpr size_t kObjectShapeBytes = 2048;

// Which of the functions of jemalloc 5.3.0 and 5.3.1 `code`, x86-64 instructions from the first one
// of a function on, does what optimising compilers make of them:
//
//   t = [[context]]             the lock of the thread that a context belongs to
//   [context + 0x20 .. 0x38]    four counts of the context, all read and written
//   mov byte [context + 0x80], 0
//
// is prof_malloc_sample_object, if the context is its fifth argument; without the last of these,
// and with context = [info + 8], info the third or fourth argument, it is prof_free_sampled_object.
//
// `code` may end anywhere and be anything. Thread-safe.
ObjectShape ShapeOfObjectFunction(std::span<const uint8_t> code);

}  // namespace profd

#endif  // PROFD_DAEMON_HEAP_OBJECT_SHAPE_H_
