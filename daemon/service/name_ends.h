// Has the objects of an answer say who has their other ends.
#ifndef PROFD_DAEMON_SERVICE_NAME_ENDS_H_
#define PROFD_DAEMON_SERVICE_NAME_ENDS_H_

#include <map>
#include <string>
#include <tuple>

#include "daemon/profile/identity.h"
#include "daemon/profile/look.h"
#include "daemon/service/object_text.h"
#include "daemon/service/other_ends.h"
#include "daemon/service/request.h"
#include "daemon/store/store.h"

namespace profd {

// Those of the waits that the answer shows one object at a time. An object is what all its waiters
// together wait for.
void NameOtherEnds(const FetchPlan& plan, const MergedProfile& profile,
                   const OtherEnds::Sources& sources, WaitObjects* objects);

// The same for threads as they are now, each by itself: two threads of a process may wait for two
// connections to the same address.
class LookedObjects {
 public:
  LookedObjects(const Look& look, const OtherEnds::Sources& sources, WaitObjects* objects);
  // What the thread waits for. Empty: not known.
  std::string TextOf(const LookedThread& thread) const;

 private:
  // The object, who waits, and the descriptor or -1.
  using Key = std::tuple<StackId, ProcessId, int32_t>;
  static Key KeyOf(const LookedThread& thread);

  WaitObjects* const objects_;
  std::map<Key, std::string> phrases_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_NAME_ENDS_H_
