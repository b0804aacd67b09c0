#include "daemon/collect/publisher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/source/off.h"

namespace profd {
namespace {

// The kernel is asked about each map.
constexpr int64_t kMapBytesInterval = 5'000'000'000;

}  // namespace

CollectorState Publisher::Publish(const Totals& totals, Phase phase) {
  CollectorState state;
  state.started_wall_ns = started_wall_ns_;
  state.started_ns = started_ns_;
  state.missing = missing_;
  state.paused = phase == Phase::kPaused;
  state.losses = totals.losses;
  state.cost = totals.cost;
  for (const auto& source : sources_->all) {
    if (std::optional<LayerState> layer = source->Status()) {
      const bool never =
          layer->note == kDisabledNote || dynamic_cast<const OffSource*>(source.get()) != nullptr;
      if (phase == Phase::kStarting && !layer->on && !never) layer->note = kStartingNote;
      state.layers.push_back(*std::move(layer));
    }
    source->Publish(state);
  }
  PublishTargets(totals.cost, state);
  // Of some, if a layer that would look for them is off.
  const auto on = [](const LayerState& layer) {
    return (layer.name != "heap" && layer.name != "bursts") || layer.note != kDisabledNote;
  };
  state.seeks_all_allocators = std::all_of(state.layers.begin(), state.layers.end(), on);
  state.governor = steering_->State();
  state.threads = static_cast<uint32_t>(sources_->threads->accounts().live_threads());
  if (const int64_t now = clock_->MonotonicNs(); now >= next_map_bytes_ns_) {
    map_bytes_ = kernel_->MapBytes(state.threads, state.heap_threads);
    next_map_bytes_ns_ = now + kMapBytesInterval;
  }
  state.kernel_map_bytes = map_bytes_;
  for (const ProgramMisses& program : totals.misses) {
    state.programs.push_back({program.name, program.recursion_misses});
  }
  return state;
}

void Publisher::PublishTargets(const CollectorCost& cost, CollectorState& state) const {
  if (targets_->everything()) {
    state.targets.push_back({.selector = "every process", .pids = {}, .threads = 0, .cost = {}});
  }
  for (const Selector& selector : targets_->selectors()) {
    state.targets.push_back({.selector = selector.text(), .pids = {}, .threads = 0, .cost = {}});
  }
  for (const Accounts::TargetThreads& entry : sources_->threads->accounts().ByTarget()) {
    if (entry.target == 0 || entry.target > state.targets.size()) continue;
    TargetState& target = state.targets[entry.target - 1];
    target.pids.push_back(entry.pid);
    target.threads += entry.threads;
  }
  for (const TargetCost& part : cost.targets) {
    if (part.target != 0 && part.target <= state.targets.size()) {
      state.targets[part.target - 1].cost = part;
    }
  }
}

}  // namespace profd
