// What groups of threads and their waits are called, on the pages and in the JSON made of them.
#ifndef PROFD_CLIENT_RENDER_ACTIVITY_TEXT_H_
#define PROFD_CLIENT_RENDER_ACTIVITY_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/analysis/activity.h"
#include "client/answer/profile.h"
#include "client/answer/reason.h"

namespace profctl {

// Names of groups; after their process if there are several.
class GroupTexts {
 public:
  // `activity` must outlive this.
  explicit GroupTexts(const Activity& activity);
  std::string Of(uint32_t group) const;

 private:
  const std::vector<ThreadGroup>& groups_;
  bool many_processes_ = false;
};

// ", in storage::get", or "" without a function.
std::string InFunction(const std::string& function);

// "waits for a lock or condition (futex), in storage::get".
std::string WaitText(Reason reason, const std::string& function);

// What interrupts are for, by the names that the daemon gives them: "the disk".
std::string InterruptText(const std::string& name);

// What is missing of both layers and what was lost; sentences without a full stop.
std::vector<std::string> ActivityNotes(const Profile& wakers, const Profile& cpu);

// Of the waits: smaller parts have no line of their own.
inline constexpr double kLeastPart = 0.01;

// The start of the line of a part of `whole_ns`: "   57.7%   30.0 s ± 413 ms    ".
std::string PartLabel(double time_ns, double error_ns, double whole_ns, size_t indent = 0);

// A time as JSON has it; never negative.
int64_t WholeNs(double time_ns);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_ACTIVITY_TEXT_H_
