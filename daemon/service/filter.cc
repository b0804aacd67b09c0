#include "daemon/service/filter.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMaxExpression = 1024;
constexpr int64_t kMaxExpressionMemory = 1 << 20;

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

}  // namespace profd
