// Aligned columns of text.
#ifndef PROFD_CLIENT_RENDER_TABLE_H_
#define PROFD_CLIENT_RENDER_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace profctl {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
    size_t most = 40;  // columns of text; longer cells lose their middle
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell a column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines indented by two, headings first.
  std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A heading on a line of its own, bold when `colour`.
std::string Heading(std::string_view text, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_TABLE_H_
