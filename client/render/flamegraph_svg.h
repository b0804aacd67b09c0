// An interactive flame graph in one self-contained SVG file.
#ifndef PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
#define PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_

#include <optional>
#include <string>

#include "client/render/flame_tree.h"
#include "client/render/palette.h"
#include "client/view.h"

namespace profctl {

// The narrowest frame that is drawn.
struct MinWidth {
  double value = 0.1;
  bool percent = false;  // of the whole, else pixels
};

// Every member has an initializer, so that any of them may be left out.
struct FlameGraphOptions {
  std::string title = {};         // empty: kind of profile and processes
  std::optional<int> width = {};  // pixels; none: as wide as the window
  int frame_height = 18;          // pixels
  MinWidth min_width = {};
  std::optional<ColourScheme> colours = {};  // none: by state for "wall", else by kind
  bool inverted = false;                     // root at the top
  bool reversed = false;                     // merged from the innermost frame
};

inline constexpr int kLeastGraphWidth = 320;
inline constexpr int kMostGraphWidth = 16384;
inline constexpr int kLeastFrameHeight = 10;
inline constexpr int kMostFrameHeight = 64;

// Widths in proportion to time or bytes. Without scripts it is a readable picture with tool tips;
// in a browser it zooms, searches and follows the keyboard. Nothing is loaded from elsewhere.
std::string RenderFlameGraph(const View& view, const FlameGraphOptions& options = {});

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
