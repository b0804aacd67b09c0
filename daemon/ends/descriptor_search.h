// Which processes have certain pipes and sockets open, from /proc/PID/fd.
#ifndef PROFD_DAEMON_ENDS_DESCRIPTOR_SEARCH_H_
#define PROFD_DAEMON_ENDS_DESCRIPTOR_SEARCH_H_

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/fd.h"
#include "daemon/base/time_budget.h"

namespace profd {

// Of a file system without names: the inode says which file it is.
struct NamelessFile {
  enum class Kind { kPipe, kSocket };
  Kind kind = Kind::kPipe;
  uint64_t inode = 0;
  friend bool operator==(const NamelessFile&, const NamelessFile&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const NamelessFile& f) {
    return H::combine(std::move(h), f.kind, f.inode);
  }
};
// What /proc/PID/fd/N leads to: "pipe:[4711]", "socket:[4711]". None for any other text.
std::optional<NamelessFile> ParseNamelessFile(std::string_view link);

// A process that has a file open.
struct FileHolder {
  int32_t pid = 0;       // in our PID namespace
  int64_t start_ns = 0;  // CLOCK_BOOTTIME, in steps of 10 ms
  std::string name;      // any bytes
  bool reads = false, writes = false;
};

class DescriptorSearch {
 public:
  // `proc` is the path of /proc. `budget` must outlive this.
  DescriptorSearch(std::string proc, TimeBudget* budget)
      : proc_(std::move(proc)), budget_(budget) {}

  void Want(const NamelessFile& file) { wanted_.try_emplace(file); }
  // Searches all processes that we may read: these first, then `preferred`, then others; among them
  // the nearest PIDs first, as pipes join what was started together. What has many descriptors is
  // finished last. Returns false if time ran out before.
  bool Run(const std::set<int32_t>& first, const std::set<int32_t>& preferred);
  // Whether there was a process that we may not read.
  bool denied() const { return denied_; }
  // Each process once, in the order in which they were found.
  const std::vector<FileHolder>& HoldersOf(const NamelessFile& file) const;

 private:
  struct CloseDirectory {
    void operator()(DIR* directory) const { closedir(directory); }
  };
  struct Process {
    int32_t pid = 0;
    UniqueFd directory;  // /proc/PID: stays that of this process
    std::unique_ptr<DIR, CloseDirectory> descriptors;
    std::optional<FileHolder> holder{};  // once one was found
    bool readable = false;               // a descriptor of it was read
    bool goes_on = false;                // it was read in part before
  };

  std::vector<int32_t> Order(const std::set<int32_t>& first, const std::set<int32_t>& preferred);
  std::optional<Process> Open(int32_t pid);
  // Whether the end was reached, after `most` descriptors at most.
  bool Read(Process* process, size_t most);
  void Note(Process* process, const char* descriptor, std::vector<FileHolder>* holders) const;

  const std::string proc_;
  TimeBudget* const budget_;
  absl::flat_hash_map<NamelessFile, std::vector<FileHolder>> wanted_;
  bool denied_ = false;
  const std::vector<FileHolder> none_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_ENDS_DESCRIPTOR_SEARCH_H_
