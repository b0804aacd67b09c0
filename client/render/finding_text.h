// A finding in sentences.
#ifndef PROFD_CLIENT_RENDER_FINDING_TEXT_H_
#define PROFD_CLIENT_RENDER_FINDING_TEXT_H_

#include <string>

#include "profd/v1/profiler.pb.h"

namespace profctl {

enum class NameWidth {
  kWhole,
  kFitting,  // shortened so that each fits on a line of the terminal
};

// Of a finding of Findings(), from its other fields than `text`.
std::string DescribeFinding(const profd::v1::Finding& finding, NameWidth names);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FINDING_TEXT_H_
