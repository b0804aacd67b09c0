// The interface of a source of data: switches, waits, faults, allocators ... The collector knows
// sources only through it. docs/architecture.md says how to add one.
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

// A row of the cost table: the cost of one account to its payer, since start.
struct CostRow {
  const char* account = "";  // "switch", "tick", "jemalloc" ...
  Payer payer = Payer::kTarget;
  uint32_t target = 0;  // index of its selector, plus one; 0: all targets together
  int64_t ns = 0;
  int64_t events = 0;     // that caused the cost
  bool planned = false;   // profd chooses when it occurs, whatever the load: never an overrun
  bool governed = false;  // for the daemon's costs: a knob controls it
};

// The time between two steps of the governor.
struct Period {
  double seconds = 0;           // 0: a pause; nothing is learned from its cost
  int64_t drains_for_tick = 0;  // CPU time, ns, that drains spent on the results of visits
  Allowance allowance = {};     // what all sources together may cost from now on
};

// The collector's thread calls all members: first Attach, then Apply, Step, OnRecord, Drain and the
// rest repeatedly, with Detach and Apply around each pause. Sources are independent, so their order
// in the list (source_list.cc) matters only where the list says so.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // The noun that names everything of this source: its files and its account.
  virtual const char* name() const = 0;

  // Prepares the source; once, before there are targets. On failure only this source is lost.
  // Status shows the message, which says what is missing and how to get it.
  virtual absl::Status Attach() { return absl::OkStatus(); }
  // Measures what takes tenths of a second, such as the cost of a program; once, after Attach and
  // before the first slice begins. The files of the targets are read meanwhile.
  virtual void Calibrate() {}
  // Removes everything from the targets' path until the next Apply.
  virtual void Detach() {}
  // Applies the levels of the knobs.
  virtual absl::Status Apply() { return absl::OkStatus(); }

  // The record types (enum profd_record_type) that it handles. Several sources may share a type.
  virtual std::vector<uint32_t> records() const { return {}; }
  // Handles a record of such a type. InvalidArgument for a malformed one.
  virtual absl::Status OnRecord(uint32_t /*type*/, std::span<const uint8_t> /*bytes*/) {
    return absl::OkStatus();
  }

  // Adds the data and losses since the last drain. Data that was taken out of the kernel goes into
  // `delta` even on error; the error is logged and counted.
  virtual absl::Status Drain(ProfileDelta& /*delta*/) { return absl::OkStatus(); }
  // The processes of all targets, as they are at the end of a drain.
  virtual void OnProcesses(const std::set<int32_t>& /*pids*/) {}
  // Whether so much data is waiting that the next drain should come at once. `rare`: the next drain
  // is more than a second away.
  virtual bool WantsDrain(bool /*rare*/) const { return false; }

  // When Step is due (monotonic), and the work between drains. Step may be called earlier.
  virtual int64_t next_ns() const { return INT64_MAX; }
  virtual void Step() {}

  // Adds its rows, cumulative since start.
  virtual void Costs(std::vector<CostRow>& /*rows*/) const {}
  // The knobs that the governor can turn.
  virtual std::vector<Knob*> knobs() { return {}; }
  // Teaches the knobs the load since the last call.
  virtual void Learn(const Period& /*period*/) {}

  // On or off, why, and how to change that; none for a source that is always on.
  virtual std::optional<LayerState> Status() const { return std::nullopt; }
  // Adds the rest of its status. Losses are in `state`.
  virtual void Publish(CollectorState& /*state*/) const {}
};

// Status notes that several sources use.
inline constexpr char kDisabledNote[] = "disabled by --disable";
inline constexpr char kShedNote[] = "switched off by the governor, to keep the budget";
inline constexpr char kStartingNote[] = "begins when the unwind rules of the targets are read";
inline constexpr char kPausedNote[] = "paused; send SIGUSR2 to profd to resume";

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SOURCE_H_
