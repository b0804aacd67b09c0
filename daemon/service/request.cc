#include "daemon/service/request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr int kMaxTargets = 64;
constexpr size_t kDefaultMemoryPoints = 120;
constexpr size_t kMaxSites = 100;
constexpr size_t kDefaultLongest = 20;
constexpr size_t kMostLongest = 1000;
constexpr int64_t kDefaultSinceNs = 60ll * 1'000'000'000;
// Longer than anything is kept; keeps the arithmetic below in range.
constexpr int64_t kMaxSinceNs = 366ll * 86400 * 1'000'000'000;

absl::Status ParseWindow(const v1::Window& window, int64_t now_ns, int64_t wall_offset_ns,
                         RequestScope* scope) {
  if (window.begin_ns() < 0 || window.end_ns() < 0 || window.since_ns() < 0) {
    return absl::InvalidArgumentError("begin_ns, end_ns and since_ns must not be negative");
  }
  scope->to_now = window.end_ns() == 0;
  scope->window.end_ns = scope->to_now ? now_ns : window.end_ns() - wall_offset_ns;
  if (window.begin_ns() != 0) {
    scope->window.begin_ns = window.begin_ns() - wall_offset_ns;
  } else {
    const int64_t since = window.since_ns() == 0 ? kDefaultSinceNs : window.since_ns();
    scope->window.begin_ns = scope->window.end_ns - std::min(since, kMaxSinceNs);
  }
  if (scope->window.begin_ns > now_ns) {
    return absl::InvalidArgumentError(
        "the window begins in the future; begin_ns and end_ns are "
        "nanoseconds since the Unix epoch");
  }
  if (scope->window.begin_ns >= scope->window.end_ns) {
    return absl::InvalidArgumentError("the window ends before it begins");
  }
  return absl::OkStatus();
}

absl::Status ParseTargets(const google::protobuf::RepeatedPtrField<std::string>& targets,
                          RequestScope* scope) {
  if (targets.size() > kMaxTargets) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxTargets, " targets; join them into one expression"));
  }
  for (const std::string& target : targets) {
    ASSIGN_OR_RETURN(TargetFilter filter, TargetFilter::Parse(target));
    scope->targets.push_back(std::move(filter));
  }
  return absl::OkStatus();
}

absl::Status ParseTypes(const v1::FetchRequest& request, FetchPlan* plan) {
  if (request.sample_types_size() > static_cast<int>(kKindCount)) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kKindCount, " sample types; name each once"));
  }
  for (const std::string& name : request.sample_types()) {
    const SampleTypeInfo* type = FindSampleType(name);
    if (type == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sample type \"", CleanText(name, 100), "\" is not known; there are ",
          absl::StrJoin(AllSampleTypes(), ", ", [](std::string* out, const SampleTypeInfo& info) {
            out->append(info.name);
          })));
    }
    if (plan->Asks(type->kind)) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample type \"", name, "\" is there twice; name each once"));
    }
    plan->types.push_back(type);
  }
  if (plan->types.empty()) plan->types.push_back(&DescribeSampleType(Kind::kWait));
  return absl::OkStatus();
}

absl::Status ParseReasons(const v1::FetchRequest& request, FetchPlan* plan) {
  if (request.reasons().empty()) {
    plan->reasons.fill(true);
    return absl::OkStatus();
  }
  if (!plan->AsksReasons()) {
    return absl::InvalidArgumentError(
        "only waits have reasons: ask for the sample type \"offcpu\", \"wakers\", \"locks\", "
        "\"runqueue\", \"switches\" or \"wall\"");
  }
  if (request.reasons_size() > v1::Reason_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", static_cast<int>(v1::Reason_MAX), " reasons; name each once"));
  }
  plan->running = false;
  for (const int reason : request.reasons()) {
    if (reason == v1::REASON_ON_CPU) {
      if (!plan->Asks(Kind::kWall)) {
        return absl::InvalidArgumentError(
            "time on a CPU is not a wait: ask for the sample type \"wall\" or \"cpu\"");
      }
      plan->running = true;
      continue;
    }
    const std::optional<Reason> known = FromProto(reason);
    if (!known) return absl::InvalidArgumentError(absl::StrCat("reason ", reason, " is not known"));
    plan->reasons[static_cast<size_t>(*known)] = true;
  }
  return absl::OkStatus();
}

