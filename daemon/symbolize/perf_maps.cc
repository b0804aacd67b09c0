#include "daemon/symbolize/perf_maps.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/base/log.h"
#include "daemon/base/maps_line.h"
#include "daemon/memory/process_memory.h"
#include "daemon/symbolize/jit_dump.h"
#include "daemon/symbolize/perf_map.h"

namespace profd {
namespace {

constexpr size_t kMaxProcesses = 4096;
// Targets could fill the log.
constexpr int kMaxReports = 16;
// Of a process with 100,000 mappings.
constexpr size_t kMaxMapsBytes = 16 << 20;
// What is read of a record of a jitdump, names aside.
constexpr uint64_t kBytesOfRecord = 80;

// What a process calls itself, and who it is.
struct Self {
  int32_t pid = 0;  // in its own PID namespace
  uid_t user = 0;   // effective
};

// From /proc/PID/status.
std::optional<Self> ParseSelf(absl::string_view status) {
  // "Uid:" real, effective, saved, of the file system. "NSpid:" from our namespace to its own.
  constexpr size_t kEffective = 2;
  std::optional<uid_t> user;
  std::optional<int32_t> pid;
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t', absl::SkipEmpty());
    uint32_t number = 0;
    if (fields.size() > kEffective && fields[0] == "Uid:" &&
        absl::SimpleAtoi(fields[kEffective], &number)) {
      user = number;
    }
    int32_t own = 0;
    if (fields.size() > 1 && fields[0] == "NSpid:" && absl::SimpleAtoi(fields.back(), &own)) {
      pid = own;
    }
  }
  if (!user || !pid) return std::nullopt;
  return Self{.pid = *pid, .user = *user};
}

// A place below a directory, not opened. No symbolic link leads to it.
absl::StatusOr<UniqueFd> PlaceIn(int directory, const std::string& name) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd place(
      static_cast<int>(syscall(SYS_openat2, directory, name.c_str(), &how, sizeof(how))));
  if (place.ok()) return place;
  if (errno == ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat("a symbolic link leads to ", name));
  }
  return ErrnoStatus(absl::StrCat("open ", name), errno);
}

// A regular file of `user` in a root directory.
absl::StatusOr<UniqueFd> OpenOwn(int root, const std::string& name, uid_t user) {
  ASSIGN_OR_RETURN(const UniqueFd place, PlaceIn(root, name));
  // Opened only after it is known to be a regular file: opening a device may do something.
  struct stat st;
  if (fstat(place.get(), &st) != 0) return ErrnoStatus(name, errno);
  if (!S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is not a regular file"));
  }
  if (st.st_uid != user) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " belongs to user ", st.st_uid, ", the process to user ", user));
  }
  return OpenReadOnly(absl::StrCat("/proc/self/fd/", place.get()));
}

// The path of the jitdump of process `pid` in its /proc/PID/maps; empty without one. Its writer
// maps a page of it as code, so that perf sees where it is.
std::string FindJitDump(absl::string_view maps, int32_t pid) {
  for (const absl::string_view text : absl::StrSplit(maps, '\n')) {
    const std::optional<MapsLine> line = ParseMapsLine(text);
    if (line && line->access.size() > 2 && line->access[2] == 'x' &&
        symbolize::PidOfJitDump({line->path.data(), line->path.size()}) == pid) {
      return std::string(line->path);
    }
  }
  return "";
}

}  // namespace

PerfMap PerfMaps::Look(const ProcessId& process) {
  PerfMap map;
  // Without its start it could be any process that had the PID.
  if (process.start_ns == 0) return map;
  absl::StatusOr<PerfMap> found = Open(process);
  // Most processes have none.
  if (absl::IsNotFound(found.status()) && !states_.contains(process)) return map;
  if (!found.ok() && !absl::IsNotFound(found.status())) {
    Report(process, std::string(found.status().message()));
  }
  State& state = StateOf(process);
  struct stat st;
  if (found.ok() && fstat(found->fd.get(), &st) == 0) {
    map = *std::move(found);
    state.version =
        absl::HashOf(st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec) | 1;
  }
  map.version = state.version;
  return map;
}

