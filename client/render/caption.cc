#include "client/render/caption.h"

#include "absl/strings/str_cat.h"
#include "client/text/text.h"
#include "client/text/time_text.h"

namespace profctl {

std::string DescribeWindow(const Profile& profile) {
  const profd::v1::Coverage& coverage = profile.coverage();
  return absl::StrCat(FormatTime(coverage.begin_ns()), " to ", FormatTime(coverage.end_ns()), " (",
                      FormatDuration(WindowNs(profile)), ")");
}

std::string DescribeWindowAndHost(const Profile& profile) {
  return absl::StrCat(DescribeWindow(profile), " on ",
                      CleanName(profile.message->host().hostname()));
}

std::string DescribeLoss(const profd::v1::Loss& loss) {
  return absl::StrCat(FormatCount(loss.count()), " ", CleanName(loss.cause()), ": ",
                      CleanName(loss.help()));
}

}  // namespace profctl
