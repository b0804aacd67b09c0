// The probes that are wanted less those that stand are the work: what it is, and in which order it
// is done. Without threads, clocks or a kernel.
#ifndef PROFD_DAEMON_PROBES_PLAN_H_
#define PROFD_DAEMON_PROBES_PLAN_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/probes/hands.h"
#include "daemon/probes/wanted.h"

namespace profd {

struct ProbeStep {
  enum class Action : uint8_t { kAttach, kReplace, kDetach, kLook, kDropGuards };
  Action action = Action::kAttach;
  std::vector<ProbeKey> keys;  // one, but of kDetach
  ProbePlaces places;          // of kAttach and kReplace
  std::vector<GuardKey> guards;
};

struct GateChange {
  ProbedModule where;
  Gate gate = Gate::kUnknown;
};

// How many sets of a kind are wanted, and what became of them.
struct ProbeCounts {
  size_t wanted = 0;
  size_t stood = 0;
  std::string failure;  // of one of the others
};

// Not thread-safe. One step at a time: Next, then Done.
class ProbePlan {
 public:
  // Probes that go together: the kernel waits for all programs at each, side by side it waits once.
  static constexpr size_t kRemovedTogether = 32;
  // After a failure it is tried again, first after this, then after twice as long, at most in four
  // minutes.
  static constexpr int64_t kFirstRetryNs = 1'000'000'000;
  static constexpr int kMostDoublings = 8;
  // While probes of a burst are there nothing else is begun, so that they go at once; but not for
  // longer than this.
  static constexpr int64_t kMostReservedNs = 250'000'000;

  // `at_once`: probes of a set come in one go, not one by one.
  explicit ProbePlan(bool at_once) : at_once_(at_once) { presence_.fill(Presence::kPresent); }

  // The probes of that key from now on. Other places than before: those that stand are replaced.
  // False: they are wanted already.
  bool Want(const ProbeKey& key, WantedProbes wanted);
  void Unwant(const ProbeKey& key);
  // Nothing is wanted of the process any more: it is gone, or became another program. What stands
  // in it is of the program before, and goes.
  void Forget(int32_t pid);
  // The same of all processes but these.
  void KeepOnly(const std::set<int32_t>& pids);
  // Puts those of one key in, or takes them out.
  void SetPresent(const ProbeKey& key, bool present, int64_t now_ns);
  // The same of a whole set, and of all that is there. False: it is so already.
  bool SetPresence(ProbeSet set, Presence presence);
  bool SetOn(bool on);
  // Looks at the processes of a set anew, where the set looks first.
  void LookAgain(ProbeSet set);

  // What is to be done next, and has begun with this; nothing while a step is under way.
  std::optional<ProbeStep> Next(int64_t now_ns);
  // How it went; after Detach and DropGuards well always. Returns a failure that is new.
  std::optional<std::pair<ProbeKey, std::string>> Done(const ProbeStep& step,
                                                       const absl::Status& status, int64_t now_ns);
  // When there will be something to be done if nothing changes; INT64_MAX: never.
  int64_t next_ns() const;
  // What is to be told of gates, in this order, before the step that Next returned.
  std::vector<GateChange> TakeGateChanges() { return std::exchange(changes_, {}); }

