// Quantiles of times that were measured several times over.
#ifndef PROFD_DAEMON_BASE_QUANTILE_H_
#define PROFD_DAEMON_BASE_QUANTILE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace profd {

// The value of a rank, from 0 for the smallest; there must be more than `rank`. Reorders them.
template <typename Number>
double ValueOfRank(std::vector<Number>& values, size_t rank) {
  const auto place = values.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return static_cast<double>(*place);
}

// Of at least one value; reorders them.
template <typename Number>
double Median(std::vector<Number>& values) {
  return ValueOfRank(values, values.size() / 2);
}

// The same. Interruptions only make a measured time longer, so a short one counts, but not the
// shortest.
template <typename Number>
double LowerQuartile(std::vector<Number>& values) {
  return ValueOfRank(values, values.size() / 4);
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_QUANTILE_H_
