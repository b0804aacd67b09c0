#include "daemon/symbolize/symbol_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace profd::symbolize {
namespace {

// Debian builds abseil with its own string_view type.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// The number of bytes of the well-formed UTF-8 character at the start of `text`; 0 if there is
// none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

size_t LeadingUnderscores(std::string_view name) {
  const size_t count = std::min(name.find_first_not_of('_'), name.size());
  const bool mangled = count == 1 && name.size() > 1 && (name[1] == 'Z' || name[1] == 'R');
  return mangled ? 0 : count;
}

bool BetterName(std::string_view a, std::string_view b) {
  const size_t underscores_a = LeadingUnderscores(a);
  const size_t underscores_b = LeadingUnderscores(b);
  if (underscores_a != underscores_b) return underscores_a < underscores_b;
  if (a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

std::string_view WithoutVersion(std::string_view name) {
  const size_t at = name.find('@');
  if (at == 0 || at == std::string_view::npos) return name;
  const size_t version = name.find_first_not_of('@', at);
  if (version == std::string_view::npos) return name;
  const bool is_version =
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
      });
  return is_version ? name.substr(0, at) : name;
}

std::string Printable(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const size_t length = Utf8Length(name);
    const auto first = static_cast<unsigned char>(name[0]);
    const bool c1_control =
        length == 2 && first == 0xC2 && static_cast<unsigned char>(name[1]) < 0xA0;
    if (length == 0 || absl::ascii_iscntrl(first) || c1_control) {
      out.push_back('?');
    } else {
      out.append(name.substr(0, length));
    }
    name.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string ModuleName(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (absl::EndsWith(View(path), View(kDeleted))) path.remove_suffix(kDeleted.size());
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return path.empty() ? "[unknown]" : Printable(path);
}

std::string FunctionAt(std::string_view module, uint64_t address) {
  return absl::StrCat(View(module), ":fn_", absl::Hex(address));
}

std::string ModuleOffset(std::string_view module, uint64_t offset) {
  return absl::StrCat(View(module), "+0x", absl::Hex(offset));
}

}  // namespace profd::symbolize
