// The live part of a sample.
#ifndef PROFD_DAEMON_SOURCE_LIVE_SET_H_
#define PROFD_DAEMON_SOURCE_LIVE_SET_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "daemon/profile/profile.h"

namespace profd {

// Entries by process and address. Changes go into samples, so that their sum is what is live at any
// instant. Not thread-safe.
class LiveSet {
 public:
  struct Entry {
    ThreadId thread{};  // that created it
    StackId stack{};
    int64_t bytes = 0;    // that it stands for
    uint32_t one_in = 1;  // for pages: one in so many is sampled
    uint64_t serial = 0;  // identifies this entry at its address; never reused
  };
  // In address order.
  using Process = absl::btree_map<uint64_t, Entry>;

  explicit LiveSet(Kind kind) : kind_(kind) {}

  // Replaces the entry at that address.
  void Add(ThreadId process, uint64_t address, Entry entry);
  // No-op if there is no entry.
  void Remove(ThreadId process, uint64_t address);
  // The same, unless the entry was replaced since.
  void RemoveIfSame(ThreadId process, uint64_t address, uint64_t serial);
  // Changes the weight of that entry.
  void Reweigh(ThreadId process, uint64_t address, uint64_t serial, int64_t bytes, uint32_t one_in);
  void RemoveProcess(ThreadId process);
  // Whether there is an entry at that address with this serial or a later one.
  bool HasSince(ThreadId process, uint64_t address, uint64_t serial) const;

  // Moves the changes since the last call into delta.samples.
  void Finish(ProfileDelta& delta);

  const absl::flat_hash_map<ThreadId, Process>& processes() const { return processes_; }
  size_t size() const { return size_; }
  int64_t bytes() const { return bytes_; }
  // The serial of the next entry; serials increase.
  uint64_t next_serial() const { return next_serial_; }

 private:
  struct Change {
    int64_t bytes = 0;
    int64_t count = 0;
  };
  using Place = std::pair<ThreadId, StackId>;

  void Count(const Entry& entry, int64_t sign);
  // Null if there is none, or if it was replaced.
  Entry* Find(ThreadId process, uint64_t address, uint64_t serial);

  const Kind kind_;
  absl::flat_hash_map<ThreadId, Process> processes_;
  absl::flat_hash_map<Place, Change> changes_;
  size_t size_ = 0;
  int64_t bytes_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_LIVE_SET_H_
