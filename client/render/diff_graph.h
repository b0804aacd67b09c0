// A differential flame graph: red grew, blue shrank.
#ifndef PROFD_CLIENT_RENDER_DIFF_GRAPH_H_
#define PROFD_CLIENT_RENDER_DIFF_GRAPH_H_

#include <string>

#include "client/analysis/diff.h"
#include "client/answer/profile.h"
#include "client/render/diff_tree.h"
#include "client/render/flamegraph_svg.h"

namespace profctl {

// Saturation says by how much a frame changed, relative to A; grey frames did not change
// significantly. Colours of the options are not used.
std::string RenderDiffGraph(const Profile& a, const Profile& b, const Diff& diff, WidthOf width,
                            const FlameGraphOptions& options);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DIFF_GRAPH_H_
