// What ticks found since the last drain.
#ifndef PROFD_DAEMON_SOURCE_SAMPLE_LOG_H_
#define PROFD_DAEMON_SOURCE_SAMPLE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bpf/abi.h"
#include "daemon/kernel/kernel.h"

namespace profd {

// Where the last sample of a thread went.
struct SamplePlace {
  uint32_t round = 0;
  uint32_t index = 0;
};

// A thread that stays in one wait has one entry. Allocates nothing after it was made. Not
// thread-safe.
class SampleLog {
 public:
  // Of `limit` entries, 1 or more.
  explicit SampleLog(size_t limit) : limit_(limit) { entries_.reserve(limit); }

  // `value`: of samples of one key. `place`: of the thread of `key`, kept by the caller. False:
  // there is no room, the samples are lost.
  bool Add(const profd_sample_key& key, const profd_sample_value& value, SamplePlace& place);
  // Gives what was found, and takes a vector to go on with. Several entries may have one key.
  void Swap(std::vector<CounterEntry>& entries);
  size_t size() const { return entries_.size(); }
  size_t limit() const { return limit_; }

 private:
  // Merges entries. False: there is no room all the same.
  bool MakeRoom();
  bool AddToSorted(const profd_sample_key& key, const profd_sample_value& value,
                   SamplePlace& place);

  const size_t limit_;
  std::vector<CounterEntry> entries_;
  uint32_t round_ = 1;  // a place of another round is no place
  size_t sorted_ = 0;   // entries at the front are in order, since they were merged
  bool full_ = false;   // however entries are merged
};

// Merges entries of the same key, in place.
void MergeEntries(std::vector<CounterEntry>& entries);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SAMPLE_LOG_H_
