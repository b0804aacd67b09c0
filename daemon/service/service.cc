#include "daemon/service/service.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/service/estimates.h"
#include "daemon/service/matching.h"
#include "daemon/service/memory_answer.h"
#include "daemon/service/messages.h"
#include "daemon/service/profile_stream.h"
#include "daemon/service/stacks_answer.h"
#include "daemon/service/status_answer.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMaxFetches = 4;
constexpr size_t kMaxStatusQueue = 64;
constexpr int64_t kFetchPatienceNs = 60ll * 1'000'000'000;
constexpr int64_t kDrainPatienceNs = 10ll * 1'000'000'000;
// An answer of this size leaves much free heap behind.
constexpr size_t kTrimAboveStacks = 10'000;
constexpr size_t kTrimAboveSamples = 50'000;

bool IsLarge(const MergedProfile& profile) {
  size_t samples = 0;
  for (const MergedThread& thread : profile.threads) samples += thread.samples.size();
  return samples > kTrimAboveSamples ||
         profile.stacks.size() + profile.threads.size() > kTrimAboveStacks;
}

grpc::Status TooManyFetches() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat(kMaxFetches, " fetches are running already; try again in a moment")};
}

grpc::Status Stopping() { return {grpc::StatusCode::UNAVAILABLE, "profd is stopping"}; }

// In words that do not depend on the client's time zone.
absl::Status NothingRecorded(Window window, int64_t oldest_ns, int64_t now_ns) {
  if (oldest_ns == 0) {
    return absl::NotFoundError("nothing was recorded yet; try again in a few seconds");
  }
  const auto ago = [&](int64_t at_ns) {
    const int64_t seconds = std::max<int64_t>(now_ns - at_ns, 0) / 1'000'000'000;
    return absl::FormatDuration(absl::Seconds(seconds));
  };
  return absl::NotFoundError(absl::StrCat("nothing was recorded between ", ago(window.begin_ns),
                                          " and ", ago(window.end_ns),
                                          " ago; what profd has begins ", ago(oldest_ns), " ago"));
}

grpc::Status ToGrpc(const absl::Status& status) {
  // The canonical codes are the same numbers.
  return {static_cast<grpc::StatusCode>(status.code()), CleanText(std::string(status.message()))};
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
      names_(sources_.modules, sources_.kernel_files, sources_.debug_directories, "/proc",
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
    RefreshMemory(plan);
    plan.window.end_ns = MonotonicNs();
  }
  if (!plan.baseline) {
    const Asked asked = {.targets = request.targets(), .thread = request.thread_regex()};
    return AnswerWindow(plan, plan, 0, asked, wall_offset, send);
  }
  // A thread may be there in one window alone: that is a difference.
  const Asked asked = {.targets = request.targets()};
  RETURN_IF_ERROR(AnswerWindow(plan, plan, 0, asked, wall_offset, send));
  return AnswerWindow(plan, *plan.baseline, 1, asked, wall_offset, send);
}

