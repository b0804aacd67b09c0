#include "client/answer/view.h"

#include <algorithm>
#include <map>
#include <set>

#include "client/text/text.h"

namespace profctl {

View MakeView(const Profile& profile, bool show_idle) {
  struct Group {
    int64_t time_ns = 0;
    std::set<uint32_t> threads;
  };
  View view;
  view.profile = &profile;
  view.idle_shown = show_idle;
  std::map<std::string_view, Group> groups;
  for (const Sample& sample : profile.samples) {
    if (sample.value <= 0) continue;
    if (!sample.idle.empty()) {
      Group& group = groups[sample.idle];
      group.time_ns += sample.value;
      group.threads.insert(sample.threads.begin(), sample.threads.end());
      view.idle_ns += sample.value;
      if (!show_idle) continue;
    }
    view.shown.push_back(&sample);
    view.shown_value += sample.value;
  }
  for (const auto& [name, group] : groups) {
    view.idle.push_back(
        {CleanName(name), group.time_ns, static_cast<uint32_t>(group.threads.size())});
  }
  std::stable_sort(view.idle.begin(), view.idle.end(),
                   [](const IdleGroup& a, const IdleGroup& b) { return a.time_ns > b.time_ns; });
  return view;
}

}  // namespace profctl
