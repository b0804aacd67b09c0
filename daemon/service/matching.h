// Which threads a client asked for, by process and by name.
#ifndef PROFD_DAEMON_SERVICE_MATCHING_H_
#define PROFD_DAEMON_SERVICE_MATCHING_H_

#include <cstdint>
#include <functional>
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

  // Whether it is of such a process.
  bool Matches(const ThreadInfo& info);
  // The same, and of such a name.
  bool MatchesThread(const ThreadInfo& info);
  // The name that a process had, or empty.
  using NameOf = std::function<std::string(int32_t pid)>;
  // After all threads. NotFound when no process matches what was `asked` for. `when`: when they
  // were profiled, e.g. "now". `name_of` may know processes that exited; it may be null.
  absl::Status Outcome(const google::protobuf::RepeatedPtrField<std::string>& asked,
                       std::string_view when, const NameOf& name_of = nullptr) const;
  // The same for threads, asked for by `regex`, that MatchesThread() was asked about.
  absl::Status ThreadOutcome(const std::string& regex, std::string_view when) const;

 private:
  const RequestScope& scope_;
  bool matched_ = false;
  std::set<std::string> others_;  // some of them
  std::set<std::string> exited_;  // names under which processes that exited are added up; some
  bool thread_matched_ = false;
  std::set<std::string> threads_;  // names of other threads of the processes that match; some
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_MATCHING_H_
