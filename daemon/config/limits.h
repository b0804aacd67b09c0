// --limit NAME=VALUE of profd.
#ifndef PROFD_DAEMON_CONFIG_LIMITS_H_
#define PROFD_DAEMON_CONFIG_LIMITS_H_

#include <string>

#include "daemon/base/limits.h"
#include "daemon/base/status.h"

namespace profd {

// Sets the limit of "NAME=VALUE"; a value is a number, in bytes also with K, M or G after it
// (powers of 1024). InvalidArgument for a name that is not known or a value out of its range; says
// which there are.
absl::Status SetLimit(const std::string& text, Limits* limits);

// For --help: a line for each, with its default and its range.
std::string DescribeLimits();

}  // namespace profd

#endif  // PROFD_DAEMON_CONFIG_LIMITS_H_
