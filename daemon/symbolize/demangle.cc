#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

// libiberty's header declares its own basename unless this macro says that there is one.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include "daemon/symbolize/symbolizer.h"

namespace profd {
namespace {

constexpr size_t kMaxInputBytes = 8 << 10;
constexpr size_t kMaxOutputBytes = 4 << 10;
constexpr int kMaxOutputCalls = 1 << 16;
constexpr size_t kHashDigits = 16;

// Values passed to longjmp.
constexpr int kFull = 1;
constexpr int kGivenUp = 2;

using DemangleFunction = int (*)(const char*, int, demangle_callbackref, void*);

// Substitutions can expand a few bytes of input exponentially, so longjmp leaves the demangler when
// the output is full. It is C code and holds no memory then, with one exception (see Append).
struct Sink {
  std::jmp_buf full;
  int calls = 0;
  size_t size = 0;
  char text[kMaxOutputBytes];
};

void Append(const char* data, size_t size, void* opaque) {
  auto* sink = static_cast<Sink*>(opaque);
  // Empty identifiers cost as much work as others but never fill the output.
  if (++sink->calls > kMaxOutputCalls) std::longjmp(sink->full, kGivenUp);
  if (size == 0) return;
  const size_t taken = std::min(size, kMaxOutputBytes - sink->size);
  std::memcpy(sink->text + sink->size, data, taken);
  sink->size += taken;
  // The demangler prints a punycode identifier from memory that it frees later, so longjmp must
  // wait. That is its only output outside of ASCII, and ASCII output always follows.
  const bool ascii = std::none_of(data, data + size, [](char c) { return (c & 0x80) != 0; });
  if (sink->size == kMaxOutputBytes && ascii) std::longjmp(sink->full, kFull);
}

// No object with a destructor may be created here, because longjmp returns to this frame.
bool Run(DemangleFunction demangle, const char* mangled, Sink* sink) {
  switch (setjmp(sink->full)) {
    case 0:
      return demangle(mangled, DMGL_NO_OPTS, &Append, sink) != 0;
    case kFull:
      return true;
    default:
      return false;
  }
}

void CutAtCharacter(std::string* text, size_t size) {
  while (size > 0 && ((*text)[size] & 0xC0) == 0x80) --size;
  text->resize(size);
}

void Shorten(std::string* text, size_t limit) {
  if (text->size() <= limit) return;
  CutAtCharacter(text, limit - 3);
  *text += "...";
}

std::string Shortened(std::string text, size_t limit) {
  Shorten(&text, limit);
  return text;
}

bool RunTo(DemangleFunction demangle, const std::string& mangled, std::string* out) {
  Sink sink;
  if (!Run(demangle, mangled.c_str(), &sink) || sink.size == 0) return false;
  out->assign(sink.text, sink.size);
  if (out->size() == kMaxOutputBytes) Shorten(out, kMaxOutputBytes - 1);
  return true;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return IsDigit(c) || (c >= 'a' && c <= 'f');
         });
}

// Start of a suffix (".123") behind a mangled name; the size if there is none. Legacy Rust
// names contain dots of their own, but end in a hash.
size_t SuffixStart(std::string_view name) {
  constexpr std::string_view kHashMark = "17h";
  if (name.substr(0, 3) == "_ZN") {
    for (size_t at = name.find(kHashMark); at != std::string_view::npos;
         at = name.find(kHashMark, at + 1)) {
      const size_t end = at + kHashMark.size() + kHashDigits;
      if (end < name.size() && name[end] == 'E' &&
          (end + 1 == name.size() || name[end + 1] == '.') &&
          IsHash(name.substr(at + kHashMark.size(), kHashDigits))) {
        return end + 1;
      }
    }
  }
  // A name may begin with a dot.
  return std::min(name.find('.', 1), name.size());
}

// Marks of copies and parts that compilers make of one function. A number follows.
constexpr std::array<std::string_view, 13> kCloneMarks = {
    ".llvm",    ".isra",    ".part",        ".constprop", ".lto_priv", ".clone", ".cold",
    ".argprom", ".argelim", ".specialized", ".memprof",   ".__uniq",   ".warm"};
