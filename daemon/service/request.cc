#include "daemon/service/request.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMaxExpression = 1024;
constexpr int64_t kMaxExpressionMemory = 1 << 20;
constexpr int kMaxTargets = 64;
constexpr int64_t kDefaultSinceNs = 60ll * 1'000'000'000;
// Longer than anything is kept; keeps the arithmetic below in range.
constexpr int64_t kMaxSinceNs = 366ll * 86400 * 1'000'000'000;

template <typename Request>
absl::Status ParseScope(const Request& request, int64_t now_ns, int64_t wall_offset_ns,
                        RequestScope* scope) {
  if (request.begin_ns() < 0 || request.end_ns() < 0 || request.since_ns() < 0) {
    return absl::InvalidArgumentError("begin_ns, end_ns and since_ns must not be negative");
  }
  scope->to_now = request.end_ns() == 0;
  scope->window.end_ns = scope->to_now ? now_ns : request.end_ns() - wall_offset_ns;
  if (request.begin_ns() != 0) {
    scope->window.begin_ns = request.begin_ns() - wall_offset_ns;
    if (scope->window.begin_ns > now_ns) {
      return absl::InvalidArgumentError(
          "the window begins in the future; begin_ns and end_ns are "
          "nanoseconds since the Unix epoch");
    }
  } else {
    const int64_t since = request.since_ns() == 0 ? kDefaultSinceNs : request.since_ns();
    scope->window.begin_ns = scope->window.end_ns - std::min(since, kMaxSinceNs);
  }
  if (scope->window.begin_ns >= scope->window.end_ns) {
    return absl::InvalidArgumentError("the window ends before it begins");
  }

  if (request.targets_size() > kMaxTargets) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxTargets, " targets; join them into one expression"));
  }
  for (const std::string& target : request.targets()) {
    ASSIGN_OR_RETURN(TargetFilter filter, TargetFilter::Parse(target));
    scope->targets.push_back(std::move(filter));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RE2>> CompileFilter(const std::string& what,
                                                         const std::string& expression) {
  if (expression.size() > kMaxExpression) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is longer than ", kMaxExpression, " bytes; use a shorter expression"));
  }
  RE2::Options options;
  options.set_max_mem(kMaxExpressionMemory);
  options.set_log_errors(false);
  auto compiled = std::make_shared<const RE2>(expression, options);
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " \"", CleanText(expression, 100),
                     "\" is not a valid RE2 expression: ", CleanText(compiled->error(), 200)));
  }
  return compiled;
}

absl::StatusOr<TargetFilter> TargetFilter::Parse(const std::string& text) {
  TargetFilter filter;
  if (text.empty()) {
    return absl::InvalidArgumentError("target is empty; give a PID or an RE2 expression");
  }
  if (std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
    if (!absl::SimpleAtoi(text, &filter.pid_) || filter.pid_ <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("target \"", CleanText(text, 32), "\" is not a PID"));
    }
    return filter;
  }
  ASSIGN_OR_RETURN(filter.name_, CompileFilter("target", text));
  return filter;
}

bool TargetFilter::Matches(int32_t pid, const std::string& process) const {
  if (name_ == nullptr) return pid == pid_;
  return RE2::PartialMatch(process, *name_);
}

bool RequestScope::MatchesTarget(int32_t pid, const std::string& process) const {
  return targets.empty() || std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
           return target.Matches(pid, process);
         });
}

bool FetchPlan::MatchesThread(const ThreadInfo& info) const {
  return thread == nullptr || RE2::PartialMatch(info.name, *thread);
}

absl::StatusOr<FetchPlan> ParseFetch(const v1::FetchRequest& request, int64_t now_ns,
                                     int64_t wall_offset_ns) {
  FetchPlan plan;
  RETURN_IF_ERROR(ParseScope(request, now_ns, wall_offset_ns, &plan));
  if (!request.thread_regex().empty()) {
    ASSIGN_OR_RETURN(plan.thread, CompileFilter("thread_regex", request.thread_regex()));
  }
  switch (request.kind()) {
    case v1::PROFILE_KIND_UNSPECIFIED:
    case v1::PROFILE_KIND_OFFCPU:
      break;
    case v1::PROFILE_KIND_ALLOC:
      plan.kind = Kind::kAlloc;
      break;
    case v1::PROFILE_KIND_FREE:
      plan.kind = Kind::kFree;
      break;
    case v1::PROFILE_KIND_INUSE:
      plan.kind = Kind::kInuse;
      break;
    case v1::PROFILE_KIND_RESIDENT:
      plan.kind = Kind::kResident;
      break;
    case v1::PROFILE_KIND_MAPPED:
      plan.kind = Kind::kMapped;
      break;
    case v1::PROFILE_KIND_UNMAPPED:
      plan.kind = Kind::kUnmapped;
      break;
    case v1::PROFILE_KIND_RETURNED:
      plan.kind = Kind::kReturned;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("profile kind ", static_cast<int>(request.kind()), " is not known"));
  }
  if (plan.kind != Kind::kWait && !request.reasons().empty()) {
    return absl::InvalidArgumentError("reasons are of profiles of kind OFFCPU only");
  }
  if (request.reasons().empty()) plan.reasons.fill(true);
  for (const int reason : request.reasons()) {
    // REASON_UNSPECIFIED is 0; the others follow in the order of Reason.
    if (reason < 1 || reason > static_cast<int>(kReasonCount)) {
      return absl::InvalidArgumentError(absl::StrCat("reason ", reason, " is not known"));
    }
    plan.reasons[static_cast<size_t>(reason - 1)] = true;
  }
  return plan;
}

absl::StatusOr<RequestScope> ParseMemory(const v1::GetMemoryRequest& request, int64_t now_ns,
                                         int64_t wall_offset_ns) {
  RequestScope scope;
  RETURN_IF_ERROR(ParseScope(request, now_ns, wall_offset_ns, &scope));
  return scope;
}

}  // namespace profd
