// Which threads are of the processes that a client asked for.
#ifndef PROFD_DAEMON_SERVICE_MATCHING_H_
#define PROFD_DAEMON_SERVICE_MATCHING_H_

#include <set>
#include <string>
#include <string_view>

#include "daemon/base/status.h"
#include "daemon/profile/profile.h"
#include "daemon/service/request.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace profd {

// Remembers whether there was any, and which other processes there are, for an error.
class Matching {
 public:
  // `scope` must outlive this.
  explicit Matching(const RequestScope& scope) : scope_(scope) {}

  bool Matches(const ThreadInfo& info);
  // After all threads. NotFound when no process matches what was `asked` for. `when`: when they
  // were profiled, e.g. "now".
  absl::Status Outcome(const google::protobuf::RepeatedPtrField<std::string>& asked,
                       std::string_view when) const;

 private:
  const RequestScope& scope_;
  bool matched_ = false;
  std::set<std::string> others_;  // some of them
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_MATCHING_H_
