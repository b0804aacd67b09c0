#include "client/text/cells.h"

#include <locale.h>
#include <wchar.h>

namespace profctl {
namespace {

// Below this no character is wide or combines.
constexpr char32_t kFirstCombining = 0x300;

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// As wcwidth says, whatever the locale of the process is: -1 for what cannot be shown.
int WidthOf(char32_t point) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int width = wcwidth(static_cast<wchar_t>(point));
  uselocale(before);
  return width;
}

}  // namespace

// Takes one code point off the front of `text`; kBadByte and one byte if it is not UTF-8.
char32_t TakeCodePoint(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  size_t length = 1;
  char32_t point = lead;
  char32_t least = 0;
  if (lead >= 0x80) {
    if ((lead & 0xe0) == 0xc0) {
      length = 2, point = lead & 0x1fu, least = 0x80;
    } else if ((lead & 0xf0) == 0xe0) {
      length = 3, point = lead & 0x0fu, least = 0x800;
    } else if ((lead & 0xf8) == 0xf0) {
      length = 4, point = lead & 0x07u, least = 0x10000;
    } else {
      length = 0;
    }
    bool good = length != 0 && length <= text.size();
    for (size_t i = 1; good && i < length; ++i) {
      good = IsContinuation(byte(i));
      point = point << 6 | (byte(i) & 0x3fu);
    }
    if (!good || point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
      text.remove_prefix(1);
      return kBadByte;
    }
  }
  text.remove_prefix(length);
  return point;
}

size_t CellsOf(char32_t point) {
  if (point < kFirstCombining) return 1;
  const int width = WidthOf(point);
  return width < 0 ? 1 : static_cast<size_t>(width);
}

std::string ToCells(std::string_view text, bool utf8) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t point = TakeCodePoint(text);
    const bool can_show = point < 0x80 || (utf8 && (point < kFirstCombining || WidthOf(point) > 0));
    if (can_show && point != kBadByte) {
      shown.append(before.substr(0, before.size() - text.size()));
    } else {
      shown.append(CellsOf(point), '?');
    }
  }
  return shown;
}

}  // namespace profctl