// Those after which there may be no number.
constexpr std::array<std::string_view, 5> kPlainMarks = {".cold", ".warm", ".localalias",
                                                         ".argprom", ".argelim"};

// `name` without such marks at its end: to a reader all copies are the same function.
std::string_view WithoutCloneMarks(std::string_view name) {
  for (bool found = true; found;) {
    found = false;
    size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos) break;
    const bool number = end + 1 < name.size() && name[end] == '.';
    const std::string_view marked = number ? name.substr(0, end) : name;
    const std::span<const std::string_view> marks =
        number ? std::span<const std::string_view>(kCloneMarks) : kPlainMarks;
    for (const std::string_view mark : marks) {
      if (marked.size() <= mark.size() || !marked.ends_with(mark)) continue;
      name = marked.substr(0, marked.size() - mark.size());
      found = true;
      break;
    }
  }
  return name;
}

std::string WithoutAbiTags(std::string name) {
  constexpr std::string_view kTag = "[abi:";
  for (size_t at = name.find(kTag); at != std::string::npos; at = name.find(kTag, at)) {
    const size_t end = name.find(']', at);
    if (end == std::string::npos) break;
    name.erase(at, end + 1 - at);
  }
  return name;
}

// libiberty rejects C++ names of more than 1,024 bytes, to limit its stack. Their plain leading
// part still shows where they belong: "ns::Class<...>".
std::string OutlineOfLongName(std::string_view mangled) {
  mangled.remove_prefix(2);
  const bool nested = !mangled.empty() && mangled[0] == 'N';
  if (nested) mangled.remove_prefix(1);
  while (nested && !mangled.empty() && std::strchr("rVKRO", mangled[0]) != nullptr) {
    mangled.remove_prefix(1);
  }
  std::string out;
  if (mangled.substr(0, 2) == "St") {
    out = "std";
    mangled.remove_prefix(2);
  }
  while (!mangled.empty() && IsDigit(mangled[0])) {
    size_t length = 0;
    while (!mangled.empty() && IsDigit(mangled[0]) && length < kMaxInputBytes) {
      length = length * 10 + static_cast<size_t>(mangled[0] - '0');
      mangled.remove_prefix(1);
    }
    if (length == 0 || length > mangled.size()) return "";
    if (!out.empty()) out += "::";
    out += mangled.substr(0, length);
    mangled.remove_prefix(length);
  }
  if (out.empty() || out == "std") return "";
  return out + (mangled.substr(0, 1) == "I" ? "<...>" : "::...");
}

// Without clone marks.
std::string DemangleWhole(const std::string& name) {
  const bool itanium = name.starts_with("_Z") || name.starts_with("_GLOBAL_");
  const bool rust = name.starts_with("_R");
  const size_t suffix_at = itanium || rust ? SuffixStart(name) : name.size();
  const std::string mangled = name.substr(0, suffix_at);
  const std::string suffix = name.substr(suffix_at);

  std::string out;
  if ((itanium || rust) && RunTo(&rust_demangle_callback, mangled, &out)) return out + suffix;
  if (itanium && RunTo(&cplus_demangle_v3_callback, mangled, &out)) {
    return WithoutAbiTags(std::move(out)) + suffix;
  }
  if (name.starts_with("_Z") && mangled.size() > DEMANGLE_RECURSION_LIMIT / 2) {
    out = OutlineOfLongName(mangled);
    if (!out.empty()) return Shortened(std::move(out), kMaxOutputBytes) + suffix;
  }
  return Shortened(name, kMaxOutputBytes);
}

}  // namespace

std::string Demangle(const std::string& raw) { return DemangleParts(raw).text; }

DemangledName DemangleParts(const std::string& raw) {
  if (raw.size() > kMaxInputBytes) return {Shortened(raw, kMaxOutputBytes), ""};
  const std::string name(WithoutCloneMarks(raw));
  return {DemangleWhole(name), raw.substr(name.size())};
}

}  // namespace profd
