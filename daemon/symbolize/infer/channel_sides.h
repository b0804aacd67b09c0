// Tells receivers of bounded channels from senders, whose waits look alike, by the lines of their
// locations.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CHANNEL_SIDES_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CHANNEL_SIDES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/symbolize/infer/locations.h"

namespace profd::symbolize {

enum class ChannelSide {
  kUnknown,
  kSends,
  kReceives,
};

// In crossbeam's array.rs, and in std's copy of it, the code behind a wait has two locations, two
// lines apart: an arm that cannot be reached, and the unwrap of the thread's own entry. The
// sender's come first. Files with any other number of such pairs tell nothing.
class ChannelSides {
 public:
  // `locations` must outlive this.
  explicit ChannelSides(const LocationTable* locations);

  // Whether functions of this module may wait on either side.
  static bool IsChannel(std::string_view module);

  // Of a function that loads from these addresses: kUnknown if it has locations of both sides.
  ChannelSide Of(std::span<const uint64_t> loads) const;

 private:
  struct Pairs {
    uint32_t file = 0;
    uint32_t sends = 0;  // the first line of each pair
    uint32_t receives = 0;
  };

  const LocationTable* const locations_;
  std::vector<Pairs> pairs_;  // of more than one file if a program has several versions
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CHANNEL_SIDES_H_