absl::StatusOr<std::vector<std::string>> PerfMaps::Find(const ProcessId& process,
                                                        const PerfMap& map,
                                                        std::span<const uint64_t> addresses,
                                                        uint64_t* bytes_left) {
  if (!map.fd.ok()) return absl::NotFoundError("no perf map");
  if (map.is_dump) return FindInDump(process, map, addresses, bytes_left);
  const symbolize::PerfMapLimits limits;
  struct stat st;
  if (fstat(map.fd.get(), &st) != 0) return ErrnoStatus("fstat", errno);
  // Not a part of it: names in the rest would count as missing.
  if (std::min(static_cast<uint64_t>(st.st_size), limits.max_bytes) > *bytes_left) {
    return absl::ResourceExhaustedError("enough was read of perf maps");
  }
  ASSIGN_OR_RETURN(symbolize::PerfMapNames found,
                   symbolize::FindInPerfMap(map.fd.get(), addresses, limits));
  *bytes_left -= std::min(*bytes_left, found.bytes_read);
  if (found.cut) {
    Report(process, "its perf map is too large to be read whole");
  } else if (found.malformed > 0) {
    Report(process,
           absl::StrCat(found.malformed, " lines of its perf map are not \"START SIZE NAME\""));
  }
  return std::move(found.names);
}

absl::StatusOr<std::vector<std::string>> PerfMaps::FindInDump(const ProcessId& process,
                                                              const PerfMap& map,
                                                              std::span<const uint64_t> addresses,
                                                              uint64_t* bytes_left) {
  symbolize::JitDumpLimits limits;
  limits.max_records = std::min(limits.max_records, *bytes_left / kBytesOfRecord);
  absl::StatusOr<symbolize::PerfMapNames> found =
      symbolize::FindInJitDump(map.fd.get(), addresses, limits);
  if (!found.ok()) {
    Report(process, absl::StrCat("its jitdump cannot be read: ", found.status().message()));
    return found.status();
  }
  *bytes_left -= std::min(*bytes_left, found->bytes_read);
  if (found->cut) {
    Report(process, "its jitdump has too many records to be read whole");
  } else if (found->malformed > 0) {
    Report(process, "its jitdump is damaged");
  }
  return std::move(found->names);
}

absl::StatusOr<PerfMap> PerfMaps::Open(const ProcessId& process) const {
  ASSIGN_OR_RETURN(const ProcessDirectory directory,
                   ProcessDirectory::Open(proc_, process.pid, process.start_ns));
  ASSIGN_OR_RETURN(const std::string status, directory.Read("status"));
  const std::optional<Self> self = ParseSelf(status);
  if (!self) return absl::NotFoundError("the process has no user or no PID");
  ASSIGN_OR_RETURN(const UniqueFd root, directory.OpenFile("root"));
  absl::StatusOr<UniqueFd> map =
      OpenOwn(root.get(), absl::StrCat("/tmp/perf-", self->pid, ".map"), self->user);
  if (map.ok()) return PerfMap{.fd = *std::move(map)};
  if (!absl::IsNotFound(map.status())) return map.status();
  ASSIGN_OR_RETURN(const std::string maps, directory.Read("maps", kMaxMapsBytes));
  const std::string dump = FindJitDump(maps, self->pid);
  if (dump.empty()) return absl::NotFoundError("neither perf map nor jitdump");
  ASSIGN_OR_RETURN(UniqueFd fd, OpenOwn(root.get(), dump, self->user));
  return PerfMap{.fd = std::move(fd), .is_dump = true};
}

PerfMaps::State& PerfMaps::StateOf(const ProcessId& process) {
  if (!states_.contains(process) && states_.size() >= kMaxProcesses) {
    const auto oldest = std::min_element(
        states_.begin(), states_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    states_.erase(oldest);
  }
  State& state = states_[process];
  state.used = ++uses_;
  return state;
}

void PerfMaps::Report(const ProcessId& process, const std::string& what) {
  if (std::exchange(StateOf(process).reported, true) || reports_ == kMaxReports) return;
  ++reports_;
  LogWarning("PID ", process.pid, ": names of code made at run time may be missing: ", what,
             reports_ == kMaxReports ? "; no more such reports follow" : "");
}

}  // namespace profd
