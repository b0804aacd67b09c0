#include "client/symbolize/debug_sources.h"

#include <dirent.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/module_code.h"

namespace profctl {
namespace {

constexpr char kSystemDirectory[] = "/usr/lib/debug";
constexpr size_t kMaxDirectoryEntries = 4096;

absl::StatusOr<DebugSource> ReadSource(profd::UniqueFd fd, const std::string& path) {
  absl::StatusOr<profd::symbolize::ElfFile> elf = profd::symbolize::ElfFile::Open(fd.get());
  if (!elf.ok()) {
    return absl::Status(elf.status().code(), absl::StrCat(path, ": ", elf.status().message()));
  }
  if (!elf->HasSection(SHT_SYMTAB) && !profd::symbolize::HasDebugInfo(*elf)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " has neither symbols nor debug info; use the file before it was "
                     "stripped, or its debug file"));
  }
  std::string build_id = elf->BuildId();
  return DebugSource{.path = path,
                     .fd = std::make_shared<const profd::UniqueFd>(std::move(fd)),
                     .elf = *std::move(elf),
                     .build_id = std::move(build_id)};
}

absl::StatusOr<DebugSource> OpenSource(const std::string& path) {
  ASSIGN_OR_RETURN(profd::UniqueFd fd, profd::OpenReadOnly(path));
  return ReadSource(std::move(fd), path);
}

// It comes from a file or from a server, and becomes a part of a path.
bool IsPlainId(const std::string& build_id) {
  return build_id.size() > 2 && std::all_of(build_id.begin(), build_id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsSameBuild(const DebugSource& source, const std::string& build_id) {
  return !build_id.empty() && source.build_id == build_id;
}

}  // namespace

absl::StatusOr<DebugSources> DebugSources::Open(const DebugOptions& options) {
  DebugSources sources;
  sources.directories_ = options.directories;
  for (const std::string& directory : options.directories) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
    if (!entries) return profd::ErrnoStatus(absl::StrCat("open ", directory), errno);
  }
  if (!options.servers.empty()) {
    ASSIGN_OR_RETURN(sources.debuginfod_, Debuginfod::Open(options.servers));
  }
  for (const std::string& file : options.files) {
    ASSIGN_OR_RETURN(DebugSource source, OpenSource(file));
    sources.named_.push_back(std::make_unique<DebugSource>(std::move(source)));
  }
  return sources;
}

DebugSource* DebugSources::Keep(DebugSource source) {
  return found_.emplace_back(std::make_unique<DebugSource>(std::move(source))).get();
}

DebugSource* DebugSources::Find(const std::string& build_id, const std::string& code_id,
                                bool ask_servers) {
  DebugSource* found = nullptr;
  for (const auto& source : named_) {
    if (IsSameBuild(*source, build_id)) found = source.get();
  }
  for (size_t i = 0; i < named_.size() && found == nullptr && !code_id.empty(); ++i) {
    if (profd::symbolize::CodeIdOf(named_[i]->elf, &code_bytes_left_) == code_id) {
      found = named_[i].get();
    }
  }
  if (found == nullptr) found = FindByName(build_id);
  if (found == nullptr) found = FindInDirectories(build_id, code_id);
  if (found == nullptr && ask_servers) found = FindOnServers(build_id);
  if (found != nullptr) found->used = true;
  return found;
}

DebugSource* DebugSources::FindByName(const std::string& build_id) {
  if (!IsPlainId(build_id)) return nullptr;
  std::vector<std::string> roots = directories_;
  roots.emplace_back(kSystemDirectory);
  for (const std::string& root : roots) {
    absl::StatusOr<DebugSource> source = OpenSource(absl::StrCat(
        root, "/.build-id/", build_id.substr(0, 2), "/", build_id.substr(2), ".debug"));
    if (source.ok() && IsSameBuild(*source, build_id)) return Keep(*std::move(source));
  }
  return nullptr;
}

DebugSource* DebugSources::FindOnServers(const std::string& build_id) {
  if (!debuginfod_ || !IsPlainId(build_id)) return nullptr;
  absl::StatusOr<profd::UniqueFd> fd = debuginfod_->Find(build_id);
  if (!fd.ok()) return nullptr;
  absl::StatusOr<DebugSource> source =
      ReadSource(*std::move(fd), absl::StrCat("debuginfod ", build_id));
  if (!source.ok() || !IsSameBuild(*source, build_id)) return nullptr;
  return Keep(*std::move(source));
}

void DebugSources::ListDirectories() {
  candidates_.emplace();
  for (const std::string& directory : directories_) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
    if (!entries) continue;
    for (size_t i = 0; i < kMaxDirectoryEntries; ++i) {
      const dirent* entry = readdir(entries.get());
      if (entry == nullptr) break;
      if (entry->d_type != DT_REG && entry->d_type != DT_LNK) continue;
      const absl::StatusOr<DebugSource> source =
          OpenSource(absl::StrCat(directory, "/", entry->d_name));
      if (!source.ok()) continue;
      candidates_->push_back(
          {.path = source->path, .build_id = source->build_id, .code_id = std::nullopt});
    }
  }
}

DebugSource* DebugSources::FindInDirectories(const std::string& build_id,
                                             const std::string& code_id) {
  if (!candidates_) ListDirectories();
  const auto open = [&](const Candidate& candidate) -> DebugSource* {
    absl::StatusOr<DebugSource> source = OpenSource(candidate.path);
    return source.ok() ? Keep(*std::move(source)) : nullptr;
  };
  for (const Candidate& candidate : *candidates_) {
    if (!build_id.empty() && candidate.build_id == build_id) return open(candidate);
  }
  if (code_id.empty()) return nullptr;
  for (Candidate& candidate : *candidates_) {
    if (!candidate.code_id) {
      const absl::StatusOr<DebugSource> source = OpenSource(candidate.path);
      candidate.code_id =
          source.ok() ? profd::symbolize::CodeIdOf(source->elf, &code_bytes_left_) : "";
    }
    if (*candidate.code_id == code_id) return open(candidate);
  }
  return nullptr;
}

std::shared_ptr<const profd::CompanionFiles> DebugSources::CompanionsOf(
    const DebugSource& source) const {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(source.path, error);
  return std::make_shared<profd::CompanionFiles>(nullptr, "/", directories_, path.string());
}

std::vector<const DebugSource*> DebugSources::Unused() const {
  std::vector<const DebugSource*> unused;
  for (const auto& source : named_) {
    if (!source->used) unused.push_back(source.get());
  }
  return unused;
}

}  // namespace profctl
