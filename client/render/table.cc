#include "client/render/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/text.h"

namespace profctl {

std::string Table::Render() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].heading);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(
        std::min(width, std::max(columns_[c].most, DisplayWidth(columns_[c].heading))));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line = " ";
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = Shorten(cells[c], widths[c]);
      line += c == 0 ? " " : "  ";
      line +=
          columns_[c].align == Align::kLeft ? PadRight(cell, widths[c]) : PadLeft(cell, widths[c]);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    text += line + "\n";
  };
  std::vector<std::string> headings;
  headings.reserve(columns_.size());
  for (const Column& column : columns_) headings.push_back(column.heading);
  add_line(headings);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string Heading(std::string_view text, bool colour) {
  return absl::StrCat(colour ? "\033[1m" : "", std::string(text), colour ? "\033[0m" : "", "\n");
}

}  // namespace profctl
