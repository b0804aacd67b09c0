#include "daemon/service/service.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/capability.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/service/allocation_sites.h"
#include "daemon/service/estimates.h"
#include "daemon/service/matching.h"
#include "daemon/service/memory_answer.h"
#include "daemon/service/messages.h"
#include "daemon/service/profile_stream.h"
#include "daemon/service/stacks_answer.h"
#include "daemon/service/text.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

constexpr size_t kMaxFetches = 4;
constexpr size_t kMaxStatusQueue = 64;
constexpr int64_t kFetchPatienceNs = 60ll * 1'000'000'000;
constexpr int64_t kDrainPatienceNs = 10ll * 1'000'000'000;
// Entries in a status: enough to see what is there.
constexpr size_t kMaxStatusBytes = 2 << 20;
constexpr size_t kMaxPath = 1024;
// An answer of this size leaves much free heap behind.
constexpr size_t kTrimAboveStacks = 10'000;
// What a process runs is known two drains after it began, which are 5 s apart at most.
constexpr int64_t kFoundAfter = 10ll * 1'000'000'000;

grpc::Status TooManyFetches() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat(kMaxFetches, " fetches are running already; try again in a moment")};
}

grpc::Status Stopping() { return {grpc::StatusCode::UNAVAILABLE, "profd is stopping"}; }

grpc::Status ToGrpc(const absl::Status& status) {
  // The canonical codes are the same numbers.
  return {static_cast<grpc::StatusCode>(status.code()), CleanText(std::string(status.message()))};
}

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

}  // namespace

bool FetchSlots::Enter(grpc::ServerContextBase* context, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  if (running_.size() < limit_) {
    running_.push_back({context, now_ns});
    return true;
  }
  // The context lives until it leaves, which needs the lock.
  if (now_ns - running_.front().since_ns > patience_ns_) running_.front().context->TryCancel();
  return false;
}

void FetchSlots::Leave(grpc::ServerContextBase* context) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(running_, [&](const Running& r) { return r.context == context; });
}

ProfilerService::ProfilerService(ServiceSources sources)
    : sources_(std::move(sources)),
      host_(ThisHost()),
      names_(sources_.modules, sources_.kallsyms, sources_.debug_directories, "/proc",
             sources_.lines),
      slots_(kMaxFetches, kFetchPatienceNs),
      status_pool_(1, kMaxStatusQueue),
      pool_(kMaxFetches, kMaxFetches) {}

grpc::ServerWriteReactor<v1::Profile>* ProfilerService::Fetch(grpc::CallbackServerContext* context,
                                                              const v1::FetchRequest* request) {
  return Stream(context, [this, request](const SendPart& send) { return Answer(*request, send); });
}

grpc::ServerWriteReactor<v1::Profile>* ProfilerService::GetStacks(
    grpc::CallbackServerContext* context, const v1::GetStacksRequest* request) {
  return Stream(context,
                [this, request](const SendPart& send) { return AnswerStacks(*request, send); });
}

grpc::ServerWriteReactor<v1::Profile>* ProfilerService::Stream(
    grpc::CallbackServerContext* context,
    const std::function<absl::Status(const SendPart&)>& answer) {
  auto* const stream = new ProfileStream();
  const auto answer_in_parts = [context, stream, answer] {
    return answer(
        [&](const v1::Profile& part) { return !context->IsCancelled() && stream->Send(part); });
  };
  AnswerOnPool(context, answer_in_parts,
               [stream](const grpc::Status& status) { stream->Finish(status); });
  return stream;
}

void ProfilerService::AnswerOnPool(grpc::CallbackServerContext* context,
                                   const std::function<absl::Status()>& answer,
                                   const std::function<void(const grpc::Status&)>& finish) {
  if (!slots_.Enter(context, MonotonicNs())) {
    finish(TooManyFetches());
    return;
  }
  const bool taken = pool_.Add([this, context, answer, finish](bool stopping) {
    grpc::Status status = Stopping();
    if (!stopping) {
      const CpuUse::Scope scope(&sources_.cpu_use->answers);
      status = ToGrpc(answer());
    }
    slots_.Leave(context);
    finish(status);
  });
  if (taken) return;
  slots_.Leave(context);
  finish(TooManyFetches());
}

absl::Status ProfilerService::Answer(const v1::FetchRequest& request, const SendPart& send) {
  const int64_t wall_offset = WallOffsetNs();
  ASSIGN_OR_RETURN(FetchPlan plan, ParseFetch(request, MonotonicNs(), wall_offset));
  RETURN_IF_ERROR(Drain(plan.baseline ? std::max(plan.window.end_ns, plan.baseline->window.end_ns)
                                      : plan.window.end_ns));
  // The seconds that the drain just brought in belong to the answer.
  if (plan.to_now) {
    sources_.memory->Refresh();
    plan.window.end_ns = MonotonicNs();
  }
  RETURN_IF_ERROR(AnswerWindow(plan, plan, 0, request.targets(), wall_offset, send));
  if (!plan.baseline) return absl::OkStatus();
  return AnswerWindow(plan, *plan.baseline, 1, request.targets(), wall_offset, send);
}

