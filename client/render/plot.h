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
  // In braille, 2 by 4 dots per character; else in ASCII.
  bool unicode = true;

  // Number of values side by side.
  size_t Width() const { return unicode ? 2 * columns : columns; }
};

// Rows from the top, without trailing spaces. `area` is filled, `line` is drawn over it. Each has
// shape.Width() values from the left; NaN: unknown. `low` is at the bottom, `high` > `low` at the
// top.
std::vector<std::string> DrawPlot(const PlotShape& shape, const std::vector<double>& line,
                                  const std::vector<double>& area, double low, double high);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_PLOT_H_
