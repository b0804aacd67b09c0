// Expressions from outside that select processes and threads; the client uses them, too.
#ifndef PROFD_DAEMON_SERVICE_FILTER_H_
#define PROFD_DAEMON_SERVICE_FILTER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "re2/re2.h"

namespace profd {

// Compiles an expression from outside within bounds of length and memory; `what` names it in the
// error.
absl::StatusOr<std::shared_ptr<const RE2>> CompileFilter(const std::string& what,
                                                         const std::string& expression);

// A PID, or an expression searched in the process name.
class TargetFilter {
 public:
  // Errors: InvalidArgument.
  static absl::StatusOr<TargetFilter> Parse(const std::string& text);
  bool Matches(int32_t pid, const std::string& process) const;

 private:
  int32_t pid_ = 0;  // 0: by name
  std::shared_ptr<const RE2> name_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_FILTER_H_
