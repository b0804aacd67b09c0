// Aligned columns of text.
#ifndef PROFD_CLIENT_RENDER_TABLE_H_
#define PROFD_CLIENT_RENDER_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace profctl {

// Fits the terminal: text loses its middle, the widest column first; then columns are left out, and
// the table says so. Numbers are never cut.
class Table {
 public:
  enum class Align { kLeft, kRight };  // text; numbers
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
    int spare = 0;     // left out on narrow terminals, the highest first; 0: never
    size_t least = 0;  // columns that it takes at least, so that it stays where it is
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell a column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines indented by two, headings first.
  std::string Render() const;
  // The cells of each line, headings first, for a screen of so many columns: each padded, with the
  // gap before it; those that are left out are empty.
  std::vector<std::vector<std::string>> Cells(size_t room) const;

 private:
  using Widths = std::vector<size_t>;  // by column; 0: left out

  Widths NaturalWidths() const;
  // Cuts text columns down to `least` at most. Whether that is enough for `room`.
  bool Shrink(size_t room, size_t least, Widths& widths) const;
  Widths FittingWidths(size_t room) const;
  std::vector<std::string> LineOf(const std::vector<std::string>& cells,
                                  const Widths& widths) const;
  std::vector<std::string> Headings() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A heading on lines of its own, bold when `colour`.
std::string Heading(std::string_view text, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_TABLE_H_
