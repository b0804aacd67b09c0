#include "daemon/symbolize/inferred_names.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/symbolize/infer/function_begins.h"
#include "daemon/symbolize/infer/locations.h"
#include "daemon/symbolize/infer/module_inference.h"
#include "daemon/symbolize/infer/source_path.h"
#include "daemon/symbolize/jump_names.h"

namespace profd::symbolize {
namespace {

// More functions than a profile has; about 0.4 s.
constexpr size_t kMaxInferred = 8192;
constexpr char kMark = '~';
constexpr std::string_view kBegin = " (fn_";

std::string_view WordOf(CodeRole role) {
  switch (role) {
    case CodeRole::kFutexWait:
      return kFutexWaitWord;
    case CodeRole::kLockSlow:
      return kLockSlowWord;
    case CodeRole::kSends:
      return kSendWord;
    case CodeRole::kReceives:
      return kReceiveWord;
    case CodeRole::kUnknown:
      break;
  }
  return {};
}

// The path and, where the code tells it, a word for the function.
std::string TextOf(const InferredName& name) {
  std::string text = name.path;
  const std::string_view word = WordOf(name.role);
  if (!word.empty() && !text.empty()) text += "::";
  return text.append(word);
}

}  // namespace

void InferNames(const ElfFile& elf, std::string_view module, std::span<FoundName> names,
                CrateMaps* maps) {
  const bool wanted = std::any_of(names.begin(), names.end(), [](const FoundName& name) {
    return name.source == NameSource::kBounds;
  });
  if (!wanted || elf.machine() != EM_X86_64) return;
  NameByJumps(elf, names);
  const LocationTable locations = LocationTable::Read(elf, CrateOfProgram(module));
  // Programs in other languages take no more time than this.
  if (locations.record_count() == 0) return;
  const std::vector<uint64_t> begins = ReadFunctionBegins(elf);
  const std::shared_ptr<const CrateMap> map = maps->Of(elf, locations, begins);
  ModuleInference inference(&elf, &locations, map.get(), begins);
  absl::flat_hash_map<uint64_t, std::string> known;  // by begin
  for (FoundName& name : names) {
    if (name.source != NameSource::kBounds) continue;
    const auto [at, is_new] = known.try_emplace(name.begin);
    if (is_new && known.size() <= kMaxInferred) {
      if (std::optional<InferredName> inferred = inference.Infer(name.begin)) {
        at->second = TextOf(*inferred);
      }
    }
    if (at->second.empty()) continue;
    name.symbol = at->second;
    name.source = NameSource::kInferred;
  }
}

std::string InferredFunction(std::string_view path, uint64_t begin) {
  std::string function(1, kMark);
  function.append(path).append(kBegin);
  absl::StrAppend(&function, absl::Hex(begin), ")");
  return function;
}

std::optional<InferredParts> ParseInferred(std::string_view function) {
  const size_t end = function.rfind(kBegin);
  if (!function.starts_with(kMark) || end == std::string_view::npos) return std::nullopt;
  InferredParts parts{.module = function.substr(1, end - 1), .word = {}};
  const size_t separator = parts.module.rfind("::");
  const bool alone = separator == std::string_view::npos;
  const std::string_view last = alone ? parts.module : parts.module.substr(separator + 2);
  if (last == kFutexWaitWord || last == kLockSlowWord) {
    parts.word = last;
    parts.module = alone ? std::string_view() : parts.module.substr(0, separator);
  }
  return parts;
}

}  // namespace profd::symbolize
