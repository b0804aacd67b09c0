// Scheduling delay as a section of the page of `profctl why`, and as JSON.
#ifndef PROFD_CLIENT_RENDER_SCHEDULING_DELAY_H_
#define PROFD_CLIENT_RENDER_SCHEDULING_DELAY_H_

#include <string>

#include "client/analysis/activity.h"
#include "client/analysis/chains.h"
#include "client/analysis/scheduling_delay.h"
#include "client/render/activity_text.h"
#include "nlohmann/json.hpp"

namespace profctl {

// A sentence for the head of the page; empty unless it is large for certain.
std::string SchedulingDelayLead(const SchedulingDelay& delay, const Chains& chains);
// With its heading; empty if no part is large enough for a line.
std::string SchedulingDelayText(const SchedulingDelay& delay, const Chains& chains,
                                const GroupTexts& names, bool colour);
nlohmann::ordered_json SchedulingDelayJson(const SchedulingDelay& delay, const Activity& activity);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SCHEDULING_DELAY_H_
