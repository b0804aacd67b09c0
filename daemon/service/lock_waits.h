// How many waits for locks there were, in messages.
#ifndef PROFD_DAEMON_SERVICE_LOCK_WAITS_H_
#define PROFD_DAEMON_SERVICE_LOCK_WAITS_H_

#include "daemon/profile/ended_waits.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Whether waits that ended were counted in a part of the window.
bool CountsEndedWaits(const MergedProfile& profile);

void FillWaitCount(const WaitCount& count, v1::WaitCount* out);

// What is not known of the locks, and why.
void AddLockNotes(const MergedProfile& profile, v1::Profile* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LOCK_WAITS_H_
