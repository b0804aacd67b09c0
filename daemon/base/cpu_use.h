// CPU time that threads of the daemon report, by what it was for.
#ifndef PROFD_DAEMON_BASE_CPU_USE_H_
#define PROFD_DAEMON_BASE_CPU_USE_H_

#include <atomic>
#include <cstdint>

#include "daemon/base/clock.h"

namespace profd {

// Thread-safe.
class CpuUse {
 public:
  // CPU time of the calling thread for as long as this lives.
  class Scope {
   public:
    // `total` must outlive this.
    explicit Scope(std::atomic<int64_t>* total) : total_(total), begin_(ThreadCpuNs()) {}
    ~Scope() { total_->fetch_add(ThreadCpuNs() - begin_, std::memory_order_relaxed); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::atomic<int64_t>* const total_;
    const int64_t begin_;
  };

  // ns since start.
  std::atomic<int64_t> rules = 0;    // compiling unwind rules
  std::atomic<int64_t> answers = 0;  // clients' requests
  std::atomic<int64_t> lines = 0;    // of other processes: reading debug info for answers
  std::atomic<int64_t> memory = 0;   // reading what processes hold of memory
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CPU_USE_H_
