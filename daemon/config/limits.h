// --limit NAME=VALUE of profd.
#ifndef PROFD_DAEMON_CONFIG_LIMITS_H_
#define PROFD_DAEMON_CONFIG_LIMITS_H_

#include <string>

#include "daemon/base/limits.h"
#include "daemon/base/status.h"

namespace profd {

// Sets the limit named in "NAME=VALUE". A value in bytes may end in K, M or G (powers of 1024).
// InvalidArgument for an unknown name or a value out of range; the message says what is allowed.
absl::Status SetLimit(const std::string& text, Limits* limits);

// For --help: one line per limit, with its default and range.
std::string DescribeLimits();

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_LIMITS_H_
