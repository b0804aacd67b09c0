// The longest waits of an answer, checked.
#ifndef PROFD_CLIENT_ANSWER_LONGEST_H_
#define PROFD_CLIENT_ANSWER_LONGEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/answer/profile.h"

namespace profctl {

struct LongWait {
  uint32_t thread = 0;          // index into Profile::threads
  uint32_t stack = kUnsampled;  // index into Profile::stacks, or kUnsampled: no tick saw the wait
  profd::v1::LongWait wait;     // no time of it is negative
  Attributes attributes;
  std::string waker;  // who ended it; empty: not known
};

// The waits of Profile::message, in its order. DataLoss if they are inconsistent.
absl::StatusOr<std::vector<LongWait>> ReadLongest(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_LONGEST_H_
