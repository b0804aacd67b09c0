// The state of allocators, for status.
#include <algorithm>
#include <string>

#include "daemon/probes/target_probes.h"

namespace profd {
namespace {

constexpr char kNothingTold[] =
    "no object was told of yet: whether it samples is for the program to say";
constexpr char kLeftToTold[] =
    "the process tells of the objects that it samples (otel_memory): these are watched instead";

void NoteFirst(const std::string& note, std::string& notes) {
  if (notes.empty()) notes = note;
}

}  // namespace

std::vector<AllocatorState> TargetProbes::States() const {
  absl::MutexLock lock(&mutex_);
  std::map<WatchId, std::set<int32_t>> jemallocs, tellers;
  for (const auto& [where, uses] : allocators_) {
    if (uses.jemalloc) jemallocs[where.second].insert(where.first);
    if (uses.told) tellers[where.second].insert(where.first);
  }
  std::vector<AllocatorState> list;
  for (const auto& [module, pids] : jemallocs) list.push_back(DescribeJemalloc(module, pids));
  for (const auto& [module, pids] : tellers) list.push_back(DescribeTold(module, pids));
  for (AllocatorState& state : list) {
    if (const auto file = modules_->IdentityOf(state.module)) state.identity = *file;
  }
  return list;
}

AllocatorState TargetProbes::DescribeJemalloc(WatchId module, const std::set<int32_t>& pids) const {
  AllocatorState state;
  state.module = module;
  state.allocator = "jemalloc";
  state.pids.assign(pids.begin(), pids.end());
  state.watched = true;
  for (const int32_t pid : pids) {
    const ProbedModule where(pid, module);
    const auto events = reconciler_.StateOf({ProbeSet::kEvents, pid, module});
    const auto slow = reconciler_.StateOf({ProbeSet::kSlowPaths, pid, module});
    state.watched = state.watched && events && events->stood;
    state.slow_paths = state.slow_paths || (slow && slow->stood);
    if (heard_.contains(pid)) NoteFirst(kLeftToTold, state.note);
    if (events && !events->stood) NoteFirst(events->failure, state.note);
    NoteFirst(live_.NoteOf(where), state.live_note);
    if (const std::optional<LiveSampling> source = live_.SourceOf(where)) {
      state.live_since_ns = std::max(state.live_since_ns, source->since_ns);
      state.sample_bytes = std::max(state.sample_bytes, source->sample_bytes);
    }
  }
  if (const auto info = modules_->AllocatorIn(module)) {
    state.version = info->version;
    state.found_by = info->found_by;
  }
  events_.Describe(module, state);
  return state;
}

AllocatorState TargetProbes::DescribeTold(WatchId module, const std::set<int32_t>& pids) const {
  AllocatorState state;
  state.module = module;
  state.allocator = "otel_memory";
  state.told = true;
  state.pids.assign(pids.begin(), pids.end());
  state.watched = true;
  for (const int32_t pid : pids) {
    const std::optional<ProbeState> told = told_.StateOf({pid, module});
    state.watched = state.watched && told && told->stood;
    if (told) state.live_since_ns = std::max(state.live_since_ns, told->since_ns);
    if (told) NoteFirst(told->failure, state.note);
    if (!heard_.contains(pid)) NoteFirst(kNothingTold, state.note);
  }
  if (const auto info = modules_->OtelMemoryIn(module)) {
    if (!info->alloc.empty()) state.found_by = "USDT";
    if (!info->note.empty()) state.note = info->note;
  }
  return state;
}

}  // namespace profd
