// The source `wait`: where threads wait, by visits at random instants (the tick).
#ifndef PROFD_DAEMON_SOURCE_WAIT_H_
#define PROFD_DAEMON_SOURCE_WAIT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/source.h"
#include "daemon/source/tick_schedule.h"
#include "daemon/source/visits.h"
#include "daemon/source/wait_knob.h"

namespace profd {

class WaitSource final : public Source {
 public:
  // `counters`: how many entries the kernel's table of them has. `seed`: of the instants.
  WaitSource(const SourceContext& context, int64_t interval_ns, uint64_t counters, uint64_t seed);

  const char* name() const override { return "wait"; }
  void Detach() override { detached_ = true; }
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  // The first one ends what lies before the first tick: that is a delta of its own, without ticks.
  absl::Status Drain(ProfileDelta& delta) override;
  bool WantsDrain(bool rare) const override;
  int64_t next_ns() const override { return schedule_ ? schedule_->next_ns() : INT64_MAX; }
  // Ticks when it is time to.
  void Step() override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;
  void Publish(CollectorState& state) const override;

 private:
  // Cumulative.
  struct Counts {
    profd_tick_stats kernel{};
    int64_t ticks = 0;
    int64_t missed = 0;
    int64_t idle_ticks = 0;  // at which a thread was in the wait of the tick before
    int64_t cpu_ns = 0;
  };
  Counts Count() const;
  absl::Status Visit();

  const SourceContext context_;
  const int64_t interval_ns_;
  const uint64_t counters_;
  const uint64_t seed_;
  WaitKnob knob_;
  Visits visits_;
  std::unique_ptr<TickSchedule> schedule_;  // null: before the first drain
  bool detached_ = false;
  int64_t ticks_ = 0;
  int64_t cpu_ns_ = 0;
  Counts drained_;
  Counts learned_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAIT_H_
