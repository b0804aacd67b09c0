// How much profiling may cost, and how much of that is left.
#ifndef PROFD_DAEMON_GOVERN_BUDGET_H_
#define PROFD_DAEMON_GOVERN_BUDGET_H_

#include <cstdint>
#include <deque>
#include <limits>

namespace profd {

inline constexpr double kNoBudget = std::numeric_limits<double>::infinity();

// As given at the start.
struct Budget {
  double share = 0.01;     // kNoBudget: as much as it takes
  bool of_targets = true;  // of the CPU time that targets use, at least of one CPU; else of one CPU
};

// What may be spent. Rates are shares of one CPU.
struct Allowance {
  double rate = kNoBudget;  // all the time
  double saved = 0;         // besides, once: CPU seconds that were left over before
  double fixed = 0;         // what costs that nothing governs take of the rate

  // What the next second may cost.
  double NextSecond() const { return rate + saved; }
};

// Keeps the account of a budget: what it amounts to, what was spent, what is saved for a burst. It
// is full at the start. Not thread-safe.
class Purse {
 public:
  explicit Purse(Budget budget) : budget_(budget) {}

  // All cumulative, ns. What nothing governs is part of what was spent.
  struct Sums {
    int64_t now_ns = 0;       // monotonic
    int64_t targets_cpu = 0;  // CPU time that targets used
    int64_t spent = 0;        // CPU time that profiling took, whoever paid
    int64_t fixed = 0;        // of that, by what nothing governs
  };
  // Counts from here on: nothing before was a load.
  void Begin(const Sums& sums);
  // Takes in what was spent since the last call of either.
  const Allowance& Add(const Sums& sums);

  const Budget& budget() const { return budget_; }
  const Allowance& allowance() const { return allowance_; }

 private:
  struct Use {
    int64_t end_ns = 0;
    int64_t length_ns = 0;
    int64_t cpu_ns = 0;
  };

  void SetRate();

  const Budget budget_;
  Allowance allowance_;
  bool begun_ = false;
  Sums last_;
  std::deque<Use> uses_;  // of CPU time by targets, over the last minute
};

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_BUDGET_H_
