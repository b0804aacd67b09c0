#include "daemon/memory/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/memory/fields.h"

namespace profd {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kKernelThread = 0x00200000;  // PF_KTHREAD
constexpr int64_t kForked = 0x40;              // PF_FORKNOEXEC

// The text after "KEY:" at the start of a line, without surrounding spaces.
std::optional<std::string_view> ValueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    const auto space = [](char c) { return c == ' ' || c == '\t'; };
    while (!line.empty() && space(line.front())) line.remove_prefix(1);
    while (!line.empty() && space(line.back())) line.remove_suffix(1);
    return line;
  }
  return std::nullopt;
}

// A value such as "1234 kB", in bytes.
std::optional<int64_t> BytesOf(std::string_view text, std::string_view key) {
  std::optional<std::string_view> value = ValueOf(text, key);
  if (!value || !value->ends_with(" kB")) return std::nullopt;
  value->remove_suffix(3);
  const std::optional<int64_t> number = ParseNumber(*value);
  if (!number || *number > INT64_MAX / kKiB) return std::nullopt;
  return *number * kKiB;
}

}  // namespace

absl::StatusOr<ProcessStat> ParseStat(std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError("cannot parse the stat file of a process");
  // "pid (name) state ppid ...": the name may hold any character, so it ends at the last ')'.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return bad;
  const std::vector<std::string_view> fields = SplitAt(text.substr(close + 1), ' ');
  // Numbered as in proc(5): field 3, the state, follows the name and a space.
  const auto field = [&](size_t number) -> std::optional<int64_t> {
    if (number - 2 >= fields.size()) return std::nullopt;
    return ParseNumber(fields[number - 2]);
  };
  const std::optional<int64_t> flags = field(9), minor = field(10), major = field(12),
                               start = field(22);
  const int64_t tick_ns = 1'000'000'000 / std::max<int64_t>(sysconf(_SC_CLK_TCK), 1);
  if (!flags || !minor || !major || !start || *start > INT64_MAX / tick_ns) return bad;
  return ProcessStat{.name = std::string(text.substr(open + 1, close - open - 1)),
                     .start_ns = *start * tick_ns,
                     .minor_faults = *minor,
                     .major_faults = *major,
                     .kernel_thread = (*flags & kKernelThread) != 0,
                     .forked = (*flags & kForked) != 0};
}

ProcessFigures ParseStatus(std::string_view text) {
  ProcessFigures figures;
  figures.rss = BytesOf(text, "VmRSS");
  figures.anon = BytesOf(text, "RssAnon");
  figures.file = BytesOf(text, "RssFile");
  figures.shmem = BytesOf(text, "RssShmem");
  figures.swap = BytesOf(text, "VmSwap");
  figures.page_tables = BytesOf(text, "VmPTE");
  if (const auto threads = ValueOf(text, "Threads")) figures.threads = ParseNumber(*threads);
  return figures;
}

std::optional<int64_t> ParsePss(std::string_view text) { return BytesOf(text, "Pss"); }

std::string ParseCommand(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  std::string command(text);
  std::replace(command.begin(), command.end(), '\0', ' ');
  return command;
}

absl::StatusOr<ProcessDirectory> ProcessDirectory::Open(const std::string& proc, int32_t pid) {
  std::string path = absl::StrCat(proc, "/", pid);
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(absl::StrCat("open ", path), errno);
  return ProcessDirectory(std::move(path), std::move(fd));
}

absl::StatusOr<UniqueFd> ProcessDirectory::OpenFile(const char* file) const {
  UniqueFd fd(openat(fd_.get(), file, O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(absl::StrCat("open ", path_, "/", file), errno);
  return fd;
}

absl::StatusOr<ProcessDirectory> ProcessDirectory::Open(const std::string& proc, int32_t pid,
                                                        int64_t start_ns) {
  ASSIGN_OR_RETURN(ProcessDirectory directory, Open(proc, pid));
  ASSIGN_OR_RETURN(const std::string text, directory.Read("stat"));
  ASSIGN_OR_RETURN(const ProcessStat stat, ParseStat(text));
  if (stat.start_ns != start_ns) return absl::NotFoundError("the process ended");
  return directory;
}

absl::StatusOr<std::string> ProcessDirectory::ReadLink(const std::string& link) const {
  std::string path(4096, '\0');
  const ssize_t size = readlinkat(fd_.get(), link.c_str(), path.data(), path.size());
  if (size < 0) return ErrnoStatus(absl::StrCat(path_, "/", link), errno);
  path.resize(static_cast<size_t>(size));
  return path;
}

absl::StatusOr<std::string> ProcessDirectory::Read(const char* file, size_t most_bytes) const {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(file));
  return ReadToEnd(fd.get(), absl::StrCat(path_, "/", file), most_bytes);
}

}  // namespace profd
