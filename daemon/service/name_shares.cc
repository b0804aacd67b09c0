#include "daemon/service/name_shares.h"

#include <algorithm>
#include <array>
#include <vector>

#include "daemon/profile/identity.h"
#include "daemon/service/messages.h"

namespace profd {
namespace {

// By NameSource.
using Counts = std::array<double, kNameSourceCount>;

bool IsOfProgram(const NamedFrame& frame) {
  return frame.kind != FrameKind::kKernel && frame.kind != FrameKind::kSynthetic;
}

// The frames of one stack that are the program's.
Counts CountFrames(const NamedStacks& stacks, const NamedStack& stack) {
  Counts counts{};
  for (const uint32_t index : stack.frames) {
    const NamedFrame& frame = stacks.frames()[index];
    if (IsOfProgram(frame)) counts[static_cast<size_t>(frame.found_by)] += 1;
  }
  return counts;
}

// The weight of each stack in the samples of a type.
std::vector<double> WeightOfStacks(const FetchPlan& plan, const MergedProfile& profile,
                                   const SampleTypeInfo& type, const NamedStacks& stacks) {
  std::vector<double> weights(stacks.stacks().size());
  for (const MergedThread& thread : profile.threads) {
    const ProcessId process = ProcessIdOf(*thread.info);
    for (const Sample& sample : thread.samples) {
      if (!type.Covers(sample.key.kind) || !plan.Shows(type, sample.key)) continue;
      weights[stacks.NumberOf(sample.key.stack, process)] +=
          static_cast<double>(std::max<int64_t>(sample.weight, 0));
    }
  }
  return weights;
}

}  // namespace

void FillNameShares(const FetchPlan& plan, const MergedProfile& profile, const NamedStacks& stacks,
                    v1::Profile* out) {
  for (size_t type = 0; type < plan.types.size(); ++type) {
    const std::vector<double> weights = WeightOfStacks(plan, profile, *plan.types[type], stacks);
    Counts divided{};  // a stack's weight between its frames
    Counts touched{};  // a stack's weight for each source in it
    double all = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Counts counts = CountFrames(stacks, stacks.stacks()[i]);
      double frames = 0;
      for (const double count : counts) frames += count;
      if (frames == 0 || weights[i] == 0) continue;
      all += weights[i];
      for (size_t source = 0; source < counts.size(); ++source) {
        divided[source] += weights[i] * counts[source] / frames;
        if (counts[source] > 0) touched[source] += weights[i];
      }
    }
    for (size_t source = 0; source < divided.size(); ++source) {
      if (touched[source] == 0) continue;
      v1::NameShare* share = out->add_name_shares();
      share->set_sample_type(static_cast<uint32_t>(type));
      share->set_source(ToProto(static_cast<NameSource>(source)));
      share->set_share(divided[source] / all);
      share->set_stacks(touched[source] / all);
    }
  }
}

}  // namespace profd
