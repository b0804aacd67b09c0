// What threads did since the last drain, step by step.
#ifndef PROFD_DAEMON_SOURCE_PENDING_STEPS_H_
#define PROFD_DAEMON_SOURCE_PENDING_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/profile/profile.h"

namespace profd {

// Steps in which a thread did nothing but wait are kept as rests: a ledger takes twenty times the
// room, and a reading may be of tens of thousands of threads that rest.
class PendingSteps {
 public:
  // Where the steps of a thread are. As it is made, there are none.
  struct Place {
    static constexpr uint32_t kNone = 0xffffffff;
    uint32_t ledger = kNone;
    uint32_t rest = kNone;
  };

  void Add(ThreadId thread, const LedgerDelta& step, Place* place);
  void AddRest(const RestingThread& rest, Place* place);
  // The ledger of a thread; made if need be. Valid until another is made.
  LedgerDelta& LedgerOf(ThreadId thread, Place* place);
  // Null: it has none.
  const LedgerDelta* FindLedger(const Place& place) const;
  // How many threads have a rest.
  size_t rests() const { return rests_.size(); }

  // Moves all into `delta`, or forgets all. The places mean nothing any more.
  void MoveTo(ProfileDelta& delta);
  void Clear();

 private:
  std::vector<ThreadLedger> ledgers_;
  std::vector<RestingThread> rests_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_PENDING_STEPS_H_
