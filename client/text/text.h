// Text for people: safe names, shares, bytes.
#ifndef PROFD_CLIENT_TEXT_TEXT_H_
#define PROFD_CLIENT_TEXT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/text/time_text.h"  // IWYU pragma: export

namespace profctl {

// `name` as one line of valid UTF-8. Control characters, line breaks and direction marks become
// '?'; bytes that are not UTF-8 become U+FFFD.
std::string CleanName(std::string_view name);

// Escapes for XML text and double-quoted attributes. Expects the output of CleanName.
std::string XmlEscape(std::string_view text);

inline constexpr size_t kPageColumns = 100;
// Columns of the terminal; none: the output is not a terminal. Set once, before anything is
// written.
void SetTerminalColumns(std::optional<size_t> columns);
// Text is wrapped at this column: the terminal's, else 100.
size_t PageColumns();
// Lines that cannot be wrapped lose a part beyond this column. No limit without a terminal, so that
// other programs get whole names.
size_t LineColumns();

// Number of columns: two of a wide character, none of one that combines.
size_t DisplayWidth(std::string_view text);
// Pads with spaces to `width` columns; longer text is returned as it is.
std::string PadRight(std::string_view text, size_t width);
std::string PadLeft(std::string_view text, size_t width);
// At most `width` columns; longer text loses its middle to "...". `width` is at least 8.
std::string Shorten(std::string_view text, size_t width);
// A name in a sentence, shortened so that it fits on a line if it has one to itself.
std::string FittingName(std::string_view name);
// At most `width` columns; longer text loses its end to "..". `width` is at least 3.
std::string ClipEnd(std::string_view text, size_t width);
// `text` broken at spaces into lines of at most `width` columns, each after `indent`, each ended. A
// number stays with its unit.
std::string Wrap(std::string_view text, size_t width, std::string_view indent);
// The same with `label` instead of the first indent, and as much indent as it is wide.
std::string WrapAfter(std::string_view label, std::string_view text, size_t width);
// `label` and `text` on one line if they fit, else as WrapAfter.
std::string Line(std::string_view label, std::string_view text);

// "12.3%" of part in whole; "-" when whole is not positive.
std::string FormatShare(double part, double whole);
// As FormatShare, with more digits for small parts: "1.23%", "0.012%", "<0.001%", "0%".
std::string FormatFineShare(double part, double whole);
// Three significant digits without an exponent: "1.23", "12.3", "123", "12345".
std::string Significant(double value);
// "1,234,567".
std::string FormatCount(uint64_t count);

// "1 thread", "2,048 threads".
std::string CountThreads(uint64_t count);
// "12.3 MiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace profctl

#endif  // PROFD_CLIENT_TEXT_TEXT_H_
