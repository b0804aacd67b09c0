#include "daemon/source/resident_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Pause after a check, as a multiple of its CPU time: 0.25 % of a CPU.
constexpr int64_t kRestPerLook = 400;
constexpr uint64_t kPageBytes = uint64_t{1} << 12;
// A new process may touch pages before a drain knows it.
constexpr int kAbsences = 2;
constexpr uint64_t kHugePages = 512;
// A page is reported before it is present. Serving the fault takes no longer than this.
constexpr absl::Duration kInService = absl::Milliseconds(100);
// Pages within this span are read together.
constexpr uint64_t kSpan = 512;
// /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst of the kernel).
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kOfFile = uint64_t{1} << 61;  // or shared memory
// Pages that wait for a check of what they are of. More than ever come within its time.
constexpr size_t kMostUnsure = 16'384;

// PAGEMAP_SCAN, since Linux 6.7; older headers do not have it.
struct PageRegion {
  uint64_t start, end, categories;
};
struct ScanArgument {
  uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
  uint64_t inverted, mask, any_of, returned;
};
constexpr uint64_t kIsZeroPage = 1 << 5, kIsHuge = 1 << 6;
const unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);

UniqueFd OpenPagemap(int32_t pid) {
  return UniqueFd(open(absl::StrCat("/proc/", pid, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
}

// Reads the states of pages from number `begin` on. Returns of how many there are any, -1 if none
// can be read.
ssize_t ReadStates(int pagemap, uint64_t begin, std::span<uint64_t> states) {
  const ssize_t bytes = pread(pagemap, states.data(), states.size_bytes(),
                              static_cast<off_t>(begin * sizeof(uint64_t)));
  return bytes < 0 ? -1 : bytes / static_cast<ssize_t>(sizeof(uint64_t));
}

bool IsAnonymous(uint64_t state) { return (state & kPresent) != 0 && (state & kOfFile) == 0; }

// The categories of a page; 0 if the kernel does not support this.
uint64_t CategoriesOf(int pagemap, uint64_t address) {
  PageRegion region{};
  ScanArgument argument{};
  argument.size = sizeof(argument);
  argument.start = address;
  argument.end = address + kPageBytes;
  argument.regions = reinterpret_cast<uintptr_t>(&region);
  argument.region_count = 1;
  argument.any_of = kIsZeroPage | kIsHuge;
  argument.returned = kIsZeroPage | kIsHuge;
  return ioctl(pagemap, kPagemapScan, &argument) == 1 ? region.categories : 0;
}

}  // namespace

// Result of a check.
struct ResidentPages::Seen {
  std::vector<Page> gone;
  std::vector<Page> huge;
};

ResidentPages::ResidentPages(uint64_t seed, CpuUse* cpu_use, int64_t pause_ns)
    : seed_(seed), cpu_use_(cpu_use), pause_ns_(pause_ns), thread_([this] { Run(); }) {}

ResidentPages::~ResidentPages() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void ResidentPages::OnTouched(const profd_page_record& record) {
  // Without a process nothing would say when the page is gone.
  if (record.process_id == 0 || record.pid <= 0 || record.size < kPageBytes) return;
  absl::MutexLock lock(&mutex_);
  if (record.unsure != 0 && unsure_.size() < kMostUnsure) {
    unsure_.push_back({.record = record, .serial = pages_.next_serial()});
  } else {
    Add(record);
  }
}

void ResidentPages::Add(const profd_page_record& record) {
  const ThreadId process{record.process_id};
  const auto one_in = static_cast<uint32_t>(record.size / kPageBytes);
  // From an earlier, larger sample.
  if (profd_page_hash(record.address / kPageBytes, seed_) >= profd_page_threshold(one_in_)) return;
  processes_[process].pid = record.pid;
  pages_.Add(process, record.address,
             {.thread = ThreadId{record.thread_id},
              .stack = StackId{record.stack},
              .bytes = static_cast<int64_t>(std::max(one_in, one_in_) * kPageBytes),
              .one_in = std::max(one_in, one_in_)});
  if (pages_.size() > kMaxPages) {
    least_one_in_ = std::max(least_one_in_, one_in_) * 2;
    Thin(least_one_in_);
  }
}

void ResidentPages::OnExec(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(unsure_, [pid](const Unsure& page) { return page.record.pid == pid; });
  RemoveProcesses([pid](Process& process) { return process.pid == pid; });
}

void ResidentPages::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  RemoveProcesses([&](Process& process) {
    process.absent = pids.contains(process.pid) ? 0 : process.absent + 1;
    return process.absent >= kAbsences;
  });
  if (pages_.size() < kMaxPages / 8) least_one_in_ = 1;
}

void ResidentPages::RemoveProcesses(absl::FunctionRef<bool(Process& process)> gone) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    if (gone(it->second)) {
      pages_.RemoveProcess(it->first);
      it = processes_.erase(it);
    } else {
      ++it;
    }
  }
}

