// A profile for speedscope, in its own file format:
// https://www.speedscope.app/file-format-schema.json
#ifndef PROFD_CLIENT_RENDER_SPEEDSCOPE_H_
#define PROFD_CLIENT_RENDER_SPEEDSCOPE_H_

#include <string>
#include <vector>

#include "client/answer/view.h"

namespace profctl {

// Views of the sample types of one answer; at least one. Each is a "sampled" profile whose weights
// are the values. As in folded stacks, a stack begins with the labels of its group and, for waits,
// ends with the reason.
std::string RenderSpeedscope(const std::vector<View>& views);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SPEEDSCOPE_H_
