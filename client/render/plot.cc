#include "client/render/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"

namespace profctl {
namespace {

// Dots, addressed from the top left.
class Canvas {
 public:
  Canvas(size_t width, size_t height) : width_(width), dots_(width * height) {}
  void Set(size_t x, size_t y, char mark) { dots_[y * width_ + x] = mark; }
  char At(size_t x, size_t y) const { return dots_[y * width_ + x]; }

 private:
  const size_t width_;
  std::vector<char> dots_;  // 0: none
};

// The braille character of 2 by 4 dots, or a space.
std::string Braille(const Canvas& canvas, size_t column, size_t row) {
  static constexpr uint8_t kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  unsigned bits = 0;
  for (size_t y = 0; y < 4; ++y) {
    for (size_t x = 0; x < 2; ++x) {
      if (canvas.At(2 * column + x, 4 * row + y) != 0) bits |= kDots[y][x];
    }
  }
  if (bits == 0) return " ";
  // U+2800 and the bits, in UTF-8.
  return {'\xe2', static_cast<char>(0xa0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3f))};
}

}  // namespace

std::vector<std::string> DrawPlot(const PlotShape& shape, const std::vector<double>& line,
                                  const std::vector<double>& area, double low, double high) {
  const size_t width = shape.Width();
  const size_t height = shape.unicode ? 4 * shape.rows : shape.rows;
  Canvas canvas(width, height);
  // The row of dots of a value, from the top.
  const auto row_of = [&](double value) -> std::optional<size_t> {
    if (!std::isfinite(value)) return std::nullopt;
    const double part = std::clamp((high - value) / (high - low), 0.0, 1.0);
    return static_cast<size_t>(std::lround(part * static_cast<double>(height - 1)));
  };
  std::optional<size_t> before;
  for (size_t x = 0; x < width; ++x) {
    if (const std::optional<size_t> top = row_of(area[x])) {
      for (size_t y = *top; y < height; ++y) canvas.Set(x, y, ':');
    }
    const std::optional<size_t> at = row_of(line[x]);
    if (at) {
      // From the previous value, so that the line is connected.
      const size_t from = before.value_or(*at);
      for (size_t y = std::min(*at, from); y <= std::max(*at, from); ++y) canvas.Set(x, y, '*');
    }
    before = at;
  }
  std::vector<std::string> rows;
  for (size_t row = 0; row < shape.rows; ++row) {
    std::string& text = rows.emplace_back();
    for (size_t column = 0; column < shape.columns; ++column) {
      if (shape.unicode) {
        text += Braille(canvas, column, row);
      } else {
        const char mark = canvas.At(column, row);
        text += mark == 0 ? ' ' : mark;
      }
    }
    absl::StripTrailingAsciiWhitespace(&text);
  }
  return rows;
}

}  // namespace profctl
