// A sum of samples with its standard error.
#ifndef PROFD_CLIENT_RENDER_ESTIMATE_H_
#define PROFD_CLIENT_RENDER_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "client/answer/profile.h"

namespace profctl {

// Samples are independent, so their variances add up.
struct Estimate {
  int64_t value = 0;
  int64_t growth = 0;
  double variance = 0;

  void Add(const Sample& sample);
  // The standard error of `value`.
  double Error() const;
  // "41.4% ± 0.4%" of `whole`.
  std::string Share(double whole) const;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_ESTIMATE_H_