  // Something of the set is to be done, or is under way.
  bool HasWork(ProbeSet set) const;
  // The same of all sets, and of guards.
  bool HasWork() const;
  // Empty when nothing of that key is wanted.
  std::optional<ProbeState> StateOf(const ProbeKey& key) const;
  void ForEach(ProbeSet set,
               absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const;
  ProbeCounts Count(ProbeSet set) const;
  // Keys and guards that are known, for tests of growth.
  size_t size() const { return entries_.size() + uses_.size() + gates_.size(); }

 private:
  // What is to be done of a key. The first two take something out.
  enum class Work : uint8_t { kRemove, kForget, kReplace, kLook, kAttach, kRetry, kNone };
  static constexpr size_t kQueues = 5;  // those before kRetry
  enum class Phase : uint8_t { kIdle, kAttaching, kReplacing, kLooking, kDetaching };

  struct Entry {
    bool wanted = false;
    WantedProbes probes;
    uint64_t program = 0;  // grows when the process became another program
    bool stands = false;
    uint64_t standing_program = 0;
    ProbePlaces standing;  // or being put in
    bool stood = false;
    int64_t since_ns = 0;
    bool looked = false, needed = false;
    std::string failure;
    int failures = 0;  // in a row
    int64_t next_try_ns = 0;
    bool due = false;  // it is to be tried again
    Phase phase = Phase::kIdle;
    Work work = Work::kNone;
    uint64_t turn = 0;  // in its queue
  };
  using Entries = std::map<ProbeKey, Entry>;
  struct ModuleUse {
    size_t wanted = 0, standing = 0;
    bool guard = false;
  };
  using Waiting = std::set<std::pair<uint64_t, ProbeKey>>;  // by turn

  static ProbeSet SetOf(size_t index) { return static_cast<ProbeSet>(index); }
  static size_t IndexOf(ProbeSet set) { return static_cast<size_t>(set); }
  bool IsPresent(ProbeSet set) const {
    return on_ && presence_[static_cast<size_t>(set)] == Presence::kPresent;
  }
  // Without regard to whether it was looked at.
  bool MayStand(const ProbeKey& key, const Entry& entry) const;
  bool ShouldStand(const ProbeKey& key, const Entry& entry) const;
  Work WorkOf(const ProbeKey& key, const Entry& entry) const;
  Waiting& WaitingFor(ProbeSet set, Work work) {
    return queues_[static_cast<size_t>(set)][static_cast<size_t>(work)];
  }
  const Waiting& WaitingFor(ProbeSet set, Work work) const {
    return queues_[static_cast<size_t>(set)][static_cast<size_t>(work)];
  }
  bool IsFull(ProbeSet set) const {
    return standing_[static_cast<size_t>(set)] >= RulesOf(set).most;
  }
  // Enters that something changed; the entry may be gone then.
  void Update(Entries::iterator at);
  void UpdateSet(ProbeSet set);
  void Forget(Entries::iterator at);
  void MoveDue(int64_t now_ns);
  void SetWanted(const ProbeKey& key, Entry& entry, bool wanted);
  void SetStands(const ProbeKey& key, Entry& entry, bool stands);
  void Enter(const ProbeKey& key, Entry& entry, Work work);
  // Empty when that was the reason before.
  std::optional<std::pair<ProbeKey, std::string>> Fail(const ProbeKey& key, Entry& entry,
                                                       std::string reason, int64_t next_try_ns);
  void UpdateGate(const ProbedModule& where);
  Gate GateOf(const ProbedModule& where, Gate now) const;
  const Entry* Find(const ProbeKey& key) const;
  static ProbeState StateOf(const Entry& entry);

  // Of the sets from `first` to `last`.
  std::optional<ProbeStep> TakeOut(Work work, ProbeSet first, ProbeSet last);
  // What is to be put in, or looked at, next; null: nothing.
  const ProbeKey* Choose();
  ProbeStep Begin(const ProbeKey& key, int64_t now_ns);
  std::optional<ProbeStep> DropGuards();

  const bool at_once_;
  bool on_ = true;
  std::array<Presence, kProbeSets> presence_;
  Entries entries_;
  std::array<std::array<Waiting, kQueues>, kProbeSets> queues_;
  std::set<std::pair<int64_t, ProbeKey>> retries_;  // when
  std::array<size_t, kProbeSets> standing_{};       // or being put in
  std::map<GuardKey, ModuleUse> uses_;
  bool may_drop_ = false;               // guards: there may be some that nobody uses
  std::map<ProbedModule, Gate> gates_;  // that were said
  std::vector<GateChange> changes_;
  std::bitset<kProbeSets> under_way_;  // of the step
  uint64_t turns_ = 0;
  uint64_t put_in_ = 0;       // steps that put something in
  bool forgot_last_ = false;  // the last step took out what was of processes that are gone
  int64_t reserved_until_ns_ = 0;
  std::set<ProbeKey> bursting_;  // of bursts, that are to be present
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_PLAN_H_