absl::Status ProfilerService::AnswerWindow(const FetchPlan& plan, const RequestScope& scope,
                                           uint32_t window, const Texts& asked, int64_t wall_offset,
                                           const SendPart& send) {
  ASSIGN_OR_RETURN(MergedProfile profile,
                   Merge(scope, asked, plan.NeedsLevels(),
                         [&](const ThreadInfo& info) { return plan.MatchesThread(info); }));
  ScaleBursts(&profile);
  const std::vector<ProcessHistory> processes = Histories(scope, 1);
  const v1::MemoryLine memory = MemoryLineOf(processes, profile, plan.thread == nullptr);
  const bool sent = SendAnswer(plan,
                               {.host = host_,
                                .profile = profile,
                                .memory = memory,
                                .processes = processes,
                                .wall_offset_ns = wall_offset,
                                .names = &names_},
                               window, send);
  const bool large = profile.stacks.size() + profile.threads.size() > kTrimAboveStacks;
  profile = {};
  if (large) malloc_trim(0);
  return sent ? absl::OkStatus() : absl::CancelledError("the client went away");
}

absl::Status ProfilerService::Drain(int64_t window_end_ns) const {
  const absl::Status status =
      sources_.collector->DrainTo(window_end_ns, MonotonicNs() + kDrainPatienceNs);
  // What is there by then is an answer, too.
  return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
}

std::vector<ProcessHistory> ProfilerService::Histories(const RequestScope& scope,
                                                       size_t max_points) const {
  return sources_.memory->timeline().Select({.begin_ns = scope.window.begin_ns,
                                             .end_ns = scope.window.end_ns,
                                             .max_points = max_points,
                                             .matches = [&](const WatchedProcess& process) {
                                               return scope.MatchesTarget(process.pid,
                                                                          process.name);
                                             }});
}

grpc::ServerUnaryReactor* ProfilerService::GetMemory(grpc::CallbackServerContext* context,
                                                     const v1::GetMemoryRequest* request,
                                                     v1::GetMemoryResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  AnswerOnPool(
      context, [this, request, response] { return AnswerMemory(*request, response); },
      [reactor](const grpc::Status& status) { reactor->Finish(status); });
  return reactor;
}

absl::Status ProfilerService::AnswerMemory(const v1::GetMemoryRequest& request,
                                           v1::GetMemoryResponse* response) {
  const int64_t wall_offset = WallOffsetNs();
  ASSIGN_OR_RETURN(MemoryPlan scope, ParseMemory(request, MonotonicNs(), wall_offset));
  RETURN_IF_ERROR(Drain(scope.window.end_ns));
  if (scope.to_now) {
    sources_.memory->Refresh();
    scope.window.end_ns = MonotonicNs();
  }
  std::vector<ProcessHistory> histories = Histories(scope, scope.max_points);
  absl::StatusOr<MergedProfile> profile =
      Merge(scope, request.targets(), true, [](const ThreadInfo&) { return true; });
  // What the timeline knows is an answer without a profile, too.
  if (absl::IsNotFound(profile.status()) && !histories.empty()) profile = MergedProfile();
  RETURN_IF_ERROR(profile.status());

  const CollectorState state = sources_.collector->State();
  response->set_hostname(host_.hostname);
  response->set_begin_ns(scope.window.begin_ns + wall_offset);
  response->set_end_ns(scope.window.end_ns + wall_offset);
  response->set_heap_ns(profile->heap_ns);
  const std::vector<ProcessId> listed =
      FillProcesses(std::move(histories), *profile, state.allocators, wall_offset, response);
  if (scope.max_sites > 0) {
    ScaleBursts(&*profile);
    FillSites(*profile, listed, scope.max_sites, &names_, response);
  }
  if (const size_t unwatched = sources_.memory->unwatched(); unwatched > 0) {
    response->set_processes_unwatched(static_cast<uint32_t>(unwatched));
    response->add_notes(absl::StrCat("the memory of ", unwatched,
                                     " smaller processes is not watched: there are too many; "
                                     "start profd with --target for fewer"));
  }
  if (state.paused) response->add_notes("profd is paused: nothing is read until it gets SIGUSR2");
  const MemoryTimeline& timeline = sources_.memory->timeline();
  if (timeline.dropped() > 0 && timeline.dropped_until_ns() >= scope.window.begin_ns) {
    LossCounts losses{};
    losses[static_cast<size_t>(Loss::kMemoryDropped)] = timeline.dropped();
    FillLosses(losses, 0, response->mutable_losses());
  }
  return absl::OkStatus();
}