absl::Status ParseGroups(const v1::FetchRequest& request, FetchPlan* plan) {
  if (request.group_by_size() > v1::GroupKey_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", static_cast<int>(v1::GroupKey_MAX), " keys in group_by"));
  }
  for (const int key : request.group_by()) {
    if (key < 1 || key > v1::GroupKey_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("group_by ", key, " is not known"));
    }
    plan->group_by.push_back(static_cast<v1::GroupKey>(key));
  }
  return absl::OkStatus();
}

}  // namespace

bool RequestScope::MatchesTarget(int32_t pid, const std::string& process) const {
  return targets.empty() || std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
           return target.Matches(pid, process);
         });
}

bool RequestScope::MatchesThread(const ThreadInfo& info) const {
  return thread == nullptr || RE2::PartialMatch(info.name, *thread);
}

bool FetchPlan::Asks(Kind kind) const {
  return std::any_of(types.begin(), types.end(),
                     [kind](const SampleTypeInfo* type) { return type->kind == kind; });
}

bool FetchPlan::Shows(const SampleKey& key) const {
  return std::any_of(types.begin(), types.end(),
                     [&](const SampleTypeInfo* type) { return Shows(*type, key); });
}

bool FetchPlan::Shows(const SampleTypeInfo& type, const SampleKey& key) const {
  const bool woken = type.kind == Kind::kWaker && key.kind == Kind::kWaker;
  if (!woken && !type.Covers(key.kind)) return false;
  if (type.kind == Kind::kLocks && key.reason != Reason::kLock) return false;
  if (type.kind == Kind::kRunQueue && key.reason != Reason::kRunQueue) return false;
  if (woken || HasReason(key.kind)) return reasons[static_cast<size_t>(key.reason)];
  return type.kind != Kind::kWall || running;
}

bool FetchPlan::NeedsLevels() const {
  return std::any_of(types.begin(), types.end(),
                     [](const SampleTypeInfo* type) { return type->level; });
}

absl::StatusOr<FetchPlan> ParseFetch(const v1::FetchRequest& request, int64_t now_ns,
                                     int64_t wall_offset_ns) {
  FetchPlan plan;
  RETURN_IF_ERROR(ParseWindow(request.window(), now_ns, wall_offset_ns, &plan));
  RETURN_IF_ERROR(ParseTargets(request.targets(), &plan));
  if (!request.thread_regex().empty()) {
    ASSIGN_OR_RETURN(plan.thread, CompileFilter("thread_regex", request.thread_regex()));
  }
  if (request.has_baseline()) {
    RequestScope baseline;
    RETURN_IF_ERROR(ParseWindow(request.baseline(), now_ns, wall_offset_ns, &baseline));
    baseline.targets = plan.targets;
    baseline.thread = plan.thread;
    plan.baseline = std::move(baseline);
  }
  RETURN_IF_ERROR(ParseTypes(request, &plan));
  RETURN_IF_ERROR(ParseReasons(request, &plan));
  RETURN_IF_ERROR(ParseGroups(request, &plan));
  plan.lines = ReadLineWish(request);
  if (request.has_longest()) {
    if (plan.types.size() != 1 || !plan.Asks(Kind::kWait)) {
      return absl::InvalidArgumentError("the longest waits need the sample type \"offcpu\" alone");
    }
    const size_t limit = request.longest().limit();
    if (limit > kMostLongest) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMostLongest, " longest waits"));
    }
    plan.longest = {.limit = limit == 0 ? kDefaultLongest : limit,
                    .idle = request.longest().idle()};
  }
  return plan;
}

absl::StatusOr<MemoryPlan> ParseMemory(const v1::GetMemoryRequest& request, int64_t now_ns,
                                       int64_t wall_offset_ns) {
  MemoryPlan plan;
  RETURN_IF_ERROR(ParseWindow(request.window(), now_ns, wall_offset_ns, &plan));
  RETURN_IF_ERROR(ParseTargets(request.targets(), &plan));
  plan.max_points = request.max_points() == 0 ? kDefaultMemoryPoints : request.max_points();
  plan.max_sites = std::min<size_t>(request.max_sites(), kMaxSites);
  return plan;
}

absl::StatusOr<RequestScope> ParseStacks(const v1::GetStacksRequest& request) {
  RequestScope plan;
  RETURN_IF_ERROR(ParseTargets(request.targets(), &plan));
  if (!request.thread_regex().empty()) {
    ASSIGN_OR_RETURN(plan.thread, CompileFilter("thread_regex", request.thread_regex()));
  }
  return plan;
}

}  // namespace profd
