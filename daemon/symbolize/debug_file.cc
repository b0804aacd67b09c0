#include "daemon/symbolize/debug_file.h"

#include <climits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/debug_search.h"

namespace profd::symbolize {
namespace {

// The file name in .gnu_debuglink; "" if there is none or it is not a plain name.
std::string LinkedName(const ElfFile& elf) {
  const Section* section = elf.FindSectionByName(".gnu_debuglink");
  if (section == nullptr || section->type == SHT_NOBITS) return "";
  const uint64_t end = section->offset + section->size;
  std::string name = elf.ReadString(section->offset, end, NAME_MAX);
  return name == ".." || name.find('/') != std::string::npos ? "" : name;
}

}  // namespace

bool HasDebugInfo(const ElfFile& elf) {
  for (const char* name : {".debug_info", ".zdebug_info"}) {
    const Section* section = elf.FindSectionByName(name);
    if (section != nullptr && section->type != SHT_NOBITS && section->size > 0) return true;
  }
  return false;
}

std::optional<DebugFile> OpenDebugFile(const ElfFile& elf, const std::string& build_id,
                                       const std::string& path, const std::string& root) {
  if (build_id.size() < 4) return std::nullopt;
  std::vector<std::string> candidates = {root + BuildIdPath(build_id)};
  const std::string linked = LinkedName(elf);
  // `path` comes from the target and must not lead out of the directory of debug files.
  if (!linked.empty() && path.starts_with("/") && path.find("/../") == std::string::npos) {
    candidates.push_back(absl::StrCat(root, path.substr(0, path.rfind('/') + 1), linked));
  }
  for (const std::string& candidate : candidates) {
    absl::StatusOr<UniqueFd> fd = OpenReadOnly(candidate);
    if (!fd.ok()) continue;
    absl::StatusOr<ElfFile> file = ElfFile::Open(fd->get());
    if (file.ok() && file->BuildId() == build_id) {
      return DebugFile{.fd = *std::move(fd), .elf = *std::move(file)};
    }
  }
  return std::nullopt;
}

}  // namespace profd::symbolize
