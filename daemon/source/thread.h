// The source `thread`: the account of every thread, read at each drain, and the kernel's own books.
#ifndef PROFD_DAEMON_SOURCE_THREAD_H_
#define PROFD_DAEMON_SOURCE_THREAD_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "daemon/source/accounts.h"
#include "daemon/source/context.h"
#include "daemon/source/source.h"

namespace profd {

// First in the list: the end of its reading is the instant that a drain is of, and the others ask
// it whose a thread is. Threads that ended are known until the next drain.
class ThreadSource final : public Source {
 public:
  // Without `books` the kernel's own totals are left out.
  ThreadSource(const SourceContext& context, bool books)
      : context_(context), books_(books), accounts_(books) {}

  // Reads the accounts as they are now. Returns the instant that they are of.
  int64_t Read();
  // The same, before the first drain: what it tells begins there. The kernel keeps the accounts of
  // those who ran already since its programs are loaded.
  int64_t Open();
  // Whether accounts of threads at rest were read as well, because it was time to, since the last
  // call.
  bool TookWhole() { return std::exchange(whole_, false); }
  // Of the threads that the last drain has at rest: how many were read all the same.
  int64_t rests_read() const { return accounts_.rests_read(); }

  // The target, or the PID of the process, of a thread; 0 when it is not known.
  uint32_t TargetOf(ThreadId id) const { return accounts_.TargetOf(id); }
  int32_t ProcessOf(ThreadId id) const { return accounts_.ProcessOf(id); }
  std::set<int32_t> Processes() const;
  bool has_books() const { return books_; }
  const Accounts& accounts() const { return accounts_; }
  // Of targets, since start, as of the last drain.
  int64_t switches() const { return switches_; }
  int64_t faults() const { return faults_; }  // 0 without books
  int64_t cpu_ns() const { return cpu_ns_; }

  const char* name() const override { return "thread"; }
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  absl::Status Drain(ProfileDelta& delta) override;
  std::optional<LayerState> Status() const override;

 private:
  // Returns how much work it was, in threads that were left out; 0: it failed.
  double ReadOnce();

  const SourceContext context_;
  const bool books_;
  Accounts accounts_;
  absl::Status failed_;   // since the last drain
  bool read_all_ = true;  // it is not known which threads are at rest
  bool whole_ = false;
  int64_t written_ = 0;  // records of the present reading
  int64_t next_whole_reading_ns_ = 0;
  double quick_unit_ns_ = 0;  // what reading takes, a unit of work, when nothing comes in between
  int64_t switches_ = 0;
  int64_t faults_ = 0;
  int64_t cpu_ns_ = 0;
  uint64_t unseen_ = 0;  // switches, and threads that vanished, as of the last drain
  uint64_t vanished_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_THREAD_H_
