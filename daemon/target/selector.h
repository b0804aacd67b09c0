// Which processes the user asked for.
#ifndef PROFD_DAEMON_TARGET_SELECTOR_H_
#define PROFD_DAEMON_TARGET_SELECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/status.h"
#include "daemon/target/procfs.h"
#include "re2/re2.h"

namespace profd {

class Selector {
 public:
  // A decimal PID, or an RE2 expression searched in the command name and the program's file name.
  // InvalidArgument for an expression that is not valid.
  static absl::StatusOr<Selector> Parse(const std::string& text);

  bool Matches(const ProcessInfo& process) const;
  const std::string& text() const { return text_; }
  std::optional<int32_t> pid() const { return pid_; }

 private:
  std::string text_;
  std::optional<int32_t> pid_;
  std::shared_ptr<const RE2> name_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_TARGET_SELECTOR_H_
