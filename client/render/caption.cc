#include "client/render/caption.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"
#include "client/text/time_text.h"

namespace profctl {
namespace {

constexpr double kUsualDiskLoss = 0.01;  // of the requests

}  // namespace

std::string DescribeWindow(const Profile& profile) {
  const profd::v1::Coverage& coverage = profile.coverage();
  return absl::StrCat(FormatTime(coverage.begin_ns()), " to ", FormatTime(coverage.end_ns()), " (",
                      FormatDuration(WindowNs(profile)), ")");
}

std::string DescribeWindowAndHost(const Profile& profile) {
  return absl::StrCat(DescribeWindow(profile), " on ",
                      CleanName(profile.message->host().hostname()));
}

std::string NameLoss(const profd::v1::Loss& loss) {
  std::string text = absl::StrCat(FormatCount(loss.count()), " ", CleanName(loss.cause()));
  if (loss.weight_ns() > 0) absl::StrAppend(&text, ", ", FormatDuration(loss.weight_ns()));
  if (loss.weight_bytes() > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(static_cast<uint64_t>(loss.weight_bytes())));
  }
  return text;
}

std::string DescribeLoss(const profd::v1::Loss& loss) {
  return absl::StrCat(NameLoss(loss), ": ", CleanName(loss.help()));
}

bool IsUsualLoss(const profd::v1::Loss& loss, const profd::v1::Cost& cost) {
  static constexpr std::string_view kUsual[] = {
      "torn_walk",      "torn_ledger",        "switch_unseen",  "mapping_busy",
      "long_wait_lost", "wait_duration_lost", "heap_total_late"};
  if (loss.cause() == "disk_request_lost") {
    return static_cast<double>(loss.count()) <=
           kUsualDiskLoss * static_cast<double>(cost.disk_requests());
  }
  return std::find(std::begin(kUsual), std::end(kUsual), loss.cause()) != std::end(kUsual);
}

std::string DescribeUsualLosses(const profd::v1::Profile& message) {
  std::string usual;
  for (const profd::v1::Loss& loss : message.losses()) {
    if (!IsUsualLoss(loss, message.cost())) continue;
    absl::StrAppend(&usual, usual.empty() ? "" : "; ", NameLoss(loss));
  }
  return usual.empty() ? "" : usual + " (usual, nothing to do)";
}

std::vector<std::string> DescribeLosses(const profd::v1::Profile& message) {
  std::vector<std::string> lines;
  for (const profd::v1::Loss& loss : message.losses()) {
    if (!IsUsualLoss(loss, message.cost())) lines.push_back(DescribeLoss(loss));
  }
  if (std::string usual = DescribeUsualLosses(message); !usual.empty()) {
    lines.push_back(std::move(usual));
  }
  return lines;
}

}  // namespace profctl
