// Code points, and the cells of a terminal that they take.
#ifndef PROFD_CLIENT_TEXT_CELLS_H_
#define PROFD_CLIENT_TEXT_CELLS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace profctl {

inline constexpr char32_t kBadByte = 0xfffd;

// Takes one code point off the front of `text`, which is not empty; kBadByte and one byte if it is
// not UTF-8.
char32_t TakeCodePoint(std::string_view& text);

// 0: combines with the one before it; 2: wide, as CJK characters are. 1 for what cannot be shown.
size_t CellsOf(char32_t point);

// Valid UTF-8 without control characters, as a screen shows it in exactly as many cells as
// DisplayWidth says: without characters that combine, and with '?' for what the screen cannot show.
// Without `utf8` it shows ASCII alone.
std::string ToCells(std::string_view text, bool utf8);

}  // namespace profctl

#endif  // PROFD_CLIENT_TEXT_CELLS_H_
