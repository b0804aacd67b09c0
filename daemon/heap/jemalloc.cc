#include "daemon/heap/jemalloc.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/heap/constants.h"
#include "daemon/heap/event_shape.h"
#include "daemon/heap/functions.h"
#include "daemon/heap/named_symbols.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "re2/re2.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::NamedSymbol;

// The prefix of all of jemalloc's messages, without its first character: with it, this program
// itself would contain the text.
constexpr std::string_view kMessageRest = "jemalloc>: ";
constexpr char kMessageFirst = '<';

// jemalloc contains the `git describe --long --abbrev=40` of its source: "5.3.0-0-g" and 40 digits.
// The limit includes the preceding character and the NUL.
constexpr size_t kMaxVersionBytes = 64;
// Used by builds from a source tree without git.
constexpr std::string_view kNoVersion = "0.0.0";

// The environment variable for settings, after an optional prefix in capitals.
constexpr char kSettingsVariable[] = "MALLOC_CONF";
constexpr size_t kMaxPrefix = 32;

constexpr char kEventFunction[] = "te_event_trigger";
// Every function of this shape is longer.
constexpr uint64_t kLeastEventBytes = 16;

// At most so much of each function is searched for copies of the event.
constexpr uint64_t kMaxFunctionBytes = 128 << 10;
constexpr size_t kMaxInlined = 16;

constexpr char kNotFound[] = "jemalloc's event function was not found: ";
constexpr char kRemedy[] = "; keep the module's symbols or install its debug file";

absl::StatusOr<bool> HasMessages(const ElfFile& elf, const std::vector<FileRange>& constants) {
  bool found = false;
  const auto visit = [&found](uint64_t, std::string_view bytes) {
    const char* const begin = bytes.data();
    const char* const end = begin + bytes.size();
    for (const char* at = begin; !found && at != nullptr && at < end; ++at) {
      at = static_cast<const char*>(
          memmem(at, static_cast<size_t>(end - at), kMessageRest.data(), kMessageRest.size()));
      if (at == nullptr) break;
      found = at > begin && at[-1] == kMessageFirst;
    }
    return !found;
  };
  for (const FileRange& range : constants) {
    RETURN_IF_ERROR(elf.ReadPieces(range, kMessageRest.size(), visit));
    if (found) break;
  }
  return found;
}

// The first version found, or empty. "v5.3.0" and the like belong to other software.
absl::StatusOr<std::string> FindVersion(const ElfFile& elf,
                                        const std::vector<FileRange>& constants) {
  static const RE2* const pattern = new RE2(
      R"([^0-9A-Za-z_.-](\d{1,3}\.\d{1,3}\.\d{1,3})-\d{1,6}-g[0-9a-f]{40}\x00)", RE2::Latin1);
  std::string version;
  const auto visit = [&version](uint64_t, std::string_view bytes) {
    re2::StringPiece rest(bytes.data(), bytes.size());
    while (version.empty() && RE2::FindAndConsume(&rest, *pattern, &version)) {
      if (version == kNoVersion) version.clear();
    }
    return version.empty();
  };
  for (const FileRange& range : constants) {
    RETURN_IF_ERROR(elf.ReadPieces(range, kMaxVersionBytes, visit));
    if (!version.empty()) break;
  }
  return version;
}

