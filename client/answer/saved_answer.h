// Answers that were saved as JSON.
#ifndef PROFD_CLIENT_ANSWER_SAVED_ANSWER_H_
#define PROFD_CLIENT_ANSWER_SAVED_ANSWER_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/answer/profile.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// What `fetch --format json` wrote, checked. The error names the file; DataLoss for anything else,
// ResourceExhausted for more than 1 GiB.
absl::StatusOr<Answer> ReadSavedAnswer(const std::string& path);

// Checks a whole answer.
absl::StatusOr<Answer> BuildAnswer(const profd::v1::Profile& message);

// Groups the samples by the names of process and thread, unless they have groups. None is merged
// with another one.
void GroupByName(profd::v1::Profile* message);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_SAVED_ANSWER_H_
