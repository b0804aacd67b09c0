// Values of a sample type, as text.
#ifndef PROFD_CLIENT_ANSWER_KIND_H_
#define PROFD_CLIENT_ANSWER_KIND_H_

#include <cstdint>
#include <string>

#include "daemon/profile/sample_type.h"

namespace profctl {

using profd::AllSampleTypes;
using profd::FindSampleType;
using profd::SampleTypeInfo;
using profd::Unit;

// "1.23 s", "12.3 MiB" or "12,345". Bytes and numbers are never negative.
std::string FormatValue(int64_t value, Unit unit);
// "+12.3 MiB", "-4.00 KiB".
std::string FormatGrowth(int64_t bytes);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_KIND_H_
