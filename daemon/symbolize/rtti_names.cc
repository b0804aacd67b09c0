#include "daemon/symbolize/rtti_names.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/infer/class_tables.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd::symbolize {
namespace {

// The demangler reads types as part of this.
constexpr std::string_view kTypeName = "_ZTS";
constexpr std::string_view kTypeNameText = "typeinfo name for ";

// Empty if the name is none.
std::string ClassName(const std::string& mangled) {
  std::string text = Demangle(std::string(kTypeName) + mangled);
  if (!text.starts_with(kTypeNameText)) return "";
  text.erase(0, kTypeNameText.size());
  return Printable(text);
}

}  // namespace

void NameVirtualFunctions(const ElfFile& elf, std::span<FoundName> names) {
  if (elf.machine() != EM_X86_64) return;
  std::vector<uint64_t> begins;
  for (const FoundName& name : names) {
    if (name.source == NameSource::kBounds) begins.push_back(name.begin);
  }
  if (begins.empty()) return;
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const std::vector<std::optional<VirtualFunction>> found = ClassTables(&elf).Find(begins);
  for (FoundName& name : names) {
    if (name.source != NameSource::kBounds) continue;
    const auto at = std::lower_bound(begins.begin(), begins.end(), name.begin);
    const std::optional<VirtualFunction>& function =
        found[static_cast<size_t>(at - begins.begin())];
    if (!function) continue;
    const std::string type = ClassName(function->type);
    if (type.empty()) continue;
    name.symbol = absl::StrCat(type, "::vfn", function->number);
    name.source = NameSource::kRtti;
  }
}

std::string VirtualFunctionText(std::string_view path) { return "~" + std::string(path); }

}  // namespace profd::symbolize
