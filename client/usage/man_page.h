// Man pages, in the macros of man(7).
#ifndef PROFD_CLIENT_USAGE_MAN_PAGE_H_
#define PROFD_CLIENT_USAGE_MAN_PAGE_H_

#include <string>
#include <vector>

#include "client/usage/usage.h"

namespace profctl {

struct ManPage {
  int section = 1;
  std::string version;
  std::string date;                   // of the version: 2026-01-31
  std::vector<std::string> see_also;  // "profd(8)"
};

std::string RenderManPage(const CommandUsage& usage, const ManPage& page);

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_MAN_PAGE_H_
