// The source `wait`: where threads wait, by visits at random instants (the tick).
#ifndef PROFD_DAEMON_SOURCE_WAIT_H_
#define PROFD_DAEMON_SOURCE_WAIT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/source/context.h"
#include "daemon/source/sampler.h"
#include "daemon/source/source.h"
#include "daemon/source/wait_knob.h"

namespace profd {

// What the drainer's thread does for the sampler: gives it orders, and takes what it found.
class WaitSource final : public Source {
 public:
  // `counters`: how many samples by thread and wait are kept between drains. `seed`: of the
  // instants.
  WaitSource(const SourceContext& context, int64_t interval_ns, uint64_t counters, uint64_t seed);

  // Somebody has to call its Tick.
  Sampler& sampler() { return sampler_; }

  const char* name() const override { return "wait"; }
  void Detach() override;
  absl::Status Apply() override;
  std::vector<uint32_t> records() const override;
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override;
  // The first one ends what lies before the first tick: that is a delta of its own, without ticks.
  absl::Status Drain(ProfileDelta& delta) override;
  bool WantsDrain(bool rare) const override;
  void Costs(std::vector<CostRow>& rows) const override;
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override;
  std::optional<LayerState> Status() const override;
  void Publish(CollectorState& state) const override;

 private:
  // Cumulative.
  struct Counts {
    profd_tick_stats kernel{};
    Sampler::Counts sampler;
  };
  Counts Count(const Sampler::Counts& sampler) const;

  const SourceContext context_;
  WaitKnob knob_;
  Sampler sampler_;
  bool begun_ = false;
  bool detached_ = false;
  std::vector<Sampler::Known> known_;  // told since the last drain
  std::vector<CounterEntry> samples_;  // kept for its memory
  Counts drained_;
  Counts learned_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_WAIT_H_
