// Capabilities of the calling thread: they are a thread's own, and those it starts inherit them.
#ifndef PROFD_DAEMON_BASE_CAPABILITY_H_
#define PROFD_DAEMON_BASE_CAPABILITY_H_

#include <sys/capability.h>

#include <memory>
#include <type_traits>

namespace profd {

struct CapsDeleter {
  void operator()(cap_t caps) const { cap_free(caps); }
};
using UniqueCaps = std::unique_ptr<std::remove_pointer_t<cap_t>, CapsDeleter>;

// False for none, too.
bool HasCapability(const UniqueCaps& caps, cap_value_t capability, cap_flag_t set);

// Makes a capability that is permitted effective, on this thread, until this is gone. Changes
// nothing where it is effective anyway, or not permitted: what needs it then fails with its own
// error.
class RaisedCapability {
 public:
  explicit RaisedCapability(cap_value_t capability);
  ~RaisedCapability();
  RaisedCapability(const RaisedCapability&) = delete;
  RaisedCapability& operator=(const RaisedCapability&) = delete;

 private:
  UniqueCaps before_;  // empty: nothing was changed
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CAPABILITY_H_
