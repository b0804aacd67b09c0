// The locks of an answer: what threads waited for, how long, where, and who released it.
#ifndef PROFD_DAEMON_SERVICE_LOCK_TABLE_H_
#define PROFD_DAEMON_SERVICE_LOCK_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/profile/ended_waits.h"
#include "daemon/profile/estimator.h"
#include "daemon/profile/identity.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/lock_kind.h"
#include "daemon/service/memory_names.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/process_ids.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// What a wait was for.
struct WaitedLock {
  std::string_view kind{};
  std::string_view idle{};  // no contention, see LockWait
  std::string name{};       // as LockUse.name
  uint64_t address = 0;     // 0: unknown, or another one in each process
  bool shared = false;      // processes of one name may wait for the same one
  friend auto operator<=>(const WaitedLock&, const WaitedLock&) = default;
};

class LockTable {
 public:
  // All must outlive this. The frames of `stacks` have names.
  LockTable(const MergedProfile& profile, const NamedStacks& stacks, FrameNames* names);

  // What a sample with the reason kLock is of. `idle`: the kind of idle wait, or empty.
  WaitedLock Of(const ThreadInfo& thread, const SampleKey& key, std::string_view idle) const;

  // One sample of a thread, as estimated.
  struct Wait {
    WaitedLock lock;
    const EstimatedSample* sample = nullptr;
  };
  // The waits for locks of one thread of the profile. `process`: index in the answer. `all`: what
  // was estimated of all its waits.
  void AddThread(const MergedThread& thread, uint32_t process, const std::vector<Wait>& waits,
                 const EstimatedThread& all);

  void Fill(v1::Profile* out) const;

 private:
  struct Sum {
    int64_t ns = 0;
    double variance = 0;
    void Add(int64_t amount, double error);
  };
  struct Released {
    StackId waiter{};
    ProcessId process;
    Sum time;
  };
  struct Waiter {
    Sum time;
    WaitCount count;
  };
  struct Use {
    std::set<ProcessId> processes;
    Sum time;
    WaitCount count;
    int64_t samples = 0;
    uint32_t threads = 0;
    std::map<std::string_view, Waiter> waiters;  // by function
    // By waker, with one of the stacks that it woke.
    std::map<StackId, Released> releasers;
    Sum unknown;
    bool shared = false;
  };
  using Key = std::pair<uint32_t, WaitedLock>;  // process
  // What a releaser is called: waker, function.
  using Releaser = std::pair<std::string, std::string>;
  using ReleaserNames = std::map<StackId, Releaser>;  // by waker

  // What the frames of a stack say, by its number. Where they say too little, as the walk ended
  // early, what others say that wait at the same place.
  LockFrames FramesOf(const ProcessId& process, const SampleKey& key, uint32_t stack) const;
  // The number of a sample's stack.
  uint32_t NumberOf(const ThreadInfo& thread, const SampleKey& key) const;
  // The use of a lock by a process.
  Use& UseOf(const MergedThread& thread, uint32_t process, const WaitedLock& lock);
  // The function that wants the lock, by the number of the stack.
  std::string_view PlaceOf(uint32_t stack) const;
  void AddEnded(const MergedThread& thread, uint32_t process, const std::vector<Wait>& waits,
                const EstimatedThread& all);
  void AddReleasers(const MergedThread& thread, uint32_t process, const std::vector<Wait>& waits,
                    const EstimatedThread& all);
  // Of the uses.
  ReleaserNames NameReleasers(const std::vector<const std::pair<const Key, Use>*>& uses) const;
  // Of the first locks: who holds them now.
  void FillOwners(v1::Profile* out) const;
  void FillWaiters(const Use& use, v1::LockUse* out) const;
  static void FillReleasers(const Use& use, const ReleaserNames& names, v1::LockUse* out);

  const MergedProfile& profile_;
  const NamedStacks& stacks_;
  FrameNames* const names_;
  const ProcessIds ids_;
  std::map<std::pair<ProcessId, uint64_t>, std::string_view> kinds_;  // by address
  std::map<std::pair<ProcessId, uint64_t>, MemoryName> places_;       // by address
  std::map<std::pair<ProcessId, uint64_t>, std::string> files_;       // by descriptor
  std::map<Key, Use> uses_;
  std::map<std::string, uint32_t> first_of_name_;  // process by name, for shared locks
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LOCK_TABLE_H_
