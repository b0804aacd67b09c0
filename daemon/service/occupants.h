// Who had the CPUs that the threads of an answer waited for.
#ifndef PROFD_DAEMON_SERVICE_OCCUPANTS_H_
#define PROFD_DAEMON_SERVICE_OCCUPANTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "daemon/profile/estimator.h"
#include "daemon/service/object_text.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Not thread-safe.
class Occupants {
 public:
  // `objects` must outlive this.
  explicit Occupants(WaitObjects* objects) : objects_(objects) {}

  // Adds the waits of a thread for a CPU. Other waits are passed over.
  void Add(const EstimatedThread& waits);
  // All that were added, in the answer's last part.
  void Fill(v1::Profile* part) const;

 private:
  struct Use {
    std::set<int32_t> pids;
    int64_t ns = 0;
    double variance = 0;
    int64_t ticks = 0;
  };

  WaitObjects* const objects_;
  std::map<std::tuple<CpuHolder::Kind, std::string, std::string>, Use> uses_;  // name, thread
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_OCCUPANTS_H_
