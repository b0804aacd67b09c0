// What the samples of a window stand for, thread by thread, by the formula of each sample type.
#ifndef PROFD_DAEMON_SERVICE_ESTIMATES_H_
#define PROFD_DAEMON_SERVICE_ESTIMATES_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "daemon/profile/estimator.h"
#include "daemon/profile/sample_type.h"
#include "daemon/store/store.h"

namespace profd {

// Brings what bursts of tracing stand for to the time in which they were planned: in a short window
// there may be one more or one less than fit.
void ScaleBursts(MergedProfile* profile);

// What a thread allocated or freed.
const HeapDelta& HeapOf(const MergedLedger& ledger, Kind kind);

class Estimates {
 public:
  // `profile` must outlive this; its bursts are scaled.
  Estimates(const MergedProfile& profile, std::span<const SampleTypeInfo* const> types);

  // The ledger and all waits of a thread.
  EstimatedThread Waits(const MergedThread& thread) const;
  // The samples of a type of bytes.
  std::vector<EstimatedSample> Of(const MergedThread& thread, const SampleTypeInfo& type) const;
  // The samples of any type. `waits`: what Waits gives for the thread.
  std::vector<EstimatedSample> Of(const MergedThread& thread, const EstimatedThread& waits,
                                  const SampleTypeInfo& type) const;

 private:
  // Time on a CPU.
  std::vector<EstimatedSample> Running(const MergedThread& thread) const;
  int64_t Unsampled(int32_t pid, Kind kind) const;

  const MergedProfile& profile_;
  const EstimateBasis basis_;
  // Bytes that no sample saw, by process and kind: any stack of the process may have a part.
  std::map<std::pair<int32_t, Kind>, int64_t> unsampled_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_ESTIMATES_H_
