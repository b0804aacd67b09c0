// Whom each tick visits, and how much a visit weighs (docs/sampling.md, "Threads that only wait").
#ifndef PROFD_DAEMON_SOURCE_VISITS_H_
#define PROFD_DAEMON_SOURCE_VISITS_H_

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"
#include "daemon/source/sample_log.h"
#include "daemon/source/wait_trace.h"

namespace profd {

// A thread is visited once in each block of `stride` ticks, at a tick of the block that is chosen
// at random before it begins; the visit weighs as much as the block. A thread that is found in the
// same wait again gets longer blocks, any other is visited at every tick. Not thread-safe.
class Visits {
 public:
  explicit Visits(uint64_t seed) : random_(seed) {}

  // A thread to visit from the next tick on, or its new number in the initial PID namespace.
  void Add(ThreadId id, int32_t kernel_tid);

  // The next tick begins.
  void Begin();
  // Writes visits of this tick into `table`, as many as there is room for, and returns how many.
  // Until it returns 0, whoever makes them writes what was found into the table, and calls Learn.
  size_t Next(std::span<profd_visit> table);
  // For how many ticks the visit that Next wrote at this place stands.
  uint32_t StrideAt(size_t place) const { return threads_[due_[place]].stride; }
  // Takes in what the visits that Next wrote found, and completes those of threads that are in the
  // wait still in which they were before. `sampled` is called for each.
  // What is kept of a thread for who counts its samples.
  struct Kept {
    SamplePlace place;
    WaitTrace trace;
  };
  using Sampled = absl::FunctionRef<void(const profd_visit& visit, uint32_t stride, Kept& kept)>;
  void Learn(std::span<profd_visit> table, Sampled sampled);
  // The tick is over: threads that are gone are forgotten.
  void End();

  // No block is longer than this many ticks, 1 or more.
  void SetLongestStride(uint32_t ticks) { longest_stride_ = ticks; }
  size_t size() const { return threads_.size(); }
  // Ticks for which a visit found a thread in the wait of the visit before, summed over threads.
  int64_t idle_ticks() const { return idle_ticks_; }

 private:
  struct Thread {
    uint64_t id = 0;
    uint64_t due = 0;        // tick of the next visit
    uint64_t block_end = 0;  // first tick after the present block
    int32_t kernel_tid = 0;
    uint32_t stride = 1;
    Kept kept;
    // Where it waited last. A thread on the run queue does not wait on.
    uint64_t stack = 0;
    uint64_t arg0 = 0;
    int32_t sysno = 0;
    uint8_t reason = 0;
    bool known = false;
    bool gone = false;
  };

  // Keeps where it waits, or completes what was found by what is kept.
  static void Remember(Thread& thread, profd_visit& visit);
  // Chooses the tick of the block that begins where the present one ends.
  void BeginBlock(Thread& thread, uint32_t stride);

  std::vector<Thread> threads_;
  absl::flat_hash_map<uint64_t, size_t> index_;  // of threads_, by id
  std::vector<size_t> due_;                      // of threads_, in the order of the table
  size_t next_ = 0;                              // of threads_, that Next has not seen
  bool any_gone_ = false;
  uint64_t tick_ = 0;  // number of the present tick
  uint32_t longest_stride_ = 1;
  int64_t idle_ticks_ = 0;
  std::mt19937_64 random_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_VISITS_H_
