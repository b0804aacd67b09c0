#include "daemon/target/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/maps_line.h"

namespace profd {
namespace {

std::string ReadLink(const std::string& path) {
  char buffer[PATH_MAX];
  const ssize_t n = readlink(path.c_str(), buffer, sizeof(buffer));
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

std::string WithoutDeleted(std::string path) {
  path = std::string(absl::StripSuffix(path, " (deleted)"));
  return path;
}

// The entries of a directory that are numbers.
std::vector<int32_t> NumbersIn(const std::string& path) {
  std::vector<int32_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (!directory) return numbers;
  while (const dirent* entry = readdir(directory.get())) {
    int32_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
  }
  return numbers;
}

// Path of the mapping that begins at `start`, from /proc/PID/maps.
std::string MappingPath(int32_t pid, uint64_t start) {
  const auto maps = ReadWholeFile(absl::StrCat("/proc/", pid, "/maps"));
  if (!maps.ok()) return "";
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    const std::optional<MapsLine> mapping = ParseMapsLine(line);
    if (!mapping || mapping->begin != start) continue;
    return absl::StartsWith(mapping->path, "/") ? std::string(mapping->path) : "";
  }
  return "";
}

// Of a line of /proc/PID/maps; empty when it is not of code from a file.
std::optional<MapsLine> ParseCodeMapping(absl::string_view line) {
  std::optional<MapsLine> mapping = ParseMapsLine(line);
  if (!mapping || mapping->access[2] != 'x' || !absl::StartsWith(mapping->path, "/")) {
    return std::nullopt;
  }
  return mapping;
}

// What /proc/PID/stat says. NotFound when the process is gone.
absl::StatusOr<ProcessInfo> ReadStat(int32_t pid) {
  // Fields after the name, see proc(5): the state is the third of all.
  constexpr size_t kParent = 4 - 3, kUser = 14 - 3, kSystem = 15 - 3, kStart = 22 - 3;
  const auto stat = ReadWholeFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return absl::NotFoundError(absl::StrCat("no process with PID ", pid));
  // "pid (comm) state ppid ...": comm may hold any character, so it ends at the last ')'.
  const size_t open = stat->find('(');
  const size_t close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat: no command name"));
  }
  ProcessInfo info;
  info.pid = pid;
  info.comm = stat->substr(open + 1, close - open - 1);
  const std::vector<absl::string_view> rest =
      absl::StrSplit(absl::string_view(*stat).substr(close + 1), ' ', absl::SkipEmpty());
  if (rest.size() <= kStart || !absl::SimpleAtoi(rest[kParent], &info.parent) ||
      !absl::SimpleAtoi(rest[kStart], &info.start_ticks)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat: no parent or start time"));
  }
  for (const size_t at : {kUser, kSystem}) {
    uint64_t ticks = 0;
    if (absl::SimpleAtoi(rest[at], &ticks)) info.cpu_ticks += ticks;
  }
  return info;
}

}  // namespace

absl::StatusOr<ProcessInfo> ReadProcess(int32_t pid) {
  ASSIGN_OR_RETURN(ProcessInfo info, ReadStat(pid));
  const std::string executable = WithoutDeleted(ReadLink(absl::StrCat("/proc/", pid, "/exe")));
  info.executable = executable.substr(executable.rfind('/') + 1);
  return info;
}

uint64_t CpuTicks(int32_t pid) {
  const auto stat = ReadStat(pid);
  return stat.ok() ? stat->cpu_ticks : 0;
}

bool IsRunning(const ProcessInfo& process) {
  const auto now = ReadStat(process.pid);
  return now.ok() && now->start_ticks == process.start_ticks;
}

std::vector<ProcessInfo> ListProcesses() {
  std::vector<ProcessInfo> processes;
  for (const int32_t pid : NumbersIn("/proc")) {
    if (auto process = ReadProcess(pid); process.ok()) processes.push_back(*std::move(process));
  }
  return processes;
}