absl::Status ProfilerService::AnswerWindow(const FetchPlan& plan, const RequestScope& scope,
                                           uint32_t window, const Asked& asked, int64_t wall_offset,
                                           const SendPart& send) {
  ASSIGN_OR_RETURN(MergedProfile profile, Merge(scope, asked, plan.NeedsLevels()));
  const bool empty = profile.covered.end_ns <= profile.covered.begin_ns;
  if (empty && profile.threads.empty()) {
    return NothingRecorded(scope.window, sources_.store->OldestNs(), MonotonicNs());
  }
  ScaleBursts(&profile);
  const std::vector<ProcessHistory> processes = Histories(scope, 1);
  const v1::MemoryLine memory = MemoryLineOf(processes, profile, plan.thread == nullptr);
  const bool sent = SendAnswer(plan,
                               {.host = host_,
                                .profile = profile,
                                .memory = memory,
                                .processes = processes,
                                .wall_offset_ns = wall_offset,
                                .names = &names_,
                                .ends = {.proc = sources_.proc, .allowance = &searches_}},
                               window, send);
  const bool large = IsLarge(profile);
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

void ProfilerService::RefreshMemory(const RequestScope& scope) const {
  if (scope.targets.empty()) return sources_.memory->Refresh();
  // A copy: it may be asked after the answer.
  sources_.memory->Refresh(
      [scope](int32_t pid, const std::string& name) { return scope.MatchesTarget(pid, name); });
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
    RefreshMemory(scope);
    scope.window.end_ns = MonotonicNs();
  }
  std::vector<ProcessHistory> histories = Histories(scope, scope.max_points);
  absl::StatusOr<MergedProfile> profile = Merge(scope, {.targets = request.targets()}, true);
  // What the timeline knows is an answer without a profile, too.
  if (absl::IsNotFound(profile.status()) && !histories.empty()) profile = MergedProfile();
  RETURN_IF_ERROR(profile.status());

  FillMemory({.host = host_,
              .sources = sources_,
              .plan = scope,
              .histories = std::move(histories),
              .profile = *std::move(profile),
              .wall_offset_ns = wall_offset,
              .names = &names_},
             response);
  return absl::OkStatus();
}

absl::StatusOr<MergedProfile> ProfilerService::Merge(const RequestScope& scope, const Asked& asked,
                                                     bool levels) const {
  Matching matching(scope);
  const auto keep_matched = [&](const ThreadInfo& info) { return matching.MatchesThread(info); };
  ASSIGN_OR_RETURN(MergedProfile profile,
                   levels ? sources_.store->MergeLevels(scope.window, keep_matched)
                          : sources_.store->Merge(scope.window, keep_matched));
  RETURN_IF_ERROR(matching.Outcome(asked.targets, "in this window", [&](int32_t pid) {
    const std::vector<ProcessHistory> known = sources_.memory->timeline().Select(
        {.begin_ns = scope.window.begin_ns,
         .end_ns = scope.window.end_ns,
         .max_points = 1,
         .matches = [pid](const WatchedProcess& process) { return process.pid == pid; }});
    return known.empty() ? std::string() : known.back().process.name;
  }));
  if (!asked.thread.empty()) {
    RETURN_IF_ERROR(matching.ThreadOutcome(asked.thread, "in this window"));
  }
  return profile;
}

absl::Status ProfilerService::AnswerStacks(const v1::GetStacksRequest& request,
                                           const SendPart& send) {
  ASSIGN_OR_RETURN(const RequestScope plan, ParseStacks(request));
  Matching matching(plan);
  ASSIGN_OR_RETURN(const Look look, sources_.collector->TakeLook([&](const ThreadInfo& info) {
    return matching.MatchesThread(info);
  }));
  RETURN_IF_ERROR(matching.Outcome(request.targets(), "now"));
  RETURN_IF_ERROR(matching.ThreadOutcome(request.thread_regex(), "now"));
  const bool sent = SendStacks({.host = host_,
                                .look = look,
                                .wall_offset_ns = WallOffsetNs(),
                                .names = &names_,
                                .ends = {.proc = sources_.proc, .allowance = &searches_},
                                .lines = ReadLineWish(request)},
                               send);
  return sent ? absl::OkStatus() : absl::CancelledError("the client went away");
}

grpc::ServerUnaryReactor* ProfilerService::GetStatus(grpc::CallbackServerContext* context,
                                                     const v1::GetStatusRequest* /*request*/,
                                                     v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const bool taken = status_pool_.Add([this, response, reactor](bool stopping) {
    if (!stopping) FillStatus(sources_, host_, response);
    reactor->Finish(stopping ? Stopping() : grpc::Status::OK);
  });
  if (!taken) {
    reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many requests; try again"});
  }
  return reactor;
}

}  // namespace profd
