// Whom each tick visits, and how much a visit weighs (docs/sampling.md, "Threads that only wait").
#ifndef PROFD_DAEMON_SOURCE_VISITS_H_
#define PROFD_DAEMON_SOURCE_VISITS_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"
#include "daemon/profile/profile.h"
#include "daemon/source/sample_log.h"
#include "daemon/source/wait_trace.h"

namespace profd {

// A thread is visited once in each block of `stride` ticks, at a tick of the block that is chosen
// at random before it begins; the visit weighs as much as the block. A thread that is found in the
// same wait again gets longer blocks, any other is visited at every tick.
//
// Where wake-ups are noted a thread becomes quiet: two visits found it asleep in one wait, and
// nobody woke it from before the first one on. Until it is woken every tick counts for that wait
// without a visit. Not thread-safe.
class Visits {
 public:
  explicit Visits(uint64_t seed) : random_(seed) {}

  // What is kept of a thread for who counts its samples.
  struct Kept {
    SamplePlace place;
    WaitTrace trace;
  };
  using Sampled = absl::FunctionRef<void(const profd_visit& visit, uint32_t stride, Kept& kept)>;
  // So many ticks have found a thread in its wait without a visit, since it was called last for the
  // thread.
  using Rested =
      absl::FunctionRef<void(const profd_visit& visit, const TickSum& ticks, Kept& kept)>;

  // A thread to visit from the next tick on, or its new number in the initial PID namespace.
  void Add(ThreadId id, int32_t kernel_tid);

  // The next tick begins, `interval_ns` after the last one on average. Who was woken is quiet no
  // more.
  void Begin(const WokenMarks& woken, int64_t interval_ns, Rested rested);
  // Writes visits of this tick into `table`, as many as there is room for, and returns how many.
  // Until it returns 0, whoever makes them writes what was found into the table, and calls Learn.
  size_t Next(std::span<profd_visit> table);
  // For how many ticks the visit that Next wrote at this place stands.
  uint32_t StrideAt(size_t place) const { return threads_[due_[place]].stride; }
  // The tick counts, and weighs so much. Before the first Learn.
  void CountTick(int64_t weight_ns);
  // All ticks that count.
  const TickSum& ticks() const { return ticks_; }
  // Takes in what the visits that Next wrote found, and completes those of threads that are in the
  // wait still in which they were before. `sampled` is called for each.
  void Learn(std::span<profd_visit> table, Sampled sampled);
  // The tick is over: threads that are gone are forgotten.
  void End();
  // Calls `rested` for at most `most` quiet threads, from `place` on. Returns the place to go on
  // from, 0 after the last one.
  size_t Settle(size_t place, size_t most, Rested rested);

  // No block is longer than this many ticks, 1 or more.
  void SetLongestStride(uint32_t ticks) { longest_stride_ = ticks; }
  size_t size() const { return index_.size(); }
  size_t quiet() const { return quiet_count_; }
  // Ticks for which a visit found a thread in the wait of the visit before, summed over threads.
  // Without those that found a quiet thread there.
  int64_t idle_ticks() const { return idle_ticks_; }

 private:
  struct Thread {
    uint64_t id = 0;
    uint64_t due = 0;        // tick of the next visit
    uint64_t block_end = 0;  // first tick after the present block
    int32_t kernel_tid = 0;
    uint32_t stride = 1;
    // In which turn of the marks its mark was cleared, before a visit; 0: never. If the mark is
    // still clear nobody has woken it since.
    uint32_t cleared = 0;
    TickSum counted;  // of a quiet thread: ticks that were told
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
  // Whether a visit that finds it asleep makes it quiet. If not, its mark is cleared.
  bool WatchMark(size_t slot);
  void BecomeQuiet(size_t slot);
  // It is visited at the present tick.
  void Rouse(size_t slot, Rested rested);
  void SettleOne(Thread& thread, Rested rested) const;

  // Threads keep their places. The first one is nobody's, as slot 0 is none.
  std::vector<Thread> threads_ = std::vector<Thread>(1);
  std::vector<uint8_t> quiet_;  // by place; 0 or 1, as marks are
  // Places. The lowest is taken first: marks are for the first places only.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> free_;
  absl::flat_hash_map<uint64_t, size_t> index_;  // places, by id
  std::vector<size_t> active_;                   // places of those that are not quiet
  std::vector<size_t> due_;                      // places, in the order of the table
  size_t next_ = 0;                              // of active_, that Next has not seen
  size_t quiet_count_ = 0;
  bool fewer_ = false;  // of active_: some are gone or quiet
  WokenMarks woken_;
  TickSum ticks_;
  uint64_t tick_ = 0;  // number of the present tick
  uint32_t longest_stride_ = 1;
  int64_t idle_ticks_ = 0;
  std::mt19937_64 random_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_VISITS_H_
