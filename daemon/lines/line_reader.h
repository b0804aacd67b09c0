// Looks up lines of addresses, in a process of its own and with a deadline.
#ifndef PROFD_DAEMON_LINES_LINE_READER_H_
#define PROFD_DAEMON_LINES_LINE_READER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/fd.h"
#include "daemon/lines/companion_files.h"
#include "daemon/lines/launcher.h"
#include "daemon/lines/line_cache.h"
#include "daemon/lines/protocol.h"

namespace profd {

// Addresses of one file.
struct LineQuery {
  uint64_t file = 0;                         // equal numbers: the same contents
  std::shared_ptr<const UniqueFd> contents;  // a file with debug info
  // Opens what its debug info refers to. May be null: then nothing.
  std::shared_ptr<const CompanionFiles> companions;
  std::vector<uint64_t> addresses;  // virtual
  // Filled by LineReader::Find, one for each address.
  enum class State : uint8_t {
    kKnown,
    kPending,  // not read yet: ask again
    kFailed,   // its debug info cannot be used, or harmed the worker
  };
  std::vector<State> states;
  std::vector<LineChain> chains;
};

struct LineReaderStatus {
  std::string note;        // why lines are missing, and what to do; empty if nothing is
  uint64_t read = 0;       // addresses that were looked up in debug info
  uint64_t failures = 0;   // of the worker
  int64_t cpu_ns = 0;      // of the worker
  uint64_t rss_bytes = 0;  // of the worker and the process that starts it
  uint64_t cache_bytes = 0;
};

struct LineReaderOptions {
  std::chrono::milliseconds patience{30'000};    // with one request
  std::chrono::milliseconds start{30'000};       // until a worker is there
  std::chrono::milliseconds idle{10'000};        // after which the worker is stopped
  std::chrono::milliseconds first_rest{10'000};  // for a file that harmed it; doubles each time
  size_t cache_bytes = 8 << 20;
};

// Thread-safe. Works on a thread of its own.
class LineReader {
 public:
  // Without a launcher nothing is ever known. `cpu_ns`, the CPU time of the workers, must outlive
  // this.
  LineReader(std::optional<LineLauncher> launcher, std::atomic<int64_t>* cpu_ns,
             LineReaderOptions options = {});
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Waits until all is known or `patience` is over. What is missing then is read all the same.
  void Find(std::span<LineQuery> queries, std::chrono::milliseconds patience)
      ABSL_LOCKS_EXCLUDED(mutex_);
  LineReaderStatus Status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    uint64_t file = 0;
    std::shared_ptr<const UniqueFd> contents;
    std::shared_ptr<const CompanionFiles> companions;
    std::vector<uint64_t> addresses;  // at most kMaxLineAddresses
    uint64_t number = 0;
  };
  struct Rest {
    int64_t until_ns = 0;
    int64_t length_ns = 0;
    uint64_t last_job = 0;  // the last one that was made before it ended
  };
  using Rests = absl::flat_hash_map<uint64_t, Rest>;  // by file
  using Place = std::pair<uint64_t, uint64_t>;        // file, address
  enum class Outcome : uint8_t { kAnswered, kUnusable, kLost };

  // Answers from the cache and orders the rest; returns how much is on order.
  size_t Look(std::span<LineQuery> queries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Order(const LineQuery& query, const std::vector<uint64_t>& addresses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  Outcome Read(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  Outcome Receive(uint64_t id, const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the worker a file that it asks for. False if it cannot be reached.
  bool Reply(const FileQuestion& question, const Job& job);
  bool IsStopping() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool EnsureWorker() ABSL_LOCKS_EXCLUDED(mutex_);
  void StopWorker() ABSL_LOCKS_EXCLUDED(mutex_);
  void CountCpu() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const Job& job, Outcome outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the address from the job. False if that job was not the one to read it.
  bool TakePending(const Job& job, uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until when a file is left alone: twice as long each time.
  void Postpone(uint64_t file, Rests& rests) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a file that lacked a companion file, when it is time to look for that again.
  void LookForCompanions(uint64_t file, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LineReaderOptions options_;
  std::atomic<int64_t>* const cpu_ns_;
  // Used by the thread alone.
  std::optional<LineLauncher> launcher_;
  std::optional<LineWorker> worker_;
  uint64_t requests_ = 0;
  bool lacks_companion_ = false;  // in the last request
  int64_t ended_cpu_ns_ = 0;      // of workers that have ended

  mutable absl::Mutex mutex_;
  absl::CondVar ordered_;
  absl::CondVar answered_;
  LineCache cache_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // The job that is to read the address. Once that is read, another job may read it anew, even
  // before the first job ends.
  absl::flat_hash_map<Place, uint64_t> pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t jobs_made_ ABSL_GUARDED_BY(mutex_) = 0;
  Rests resting_ ABSL_GUARDED_BY(mutex_);  // files that did harm
  // Files that lacked a companion file, which may be there later.
  Rests lacking_ ABSL_GUARDED_BY(mutex_);
  bool reopen_ ABSL_GUARDED_BY(mutex_) = false;  // all files, before the next request
  LineReaderStatus status_ ABSL_GUARDED_BY(mutex_);
  pid_t worker_pid_ ABSL_GUARDED_BY(mutex_) = 0;
  const pid_t launcher_pid_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::thread> thread_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_LINE_READER_H_
