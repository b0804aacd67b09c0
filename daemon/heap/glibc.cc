#include "daemon/heap/glibc.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "daemon/elf/elf_file.h"
#include "daemon/heap/constants.h"
#include "daemon/heap/probe_point.h"
#include "daemon/symbolize/elf_symbols.h"
#include "re2/re2.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::NamedSymbol;
using symbolize::Section;

struct Name {
  std::string_view name;
  profd_malloc_place place;
};
constexpr std::array<Name, 9> kNames = {{{"malloc", PROFD_MALLOC_MALLOC},
                                         {"calloc", PROFD_MALLOC_CALLOC},
                                         {"realloc", PROFD_MALLOC_REALLOC},
                                         {"free", PROFD_MALLOC_FREE},
                                         {"memalign", PROFD_MALLOC_MEMALIGN},
                                         {"aligned_alloc", PROFD_MALLOC_MEMALIGN},
                                         {"posix_memalign", PROFD_MALLOC_POSIX_MEMALIGN},
                                         {"valloc", PROFD_MALLOC_VALLOC},
                                         {"pvalloc", PROFD_MALLOC_PVALLOC}}};

// "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36."
constexpr size_t kMaxBannerBytes = 256;
// The message of free for an invalid pointer, in every version. A statically linked program may
// have no banner.
constexpr std::string_view kMessage = "free(): invalid pointer";

constexpr uint64_t kFewSymbols = 16;
constexpr size_t kMostNamed = 256;

std::vector<NamedSymbol> FindNamed(const ElfFile& elf, uint32_t table) {
  std::array<std::string_view, kNames.size()> names;
  std::transform(kNames.begin(), kNames.end(), names.begin(), [](const Name& n) { return n.name; });
  return symbolize::FindCalled(elf, table, names, kMostNamed).defined;
}

profd_malloc_place PlaceOf(std::string_view name) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.name == name; })
      ->place;
}

// A statically linked program has hardly any dynamic symbols. A program with dynamic symbols but no
// malloc among them gets malloc from another file.
bool IsStatic(const ElfFile& elf) {
  return std::none_of(elf.sections().begin(), elf.sections().end(), [](const Section& section) {
    return section.type == SHT_DYNSYM && section.size > kFewSymbols * sizeof(Elf64_Sym);
  });
}

bool Defines(const std::vector<NamedSymbol>& functions, std::string_view name) {
  return std::any_of(functions.begin(), functions.end(),
                     [&](const NamedSymbol& f) { return f.name == name; });
}

// What the constants say about the library.
struct Texts {
  std::string version;
  bool has_message = false;
};

absl::StatusOr<Texts> ReadTexts(const ElfFile& elf) {
  static const RE2* const banner =
      new RE2(R"(GNU C Library \([^)\x00]{0,120}\) [a-z]{1,16} release version (\d{1,3}\.\d{1,3}))",
              RE2::Latin1);
  Texts texts;
  const auto visit = [&texts](uint64_t, std::string_view bytes) {
    texts.has_message = texts.has_message || bytes.find(kMessage) != bytes.npos;
    if (texts.version.empty()) {
      RE2::PartialMatch(re2::StringPiece(bytes.data(), bytes.size()), *banner, &texts.version);
    }
    return !texts.has_message || texts.version.empty();
  };
  for (const FileRange& range : FindConstants(elf)) {
    RETURN_IF_ERROR(elf.ReadPieces(range, kMaxBannerBytes, visit));
  }
  return texts;
}

absl::StatusOr<std::vector<GlibcFunction>> Locate(const ElfFile& elf,
                                                  const std::vector<NamedSymbol>& named) {
  std::vector<GlibcFunction> functions;
  for (const NamedSymbol& symbol : named) {
    const std::optional<FileRange> code = elf.CodeAt(symbol.address);
    if (!code) continue;
    ASSIGN_OR_RETURN(const ProbePoint point, FindProbePoint(elf, *code));
    functions.push_back({.place = PlaceOf(symbol.name),
                         .offset = code->offset + point.skip,
                         .stepped = point.stepped});
  }
  // memalign and aligned_alloc may be the same function.
  std::sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.place) < std::tie(b.offset, b.place);
  });
  functions.erase(std::unique(functions.begin(), functions.end(),
                              [](const auto& a, const auto& b) { return a.offset == b.offset; }),
                  functions.end());
  return functions;
}

bool Has(const std::vector<GlibcFunction>& functions, profd_malloc_place place) {
  return std::any_of(functions.begin(), functions.end(),
                     [place](const GlibcFunction& f) { return f.place == place; });
}

}  // namespace

absl::StatusOr<std::optional<GlibcInfo>> FindGlibc(int fd) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  if (elf.machine() != EM_X86_64) return absl::InvalidArgumentError("not an x86-64 ELF file");
  std::vector<NamedSymbol> named = FindNamed(elf, SHT_DYNSYM);
  const auto whole = [&] { return Defines(named, "malloc") && Defines(named, "free"); };
  if (!whole() && IsStatic(elf)) named = FindNamed(elf, SHT_SYMTAB);
  if (!whole()) return std::nullopt;
  ASSIGN_OR_RETURN(const Texts texts, ReadTexts(elf));
  if (texts.version.empty() && !texts.has_message) return std::nullopt;
  GlibcInfo info = {.version = texts.version, .found_by = "symbol", .functions = {}};
  ASSIGN_OR_RETURN(info.functions, Locate(elf, named));
  if (!Has(info.functions, PROFD_MALLOC_MALLOC) || !Has(info.functions, PROFD_MALLOC_FREE)) {
    return std::nullopt;
  }
  return info;
}

}  // namespace profd
