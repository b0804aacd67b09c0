#include "daemon/service/status_answer.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/capability.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

// Entries in a status: enough to see what is there.
constexpr size_t kMaxStatusBytes = 2 << 20;
constexpr size_t kMaxPath = 1024;
// What a process runs is known two drains after it began, which are 10 s apart at most.
constexpr int64_t kFoundAfter = 20ll * 1'000'000'000;

// Bytes; 0 where it cannot be read.
uint64_t ResidentBytes() {
  const absl::StatusOr<std::string> text = ReadWholeFile("/proc/self/statm", 4096);
  if (!text.ok()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(*text, ' ');
  uint64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Those that are permitted: what is not effective, profd can raise.
std::vector<std::string> Capabilities() {
  std::vector<std::string> names;
  const UniqueCaps caps(cap_get_proc());
  for (cap_value_t cap = 0; cap < cap_max_bits(); cap++) {
    if (!HasCapability(caps, cap, CAP_PERMITTED)) continue;
    const auto free_name = [](char* name) { cap_free(name); };
    const std::unique_ptr<char, decltype(free_name)> name(cap_to_name(cap));
    if (name != nullptr) names.emplace_back(name.get());
  }
  return names;
}

void FillTargets(const CollectorState& state, v1::GetStatusResponse* response) {
  for (const LayerState& layer : state.layers) {
    v1::LayerStatus* out = response->add_layers();
    out->set_name(CleanText(layer.name));
    out->set_on(layer.on);
    out->set_note(CleanText(layer.note));
  }
  for (const TargetState& target : state.targets) {
    v1::TargetStatus* out = response->add_targets();
    out->set_selector(CleanText(target.selector));
    out->mutable_pids()->Add(target.pids.begin(), target.pids.end());
    out->set_threads(target.threads);
    FillTargetCost(target.cost, out->mutable_cost());
  }
  for (const std::string& missing : state.missing) response->add_missing(CleanText(missing));
  for (const ProgramState& program : state.programs) {
    v1::ProgramStatus* out = response->add_programs();
    out->set_name(CleanText(program.name));
    out->set_recursion_misses(program.recursion_misses);
  }
}

void FillAllocators(const CollectorState& state, v1::GetStatusResponse* response) {
  for (const AllocatorUse& use : state.allocators) {
    v1::AllocatorStatus* out = response->add_allocators();
    out->mutable_pids()->Add(use.state.pids.begin(), use.state.pids.end());
    out->set_module(CleanText(use.state.identity.path, kMaxPath));
    out->set_build_id(CleanText(use.state.identity.build_id, 128));
    out->set_allocator(use.state.allocator);
    out->set_version(CleanText(use.state.version, 64));
    out->set_found_by(use.state.found_by);
    out->set_places(static_cast<uint32_t>(use.state.places));
    out->set_wrong_places(static_cast<uint32_t>(use.state.wrong_places));
    out->set_watched(use.state.watched);
    out->set_note(CleanText(use.state.note, kMaxPath));
    FillHeap(use.totals.allocated, out->mutable_allocated());
    FillHeap(use.totals.freed, out->mutable_freed());
    out->set_live_since_ns(use.live_since_wall_ns);
    out->set_live_bytes(use.live_bytes);
    out->set_live_objects(use.live_objects);
    out->set_sample_bytes(use.state.sample_bytes);
    out->set_live_note(CleanText(use.state.live_note, kMaxPath));
  }
}

void FillGovernor(const GovernorState& state, v1::Governor* governor) {
  if (state.budget.share != kNoBudget) {
    governor->set_budget(state.allowance.rate);
    governor->set_share(state.budget.share);
    governor->set_of_targets(state.budget.of_targets);
    governor->set_saved_s(state.allowance.saved);
  }
  governor->set_fixed_cost(state.allowance.fixed);
  governor->set_changes(state.changes);
  for (const KnobState& source : state.sources) {
    v1::GovernedSource* out = governor->add_sources();
    out->set_name(source.name);
    out->set_in_path(source.in_path);
    out->set_level(source.level);
    out->set_given_up(source.given_up);
    out->set_cost(source.cost);
    out->set_whole_cost(source.whole_cost);
  }
}

void FillModules(const CollectorState& state, v1::GetStatusResponse* response) {
  response->set_modules(static_cast<uint32_t>(state.modules.size()));
  response->set_module_slots_in_use(state.module_use.in_use);
  response->set_module_slots(state.module_use.limit);
  response->set_retired_modules(state.module_use.retired);
  size_t bytes = 0;
  for (const ModuleState& module : state.modules) {
    v1::ModuleStatus* out = response->add_module_list();
    out->set_path(CleanText(module.identity.path, kMaxPath));
    out->set_build_id(CleanText(module.identity.build_id, 128));
    out->set_rules(module.rules);
    out->set_note(CleanText(module.note, kMaxPath));
    bytes += out->ByteSizeLong();
    if (bytes > kMaxStatusBytes) return;
  }
}

// Processes that have run for a while and have no allocator that is known.
void FillUnknownAllocators(const ServiceSources& sources, const CollectorState& state,
                           v1::GetStatusResponse* response) {
  if (!state.seeks_all_allocators || state.paused) return;
  std::set<int32_t> known;
  for (const AllocatorUse& use : state.allocators) {
    known.insert(use.state.pids.begin(), use.state.pids.end());
  }
  const int64_t begun_before = BootNs() - kFoundAfter;
  const std::vector<ProcessHistory> unknown = sources.memory->timeline().Select(
      {.begin_ns = MonotonicNs(),
       .end_ns = MonotonicNs() + 1,
       .max_points = 1,
       .matches = [&](const WatchedProcess& process) {
         return !process.ended && process.start_ns < begun_before && !known.contains(process.pid);
       }});
  for (const ProcessHistory& history : unknown) {
    v1::ProcessName* out = response->add_unknown_allocators();
    out->set_pid(history.process.pid);
    out->set_name(CleanText(history.process.name));
  }
}

void FillLineReader(const LineReader& lines, v1::LineReaderStatus* out) {
  const LineReaderStatus status = lines.Status();
  out->set_note(CleanText(status.note));
  out->set_addresses(status.read);
  out->set_failures(status.failures);
  out->set_cpu_ns(status.cpu_ns);
  out->set_rss_bytes(status.rss_bytes);
  out->set_cache_bytes(status.cache_bytes);
}

}  // namespace

void FillStatus(const ServiceSources& sources, const HostInfo& host,
                v1::GetStatusResponse* response) {
  const CollectorState state = sources.collector->State();
  response->set_daemon_version(host.version);
  response->set_kernel_release(host.kernel_release);
  response->set_started_ns(state.started_wall_ns);
  response->set_tick_interval_ns(state.tick_interval_ns);
  response->set_paused(state.paused);
  response->set_switch_entry_ns(state.switch_entry_ns);
  if (const int64_t oldest = sources.store->OldestNs(); oldest != 0) {
    response->set_oldest_ns(oldest + WallOffsetNs());
  }
  FillTargets(state, response);
  FillModules(state, response);
  FillAllocators(state, response);
  FillUnknownAllocators(sources, state, response);
  response->set_threads(state.threads);
  LossCounts losses = state.losses;
  const LossCounts store_losses = sources.store->Losses();
  for (size_t i = 0; i < kLossCount; i++) losses[i] += store_losses[i];
  losses[static_cast<size_t>(Loss::kMemoryDropped)] += sources.memory->timeline().dropped();
  FillLosses(losses, 0, response->mutable_losses());
  FillCost(state.cost, response->mutable_cost());
  response->mutable_cost()->set_duration_ns(MonotonicNs() - state.started_ns);
  FillGovernor(state.governor, response->mutable_governor());
  v1::Memory* memory = response->mutable_memory();
  memory->set_daemon_rss_bytes(ResidentBytes());
  memory->set_kernel_map_bytes(state.kernel_map_bytes);
  memory->set_store_bytes(sources.store->Bytes());
  memory->set_timeline_bytes(sources.memory->timeline().Bytes());
  if (sources.lines != nullptr) FillLineReader(*sources.lines, response->mutable_line_reader());
  for (std::string& name : Capabilities()) response->add_capabilities(std::move(name));
}

}  // namespace profd
