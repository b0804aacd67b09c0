// One shape for everything that profd learns from: switches, waits, faults, allocators ... The
// collector knows sources by this alone; docs/architecture.md tells how to add one.
#ifndef PROFD_DAEMON_SOURCE_SOURCE_H_
#define PROFD_DAEMON_SOURCE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/govern/budget.h"
#include "daemon/govern/knob.h"
#include "daemon/profile/profile.h"
#include "daemon/source/state.h"

namespace profd {

// A row of the cost table: what one account has cost its payer, since start.
struct CostRow {
  const char* account = "";  // "switch", "tick", "jemalloc" ...
  Payer payer = Payer::kTarget;
  uint32_t target = 0;  // index of its selector, plus one; 0: of all targets together
  int64_t ns = 0;
  int64_t events = 0;     // that this was spent on
  bool planned = false;   // it comes when profd chose it to, whatever the load: never an overrun
  bool governed = false;  // of the daemon's: there is a knob for it
};

// What lies between two steps of the governor.
struct Period {
  double seconds = 0;           // 0: a pause; what it cost is not to be learned
  int64_t drains_for_tick = 0;  // CPU time, ns, that drains took for what visits had put together
  Allowance allowance = {};     // what all sources together may cost from here on
};

// All members are called by the collector's thread, in this order: Attach, then Apply, Step,
// OnRecord, Drain and the rest in turn, with Detach and Apply around each pause. A source is told
// nothing of others, so their order in the list (source_list.cc) matters only where it says so.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // The noun by which everything of this source is called: its files and its account.
  virtual const char* name() const = 0;

  // Gets ready, and measures what its programs will cost; once, before there are targets. When it
  // fails only this source is lost: status shows the message, which says what is missing and how to
  // get it.
  virtual absl::Status Attach() { return absl::OkStatus(); }
  // Takes everything out of the targets' path, until the next Apply.
  virtual void Detach() {}
  // Brings the source to what its knobs say.
  virtual absl::Status Apply() { return absl::OkStatus(); }

  // The types of records (enum profd_record_type) that it wants. Several sources may want the same.
  virtual std::vector<uint32_t> records() const { return {}; }
  // Takes up a record of such a type. InvalidArgument: it cannot be one.
  virtual absl::Status OnRecord(uint32_t /*type*/, std::span<const uint8_t> /*bytes*/) {
    return absl::OkStatus();
  }

  // Adds what was found since the last drain, with what was lost. What was taken out of the kernel
  // goes into `delta` also when there is an error, which is logged and counted.
  virtual absl::Status Drain(ProfileDelta& /*delta*/) { return absl::OkStatus(); }
  // The processes of all targets, as they are at the end of a drain.
  virtual void OnProcesses(const std::set<int32_t>& /*pids*/) {}
  // So much is waiting that the next drain should come at once. `rare`: it would come later than in
  // a second.
  virtual bool WantsDrain(bool /*rare*/) const { return false; }

  // When Step is due (monotonic), and what is to be done between drains. It may come earlier.
  virtual int64_t next_ns() const { return INT64_MAX; }
  virtual void Step() {}

  // Adds its rows, cumulative since start.
  virtual void Costs(std::vector<CostRow>& /*rows*/) const {}
  // What the governor may turn.
  virtual std::vector<Knob*> knobs() { return {}; }
  // Has its knobs learn what the load was since the last call.
  virtual void Learn(const Period& /*period*/) {}

  // On or off, why, and how to change that; none for one that is always on.
  virtual std::optional<LayerState> Status() const { return std::nullopt; }
  // Adds the rest of what status tells of it. Losses are in `state`.
  virtual void Publish(CollectorState& /*state*/) const {}
};

// Notes for status that several sources give.
inline constexpr char kDisabledNote[] = "disabled by --disable";
inline constexpr char kShedNote[] = "shed by the governor, to keep the budget";
inline constexpr char kPausedNote[] = "paused; SIGUSR2 to profd resumes";

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SOURCE_H_
