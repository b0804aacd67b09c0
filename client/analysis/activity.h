// What groups of threads did in a window, and who ended their waits: the input of chains of waits.
#ifndef PROFD_CLIENT_ANALYSIS_ACTIVITY_H_
#define PROFD_CLIENT_ANALYSIS_ACTIVITY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/answer/profile.h"
#include "client/answer/reason.h"

namespace profctl {

// Who ended waits.
enum class WakerKind {
  kNone,       // no wait, or one that nobody ends: time on a CPU or on the run queue
  kGroup,      // threads of a group
  kOutside,    // a thread that is not in the answer
  kInterrupt,  // "[timer]", "[network]", "[block]" or "[interrupt]"
  kUnknown,
};

struct Waker {
  WakerKind kind = WakerKind::kNone;
  uint32_t group = 0;         // index into Activity::groups; of kGroup
  std::string name = {};      // of kOutside and kInterrupt
  std::string function = {};  // what it ran, the innermost of the program; may be empty

  friend bool operator==(const Waker&, const Waker&) = default;
};

// Time of a group's threads in one state: on a CPU, on the run queue, or in waits of one place that
// one waker ended.
struct State {
  Reason reason = profd::v1::REASON_UNSPECIFIED;
  std::string function;  // the innermost of the program
  Waker waker;
  uint32_t stack = 0;     // index into Activity::stacks
  bool idle = false;      // an idle wait
  bool for_work = false;  // an idle wait that somebody ends who has work: any but a sleep
  std::vector<uint32_t> threads = {};  // whose it is; ascending, each once
  double time_ns = 0;
  double variance = 0;
  uint64_t ticks = 0;  // samples that it is estimated from
};

// Threads of one process name and one name, without trailing numbers.
struct ThreadGroup {
  std::string process;
  std::string name;
  uint32_t threads = 0;
  int64_t wall_ns = 0;
  int64_t idle_ns = 0;  // in idle waits
  std::vector<State> states = {};
};

struct Activity {
  std::vector<ThreadGroup> groups;
  // Functions of the program on stacks, ascending numbers. The first is empty.
  std::vector<std::vector<uint32_t>> stacks;
  std::map<std::string, uint32_t> functions;  // numbers
  int64_t window_ns = 0;
  std::vector<int64_t> wall_ns;  // by thread
};

using ThreadFilter = std::function<bool(const Thread&)>;

// Of an answer that has the sample types "wakers" and "cpu", grouped by process and thread. The
// groups with threads that `selected` accepts follow once more behind all others, with these
// threads only: `roots` gets their indexes and those of the groups as a whole.
struct Root {
  uint32_t part;   // index into groups: the selected threads only
  uint32_t whole;  // and the group that they belong to
};
Activity ReadActivity(const Profile& wakers, const Profile& cpu, const ThreadFilter& selected,
                      std::vector<Root>* roots);

// Time in waits, the run queue included, without idle waits: all, and without those whose end
// nobody saw.
double WaitingNs(const ThreadGroup& group);
double SeenWaitingNs(const ThreadGroup& group);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_ACTIVITY_H_
