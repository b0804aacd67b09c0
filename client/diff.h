// What changed from one profile to another, decided by the stated errors.
#ifndef PROFD_CLIENT_DIFF_H_
#define PROFD_CLIENT_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/view.h"

namespace profctl {

// The rule of Holm and Bonferroni: all changes together are false alarms in at most so many of 100
// comparisons in which nothing changed.
inline constexpr double kDiffAlpha = 0.05;
// A smaller change, as a share of the larger total, is none: processes are never the same twice.
inline constexpr double kLeastChange = 0.005;

// In the unit of the sample type a second for what happened in a window, as it is for a level; or a
// share of the total, 0 to 1, when normalized.
struct DiffValue {
  double value = 0;
  double error = 0;  // standard error
};

// The stacks of one group and reason with the same functions.
struct DiffRow {
  std::string group;
  std::string reason;               // empty for what is no wait
  std::vector<std::string> frames;  // clean, innermost first; empty: [unsampled]
  std::vector<std::string> shown;   // those of them that tell most
  DiffValue a, b;
  double z = 0;  // difference in standard errors
  double p = 1;  // two-sided
  bool changed = false;

  double Change() const { return b.value - a.value; }
};

struct Diff {
  bool normalized = false;
  DiffValue total_a, total_b;  // never normalized
  // Those that changed first, each part by the size of the change.
  std::vector<DiffRow> rows;

  size_t Changed() const;
  // The largest growth of a row that changed, as a share of the total of `a`; 0 when none grew.
  double LargestGrowth() const;
};

// Two views of one sample type.
Diff Compare(const View& a, const View& b, bool normalized);

}  // namespace profctl

#endif  // PROFD_CLIENT_DIFF_H_
