// Decides what to attach and detach, and in which order: the difference between the probes that are
// wanted and those that are attached. It has no thread, clock or kernel.
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
  std::vector<ProbeKey> keys;  // one; several with kDetach
  ProbePlaces places;          // of kAttach and kReplace
  std::vector<GuardKey> guards;
};

struct GateChange {
  ProbedModule where;
  Gate gate = Gate::kUnknown;
};

// How many processes of a set there are, and in how many it could be attached.
struct ProbeCounts {
  size_t wanted = 0;
  size_t stood = 0;
  std::string failure;  // in one of the others
};

// Not thread-safe. Steps are made one at a time: Next, then Done.
class ProbePlan {
 public:
  // Keys detached in one step. The kernel waits for running programs at each link; detached in
  // parallel, the waits overlap.
  static constexpr size_t kRemovedTogether = 32;
  // A failure is retried after this time, then after twice as long each time, up to four minutes.
  static constexpr int64_t kFirstRetryNs = 1'000'000'000;
  static constexpr int kMostDoublings = 8;
  // During a burst nothing else is begun, so that its probes are detached without delay, but for no
  // longer than this.
  static constexpr int64_t kMostReservedNs = 250'000'000;

  // `at_once`: the probes of a key are attached by one call of the kernel, not one by one.
  explicit ProbePlan(bool at_once) : at_once_(at_once) { presence_.fill(Presence::kPresent); }

  // Sets the wanted probes of a key. If the places changed, attached probes are replaced. False if
  // nothing changed.
  bool Want(const ProbeKey& key, WantedProbes wanted);
  void Unwant(const ProbeKey& key);
  // Nothing is wanted in the process any more: it has exited or executed another program. Attached
  // probes belong to the old program and are detached.
  void Forget(int32_t pid);
  // Forgets all processes but these.
  void KeepOnly(const std::set<int32_t>& pids);
  // Attaches the probes of one key, or detaches them, while they stay wanted.
  void SetPresent(const ProbeKey& key, bool present, int64_t now_ns);
  // The same for a whole set, and for everything. False if nothing changed.
  bool SetPresence(ProbeSet set, Presence presence);
  bool SetOn(bool on);
  // Calls ProbeHands::Look again for the keys of a set.
  void LookAgain(ProbeSet set);

  // Begins the next step. Empty if there is none or one is under way.
  std::optional<ProbeStep> Next(int64_t now_ns);
  // Ends a step. Detach and DropGuards cannot fail. Returns a failure that is new.
  std::optional<std::pair<ProbeKey, std::string>> Done(const ProbeStep& step,
                                                       const absl::Status& status, int64_t now_ns);
  // When the next step is due if nothing changes; INT64_MAX: never.
  int64_t next_ns() const;
  // Gate changes since the last call, in order. Apply them after each call above, before a step.
  std::vector<GateChange> TakeGateChanges() { return std::exchange(changes_, {}); }

  // A step of the set is due or under way.
  bool HasWork(ProbeSet set) const;
  // The same for all sets and for guards.
  bool HasWork() const;
  // Empty if the key is not wanted.
  std::optional<ProbeState> StateOf(const ProbeKey& key) const;
  void ForEach(ProbeSet set,
               absl::FunctionRef<void(const ProbeKey& key, const ProbeState& state)> visit) const;
  ProbeCounts Count(ProbeSet set) const;
  // Number of entries, for tests of growth.
  size_t size() const { return entries_.size() + uses_.size() + gates_.size(); }

 private:
  // What is due for a key.
  enum class Work : uint8_t { kRemove, kForget, kReplace, kLook, kAttach, kRetry, kNone };
  static constexpr size_t kQueues = 5;  // one for each before kRetry
  enum class Phase : uint8_t { kIdle, kAttaching, kReplacing, kLooking, kDetaching };

  struct Entry {
    bool wanted = false;
    WantedProbes probes;
    uint64_t program = 0;  // incremented by Forget
    bool stands = false;
    uint64_t standing_program = 0;
    ProbePlaces standing;  // the attached ones
    bool stood = false;
    int64_t since_ns = 0;
    bool looked = false, needed = false;
    std::string failure;
    int failures = 0;  // in a row
    int64_t next_try_ns = 0;
    bool due = false;  // next_try_ns has passed
    Phase phase = Phase::kIdle;
    Work work = Work::kNone;
    uint64_t turn = 0;  // position in its queue
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
  // ShouldStand without the result of Look.
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
  // Call after each change of an entry. May erase the entry.
  void Update(Entries::iterator at);
  void UpdateSet(ProbeSet set);
  void Forget(Entries::iterator at);
  void MoveDue(int64_t now_ns);
  void SetWanted(const ProbeKey& key, Entry& entry, bool wanted);
  void SetStands(const ProbeKey& key, Entry& entry, bool stands);
  void Enter(const ProbeKey& key, Entry& entry, Work work);
  // Returns the failure if the reason is new.
  std::optional<std::pair<ProbeKey, std::string>> Fail(const ProbeKey& key, Entry& entry,
                                                       std::string reason, int64_t next_try_ns);
  void UpdateGate(const ProbedModule& where);
  Gate GateOf(const ProbedModule& where, Gate now) const;
  const Entry* Find(const ProbeKey& key) const;
  static ProbeState StateOf(const Entry& entry);

  // Begins to detach keys of the sets from `first` to `last`.
  std::optional<ProbeStep> TakeOut(Work work, ProbeSet first, ProbeSet last);
  // The key to attach, replace or look at next; null if there is none.
  const ProbeKey* Choose();
  ProbeStep Begin(const ProbeKey& key, int64_t now_ns);
  std::optional<ProbeStep> DropGuards();

  const bool at_once_;
  bool on_ = true;
  std::array<Presence, kProbeSets> presence_;
  Entries entries_;
  std::array<std::array<Waiting, kQueues>, kProbeSets> queues_;
  std::set<std::pair<int64_t, ProbeKey>> retries_;  // by time
  std::array<size_t, kProbeSets> standing_{};       // attached keys
  std::map<GuardKey, ModuleUse> uses_;
  bool may_drop_ = false;               // some guard may be unused
  std::map<ProbedModule, Gate> gates_;  // other than kUnknown
  std::vector<GateChange> changes_;
  std::bitset<kProbeSets> under_way_;  // sets of the step
  uint64_t turns_ = 0;
  uint64_t put_in_ = 0;       // steps begun by Begin
  bool forgot_last_ = false;  // the last step detached probes of processes that are gone
  int64_t reserved_until_ns_ = 0;
  std::set<ProbeKey> bursting_;  // keys of bursts that are present
};

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_PLAN_H_
