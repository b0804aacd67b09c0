#include "daemon/lines/companion_files.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/debug_search.h"

namespace profd {
namespace {

constexpr std::string_view kSplitSuffix = ".dwo";
// Where distributions keep supplementary files: /usr/lib/debug/.dwz/NAME.
constexpr std::string_view kSupplementaryFolder = "/.dwz/";

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// `name`, seen from `folder`.
std::string Absolute(const std::string& folder, const std::string& name) {
  return name.starts_with("/") ? name : folder + name;
}

// A name may lead to any file, also to another process's memory in /proc: what is in it decides.
bool IsSplitDwarf(const symbolize::ElfFile& elf) {
  return elf.FindSectionByName(".debug_info.dwo") != nullptr ||
         elf.FindSectionByName(".zdebug_info.dwo") != nullptr;
}

UniqueFd OpenIf(int root, const std::string& path, CompanionFiles::IsWanted is_wanted) {
  UniqueFd fd = symbolize::OpenRegularFile(root, path);
  if (!fd.ok()) return fd;
  const absl::StatusOr<symbolize::ElfFile> elf = symbolize::ElfFile::Open(fd.get());
  return elf.ok() && is_wanted(*elf) ? std::move(fd) : UniqueFd();
}

}  // namespace

CompanionFiles::CompanionFiles(std::shared_ptr<const UniqueFd> root, std::string own_root,
                               std::vector<std::string> directories, std::string module_path)
    : root_(std::move(root)),
      own_root_(own_root == "/" ? "" : std::move(own_root)),
      directories_(std::move(directories)),
      folder_(module_path.substr(0, module_path.rfind('/') + 1)) {
  if (!folder_.starts_with("/")) folder_ = "/";
}

UniqueFd CompanionFiles::Open(const FileQuestion& question) const {
  if (question.name.empty()) return UniqueFd();
  switch (question.kind) {
    case FileQuestion::Kind::kSplit:
      return OpenSplit(question.name);
    case FileQuestion::Kind::kSupplementary:
      return OpenSupplementary(question.name, question.build_id);
  }
  return UniqueFd();
}

UniqueFd CompanionFiles::OpenSplit(const std::string& name) const {
  // libdw asks for absolute paths only.
  if (!name.starts_with("/") || !name.ends_with(kSplitSuffix)) return UniqueFd();
  UniqueFd fd = OpenFirst({name}, IsSplitDwarf);
  for (size_t i = 0; i < directories_.size() && !fd.ok(); ++i) {
    for (const std::string& path : {name, "/" + BaseName(name)}) {
      fd = OpenIf(-1, directories_[i] + path, IsSplitDwarf);
      if (fd.ok()) break;
    }
  }
  return fd;
}

UniqueFd CompanionFiles::OpenSupplementary(const std::string& name,
                                           const std::string& build_id) const {
  if (build_id.size() <= 2) return UniqueFd();
  const std::string by_id = symbolize::BuildIdPath(build_id);
  // A relative name is relative to the debug file, which may be anywhere.
  const size_t at = name.rfind(kSupplementaryFolder);
  const std::string in_folder =
      at == std::string::npos ? absl::StrCat("/", BaseName(name)) : name.substr(at);
  const std::string debug_root(symbolize::kDebugRoot);
  const auto is_wanted = [&](const symbolize::ElfFile& elf) { return elf.BuildId() == build_id; };
  UniqueFd fd =
      OpenFirst({debug_root + by_id, Absolute(folder_, name), debug_root + in_folder}, is_wanted);
  for (size_t i = 0; i < directories_.size() && !fd.ok(); ++i) {
    for (const std::string& path : {by_id, in_folder, absl::StrCat("/", BaseName(name))}) {
      fd = OpenIf(-1, directories_[i] + path, is_wanted);
      if (fd.ok()) break;
    }
  }
  return fd;
}

UniqueFd CompanionFiles::OpenFirst(const std::vector<std::string>& paths,
                                   IsWanted is_wanted) const {
  for (const std::string& path : paths) {
    UniqueFd fd = root_ ? OpenIf(root_->get(), path, is_wanted) : UniqueFd();
    if (!fd.ok()) fd = OpenIf(-1, own_root_ + path, is_wanted);
    if (fd.ok()) return fd;
  }
  return UniqueFd();
}

}  // namespace profd
