#include "daemon/symbolize/debug_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace profd::symbolize {
namespace {

// Debug files of browsers have 2 GB.
constexpr uint64_t kMaxFileBytes = uint64_t{8} << 30;
// What is read to compare a file: a second's work.
constexpr uint64_t kMaxComparedBytes = uint64_t{1} << 30;
constexpr size_t kMaxDirectoryEntries = 4096;
constexpr size_t kChecksumPiece = 256 << 10;

// .gnu_debuglink: a file name, padded with zeros to 4 bytes, and the CRC-32 of the file.
struct DebugLink {
  std::string name;  // "": there is none
  std::optional<uint32_t> checksum;
};

DebugLink ReadLink(const ElfFile& elf) {
  DebugLink link;
  const Section* section = elf.FindSectionByName(".gnu_debuglink");
  if (section == nullptr || section->type == SHT_NOBITS ||
      section->size > UINT64_MAX - section->offset) {
    return link;
  }
  const uint64_t end = section->offset + section->size;
  std::string name = elf.ReadString(section->offset, end, NAME_MAX);
  // It comes from the target and must not lead elsewhere.
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return link;
  }
  link.name = std::move(name);
  const uint64_t checksum_at = section->offset + (link.name.size() + 1 + 3) / 4 * 4;
  uint32_t checksum = 0;
  if (checksum_at + sizeof(checksum) <= end &&
      elf.Read(checksum_at, &checksum, sizeof(checksum)).ok()) {
    link.checksum = checksum;
  }
  return link;
}

// The CRC-32 of a whole file.
std::optional<uint32_t> Checksum(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || static_cast<uint64_t>(st.st_size) > kMaxComparedBytes) {
    return std::nullopt;
  }
  std::vector<unsigned char> piece(kChecksumPiece);
  uLong checksum = crc32(0, nullptr, 0);
  uint64_t left = static_cast<uint64_t>(st.st_size);
  for (uint64_t at = 0; left > 0;) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(left, piece.size()));
    if (!ReadFileAt(fd, at, piece.data(), size).ok()) return std::nullopt;
    checksum = crc32(checksum, piece.data(), static_cast<uInt>(size));
    at += size;
    left -= size;
  }
  return static_cast<uint32_t>(checksum);
}

bool SameSection(const ElfFile& a, const ElfFile& b, std::string_view name) {
  const Section* of_a = a.FindSectionByName(name);
  const Section* of_b = b.FindSectionByName(name);
  if (of_a == nullptr || of_b == nullptr || of_a->type == SHT_NOBITS || of_b->type == SHT_NOBITS ||
      of_a->size == 0 || of_a->size != of_b->size || of_a->address != of_b->address ||
      of_a->size > kMaxComparedBytes) {
    return false;
  }
  uint64_t compared = 0;
  std::string other;
  const auto visit = [&](uint64_t at, std::string_view bytes) {
    other.resize(bytes.size());
    if (!b.Read(of_b->offset + (at - of_a->offset), other.data(), other.size()).ok() ||
        other != bytes) {
      return false;
    }
    compared += bytes.size();
    return true;
  };
  return a.ReadPieces({.offset = of_a->offset, .size = of_a->size}, 0, visit).ok() &&
         compared == of_a->size;
}

class Search {
 public:
  Search(const ElfFile& elf, const std::string& path)
      : elf_(elf), build_id_(elf.BuildId()), link_(ReadLink(elf)) {
    if (build_id_.size() > 2) by_id_ = BuildIdPath(build_id_);
    // `path` comes from the target, too.
    const bool plain = path.starts_with("/") && path.find("/../") == std::string::npos;
    if (plain) folder_ = path.substr(0, path.rfind('/') + 1);
  }

  // `root`: a directory, or -1 with the name of one in `prefix`.
  std::optional<DebugFile> InRoot(int root, const std::string& prefix) {
    const std::string debug_root = absl::StrCat(prefix, std::string(kDebugRoot));
    if (auto found = ById(root, debug_root)) return found;
    if (link_.name.empty() || folder_.empty()) return std::nullopt;
    for (const std::string& place : {absl::StrCat(prefix, folder_, link_.name),
                                     absl::StrCat(prefix, folder_, ".debug/", link_.name),
                                     absl::StrCat(debug_root, folder_, link_.name)}) {
      if (auto found = Try(root, place, link_.name)) return found;
    }
    return std::nullopt;
  }

  std::optional<DebugFile> InDirectory(const std::string& directory) {
    if (auto found = ById(-1, directory)) return found;
    if (!link_.name.empty() && !folder_.empty()) {
      if (auto found = Try(-1, absl::StrCat(directory, folder_, link_.name), link_.name))
        return found;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
    if (!entries) return std::nullopt;
    for (size_t i = 0; i < kMaxDirectoryEntries; ++i) {
      const dirent* entry = readdir(entries.get());
      if (entry == nullptr) break;
      if (entry->d_type == DT_DIR) continue;
      if (auto found = Try(-1, absl::StrCat(directory, "/", entry->d_name), entry->d_name))
        return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<DebugFile> ById(int root, const std::string& directory) {
    if (by_id_.empty()) return std::nullopt;
    return Try(root, directory + by_id_, "");
  }

  std::optional<DebugFile> Try(int root, const std::string& path, std::string_view name) {
    UniqueFd fd = OpenRegularFile(root, path);
    if (!fd.ok()) return std::nullopt;
    absl::StatusOr<ElfFile> candidate = ElfFile::Open(fd.get());
    if (!candidate.ok() || candidate->machine() != elf_.machine() ||
        !candidate->HasSection(SHT_SYMTAB) || !Matches(fd.get(), *candidate, name)) {
      return std::nullopt;
    }
    return DebugFile{.fd = std::move(fd), .elf = *std::move(candidate)};
  }

  bool Matches(int fd, const ElfFile& candidate, std::string_view name) const {
    if (!build_id_.empty() && candidate.BuildId() == build_id_) return true;
    if (link_.checksum && name == link_.name && Checksum(fd) == link_.checksum) return true;
    return SameSection(elf_, candidate, ".eh_frame") && SameSection(elf_, candidate, ".text");
  }

  const ElfFile& elf_;
  const std::string build_id_;
  const DebugLink link_;
  std::string by_id_;   // path in a directory of debug files, or ""
  std::string folder_;  // of the module, with slashes around it, or ""
};

}  // namespace

std::string BuildIdPath(const std::string& build_id) {
  return absl::StrCat("/.build-id/", build_id.substr(0, 2), "/", build_id.substr(2), ".debug");
}

UniqueFd OpenRegularFile(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const UniqueFd place(
      root >= 0 ? static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how)))
                : open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat st;
  if (!place.ok() || fstat(place.get(), &st) != 0 || !S_ISREG(st.st_mode) ||
      static_cast<uint64_t>(st.st_size) > kMaxFileBytes) {
    return UniqueFd();
  }
  absl::StatusOr<UniqueFd> fd = OpenReadOnly(absl::StrCat("/proc/self/fd/", place.get()));
  return fd.ok() ? *std::move(fd) : UniqueFd();
}

std::optional<DebugFile> SearchDebugFile(const ElfFile& elf, const std::string& path,
                                         const DebugPlaces& places) {
  Search search(elf, path);
  if (places.target_root >= 0) {
    if (auto found = search.InRoot(places.target_root, "")) return found;
  }
  if (auto found = search.InRoot(-1, places.own_root == "/" ? "" : places.own_root)) return found;
  for (const std::string& directory : places.directories) {
    if (auto found = search.InDirectory(directory)) return found;
  }
  return std::nullopt;
}

}  // namespace profd::symbolize
