// Functions of this program that probes are put on, and an allocator that calls them.
#ifndef PROFD_TESTS_BPF_PROBED_H_
#define PROFD_TESTS_BPF_PROBED_H_

#include <cstddef>
#include <cstdint>

namespace profd {

// What jemalloc hands to its event function.
struct FakeEvent {
  bool is_alloc;
  uint64_t* current;
  uint64_t* last;
};

// A thread's data as jemalloc 5.3 lays them out. Zero at first, so that they are in no file.
struct FakeAllocator {
  uint8_t cached;
  int8_t depth;
  uint64_t allocated_last, allocated_next;
  uint64_t freed_last, freed_next;
  uint64_t allocated, freed;

  void Allocate(uint64_t bytes);
  void Free(uint64_t bytes);
  void Pass(uint64_t bytes) {  // in code that has no probe
    allocated += bytes;
    EndEvent();
  }
  void EndEvent() {
    allocated_last = allocated;
    allocated_next = allocated_last + 65536;
    freed_last = freed;
    freed_next = freed_last + 65536;
  }
};

}  // namespace profd

extern "C" {
// The allocator's event function.
void ProfdTestHeapEvent(void* tsd, profd::FakeEvent* event);
// A copy of it: the store is the first instruction.
void ProfdTestInlinedEvent(uint64_t value, uint64_t* thread_data);
// Another copy, behind its store.
void ProfdTestStoredEvent(uint64_t value, uint64_t* thread_data, uint64_t growth);
// A function of the slow path.
void ProfdTestSlowPath(void* thread_data);
// Tell of sampled objects, whatever their arguments are.
void ProfdTestObjectBorn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
void ProfdTestObjectGone(uint64_t, uint64_t, uint64_t, uint64_t);
// kPlaces places for probes, a byte each.
void ProfdTestPlaces();
// Callers of the above.
void ProfdTestMakesObject(uint64_t size, uint64_t usable, uint64_t context);
void ProfdTestAllocates(profd::FakeEvent* event);
void ProfdTestFrees(profd::FakeEvent* event);
}

namespace profd {
constexpr size_t kPlaces = 64;
}  // namespace profd

#endif  // PROFD_TESTS_BPF_PROBED_H_
