#include "client/commands/symbolize.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/answer/saved_answer.h"
#include "client/symbolize/late_names.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {

absl::Status Symbolize(const SymbolizeOptions& options, std::ostream& out, std::ostream& err) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LateNames> names, LateNames::Open(*options.fetch.debug));
  FetchOptions fetch = options.fetch;
  Progress progress(options.fetch.progress ? &err : nullptr);
  progress.Say("profctl: reading");
  ASSIGN_OR_RETURN(Answer answer, ReadSavedAnswer(options.file));
  for (const Profile& profile : answer.profiles) {
    fetch.request.add_sample_types(std::string(profile.kind->name));
  }
  if (!CheckFormat(fetch).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(CleanName(options.file),
                     " has several kinds, and this format holds one; use "
                     "json, pprof or speedscope, or neither -o nor "
                     "--format"));
  }
  return WriteAnswer(fetch, std::move(answer), names.get(), &progress, out, err);
}

}  // namespace profctl
