#include "client/text/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/text/cells.h"

namespace profctl {
namespace {

std::optional<size_t> terminal_columns;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Controls, line and paragraph separators, direction overrides, and characters that XML 1.0
// forbids.
bool IsUnsafe(char32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x061c ||
         (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2060 && point <= 0x206f) || point == 0xfeff || (point & 0xfffe) == 0xfffe;
}

// The longest beginning of valid or invalid UTF-8 that fits into `columns`.
std::string_view Prefix(std::string_view text, size_t columns) {
  std::string_view rest = text;
  size_t end = 0;
  while (!rest.empty()) {
    const size_t cells = CellsOf(TakeCodePoint(rest));
    if (cells > columns) break;
    columns -= cells;
    end = text.size() - rest.size();
  }
  return text.substr(0, end);
}

// "s", "MiB/s," and the like.
bool IsUnit(std::string_view word) {
  static constexpr std::array<std::string_view, 12> kUnits = {
      "ns", "us", "ms", "s", "min", "h", "d", "B", "KiB", "MiB", "GiB", "TiB"};
  const auto end = std::find_if_not(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalpha(static_cast<unsigned char>(c));
  });
  const std::string_view letters = word.substr(0, static_cast<size_t>(end - word.begin()));
  return std::find(kUnits.begin(), kUnits.end(), letters) != kUnits.end();
}

// Words; a number and its unit are one.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(Absl(text), ' ', absl::SkipEmpty())) {
    const bool after_number =
        !words.empty() && absl::ascii_isdigit(static_cast<unsigned char>(words.back().back()));
    if (after_number && IsUnit({word.data(), word.size()})) {
      absl::StrAppend(&words.back(), " ", word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

// The longest end that fits.
std::string_view Suffix(std::string_view text, size_t columns) {
  size_t width = DisplayWidth(text);
  while (width > columns) width -= CellsOf(TakeCodePoint(text));
  return text;
}

}  // namespace

std::string CleanName(std::string_view name) {
  std::string clean;
  clean.reserve(name.size());
  while (!name.empty()) {
    const std::string_view before = name;
    const char32_t point = TakeCodePoint(name);
    const size_t length = before.size() - name.size();
    if (point == kBadByte) {
      clean += "\xef\xbf\xbd";
    } else if (IsUnsafe(point)) {
      clean += '?';
    } else {
      clean.append(before.substr(0, length));
    }
  }
  return clean;
}

std::string XmlEscape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + 16);
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

void SetTerminalColumns(std::optional<size_t> columns) { terminal_columns = columns; }

size_t PageColumns() { return terminal_columns.value_or(kPageColumns); }

size_t LineColumns() { return terminal_columns.value_or(std::numeric_limits<size_t>::max()); }

size_t DisplayWidth(std::string_view text) {
  size_t cells = 0;
  while (!text.empty()) cells += CellsOf(TakeCodePoint(text));
  return cells;
}

std::string PadRight(std::string_view text, size_t width) {
  std::string padded(text);
  const size_t columns = DisplayWidth(text);
  if (columns < width) padded.append(width - columns, ' ');
  return padded;
}

std::string PadLeft(std::string_view text, size_t width) {
  const size_t columns = DisplayWidth(text);
  std::string padded(columns < width ? width - columns : 0, ' ');
  return padded.append(text);
}

std::string Shorten(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 8);
  if (DisplayWidth(text) <= width) return std::string(text);
  const size_t tail = (width - 3) / 2;
  std::string shortened(Prefix(text, width - 3 - tail));
  shortened += "...";
  return shortened.append(Suffix(text, tail));
}

std::string FittingName(std::string_view name) {
  constexpr size_t kBeside = 6;  // columns: the indent, and punctuation
  return Shorten(name, LineColumns() - kBeside);
}

std::string ClipEnd(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 3);
  if (DisplayWidth(text) <= width) return std::string(text);
  return std::string(Prefix(text, width - 2)) + "..";
}

std::string Wrap(std::string_view text, size_t width, std::string_view indent) {
  std::string wrapped;
  std::string line(indent);
  bool empty = true;
  for (const std::string& piece : WordsOf(text)) {
    if (!empty && DisplayWidth(line) + 1 + DisplayWidth(piece) > width) {
      wrapped += line + "\n";
      line = indent;
      empty = true;
    }
    if (!empty) line += ' ';
    line.append(piece);
    empty = false;
  }
  if (!empty) wrapped += line + "\n";
  return wrapped;
}

std::string WrapAfter(std::string_view label, std::string_view text, size_t width) {
  const std::string indent(DisplayWidth(label), ' ');
  const std::string wrapped = Wrap(text, width, indent);
  return std::string(label) + (wrapped.empty() ? "\n" : wrapped.substr(indent.size()));
}

std::string Line(std::string_view label, std::string_view text) {
  if (DisplayWidth(label) + DisplayWidth(text) > LineColumns()) {
    return WrapAfter(label, text, PageColumns());
  }
  return absl::StrCat(std::string(label), std::string(text), "\n");
}

std::string FormatShare(double part, double whole) {
  if (!(whole > 0) || !std::isfinite(part)) return "-";
  const double percent = 100 * part / whole;
  if (percent > 0 && percent < 0.05) return "<0.1%";
  return absl::StrFormat("%.1f%%", percent);
}

std::string FormatFineShare(double part, double whole) {
  if (!(whole > 0) || !std::isfinite(part)) return "-";
  const double percent = 100 * part / whole;
  if (percent == 0) return "0%";
  if (percent > 0 && percent < 0.0005) return "<0.001%";
  const int decimals = percent < 0.0995 ? 3 : percent < 9.995 ? 2 : 1;
  return absl::StrFormat("%.*f%%", decimals, percent);
}

std::string FormatCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string CountThreads(uint64_t count) {
  return absl::StrCat(FormatCount(count), count == 1 ? " thread" : " threads");
}

std::string Significant(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrCat(Significant(value), " ", kUnits[unit]);
}

}  // namespace profctl
