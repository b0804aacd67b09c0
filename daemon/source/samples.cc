#include "daemon/source/samples.h"

namespace profd {
namespace {

Kind KindOf(uint8_t kind) {
  if (kind == PROFD_KIND_ENDED) return Kind::kEnded;
  return kind < PROFD_KIND_COUNT ? Kind{kind} : Kind::kWait;
}

}  // namespace

void AddSamples(std::span<const CounterEntry> counters, ProfileDelta& delta) {
  delta.samples.reserve(delta.samples.size() + counters.size());
  for (const auto& [key, value] : counters) {
    const Reason reason = key.reason < kReasonCount ? Reason{key.reason} : Reason::kOther;
    const Kind kind = KindOf(key.kind);
    delta.samples.push_back({.key = {.thread = ThreadId{key.thread_id},
                                     .stack = StackId{key.stack},
                                     .argument = key.arg0,
                                     .syscall = key.sysno,
                                     .reason = reason,
                                     .kind = kind},
                             .weight = static_cast<int64_t>(value.weight),
                             .ticks = static_cast<int64_t>(value.count)});
  }
}

absl::Status AddSamples(const absl::StatusOr<std::vector<CounterEntry>>& counters,
                        ProfileDelta& delta) {
  if (!counters.ok()) return counters.status();
  AddSamples(std::span<const CounterEntry>(*counters), delta);
  return absl::OkStatus();
}

}  // namespace profd
