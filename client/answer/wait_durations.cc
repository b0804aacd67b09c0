#include "client/answer/wait_durations.h"

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

void AddDurations(const google::protobuf::RepeatedPtrField<profd::v1::ReasonTotal>& totals,
                  ReasonDurations* sum) {
  for (const profd::v1::ReasonTotal& total : totals) {
    const auto& buckets = total.durations();
    if (buckets.empty()) continue;
    profd::Durations& durations = (*sum)[DescribeReason(total.reason()).reason];
    for (int i = 0; i < buckets.size(); ++i) {
      const bool last = i == buckets.size() - 1 && !total.max_rounded();
      durations.Add(static_cast<uint64_t>(i), buckets[i], last ? total.max_ns() : 0);
    }
  }
}

const profd::Durations& DurationsOf(const ReasonDurations& durations, Reason reason) {
  static const profd::Durations kNone;
  const auto it = durations.find(reason);
  return it == durations.end() ? kNone : it->second;
}

std::string FormatQuantile(const profd::Durations& durations, double part) {
  if (durations.count() == 0) return "-";
  const int64_t ns = durations.Quantile(part);
  // The first bucket holds all that is shorter.
  return absl::StrCat(ns <= profd::DurationBucketBegin(1) ? "<" : "", FormatDuration(ns));
}

std::string FormatLongest(const profd::Durations& durations) {
  if (durations.count() == 0) return "-";
  const bool known = durations.known_longest() > 0;
  return absl::StrCat(known ? "" : "<", FormatDuration(durations.Longest()));
}

}  // namespace profctl
