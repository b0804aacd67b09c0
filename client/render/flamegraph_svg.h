// An interactive flame graph in one self-contained SVG file.
#ifndef PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
#define PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_

#include <string>

#include "client/render/flame_tree.h"
#include "client/view.h"

namespace profctl {

// Root at the bottom, widths in proportion to time or bytes. Without scripts it is a readable
// picture with tool tips; in a browser it zooms, searches and follows the keyboard. Nothing is
// loaded from elsewhere.
std::string RenderFlameGraph(const View& view);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
