#include "client/render/estimate.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

void Estimate::Add(const Sample& sample) {
  const auto error = static_cast<double>(sample.error);
  value += sample.value;
  growth += sample.growth;
  variance += error * error;
}

double Estimate::Error() const { return std::sqrt(variance); }

std::string Estimate::Share(double whole) const {
  const double error = Error();
  return absl::StrCat(FormatShare(static_cast<double>(value), whole),
                      error > 0 ? absl::StrCat(" ± ", FormatShare(error, whole)) : "");
}

}  // namespace profctl
