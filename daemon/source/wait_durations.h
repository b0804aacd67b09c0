// Turns the histograms in the accounts of threads, which are cumulative, into what was added.
#ifndef PROFD_DAEMON_SOURCE_WAIT_DURATIONS_H_
#define PROFD_DAEMON_SOURCE_WAIT_DURATIONS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "bpf/abi.h"
#include "daemon/profile/profile.h"

namespace profd {

// Of one thread.
class WaitDurations {
 public:
  // Adds a sample of Kind::kDuration for each bucket that grew since the record before. Records
  // come in the order of time.
  void Apply(const profd_thread_record& record, std::vector<Sample>* samples);

 private:
  // A bucket that is not empty. A thread has few of them.
  struct Bucket {
    uint8_t place = 0;
    uint8_t number = 0;
    uint32_t count = 0;
  };

  std::vector<Bucket> buckets_;  // by place and number
  std::array<uint8_t, PROFD_DURATION_PLACES> reasons_{};
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAIT_DURATIONS_H_