bool MayBeInPrefix(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Messages also contain the name without a prefix, so the longest name is the right one.
absl::StatusOr<std::string> FindSettingsVariable(const ElfFile& elf,
                                                 const std::vector<FileRange>& constants) {
  static constexpr std::string_view kEnd(kSettingsVariable, sizeof(kSettingsVariable));  // with NUL
  std::string longest = kSettingsVariable;
  const auto visit = [&longest](uint64_t, std::string_view bytes) {
    for (size_t at = bytes.find(kEnd); at != bytes.npos; at = bytes.find(kEnd, at + 1)) {
      size_t begin = at;
      while (begin > 0 && at - begin <= kMaxPrefix && MayBeInPrefix(bytes[begin - 1])) --begin;
      const std::string_view name = bytes.substr(begin, at + kEnd.size() - 1 - begin);
      if (at - begin <= kMaxPrefix && name.size() > longest.size()) longest = name;
    }
    return true;
  };
  for (const FileRange& range : constants) {
    RETURN_IF_ERROR(elf.ReadPieces(range, kMaxPrefix + kEnd.size(), visit));
  }
  return longest;
}

enum class NameKind : uint8_t {
  kOther,
  kWhole,  // with any prefix
  kPart,   // a clone or part made by the compiler: ".cold", ".constprop.0"
};

NameKind KindOf(std::string_view name) {
  const size_t at = name.find(kEventFunction);
  if (at == name.npos || (at > 0 && name[at - 1] != '_')) return NameKind::kOther;
  const std::string_view rest = name.substr(at + std::strlen(kEventFunction));
  if (rest.empty()) return NameKind::kWhole;
  return rest[0] == '.' ? NameKind::kPart : NameKind::kOther;
}

// What symbol tables say about the event function.
struct Named {
  std::vector<uint64_t> offsets;  // functions whose code is as expected, ascending
  bool refused = false;           // a function with the full name has unexpected code
};

absl::StatusOr<bool> HasShapeAt(const ElfFile& elf, const FileRange& code) {
  uint8_t bytes[kEventShapeBytes];
  const auto size = static_cast<size_t>(std::min<uint64_t>(code.size, sizeof(bytes)));
  RETURN_IF_ERROR(elf.Read(code.offset, bytes, size));
  return HasEventShape({bytes, size});
}

// `symbols` is the module or its debug file; both have the same addresses.
absl::StatusOr<Named> FindByName(const ElfFile& symbols, const ElfFile& module) {
  Named named;
  for (const NamedSymbol& function : symbolize::FindFunctions(symbols, kEventFunction, kMaxNamed)) {
    const NameKind kind = KindOf(function.name);
    if (kind == NameKind::kOther) continue;
    bool has_shape = false;
    if (std::optional<FileRange> code = module.CodeAt(function.address)) {
      if (function.size != 0) code->size = std::min(code->size, function.size);
      ASSIGN_OR_RETURN(has_shape, HasShapeAt(module, *code));
      if (has_shape) named.offsets.push_back(code->offset);
    }
    if (!has_shape && kind == NameKind::kWhole) named.refused = true;
  }
  std::sort(named.offsets.begin(), named.offsets.end());
  named.offsets.erase(std::unique(named.offsets.begin(), named.offsets.end()), named.offsets.end());
  return named;
}

void Take(const std::vector<uint64_t>& offsets, const std::string& found_by, JemallocInfo& info) {
  for (const uint64_t offset : offsets) info.events.push_back({.offset = offset, .point = {}});
  info.found_by = found_by;
}

// Fills in what was found by name. False if no symbol names the function.
bool Settle(const Named& named, const std::string& found_by, JemallocInfo& info) {
  if (named.offsets.empty() && !named.refused) return false;
  if (!named.offsets.empty() && named.offsets.size() <= kMaxEvents) {
    Take(named.offsets, found_by, info);
  } else if (named.offsets.empty()) {
    info.note =
        absl::StrCat(kNotFound, "the code of ", kEventFunction, " (by ", found_by,
                     ") is not that of an optimised jemalloc 5.3.0 or 5.3.1; link such a build");
  } else {
    info.note = absl::StrCat(kNotFound, named.offsets.size(), " functions are named ",
                             kEventFunction, " (by ", found_by, "); link at most ", kMaxEvents);
  }
  return true;
}

bool BeforeEvents(const std::string& version) {
  static const RE2* const pattern = new RE2(R"((\d+)\.(\d+)\..*)");
  int major = 0;
  int minor = 0;
  return RE2::FullMatch(version, *pattern, &major, &minor) &&
         (major < 5 || (major == 5 && minor < 3));
}

void SettleByShape(const absl::StatusOr<std::vector<uint64_t>>& shapes, JemallocInfo& info) {
  if (!shapes.ok()) {
    info.note = absl::StrCat(kNotFound, shapes.status().message(), kRemedy);
  } else if (!shapes->empty() && shapes->size() <= kMaxEvents) {
    Take(*shapes, "shape", info);
  } else if (!shapes->empty()) {
    info.note = absl::StrCat(kNotFound, shapes->size(), " functions match", kRemedy);
  } else if (BeforeEvents(info.version)) {
    info.note = absl::StrCat(kNotFound, "version ", info.version,
                             " has none; build with jemalloc 5.3.0 or 5.3.1");
  } else {
    info.note = absl::StrCat(kNotFound, "no function matches", kRemedy);
  }
}

absl::Status FindEventFunction(const ElfFile& elf, const std::string& path,
                               const std::string& debug_root, JemallocInfo& info) {
  ASSIGN_OR_RETURN(Named named, FindByName(elf, elf));
  if (Settle(named, "symbol", info)) return absl::OkStatus();
  const auto debug = symbolize::OpenDebugFile(elf, elf.BuildId(), path, debug_root);
  if (debug) {
    ASSIGN_OR_RETURN(named, FindByName(debug->elf, elf));
    if (Settle(named, "debug file", info)) return absl::OkStatus();
  }
  const auto shapes = FindByShape(elf);
  if (!shapes.ok() && !absl::IsResourceExhausted(shapes.status())) return shapes.status();
  SettleByShape(shapes, info);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> FindByShape(const ElfFile& elf) {
  std::vector<uint64_t> found;
  RETURN_IF_ERROR(VisitFunctions(elf, kEventShapeBytes,
                                 [&](const FileRange& function, std::span<const uint8_t> code) {
                                   if (HasEventShape(code)) found.push_back(function.offset);
                                 }));
  return found;
}

absl::StatusOr<std::vector<InlinedEvent>> FindInlined(const ElfFile& elf) {
  std::vector<InlinedEvent> found;
  RETURN_IF_ERROR(VisitFunctions(elf, kMaxFunctionBytes,
                                 [&](const FileRange& function, std::span<const uint8_t> code) {
                                   for (InlinedEvent event : FindInlinedEvents(code)) {
                                     event.offset += function.offset;
                                     found.push_back(event);
                                   }
                                 }));
  return found;
}

absl::StatusOr<std::optional<JemallocInfo>> FindJemalloc(int fd, const std::string& path,
                                                         const std::string& debug_root) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  if (elf.machine() != EM_X86_64) return absl::InvalidArgumentError("not an x86-64 ELF file");
  const std::vector<FileRange> constants = FindConstants(elf);
  ASSIGN_OR_RETURN(const bool has_jemalloc, HasMessages(elf, constants));
  if (!has_jemalloc) return std::nullopt;
  JemallocInfo info;
  ASSIGN_OR_RETURN(info.version, FindVersion(elf, constants));
  RETURN_IF_ERROR(FindEventFunction(elf, path, debug_root, info));
  for (EventFunction& event : info.events) {
    ASSIGN_OR_RETURN(event.point, FindProbePoint(elf, {event.offset, kLeastEventBytes}));
  }
  info.objects = FindSampledObjects(elf, path, debug_root, info.version);
  info.slow_paths = FindSlowPaths(elf, path, debug_root, info.version);
  ASSIGN_OR_RETURN(info.settings_variable, FindSettingsVariable(elf, constants));
  auto inlined = FindInlined(elf);
  if (!inlined.ok() && !absl::IsResourceExhausted(inlined.status())) return inlined.status();
  // More than a few are false matches.
  if (inlined.ok() && inlined->size() <= kMaxInlined) info.inlined = *std::move(inlined);
  return info;
}

}  // namespace profd
