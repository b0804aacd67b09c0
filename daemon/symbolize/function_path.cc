#include "daemon/symbolize/function_path.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace profd {
namespace {

// End of the bracket that opens at `open`, one past it; the end of the text when it never closes.
// The '>' of "->" and of operators does not close.
size_t SkipBracket(std::string_view text, size_t open, char left, char right) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == left) {
      ++depth;
    } else if (text[i] == right && !(right == '>' && i > 0 && text[i - 1] == '-')) {
      if (--depth == 0) return i + 1;
    }
  }
  return text.size();
}

bool IsRustHash(std::string_view segment) {
  return segment.size() == 17 && segment[0] == 'h' &&
         std::all_of(segment.begin() + 1, segment.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

// Where `name` has " as " outside of brackets, or npos.
size_t FindAs(std::string_view name) {
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(' || name[i] == '[') ++depth;
    if (name[i] == ')' || name[i] == ']') --depth;
    if (name[i] == '>' && !(i > 0 && name[i - 1] == '-')) --depth;
    if (depth == 0 && name.substr(i, 4) == " as ") return i;
  }
  return std::string_view::npos;
}

constexpr int kMaxNesting = 16;

void AppendPath(std::string_view name, int nesting, std::string& path) {
  for (size_t i = 0; i < name.size();) {
    const char c = name[i];
    if (c == '<') {
      const size_t end = SkipBracket(name, i, '<', '>');
      const bool qualified = path.empty();
      if (qualified && end > i + 1 && nesting < kMaxNesting) {
        std::string_view inside = name.substr(i + 1, end - i - 2);
        inside = inside.substr(0, FindAs(inside));
        AppendPath(inside, nesting + 1, path);
      } else if (path.ends_with("::")) {
        path.resize(path.size() - 2);  // turbofish
      }
      i = end;
    } else if (c == '(') {
      // "(anonymous namespace)" is a segment; other parentheses are parameters and what follows.
      constexpr std::string_view kAnonymous = "(anonymous namespace)";
      if (!name.substr(i).starts_with(kAnonymous)) break;
      if (name.substr(i + kAnonymous.size()).starts_with("::")) i += 2;
      i += kAnonymous.size();
    } else if (c == '{') {
      i = SkipBracket(name, i, '{', '}');
      if (path.ends_with("::")) path.resize(path.size() - 2);
    } else {
      path += c;
      ++i;
    }
  }
}

}  // namespace

std::string FunctionPath(std::string_view function) {
  std::string path;
  AppendPath(function, 0, path);
  const size_t separator = path.rfind("::");
  if (separator != std::string::npos && IsRustHash(std::string_view(path).substr(separator + 2))) {
    path.resize(separator);
  }
  return path;
}

}  // namespace profd
