// Errors: absl::Status everywhere, two macros, and errno as a status.
#ifndef PROFD_DAEMON_BASE_STATUS_H_
#define PROFD_DAEMON_BASE_STATUS_H_

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd {

// "what: <strerror(error_number)>", with the canonical code that fits the errno.
absl::Status ErrnoStatus(std::string_view what, int error_number);

}  // namespace profd

#define PROFD_CONCAT_INNER(a, b) a##b
#define PROFD_CONCAT(a, b) PROFD_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(PROFD_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

#endif  // PROFD_DAEMON_BASE_STATUS_H_
