#include "daemon/base/capability.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/log.h"

namespace profd {

bool HasCapability(const UniqueCaps& caps, cap_value_t capability, cap_flag_t set) {
  cap_flag_value_t value = CAP_CLEAR;
  return caps && cap_get_flag(caps.get(), capability, set, &value) == 0 && value == CAP_SET;
}

RaisedCapability::RaisedCapability(cap_value_t capability) {
  UniqueCaps before(cap_get_proc());
  if (HasCapability(before, capability, CAP_EFFECTIVE) ||
      !HasCapability(before, capability, CAP_PERMITTED)) {
    return;
  }
  const UniqueCaps raised(cap_dup(before.get()));
  if (raised && cap_set_flag(raised.get(), CAP_EFFECTIVE, 1, &capability, CAP_SET) == 0 &&
      cap_set_proc(raised.get()) == 0) {
    before_ = std::move(before);
  }
}

RaisedCapability::~RaisedCapability() {
  if (before_ && cap_set_proc(before_.get()) != 0) {
    LogError("lower a capability: ", std::strerror(errno));
  }
}

}  // namespace profd
