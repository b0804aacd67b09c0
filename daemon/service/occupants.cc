#include "daemon/service/occupants.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "daemon/base/wrapping.h"
#include "daemon/service/grouping.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMostOccupants = 50;
constexpr double kLargestError = 4e18;  // stays one that can be added up

v1::OccupantKind ToProto(CpuHolder::Kind kind) {
  switch (kind) {
    case CpuHolder::Kind::kUnknown:
      break;
    case CpuHolder::Kind::kProcess:
      return v1::OCCUPANT_KIND_PROCESS;
    case CpuHolder::Kind::kKernel:
      return v1::OCCUPANT_KIND_KERNEL;
    case CpuHolder::Kind::kIdle:
      return v1::OCCUPANT_KIND_IDLE;
    case CpuHolder::Kind::kQuota:
      return v1::OCCUPANT_KIND_QUOTA;
  }
  return v1::OCCUPANT_KIND_UNSPECIFIED;
}

}  // namespace

void Occupants::Add(const EstimatedThread& waits) {
  for (const EstimatedSample& wait : waits.samples) {
    if (wait.key.reason != Reason::kRunQueue) continue;
    const CpuHolder& holder = objects_->HolderOf(ObjectOf(wait.key));
    const bool kernel = holder.kind == CpuHolder::Kind::kKernel;
    Use& use =
        uses_[{holder.kind, kernel ? ThreadGroup(WithoutWorkerNumber(holder.name)) : holder.name,
               ThreadGroup(holder.thread)}];
    // The kernel tells few new processes a second: PROFD_OCCUPANTS_A_SECOND.
    if (holder.pid != 0) use.pids.insert(holder.pid);
    const auto error = static_cast<double>(wait.error);
    use.ns = WrappingAdd(use.ns, wait.amount);
    use.variance += error * error;
    use.ticks = WrappingAdd(use.ticks, wait.ticks);
  }
}

void Occupants::Fill(v1::Profile* part) const {
  std::vector<const decltype(uses_)::value_type*> uses;
  for (const auto& use : uses_) {
    if (use.second.ns != 0) uses.push_back(&use);
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const auto* a, const auto* b) { return a->second.ns > b->second.ns; });
  int64_t left_out_ns = 0;
  for (size_t i = 0; i < uses.size(); i++) {
    const auto& [key, use] = *uses[i];
    if (i >= kMostOccupants) {
      left_out_ns = WrappingAdd(left_out_ns, use.ns);
      continue;
    }
    v1::Occupant* out = part->add_occupants();
    out->set_kind(ToProto(std::get<0>(key)));
    out->set_name(std::get<1>(key));
    out->set_thread(std::get<2>(key));
    if (use.pids.size() == 1) out->set_pid(*use.pids.begin());
    out->set_processes(static_cast<uint32_t>(use.pids.size()));
    out->set_time_ns(use.ns);
    out->set_error_ns(std::llround(std::min(std::sqrt(use.variance), kLargestError)));
    out->set_samples(Count(use.ticks));
  }
  if (uses.size() <= kMostOccupants) return;
  part->set_occupants_left_out(uses.size() - kMostOccupants);
  part->set_occupants_left_out_ns(left_out_ns);
}

}  // namespace profd
