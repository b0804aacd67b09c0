// An interactive flame graph in one self-contained SVG file.
#ifndef PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
#define PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/analysis/flame_tree.h"
#include "client/answer/view.h"
#include "client/render/flamegraph_page.h"
#include "client/render/palette.h"

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

// Widths in proportion to time or bytes.
std::string RenderFlameGraph(const View& view, const FlameGraphOptions& options = {});

struct LegendItem {
  std::string css_class, text;
};

// What a flame graph shows. Nodes are given by their index in the tree.
struct FlameGraph {
  FlameTree tree;
  FlameGraphPage page;
  bool per_second = false;  // values are rates
  std::vector<LegendItem> legend;
  std::string styles;  // CSS of all classes
  std::function<std::string(uint32_t node)> css_class;
  // A line with numbers, and one with the location of the code. Clean, not escaped.
  std::function<std::string(uint32_t node)> describe;
};

// Without scripts it is a readable picture with tool tips; in a browser it zooms, searches and
// follows the keyboard. Nothing is loaded from elsewhere.
std::string DrawFlameGraph(const FlameGraph& graph, const FlameGraphOptions& options);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FLAMEGRAPH_SVG_H_
