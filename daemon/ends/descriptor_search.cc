#include "daemon/ends/descriptor_search.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/memory/process_memory.h"

namespace profd {
namespace {

// Descriptors of a process before others have their turn, and processes that may have more.
constexpr size_t kFirstDescriptors = 4096;
constexpr size_t kMostUnfinished = 32;
constexpr size_t kLongestLink = 64;  // of those that are looked for
constexpr size_t kMostText = 4096;

// Flags of an open file, from /proc/PID/fdinfo/N. O_PATH: it can neither be read nor written.
int ParseFlags(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int flags = 0;
    if (!absl::ConsumePrefix(&line, "flags:")) continue;
    line = absl::StripAsciiWhitespace(line);
    for (const char c : line) {
      if (c < '0' || c > '7' || flags > std::numeric_limits<int>::max() / 8) return O_PATH;
      flags = flags * 8 + (c - '0');
    }
    return line.empty() ? O_PATH : flags;
  }
  return O_PATH;
}

// Of a process; whatever else keeps us from reading it, it may have what is looked for.
bool IsGone(int error) { return error == ENOENT || error == ESRCH; }

}  // namespace

std::optional<NamelessFile> ParseNamelessFile(std::string_view link) {
  absl::string_view text(link.data(), link.size());
  NamelessFile file;
  if (absl::ConsumePrefix(&text, "socket:[")) {
    file.kind = NamelessFile::Kind::kSocket;
  } else if (!absl::ConsumePrefix(&text, "pipe:[")) {
    return std::nullopt;
  }
  const bool number = absl::ConsumeSuffix(&text, "]") && absl::SimpleAtoi(text, &file.inode);
  return number ? std::optional(file) : std::nullopt;
}

std::vector<int32_t> DescriptorSearch::Order(const std::set<int32_t>& first,
                                             const std::set<int32_t>& preferred) {
  const auto distance = [&](int32_t pid) {
    const auto above = first.lower_bound(pid);
    int64_t least = std::numeric_limits<int64_t>::max();
    if (above != first.end()) least = int64_t{*above} - pid;
    if (above != first.begin()) least = std::min(least, int64_t{pid} - *std::prev(above));
    return least;
  };
  std::vector<std::tuple<bool, int64_t, int32_t>> others;
  const std::unique_ptr<DIR, CloseDirectory> all(opendir(proc_.c_str()));
  denied_ = denied_ || !all;
  while (const dirent* entry = all && budget_->Left() ? readdir(all.get()) : nullptr) {
    int32_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || first.contains(pid)) continue;
    others.emplace_back(!preferred.contains(pid), distance(pid), pid);
  }
  std::sort(others.begin(), others.end());
  std::vector<int32_t> order(first.begin(), first.end());
  for (const auto& other : others) order.push_back(std::get<int32_t>(other));
  return order;
}

std::optional<DescriptorSearch::Process> DescriptorSearch::Open(int32_t pid) {
  Process process{.pid = pid, .directory = {}, .descriptors = {}};
  const std::string path = absl::StrCat(proc_, "/", pid);
  process.directory.reset(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process.directory.ok()) {
    denied_ = denied_ || !IsGone(errno);
    return std::nullopt;
  }
  UniqueFd fds(openat(process.directory.get(), "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fds.ok()) {
    denied_ = denied_ || !IsGone(errno);
    return std::nullopt;
  }
  process.descriptors.reset(fdopendir(fds.get()));
  if (!process.descriptors) {
    denied_ = true;
    return std::nullopt;
  }
  fds.release();
  return process;
}

void DescriptorSearch::Note(Process* process, const char* descriptor,
                            std::vector<FileHolder>* holders) const {
  const auto is_this = [&](const FileHolder& h) { return h.pid == process->pid; };
  auto known = holders->end();
  if (!holders->empty() && is_this(holders->back())) known = std::prev(known);
  if (process->goes_on) known = std::find_if(holders->begin(), holders->end(), is_this);
  if (known != holders->end() && known->reads && known->writes) return;

  const auto text_of = [&](const std::string& file) -> absl::StatusOr<std::string> {
    const UniqueFd fd(openat(process->directory.get(), file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.ok()) return absl::NotFoundError(file);
    return ReadToEnd(fd.get(), file, kMostText);
  };
  const absl::StatusOr<std::string> info = text_of(absl::StrCat("fdinfo/", descriptor));
  const int flags = info.ok() ? ParseFlags(*info) : O_PATH;
  if ((flags & O_PATH) != 0) return;
  if (!process->holder) {
    const absl::StatusOr<std::string> text = text_of("stat");
    absl::StatusOr<ProcessStat> stat = text.ok() ? ParseStat(*text) : text.status();
    if (!stat.ok()) return;
    process->holder = {
        .pid = process->pid, .start_ns = stat->start_ns, .name = std::move(stat->name)};
  }
  if (known == holders->end()) known = holders->insert(known, *process->holder);
  const int access = flags & O_ACCMODE;
  known->reads = known->reads || access != O_WRONLY;
  known->writes = known->writes || access != O_RDONLY;
}

bool DescriptorSearch::Read(Process* process, size_t most) {
  const int directory = dirfd(process->descriptors.get());
  for (size_t i = 0; i < most; i++) {
    if (!budget_->Left()) return false;
    const dirent* entry = readdir(process->descriptors.get());
    if (entry == nullptr) return true;
    char link[kLongestLink];
    const ssize_t size = readlinkat(directory, entry->d_name, link, sizeof(link));
    // Of a process that we may read, too, single ones may be refused.
    if (size < 0 && errno == EACCES && !process->readable) {
      denied_ = true;
      return true;
    }
    if (size <= 0) continue;
    process->readable = true;
    const auto file = ParseNamelessFile({link, static_cast<size_t>(size)});
    const auto wanted = file ? wanted_.find(*file) : wanted_.end();
    if (wanted != wanted_.end()) Note(process, entry->d_name, &wanted->second);
  }
  return false;
}

bool DescriptorSearch::Run(const std::set<int32_t>& first, const std::set<int32_t>& preferred) {
  if (wanted_.empty()) return true;
  if (!budget_->LeftNow()) return false;
  std::vector<Process> unfinished;
  bool complete = true;
  for (const int32_t pid : Order(first, preferred)) {
    if (!budget_->Left()) return false;
    std::optional<Process> process = Open(pid);
    if (!process || Read(&*process, kFirstDescriptors)) continue;
    process->goes_on = true;
    if (unfinished.size() < kMostUnfinished) {
      unfinished.push_back(*std::move(process));
    } else {
      complete = false;
    }
  }
  for (Process& process : unfinished) {
    if (!Read(&process, std::numeric_limits<size_t>::max())) return false;
  }
  return complete;
}

const std::vector<FileHolder>& DescriptorSearch::HoldersOf(const NamelessFile& file) const {
  const auto found = wanted_.find(file);
  return found == wanted_.end() ? none_ : found->second;
}

}  // namespace profd