absl::StatusOr<MergedProfile> ProfilerService::Merge(
    const RequestScope& scope, const Texts& asked, bool levels,
    const std::function<bool(const ThreadInfo&)>& keep) const {
  Matching matching(scope);
  const auto keep_matched = [&](const ThreadInfo& info) {
    return matching.Matches(info) && keep(info);
  };
  ASSIGN_OR_RETURN(MergedProfile profile,
                   levels ? sources_.store->MergeLevels(scope.window, keep_matched)
                          : sources_.store->Merge(scope.window, keep_matched));
  RETURN_IF_ERROR(matching.Outcome(asked, "in this window"));
  return profile;
}

absl::Status ProfilerService::AnswerStacks(const v1::GetStacksRequest& request,
                                           const SendPart& send) {
  ASSIGN_OR_RETURN(const RequestScope plan, ParseStacks(request));
  Matching matching(plan);
  ASSIGN_OR_RETURN(const Look look, sources_.collector->TakeLook([&](const ThreadInfo& info) {
    return matching.Matches(info) && plan.MatchesThread(info);
  }));
  RETURN_IF_ERROR(matching.Outcome(request.targets(), "now"));
  const bool sent = SendStacks({.host = host_,
                                .look = look,
                                .wall_offset_ns = WallOffsetNs(),
                                .names = &names_,
                                .proc = sources_.proc,
                                .lines = ReadLineWish(request)},
                               send);
  return sent ? absl::OkStatus() : absl::CancelledError("the client went away");
}

void ProfilerService::FillUnknownAllocators(const CollectorState& state,
                                            v1::GetStatusResponse* response) const {
  if (!state.seeks_all_allocators || state.paused) return;
  std::set<int32_t> known;
  for (const AllocatorUse& use : state.allocators) {
    known.insert(use.state.pids.begin(), use.state.pids.end());
  }
  const int64_t begun_before = BootNs() - kFoundAfter;
  const std::vector<ProcessHistory> unknown = sources_.memory->timeline().Select(
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

grpc::ServerUnaryReactor* ProfilerService::GetStatus(grpc::CallbackServerContext* context,
                                                     const v1::GetStatusRequest* /*request*/,
                                                     v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const bool taken = status_pool_.Add([this, response, reactor](bool stopping) {
    if (!stopping) FillStatus(response);
    reactor->Finish(stopping ? Stopping() : grpc::Status::OK);
  });
  if (!taken) {
    reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many requests; try again"});
  }
  return reactor;
}

void ProfilerService::FillLineReader(v1::LineReaderStatus* out) const {
  const LineReaderStatus status = sources_.lines->Status();
  out->set_note(CleanText(status.note));
  out->set_addresses(status.read);
  out->set_failures(status.failures);
  out->set_cpu_ns(status.cpu_ns);
  out->set_rss_bytes(status.rss_bytes);
  out->set_cache_bytes(status.cache_bytes);
}

void ProfilerService::FillStatus(v1::GetStatusResponse* response) const {
  const CollectorState state = sources_.collector->State();
  response->set_daemon_version(host_.version);
  response->set_kernel_release(host_.kernel_release);
  response->set_started_ns(state.started_wall_ns);
  response->set_tick_interval_ns(state.tick_interval_ns);
  response->set_paused(state.paused);
  response->set_switch_entry_ns(state.switch_entry_ns);
  if (const int64_t oldest = sources_.store->OldestNs(); oldest != 0) {
    response->set_oldest_ns(oldest + WallOffsetNs());
  }
  FillTargets(state, response);
  FillModules(state, response);
  FillAllocators(state, response);
  FillUnknownAllocators(state, response);
  response->set_threads(state.threads);
  LossCounts losses = state.losses;
  const LossCounts store_losses = sources_.store->Losses();
  for (size_t i = 0; i < kLossCount; i++) losses[i] += store_losses[i];
  losses[static_cast<size_t>(Loss::kMemoryDropped)] += sources_.memory->timeline().dropped();
  FillLosses(losses, 0, response->mutable_losses());
  FillCost(state.cost, response->mutable_cost());
  response->mutable_cost()->set_duration_ns(WallNs() - state.started_wall_ns);
  FillGovernor(state.governor, response->mutable_governor());
  v1::Memory* memory = response->mutable_memory();
  memory->set_daemon_rss_bytes(ResidentBytes());
  memory->set_kernel_map_bytes(state.kernel_map_bytes);
  memory->set_store_bytes(sources_.store->Bytes());
  memory->set_timeline_bytes(sources_.memory->timeline().Bytes());
  if (sources_.lines != nullptr) FillLineReader(response->mutable_line_reader());
  for (std::string& name : Capabilities()) response->add_capabilities(std::move(name));
}

}  // namespace profd
