// Whom each tick visits, and how much a visit weighs (docs/sampling.md, "Threads that only wait").
#ifndef PROFD_DAEMON_SOURCE_VISITS_H_
#define PROFD_DAEMON_SOURCE_VISITS_H_

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// A thread is visited once in each block of `stride` ticks, at a tick of the block that is chosen
// at random before it begins; the visit weighs as much as the block. A thread that is found in the
// same wait again gets longer blocks, any other is visited at every tick. Not thread-safe.
class Visits {
 public:
  explicit Visits(uint64_t seed) : random_(seed) {}

  // A thread to visit from the next tick on, or its new number in the initial PID namespace.
  void Add(ThreadId id, int32_t kernel_tid);

  // The visits of the next tick, whose stratum is `interval_ns` long. Valid until the next call of
  // a member; whoever makes the visits writes their outcomes.
  std::span<profd_visit> Next(int64_t interval_ns);
  // Takes in the outcomes of the visits that Next gave.
  void Learn();

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
  };

  // Chooses the tick of the block that begins where the present one ends.
  void BeginBlock(Thread& thread, uint32_t stride);

  std::vector<Thread> threads_;
  absl::flat_hash_map<uint64_t, size_t> index_;  // of threads_, by id
  std::vector<profd_visit> due_;
  std::vector<size_t> due_threads_;  // of threads_, beside due_
  uint64_t tick_ = 0;                // number of the tick that Next prepares
  uint32_t longest_stride_ = 1;
  int64_t idle_ticks_ = 0;
  std::mt19937_64 random_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_VISITS_H_
