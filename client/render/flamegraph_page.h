// The texts of a flame graph.
#ifndef PROFD_CLIENT_RENDER_FLAMEGRAPH_PAGE_H_
#define PROFD_CLIENT_RENDER_FLAMEGRAPH_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/analysis/flame_tree.h"
#include "client/answer/kind.h"
#include "client/answer/view.h"

namespace profctl {

// Texts are clean, not escaped.
struct FlameGraphPage {
  Unit unit = Unit::kNanoseconds;
  int64_t total = 0;  // what the whole width stands for
  std::string title;
  std::vector<std::string> lines;  // under the title
  std::vector<std::string> empty;  // instead of frames, when there are none
};

FlameGraphPage DescribeFlameGraph(const View& view);
// "1.23 s ± 45.6 ms, 12.3% ± 0.5%".
std::string DescribeNode(const FlameNode& node, const FlameGraphPage& page);
// The location of the code, or the meaning of a frame that is not code.
std::string ExplainNode(const FlameNode& node, Unit unit);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_FLAMEGRAPH_PAGE_H_
