#include "client/render/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kColumnGap = 2;         // before each column
constexpr size_t kReadableColumns = 20;  // columns of text; below that spare columns go first
constexpr size_t kLeastColumns = 8;

size_t LineWidth(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (const size_t width : widths) sum += width > 0 ? kColumnGap + width : 0;
  return sum;
}

}  // namespace

Table::Widths Table::NaturalWidths() const {
  Widths widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = std::max(DisplayWidth(columns_[c].heading), columns_[c].least);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  return widths;
}

bool Table::Shrink(size_t room, size_t least, Widths& widths) const {
  for (size_t sum = LineWidth(widths); sum > room; --sum) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < widths.size(); ++c) {
      const size_t floor = std::max(least, DisplayWidth(columns_[c].heading));
      if (columns_[c].align != Align::kLeft || widths[c] <= floor) continue;
      if (widest == nullptr || widths[c] > *widest) widest = &widths[c];
    }
    if (widest == nullptr) return false;
    --*widest;
  }
  return true;
}

Table::Widths Table::FittingWidths(size_t room) const {
  Widths natural = NaturalWidths();
  while (true) {
    Widths widths = natural;
    if (Shrink(room, kReadableColumns, widths)) return widths;
    size_t spare = columns_.size();
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (natural[c] == 0 || columns_[c].spare == 0) continue;
      if (spare == columns_.size() || columns_[c].spare > columns_[spare].spare) spare = c;
    }
    if (spare == columns_.size()) {
      Shrink(room, kLeastColumns, natural);
      return natural;
    }
    natural[spare] = 0;
  }
}

std::vector<std::string> Table::LineOf(const std::vector<std::string>& cells,
                                       const Widths& widths) const {
  std::vector<std::string> line;
  for (size_t c = 0; c < cells.size(); ++c) {
    std::string& cell = line.emplace_back();
    if (widths[c] == 0) continue;
    const bool is_text = columns_[c].align == Align::kLeft;
    cell.append(kColumnGap, ' ');
    cell +=
        is_text ? PadRight(Shorten(cells[c], widths[c]), widths[c]) : PadLeft(cells[c], widths[c]);
  }
  return line;
}

std::vector<std::string> Table::Headings() const {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  return headings;
}

std::vector<std::vector<std::string>> Table::Cells(size_t room) const {
  const Widths widths = FittingWidths(room);
  std::vector<std::vector<std::string>> lines = {LineOf(Headings(), widths)};
  for (const auto& row : rows_) lines.push_back(LineOf(row, widths));
  return lines;
}

std::string Table::Render() const {
  const Widths widths = FittingWidths(LineColumns());
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line = absl::StrJoin(LineOf(cells, widths), "");
    absl::StripTrailingAsciiWhitespace(&line);
    text += line + "\n";
  };
  add_line(Headings());
  for (const auto& row : rows_) add_line(row);
  std::vector<std::string> left_out;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (widths[c] == 0) left_out.push_back(columns_[c].heading);
  }
  if (!left_out.empty()) {
    text += Wrap(absl::StrCat("(too narrow for: ", absl::StrJoin(left_out, ", "), ")"),
                 PageColumns(), "  ");
  }
  return text;
}

std::string Heading(std::string_view text, bool colour) {
  std::string lines = Wrap(text, PageColumns(), "");
  if (!colour || lines.empty()) return lines;
  lines.pop_back();
  return absl::StrCat("\033[1m", lines, "\033[0m\n");
}

}  // namespace profctl
