#include "daemon/target/selector.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace profd {

absl::StatusOr<Selector> Selector::Parse(const std::string& text) {
  Selector selector;
  selector.text_ = text;
  if (!text.empty() &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    int32_t pid = 0;
    if (!absl::SimpleAtoi(text, &pid) || pid <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("target \"", text, "\" is not a valid PID"));
    }
    selector.pid_ = pid;
    return selector;
  }
  RE2::Options options;
  options.set_log_errors(false);
  auto name = std::make_shared<RE2>(text, options);
  if (text.empty() || !name->ok()) {
    return absl::InvalidArgumentError(absl::StrCat("target \"", text,
                                                   "\" is neither a PID nor a regular expression: ",
                                                   text.empty() ? "it is empty" : name->error()));
  }
  selector.name_ = std::move(name);
  return selector;
}

bool Selector::Matches(const ProcessInfo& process) const {
  if (pid_) return process.pid == *pid_;
  return RE2::PartialMatch(process.comm, *name_) || RE2::PartialMatch(process.executable, *name_);
}

}  // namespace profd