void ResidentPages::SetOneIn(uint32_t one_in) {
  absl::MutexLock lock(&mutex_);
  if (one_in > one_in_) Thin(one_in);
  one_in_ = one_in;
}

uint32_t ResidentPages::LeastOneIn() const {
  absl::MutexLock lock(&mutex_);
  return least_one_in_;
}

void ResidentPages::Thin(uint32_t one_in) {
  one_in_ = std::max(one_in_, one_in);
  for (const auto& [process, unused] : processes_) {
    const auto found = pages_.processes().find(process);
    if (found == pages_.processes().end()) continue;
    std::vector<std::pair<uint64_t, LiveSet::Entry>> left;
    std::vector<uint64_t> gone;
    for (const auto& [address, entry] : found->second) {
      if (profd_page_hash(address / kPageBytes, seed_) >= profd_page_threshold(one_in)) {
        gone.push_back(address);
      } else if (entry.one_in < one_in) {
        left.emplace_back(address, entry);
      }
    }
    for (const uint64_t address : gone) pages_.Remove(process, address);
    for (const auto& [address, entry] : left) {
      pages_.Reweigh(process, address, entry.serial, entry.bytes / entry.one_in * one_in, one_in);
    }
  }
}

void ResidentPages::Finish(ProfileDelta& delta) {
  absl::MutexLock lock(&mutex_);
  pages_.Finish(delta);
}

size_t ResidentPages::pages() const {
  absl::MutexLock lock(&mutex_);
  return pages_.size();
}

int64_t ResidentPages::BytesOf(int32_t pid) const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [id, process] : processes_) {
    if (process.pid != pid) continue;
    const auto found = pages_.processes().find(id);
    if (found == pages_.processes().end()) continue;
    for (const auto& [address, entry] : found->second) bytes += entry.bytes;
  }
  return bytes;
}

std::string ResidentPages::note() const {
  absl::MutexLock lock(&mutex_);
  return note_;
}

void ResidentPages::SetOn(bool on) {
  absl::MutexLock lock(&mutex_);
  on_ = on;
}

void ResidentPages::Run() {
  int64_t next_ns = MonotonicNs() + pause_ns_;  // of a look at all pages
  int64_t rest_ns = 0;
  while (true) {
    bool all = false;
    {
      const auto stop = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; };
      const auto on = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || on_; };
      const auto called = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || (on_ && !unsure_.empty());
      };
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stop), absl::Nanoseconds(rest_ns))) return;
      const int64_t left_ns = std::max<int64_t>(0, next_ns - MonotonicNs());
      mutex_.AwaitWithTimeout(absl::Condition(&called), absl::Nanoseconds(left_ns));
      mutex_.Await(absl::Condition(&on));
      if (stopping_) return;
      all = MonotonicNs() >= next_ns;
    }
    const int64_t began = ThreadCpuNs();
    {
      const CpuUse::Scope scope(&cpu_use_->memory);
      all ? Look() : LookAtUnsure();
    }
    rest_ns = (ThreadCpuNs() - began) * kRestPerLook;
    if (all) next_ns = MonotonicNs() + std::max(pause_ns_, rest_ns);
  }
}

double ResidentPages::MeasureTouch() {
  // The fastest round counts: interruptions make the others slower.
  constexpr int kRounds = 16;
  constexpr uint64_t kPages = 32;
  void* memory = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, kPages * kPageBytes, MADV_NOHUGEPAGE);
  int64_t fastest = kSecond;
  for (int round = 0; round < kRounds; ++round) {
    madvise(memory, kPages * kPageBytes, MADV_DONTNEED);
    const int64_t begin = MonotonicNs();
    for (uint64_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPageBytes] = 1;
    fastest = std::min(fastest, MonotonicNs() - begin);
  }
  munmap(memory, kPages * kPageBytes);
  return static_cast<double>(fastest) / kPages;
}

