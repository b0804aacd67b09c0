// What changed between two profiles, judged by their standard errors.
#ifndef PROFD_CLIENT_ANALYSIS_DIFF_H_
#define PROFD_CLIENT_ANALYSIS_DIFF_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/analysis/flame_tree.h"
#include "client/analysis/telling_frames.h"
#include "client/answer/view.h"

namespace profctl {

// Family-wise error rate of the method of Holm and Bonferroni: if nothing changed, this share of
// comparisons reports any change.
inline constexpr double kDiffAlpha = 0.05;
// Smaller changes, as a share of the larger total, are ignored: two runs always differ a little.
inline constexpr double kLeastChange = 0.005;

// A rate in the unit of the sample type per second; for a level, the level. Normalized: a share of
// the total, 0 to 1.
struct DiffValue {
  double value = 0;
  double error = 0;  // standard error
};

// How sure it is that a value is not the same in A and B.
struct DiffTest {
  double z = 0;  // difference in standard errors
  double p = 1;  // two-sided
};
DiffTest TestDifference(const DiffValue& a, const DiffValue& b);

// Which differences are significant if all of them are tested, by the method of Holm and
// Bonferroni: the k-th smallest p of n is compared with alpha / (n - k), until one is larger.
std::vector<bool> Significant(std::span<const double> p);

// The stacks of one group and reason with the same functions.
struct DiffRow {
  std::string group;
  std::string reason;               // empty if it is not a wait
  std::vector<std::string> frames;  // clean, innermost first; empty: [unsampled]
  std::vector<TellingFrame> shown;  // the most telling of them
  std::vector<BaseLabel> labels;    // of the group
  // One of its samples, from A if it is there. Not owned.
  const Profile* profile = nullptr;
  const Sample* sample = nullptr;
  DiffValue a, b;
  DiffTest test;
  bool changed = false;

  double Change() const { return b.value - a.value; }
};

struct Diff {
  bool normalized = false;
  DiffValue total_a, total_b;  // never normalized
  double least = 0;            // smaller changes are ignored
  // Changed rows first, then the others, each by the size of the change.
  std::vector<DiffRow> rows;

  size_t Changed() const;
  // The largest growth of a changed row, as a share of the total of `a`; 0 if none grew.
  double LargestGrowth() const;
};

// Two views of one sample type; their profiles must outlive the result.
Diff Compare(const View& a, const View& b, bool normalized);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_DIFF_H_
