// The part of a profile that is shown: samples with a value, with or without idle waits.
#ifndef PROFD_CLIENT_ANSWER_VIEW_H_
#define PROFD_CLIENT_ANSWER_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

struct IdleGroup {
  std::string name;
  int64_t time_ns = 0;
  uint32_t threads = 0;
};

struct View {
  const Profile* profile = nullptr;  // not owned, outlives the view
  std::vector<const Sample*> shown;  // each with a value above 0
  int64_t shown_value = 0;           // their sum, in the unit of the profile
  // Idle waits, the largest group first. Folded away, unless `idle_shown`. Off-CPU only.
  std::vector<IdleGroup> idle;
  int64_t idle_ns = 0;
  bool idle_shown = false;
  // The filter of the request, for subtitles, e.g. "reason lock,disk"; may be empty.
  std::string filter;
};

View MakeView(const Profile& profile, bool show_idle);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_VIEW_H_
