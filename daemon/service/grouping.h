// By what the samples of an answer are grouped, and what the groups are called.
#ifndef PROFD_DAEMON_SERVICE_GROUPING_H_
#define PROFD_DAEMON_SERVICE_GROUPING_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/service/named_stacks.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Thread name without its trailing number and the separator before it: "storage-03" gives
// "storage". A name of digits only stays whole.
std::string ThreadGroup(std::string_view name);

class Grouping {
 public:
  // What a label may be made of.
  struct Subject {
    uint32_t thread = 0;  // index into the threads of the profile
    uint32_t stack = 0;   // number
    Reason reason = Reason::kOther;
    bool waits = false;
    bool ran = false;  // in a type that has waits too
    std::string_view object;
  };

  // `profile` and `stacks`, whose frames have names, must outlive this.
  Grouping(std::span<const v1::GroupKey> keys, const MergedProfile& profile,
           const NamedStacks& stacks);

  // The label of a thread for GROUP_KEY_THREAD_NAME.
  const std::string& ThreadName(uint32_t thread) const { return thread_groups_[thread]; }
  // No labels without keys.
  std::vector<std::string> Labels(const Subject& subject) const;

 private:
  std::string Label(v1::GroupKey key, const Subject& subject) const;

  const std::vector<v1::GroupKey> keys_;
  const MergedProfile& profile_;
  const NamedStacks& stacks_;
  // By thread: its name where no other thread of a process of this name has another name of the
  // same group ("python3"), else what ThreadGroup gives.
  std::vector<std::string> thread_groups_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_GROUPING_H_
