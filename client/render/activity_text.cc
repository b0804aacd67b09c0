#include "client/render/activity_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/render/caption.h"
#include "client/render/gaps.h"
#include "client/text/text.h"

namespace profctl {

GroupTexts::GroupTexts(const Activity& activity) : groups_(activity.groups) {
  for (const ThreadGroup& group : groups_) {
    many_processes_ = many_processes_ || group.process != groups_.front().process;
  }
}

std::string GroupTexts::Of(uint32_t index) const {
  const ThreadGroup& group = groups_[index];
  if (!many_processes_ || group.process == group.name) return group.name;
  return absl::StrCat(group.process, "/", group.name);
}

std::string InFunction(const std::string& function) {
  return function.empty() ? "" : absl::StrCat(", in ", function);
}

std::string WaitText(Reason reason, const std::string& function) {
  return absl::StrCat("waits for ", std::string(DescribeReason(reason).meaning),
                      InFunction(function));
}

std::string InterruptText(const std::string& name) {
  if (name == "[timer]") return "a timer";
  if (name == "[network]") return "the network";
  if (name == "[block]") return "the disk";
  return "an interrupt";
}

std::vector<std::string> ActivityNotes(const Profile& wakers, const Profile& cpu) {
  std::vector<std::string> notes = DescribeGaps(wakers);
  for (std::string& note : DescribeGaps(cpu)) notes.push_back(std::move(note));
  for (const std::string& lost : DescribeLosses(*wakers.message)) {
    notes.push_back(absl::StrCat("lost ", absl::StripSuffix(lost, ".")));
  }
  return notes;
}

std::string PartLabel(double time_ns, double error_ns, double whole_ns, size_t indent) {
  std::string label = absl::StrCat(PadLeft(FormatShare(time_ns, whole_ns), 8), "  ",
                                   PadLeft(FormatDuration(WholeNs(time_ns)), 7), " ± ",
                                   PadRight(FormatDuration(WholeNs(error_ns)), 9));
  label.append(2 * indent + 1, ' ');
  return label;
}

int64_t WholeNs(double time_ns) { return std::llround(std::clamp(time_ns, 0.0, 9e18)); }

}  // namespace profctl
