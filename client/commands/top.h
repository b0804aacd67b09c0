// `profctl top`: what threads do, refreshing.
#ifndef PROFD_CLIENT_COMMANDS_TOP_H_
#define PROFD_CLIENT_COMMANDS_TOP_H_

#include <cstdint>
#include <optional>
#include <ostream>

#include "absl/status/status.h"
#include "client/top/feed.h"
#include "client/top/rows.h"

namespace profctl {

struct TopOptions {
  FeedOptions feed;
  RowsWanted wanted;
  bool json = false;
  bool batch = false;              // no screen, even on a terminal
  std::optional<uint32_t> rounds;  // of batch; none: until it is stopped
  bool colour = false;
};

// On a screen, until the user quits; or in batch, round after round to `out`.
absl::Status RunTop(const TopOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_TOP_H_
