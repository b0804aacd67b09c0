// How much profiling may cost, and how much of it is left.
#ifndef PROFD_DAEMON_GOVERN_BUDGET_H_
#define PROFD_DAEMON_GOVERN_BUDGET_H_

#include <cstdint>
#include <deque>
#include <limits>

namespace profd {

inline constexpr double kNoBudget = std::numeric_limits<double>::infinity();

// Detail returns if it would cost at most this share of the budget.
inline constexpr double kComfort = 0.7;

// As configured.
struct Budget {
  double share = 0.01;     // kNoBudget: no limit
  bool of_targets = true;  // of the targets' CPU time, at least of one CPU; else of one CPU
};

// What may be spent. Rates are shares of one CPU.
struct Allowance {
  double rate = kNoBudget;  // continuously
  double saved = 0;         // once, in addition: saved CPU seconds
  double fixed = 0;         // the part of the rate that costs without a knob take

  // What the next second may cost.
  double NextSecond() const { return rate + saved; }
};

// Tracks a budget: its present amount, what was spent, and what is saved for a burst. Savings are
// full at the start. Not thread-safe.
class Purse {
 public:
  explicit Purse(Budget budget) : budget_(budget) {}

  // All cumulative, ns.
  struct Sums {
    int64_t now_ns = 0;       // monotonic
    int64_t targets_cpu = 0;  // CPU time that targets used
    int64_t spent = 0;        // CPU time of profiling, whoever paid
    int64_t fixed = 0;        // part of `spent`: costs without a knob
  };
  // Starts counting; earlier use does not count.
  void Begin(const Sums& sums);
  // Adds what was spent since the last call of Begin or Add.
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
  std::deque<Use> uses_;  // CPU time of targets over the last minute
};

}  // namespace profd

#endif  // PROFD_DAEMON_GOVERN_BUDGET_H_
