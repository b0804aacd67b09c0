// What threads do at a moment: an answer to GetStacks, checked.
#ifndef PROFD_CLIENT_ANALYSIS_LOOKS_H_
#define PROFD_CLIENT_ANALYSIS_LOOKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/answer/profile.h"
#include "client/answer/reason.h"

namespace profctl {

struct ThreadLook {
  uint32_t thread = 0;                      // index into Profile::threads
  Reason reason = profd::v1::REASON_OTHER;  // REASON_ON_CPU: it runs
  std::optional<int64_t> for_ns;            // how long; never negative
  uint32_t stack = kUnsampled;              // index into Profile::stacks, or kUnsampled
  int32_t syscall = -1;
  std::string object;  // "futex 0x7f12a0", or empty
  std::string file;    // what the object refers to, or empty
  std::string idle;    // the kind of idle wait, or empty

  bool Runs() const { return reason == profd::v1::REASON_ON_CPU; }
  bool Queues() const { return reason == profd::v1::REASON_RUNQUEUE; }
};

struct Looks {
  Answer answer;
  std::vector<ThreadLook> threads;

  const Profile& profile() const { return answer.profiles.front(); }
  const profd::v1::LookTotals& totals() const { return answer.message().look(); }
};

// Errors: DataLoss for an answer that is inconsistent.
absl::StatusOr<Looks> ReadLooks(Answer answer);

// Something that several threads wait for.
struct SharedObject {
  std::string name;                      // "futex 0x7f12a0"
  std::vector<const ThreadLook*> waits;  // the longest first
};

// What two or more threads wait for, in waits that are not idle: the same futex or set of
// semaphores of a process, or the same file, pipe or socket. Most threads first. `looks` must
// outlive this.
std::vector<SharedObject> SharedObjects(const Looks& looks);

// The order of waits: the longest first, those of unknown length last.
bool WaitsLonger(const ThreadLook& a, const ThreadLook& b);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_LOOKS_H_
