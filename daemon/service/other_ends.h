// Who has the other ends of the pipes and TCP connections that threads wait for, by /proc as it is
// now.
#ifndef PROFD_DAEMON_SERVICE_OTHER_ENDS_H_
#define PROFD_DAEMON_SERVICE_OTHER_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/base/clock.h"
#include "daemon/base/time_budget.h"
#include "daemon/ends/descriptor_search.h"
#include "daemon/ends/local_connections.h"
#include "daemon/ends/tcp_table.h"
#include "daemon/profile/identity.h"
#include "daemon/service/search_allowance.h"

namespace profd {

// The end at which a thread waits.
struct NearEnd {
  uint64_t pipe = 0;                   // its inode; 0: a TCP connection
  bool reads = false, writes = false;  // of a pipe, the thread itself; neither: it polls
  TcpEnds connection{};                // a port 0: any
};

class OtherEnds {
 public:
  // All must outlive the ends.
  struct Sources {
    std::string proc = "/proc";
    SearchAllowance* allowance = nullptr;
    const Clock* clock = SystemClock();
  };
  // Processes that started later had no end: CLOCK_BOOTTIME, ns.
  static constexpr int64_t kAnyStart = std::numeric_limits<int64_t>::max();
  explicit OtherEnds(Sources sources, int64_t latest_start_ns = kAnyStart)
      : sources_(std::move(sources)), latest_start_ns_(latest_start_ns) {}

  // Who has the other end of what these processes wait for: one at least. With `descriptor`, the
  // first one's alone. Returns the number of the question; none if there are too many.
  using Waiters = absl::flat_hash_set<ProcessId>;
  std::optional<size_t> Ask(const NearEnd& end, Waiters waiters,
                            std::optional<int32_t> descriptor = {});
  // Once, after all questions. `targets`: processes that are searched before others.
  void Find(const std::set<int32_t>& targets);

  // " from make (912) and 2 more", " to logger (77)", " of postgres (812)"; empty: not known.
  std::string Phrase(size_t question) const;

 private:
  struct Question {
    NearEnd end;
    Waiters waiters;
    std::optional<int32_t> descriptor;
    std::optional<NamelessFile> file{};  // of the descriptor
  };
  class Answer;

  // Of a process that runs; empty: not known.
  const std::string& NetworkOf(const ProcessId& process);
  void ReadNetworks();
  void FindDescriptors();
  // Whether the process is one that asked.
  static bool Asked(const Question& question, const FileHolder& holder);
  void Add(const NamelessFile& file, const Question& question, Answer* answer) const;
  std::string FindPipe(const Question& question) const;
  std::string FindConnection(const Question& question) const;
  bool IsNear(const Question& question, const TcpSocket& socket) const;
  std::string Names(const Answer& answer) const;

  const Sources sources_;
  const int64_t latest_start_ns_;
  std::vector<Question> questions_;
  std::optional<TimeBudget> budget_;
  std::optional<DescriptorSearch> search_;
  bool complete_ = true;
  absl::flat_hash_map<ProcessId, std::string> network_of_;
  absl::flat_hash_map<std::string, LocalConnections> networks_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_OTHER_ENDS_H_
