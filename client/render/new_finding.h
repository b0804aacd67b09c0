// What the findings of all rules have.
#ifndef PROFD_CLIENT_RENDER_NEW_FINDING_H_
#define PROFD_CLIENT_RENDER_NEW_FINDING_H_

#include <cstdint>

#include "client/answer/view.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// A finding of the view, without a value.
profd::v1::Finding NewFinding(const View& view, profd::v1::FindingRule rule);

// Sets the value, and its share of the whole.
void SetShare(int64_t value, int64_t whole, profd::v1::Finding* finding);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_NEW_FINDING_H_
