// A small plot for a terminal.
#ifndef PROFD_CLIENT_RENDER_PLOT_H_
#define PROFD_CLIENT_RENDER_PLOT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace profctl {

struct PlotShape {
  size_t columns = 60;  // characters
  size_t rows = 8;
  // By braille, of 2 by 4 dots a character; else by ASCII.
  bool unicode = true;

  // How many values fit beside each other.
  size_t Width() const { return unicode ? 2 * columns : columns; }
};

// The rows from the top, without spaces at their ends. `area` is filled from the bottom up, `line`
// is drawn over it. Each has shape.Width() values from the left, NaN where nothing is known, of
// which `low` lies at the bottom and `high`, which is more, at the top.
std::vector<std::string> DrawPlot(const PlotShape& shape, const std::vector<double>& line,
                                  const std::vector<double>& area, double low, double high);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_PLOT_H_
