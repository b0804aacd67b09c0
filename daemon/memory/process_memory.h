// What /proc says about one process and its memory. Any field may be hostile, or gone by the time
// it is read.
#ifndef PROFD_DAEMON_MEMORY_PROCESS_MEMORY_H_
#define PROFD_DAEMON_MEMORY_PROCESS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/fd.h"
#include "daemon/base/status.h"

namespace profd {

struct ProcessStat {
  std::string name;
  // CLOCK_BOOTTIME, ns, in steps of 10 ms: tells processes with the same PID apart.
  int64_t start_ns = 0;
  int64_t minor_faults = 0;  // of all its threads, since the process started
  int64_t major_faults = 0;
  bool kernel_thread = false;
  bool forked = false;  // without exec since: it has its parent's program and memory
};
// /proc/PID/stat. InvalidArgument for malformed text.
absl::StatusOr<ProcessStat> ParseStat(std::string_view text);

// /proc/PID/status. Bytes; absent for kernel threads and zombies.
struct ProcessFigures {
  std::optional<int64_t> rss, anon, file, shmem, swap, page_tables;
  std::optional<int64_t> threads;
};
ProcessFigures ParseStatus(std::string_view text);

// /proc/PID/smaps_rollup: the proportional set size, bytes.
std::optional<int64_t> ParsePss(std::string_view text);

// /proc/PID/cmdline: the arguments, separated by spaces.
std::string ParseCommand(std::string_view text);

// The directory of one process. Files read through it never belong to a later process with its PID.
class ProcessDirectory {
 public:
  // `proc` is the path of /proc. NotFound if there is no such process.
  static absl::StatusOr<ProcessDirectory> Open(const std::string& proc, int32_t pid);
  // The same, of the process that started then, as ProcessStat has it. NotFound if another one has
  // its PID by now.
  static absl::StatusOr<ProcessDirectory> Open(const std::string& proc, int32_t pid,
                                               int64_t start_ns);
  // A file in it. NotFound if the process has exited, PermissionDenied if it may not be read.
  absl::StatusOr<std::string> Read(const char* file, size_t most_bytes = 64 << 10) const;
  absl::StatusOr<UniqueFd> OpenFile(const char* file) const;
  // Where a symbolic link in it leads.
  absl::StatusOr<std::string> ReadLink(const std::string& link) const;

 private:
  ProcessDirectory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_PROCESS_MEMORY_H_