absl::StatusOr<std::vector<ProcessInfo>> ReadFamily(int32_t pid) {
  if (access("/proc/thread-self/children", R_OK) != 0) {
    return absl::UnimplementedError("the kernel does not list children of processes");
  }
  std::vector<ProcessInfo> family;
  std::unordered_set<int32_t> seen = {pid};
  if (auto process = ReadProcess(pid); process.ok()) family.push_back(*std::move(process));
  for (size_t i = 0; i < family.size(); ++i) {
    const std::string threads = absl::StrCat("/proc/", family[i].pid, "/task");
    // The kernel lists a child under the thread that created it.
    for (const int32_t thread : NumbersIn(threads)) {
      const auto children = ReadWholeFile(absl::StrCat(threads, "/", thread, "/children"));
      if (!children.ok()) continue;
      for (const absl::string_view child : absl::StrSplit(*children, ' ', absl::SkipEmpty())) {
        int32_t number = 0;
        if (!absl::SimpleAtoi(child, &number) || number <= 0) continue;
        if (!seen.insert(number).second) continue;
        if (auto process = ReadProcess(number); process.ok()) family.push_back(*std::move(process));
      }
    }
  }
  return family;
}

absl::StatusOr<UniqueFd> OpenPidfd(int32_t pid) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (fd.ok()) return fd;
  if (errno == ESRCH || errno == EINVAL) {
    return absl::NotFoundError(absl::StrCat("no process with PID ", pid));
  }
  return ErrnoStatus(absl::StrCat("open PID ", pid), errno);
}

absl::StatusOr<MappedModule> OpenMapping(int32_t pid, uint64_t start, uint64_t end) {
  const std::string root = absl::StrCat("/proc/", pid);
  const std::string entry = absl::StrFormat("%s/map_files/%x-%x", root, start, end);
  MappedModule module;
  module.path = ReadLink(entry);
  if (module.path.empty()) module.path = MappingPath(pid, start);
  if (module.path.empty()) {
    return absl::NotFoundError(absl::StrCat("mapping of PID ", pid, " is gone"));
  }
  // Looked at before it is opened: opening a device may do something.
  struct stat st;
  if (stat(entry.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(module.path, " is not a regular file"));
  }
  auto fd = OpenReadOnly(entry);
  // map_files needs CAP_CHECKPOINT_RESTORE; the path is the next best, unless it was replaced.
  if (!fd.ok() && !absl::EndsWith(module.path, " (deleted)")) {
    fd = OpenReadOnly(absl::StrCat(root, "/root", module.path));
  }
  if (!fd.ok()) return fd.status();
  module.fd = *std::move(fd);
  if (fstat(module.fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(module.path, " is not a regular file"));
  }
  module.path = WithoutDeleted(module.path);
  return module;
}

absl::StatusOr<uint64_t> FindCode(int32_t pid, int fd, uint64_t offset) {
  const std::string root = absl::StrCat("/proc/", pid);
  const auto maps = ReadWholeFile(root + "/maps");
  if (!maps.ok()) return absl::NotFoundError(absl::StrCat("no process with PID ", pid));
  struct stat wanted;
  if (fstat(fd, &wanted) != 0) return ErrnoStatus("fstat", errno);
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    const std::optional<MapsLine> mapping = ParseCodeMapping(line);
    if (!mapping || offset < mapping->file_offset ||
        offset - mapping->file_offset >= mapping->end - mapping->begin) {
      continue;
    }
    // The numbers in the line need not be those of the file (overlayfs).
    struct stat st;
    const std::string entry =
        absl::StrFormat("%s/map_files/%x-%x", root, mapping->begin, mapping->end);
    const std::string path = absl::StrCat(root, "/root", mapping->path);
    if (stat(entry.c_str(), &st) != 0 && stat(path.c_str(), &st) != 0) continue;
    if (st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino) {
      return mapping->begin + (offset - mapping->file_offset);
    }
  }
  return absl::NotFoundError(absl::StrCat("PID ", pid, " does not map the file"));
}

absl::Status ReadMemory(int32_t pid, uint64_t address, void* out, size_t size) {
  const std::string path = absl::StrCat("/proc/", pid, "/mem");
  if (address > static_cast<uint64_t>(std::numeric_limits<off_t>::max()) - size) {
    return absl::NotFoundError(absl::StrCat("PID ", pid, " has no memory there"));
  }
  auto memory = OpenReadOnly(path);
  if (!memory.ok()) return memory.status();
  const absl::Status status = ReadFileAt(memory->get(), address, out, size);
  if (status.ok() || absl::IsPermissionDenied(status)) return status;
  return absl::NotFoundError(absl::StrCat("PID ", pid, " has no memory there"));
}

}  // namespace profd