void ResidentPages::LookAtUnsure() {
  std::vector<Unsure> unsure;
  {
    absl::MutexLock lock(&mutex_);
    unsure.swap(unsure_);
  }
  if (unsure.empty()) return;
  absl::SleepFor(kInService);
  const std::vector<Unsure> anonymous = AnonymousOf(unsure);
  absl::MutexLock lock(&mutex_);
  for (const Unsure& page : anonymous) {
    // Unless it was touched again meanwhile.
    if (!pages_.HasSince(ThreadId{page.record.process_id}, page.record.address, page.serial)) {
      Add(page.record);
    }
  }
}

std::vector<ResidentPages::Unsure> ResidentPages::AnonymousOf(const std::vector<Unsure>& unsure) {
  std::map<int32_t, UniqueFd> pagemaps;
  std::vector<Unsure> anonymous;
  for (const Unsure& page : unsure) {
    const auto [found, fresh] = pagemaps.try_emplace(page.record.pid);
    if (fresh) found->second = OpenPagemap(page.record.pid);
    std::array<uint64_t, 1> state{};
    if (found->second.ok() &&
        ReadStates(found->second.get(), page.record.address / kPageBytes, state) == 1 &&
        IsAnonymous(state[0])) {
      anonymous.push_back(page);
    }
  }
  return anonymous;
}

void ResidentPages::Look() {
  LookAtUnsure();
  std::map<ThreadId, Process> processes;
  uint64_t end = 0;
  {
    absl::MutexLock lock(&mutex_);
    processes = processes_;
    end = pages_.next_serial();
    note_.clear();
  }
  absl::SleepFor(kInService);
  for (const auto& [id, process] : processes) LookAt(id, process, end);
}

std::vector<ResidentPages::Page> ResidentPages::PagesOf(ThreadId id, uint64_t end) const {
  std::vector<Page> pages;
  absl::MutexLock lock(&mutex_);
  const auto found = pages_.processes().find(id);
  if (found == pages_.processes().end()) return pages;
  pages.reserve(found->second.size());
  for (const auto& [address, entry] : found->second) {
    if (entry.serial >= end) continue;
    pages.push_back({.address = address, .serial = entry.serial, .one_in = entry.one_in});
  }
  return pages;
}

void ResidentPages::LookAt(ThreadId id, const Process& process, uint64_t end) {
  const std::vector<Page> pages = PagesOf(id, end);
  if (pages.empty()) return;
  const UniqueFd pagemap = OpenPagemap(process.pid);
  if (!pagemap.ok()) {
    if (errno == ENOENT || errno == ESRCH) return;  // exited; the next drains will notice
    const int reason = errno;
    absl::MutexLock lock(&mutex_);
    note_ = absl::StrCat("returned pages still count as resident: cannot read /proc/", process.pid,
                         "/pagemap: ", std::strerror(reason), "; needs CAP_SYS_PTRACE");
    return;
  }
  Seen seen;
  uint64_t looked = process.looked;
  std::array<uint64_t, kSpan> states;
  for (size_t first = 0; first < pages.size();) {
    const uint64_t begin = pages[first].address / kPageBytes;
    size_t last = first;
    while (last + 1 < pages.size() && pages[last + 1].address / kPageBytes - begin < kSpan) ++last;
    const uint64_t count = pages[last].address / kPageBytes - begin + 1;
    const ssize_t answered = ReadStates(pagemap.get(), begin, std::span(states).first(count));
    if (answered < 0) return;
    const auto read = static_cast<uint64_t>(answered);
    for (size_t i = first; i <= last; ++i) {
      const uint64_t at = pages[i].address / kPageBytes - begin;
      looked = std::max(looked, pages[i].serial);
      // If too many were unsure, those of files are among them.
      if (at >= read || !IsAnonymous(states[at])) {
        seen.gone.push_back(pages[i]);
      } else if (pages[i].serial > process.looked) {
        const uint64_t categories = CategoriesOf(pagemap.get(), pages[i].address);
        if ((categories & kIsZeroPage) != 0) {
          seen.gone.push_back(pages[i]);
        } else if ((categories & kIsHuge) != 0) {
          seen.huge.push_back(pages[i]);
        }
      }
    }
    first = last + 1;
  }
  absl::MutexLock lock(&mutex_);
  for (const Page& page : seen.gone) pages_.RemoveIfSame(id, page.address, page.serial);
  for (const Page& page : seen.huge) {
    pages_.Reweigh(id, page.address, page.serial,
                   static_cast<int64_t>(page.one_in * kPageBytes * kHugePages), page.one_in);
  }
  if (const auto it = processes_.find(id); it != processes_.end()) it->second.looked = looked;
}

}  // namespace profd
