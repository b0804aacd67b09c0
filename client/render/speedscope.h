// A profile for speedscope, in its own file format:
// https://www.speedscope.app/file-format-schema.json
#ifndef PROFD_CLIENT_RENDER_SPEEDSCOPE_H_
#define PROFD_CLIENT_RENDER_SPEEDSCOPE_H_

#include <string>
#include <vector>

#include "client/view.h"

namespace profctl {

// Views of the sample types of one answer; one at least. Each is a "sampled" profile of which the
// weights are the values. A stack begins with the labels of its group and, in a profile of waits,
// ends with the reason, as a folded one does.
std::string RenderSpeedscope(const std::vector<View>& views);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SPEEDSCOPE_H_
