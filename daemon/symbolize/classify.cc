#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/symbolize/vdso.h"

namespace profd {
namespace {

// File names up to their version: "libc" is libc.so.6 and libc-2.31.so, not libcurl.so.4.
constexpr std::array<std::string_view, 11> kLibcModules = {
    "libc",     "libm",      "libmvec", "libpthread", "libdl",  "librt",
    "libgcc_s", "libresolv", "libanl",  "libnsl",     "libutil"};
constexpr std::array<std::string_view, 7> kRuntimeModules = {
    "libstdc++", "libc++", "libc++abi", "libstd", "libuv", "libgomp", "libgo"};

// Startup code of libc is linked into every program.
constexpr std::array<std::string_view, 4> kLibcFunctions = {
    "_start", "__libc_start_main", "__libc_start_call_main", "__libc_csu_init"};

// Roots of Rust paths and C++ namespaces. An entry that ends in '_' is a prefix of crate names.
constexpr std::array<std::string_view, 47> kRuntimeRoots = {"std",
                                                            "core",
                                                            "alloc",
                                                            "std_detect",
                                                            "compiler_builtins",
                                                            "panic_unwind",
                                                            "panic_abort",
                                                            "unwind",
                                                            "__rustc",
                                                            "backtrace",
                                                            "hashbrown",
                                                            "addr2line",
                                                            "gimli",
                                                            "rustc_demangle",
                                                            "tokio",
                                                            "tokio_util",
                                                            "tokio_stream",
                                                            "tokio_uring",
                                                            "mio",
                                                            "rayon",
                                                            "rayon_core",
                                                            "crossbeam",
                                                            "crossbeam_",
                                                            "parking_lot",
                                                            "parking_lot_core",
                                                            "lock_api",
                                                            "futures",
                                                            "futures_",
                                                            "async_std",
                                                            "async_executor",
                                                            "async_global_executor",
                                                            "async_io",
                                                            "async_lock",
                                                            "async_channel",
                                                            "async_task",
                                                            "blocking",
                                                            "event_listener",
                                                            "smol",
                                                            "polling",
                                                            "glommio",
                                                            "monoio",
                                                            "actix_rt",
                                                            "__gnu_cxx",
                                                            "__cxxabiv1",
                                                            "__gnu_parallel",
                                                            "io_uring",
                                                            "threadpool"};

// Prefixes of C names of runtimes: C++ ABI, Rust's hooks, libuv, Go.
constexpr std::array<std::string_view, 19> kRuntimePrefixes = {"__cxa_",
                                                               "__gthread_",
                                                               "__gxx_personality",
                                                               "__rust_",
                                                               "__rdl_",
                                                               "__rg_",
                                                               "rust_eh_personality",
                                                               "rust_begin_unwind",
                                                               "_Unwind_",
                                                               "uv_",
                                                               "runtime.",
                                                               "runtime/",
                                                               "internal/runtime/",
                                                               "internal/poll.",
                                                               "syscall.",
                                                               "os.(*File).",
                                                               "net.(*",
                                                               "operator new",
                                                               "operator delete"};

enum class Origin { kNone, kRuntime, kApplication };

bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (c & 0x80) != 0;
}

std::string_view LeadingWord(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsWordByte);
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool IsRuntimeRoot(std::string_view root) {
  return std::any_of(kRuntimeRoots.begin(), kRuntimeRoots.end(), [&](std::string_view known) {
    return known.ends_with('_') ? root.starts_with(known) : root == known;
  });
}

// The size of the "<...>" at the start of `text`, with brackets; npos if it is not closed.
size_t BracketedSize(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    // Not the arrow of a function type.
    if (text[i] == '>' && i > 0 && text[i - 1] != '-' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

Origin OriginOfType(std::string_view type);

// "Type as Trait" or "Type", without the outer brackets. The code of an implementation is in the
// crate of the type or of the trait (Rust's orphan rule). So if either belongs to the application,
// the code does.
Origin OriginOfQualified(std::string_view inside) {
  constexpr std::string_view kAs = " as ";
  int depth = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '<' || inside[i] == '(' || inside[i] == '[') ++depth;
    if (inside[i] == ')' || inside[i] == ']') --depth;
    if (inside[i] == '>' && i > 0 && inside[i - 1] != '-') --depth;
    if (depth != 0 || inside.substr(i, kAs.size()) != kAs) continue;
    const Origin type = OriginOfType(inside.substr(0, i));
    const Origin trait = OriginOfType(inside.substr(i + kAs.size()));
    if (type == Origin::kApplication || trait == Origin::kApplication) return Origin::kApplication;
    return type == Origin::kRuntime ? type : trait;
  }
  return OriginOfType(inside);
}

// kNone for primitive types and type parameters.
Origin OriginOfType(std::string_view type) {
  bool stripped = true;
  while (stripped) {
    stripped = false;
    for (const std::string_view sigil :
         {"&", "*const ", "*mut ", "mut ", "dyn ", "impl ", "[", "("}) {
      stripped |= ConsumePrefix(&type, sigil);
    }
  }
  if (type.starts_with('<')) {
    const size_t size = BracketedSize(type);
    return size == std::string_view::npos ? Origin::kNone
                                          : OriginOfQualified(type.substr(1, size - 2));
  }
  const std::string_view root = LeadingWord(type);
  if (!type.substr(root.size()).starts_with("::")) return Origin::kNone;
  return IsRuntimeRoot(root) ? Origin::kRuntime : Origin::kApplication;
}

bool HasName(std::string_view module, std::string_view name) {
  if (!module.starts_with(name)) return false;
  const std::string_view rest = module.substr(name.size());
  return rest.starts_with(".so") || rest.starts_with("-");
}

template <size_t N>
bool IsOneOf(std::string_view module, const std::array<std::string_view, N>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return HasName(module, name); });
}

bool IsRuntimeFunction(std::string_view function) {
  for (const std::string_view thunk :
       {"non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to "}) {
    if (ConsumePrefix(&function, thunk)) break;
  }
  for (const std::string_view prefix : kRuntimePrefixes) {
    if (function.starts_with(prefix)) return true;
  }
  return OriginOfType(function) == Origin::kRuntime;
}

}  // namespace

FrameKind ClassifyFrame(const std::string& module_path, const std::string& function) {
  const std::string module = symbolize::ModuleName(module_path);
  if (module == kVdsoPath || module == "[vsyscall]" || module.starts_with("ld-linux") ||
      module.starts_with("ld-musl") || module.starts_with("libc.musl") ||
      IsOneOf(module, kLibcModules)) {
    return FrameKind::kLibc;
  }
  if (IsOneOf(module, kRuntimeModules)) return FrameKind::kRuntime;
  if (std::find(kLibcFunctions.begin(), kLibcFunctions.end(), function) != kLibcFunctions.end()) {
    return FrameKind::kLibc;
  }
  return IsRuntimeFunction(function) ? FrameKind::kRuntime : FrameKind::kApplication;
}

}  // namespace profd
