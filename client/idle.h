// Which waits are idleness: a thread that has nothing to do, told by the frames of its runtime.
#ifndef PROFD_CLIENT_IDLE_H_
#define PROFD_CLIENT_IDLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/profile.h"

namespace profctl {

// A demangled name reduced to its path: generic arguments, "<T as Trait>", parameter lists,
// closures and Rust hashes are cut. "<a::B<T> as a::C>::run::{{closure}}" gives "a::B::run".
std::string FunctionPath(std::string_view function);

// Decides per sample. Waits for poll and sleep are idle, seen by a tick or not. Waits for a lock or
// something unnamed are idle when the frame that asked for the wait, the first one outside libc and
// the primitives of a runtime, is one that parks a thread without work. A frame of contention
// anywhere in the stack means the thread wants to go on, and wins. Only waits can be idle: in a
// profile of bytes nothing is.
class IdleRule {
 public:
  explicit IdleRule(const Profile& profile);

  // Name of the kind of idleness ("tokio worker"), empty when the wait is not idle. `sample` is one
  // of the profile's. The view is valid for ever.
  std::string_view Group(const Sample& sample) const;

 private:
  const bool waits_;                           // the profile is one of waits
  std::vector<std::string_view> stack_group_;  // by stack, for the reasons that need a look
};

}  // namespace profctl

#endif  // PROFD_CLIENT_IDLE_H_
