// A source as somebody would add one: voluntary switches by stack, all in this file. Elsewhere it
// takes a line in source_list.cc, a number in enum profd_record_type, and a kind of sample; here it
// borrows a number above those and the kind of waits.
#ifndef PROFD_TESTS_SUPPORT_TOY_SOURCE_H_
#define PROFD_TESTS_SUPPORT_TOY_SOURCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/source/record.h"
#include "daemon/source/source.h"

namespace profd {

inline constexpr uint32_t kToyRecord = PROFD_RECORD_LAST + 1;

// A thread gave up its CPU.
struct ToyRecord {
  uint32_t type = kToyRecord;
  uint32_t lost = 0;  // of the switches before it
  uint64_t thread_id = 0;
  uint64_t stack = 0;
};

// On, or off.
class ToyKnob final : public Knob {
 public:
  const char* name() const override { return "toy"; }
  Payer payer() const override { return Payer::kTarget; }
  int levels() const override { return 2; }
  double CostAt(int level) const override { return level == 0 ? cost_ : 0; }
  std::string GivenUpAt(int level) const override { return level == 0 ? "" : "toy switches"; }
  // What a second's switches take, as a share of one CPU.
  void Learn(double cost) { cost_ = cost; }

 private:
  double cost_ = 0;
};

class ToySource final : public Source {
 public:
  static constexpr int64_t kNsPerSwitch = 1'000'000;

  const char* name() const override { return "toy"; }
  absl::Status Attach() override {
    attached_ = true;
    return attach_status;
  }
  void Detach() override { on_ = false; }
  absl::Status Apply() override {
    on_ = knob_.level() == 0;
    return absl::OkStatus();
  }
  std::vector<uint32_t> records() const override { return {kToyRecord}; }
  absl::Status OnRecord(uint32_t /*type*/, std::span<const uint8_t> bytes) override {
    ASSIGN_OR_RETURN(const auto record, DecodeRecord<ToyRecord>(bytes));
    ++counts_[{ThreadId{record.thread_id}, StackId{record.stack}}];
    ++switches_;
    lost_ += record.lost;
    return absl::OkStatus();
  }
  absl::Status Drain(ProfileDelta& delta) override {
    for (const auto& [key, count] : std::exchange(counts_, {})) {
      delta.samples.push_back(
          {.key = {.thread = key.first, .stack = key.second}, .weight = count, .ticks = count});
    }
    delta.losses[PROFD_LOSS_RING_FULL_EVENT] += std::exchange(lost_, 0);
    return absl::OkStatus();
  }
  void Costs(std::vector<CostRow>& rows) const override {
    rows.push_back({.account = "toy",
                    .payer = Payer::kTarget,
                    .ns = switches_ * kNsPerSwitch,
                    .events = switches_});
  }
  std::vector<Knob*> knobs() override { return {&knob_}; }
  void Learn(const Period& period) override {
    const int64_t before = std::exchange(learned_, switches_);
    if (period.seconds <= 0) return;
    knob_.Learn(static_cast<double>((switches_ - before) * kNsPerSwitch) / 1e9 / period.seconds);
  }
  std::optional<LayerState> Status() const override {
    return LayerState{.name = "toy", .on = on_, .note = on_ ? "" : kShedNote};
  }

  // Of Attach.
  absl::Status attach_status;
  bool attached() const { return attached_; }

 private:
  ToyKnob knob_;
  bool attached_ = false;
  bool on_ = false;
  std::map<std::pair<ThreadId, StackId>, int64_t> counts_;  // since the last drain
  uint64_t lost_ = 0;
  int64_t switches_ = 0;
  int64_t learned_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_TOY_SOURCE_H_
