#include "client/analysis/activity.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/analysis/telling_frames.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// Frames of the sample type "wakers", as the daemon writes them.
constexpr std::string_view kSeparator = "--";
constexpr std::array<std::string_view, 4> kInterrupts = {"[timer]", "[network]", "[block]",
                                                         "[interrupt]"};

using GroupNames = std::pair<std::string, std::string>;  // process, threads

bool IsProgram(const Frame& frame) {
  return frame.kind == profd::v1::FRAME_KIND_APPLICATION ||
         frame.kind == profd::v1::FRAME_KIND_RUNTIME;
}

class Reader {
 public:
  Reader(const Profile& wakers, Activity* activity) : wakers_(wakers), activity_(activity) {
    activity_->stacks.emplace_back();
    for (const Thread& thread : wakers.threads) {
      const uint32_t group = GroupOf(thread);
      activity_->groups[group].threads++;
      activity_->groups[group].wall_ns += thread.ledger.wall_ns();
      groups_.push_back(group);
      activity_->wall_ns.push_back(thread.ledger.wall_ns());
      // As the daemon names wakers.
      const std::string name = thread.process == thread.name
                                   ? thread.name
                                   : absl::StrCat(thread.process, "/", thread.name);
      by_waker_name_.try_emplace(name, group);
    }
  }

  uint32_t GroupOfThread(uint32_t thread) const { return groups_[thread]; }

  void Add(const Profile& profile, const Sample& sample, uint32_t group) {
    if (sample.value <= 0) return;
    State state;
    state.reason = sample.reason;
    std::span<const uint32_t> frames;
    if (sample.stack != kUnsampled) frames = profile.stacks[sample.stack].frames;
    if (&profile == &wakers_) {
      if (sample.reason != profd::v1::REASON_RUNQUEUE) state.waker = WakerOf(profile, &frames);
      state.idle = !sample.idle.empty();
      state.for_work = state.idle && sample.reason != profd::v1::REASON_SLEEP;
    } else {
      state.reason = profd::v1::REASON_ON_CPU;
    }
    const uint32_t origin =
        sample.stack == kUnsampled ? kUnsampled : profile.stacks[sample.stack].origin;
    state.function =
        origin == kUnsampled ? "[unsampled]" : CleanName(profile.frames[origin].function);
    state.stack = StackOf(profile, frames);
    AddState(sample, std::move(state), group);
  }

  // Another group of that name, for a part of its threads.
  uint32_t AddPart(uint32_t whole) {
    activity_->groups.push_back(
        {.process = activity_->groups[whole].process, .name = activity_->groups[whole].name});
    return static_cast<uint32_t>(activity_->groups.size() - 1);
  }

 private:
  uint32_t GroupOf(const Thread& thread) {
    const auto next = static_cast<uint32_t>(activity_->groups.size());
    const auto [it, fresh] = names_.try_emplace({thread.process, thread.group}, next);
    if (fresh) {
      activity_->groups.push_back(
          {.process = CleanName(thread.process), .name = CleanName(thread.group)});
    }
    return it->second;
  }

  // The waker of a stack; `frames` is left with those of the waiter.
  Waker WakerOf(const Profile& profile, std::span<const uint32_t>* frames) {
    const auto separator = std::find_if(frames->begin(), frames->end(), [&](uint32_t frame) {
      return profile.frames[frame].kind == profd::v1::FRAME_KIND_SYNTHETIC &&
             profile.frames[frame].function == kSeparator;
    });
    Waker waker = {.kind = WakerKind::kUnknown};
    if (separator == frames->end() || separator == frames->begin()) return waker;
    const std::span<const uint32_t> own(frames->begin(), separator);
    *frames = std::span<const uint32_t>(separator + 1, frames->end());
    const std::string& name = profile.frames[own.front()].function;
    const std::span<const uint32_t> code = own.subspan(1);
    if (code.empty()) return waker;  // "[waker unknown]", or its stack is lost
    waker.function = InnermostOf(profile, code);
    waker.name = CleanName(name);
    if (std::find(kInterrupts.begin(), kInterrupts.end(), name) != kInterrupts.end()) {
      waker.kind = WakerKind::kInterrupt;
      waker.function.clear();
    } else if (const auto it = by_waker_name_.find(name); it != by_waker_name_.end()) {
      waker.kind = WakerKind::kGroup;
      waker.group = it->second;
      waker.name.clear();
    } else {
      waker.kind = WakerKind::kOutside;
    }
    return waker;
  }

  // The most telling function of a waker's frames, which come outermost first.
  static std::string InnermostOf(const Profile& profile, std::span<const uint32_t> frames) {
    const Frame* best = nullptr;
    for (size_t i = frames.size(); i > 0; i--) {
      const Frame& frame = profile.frames[frames[i - 1]];
      if (frame.kind == profd::v1::FRAME_KIND_SYNTHETIC) continue;
      if (best == nullptr || FrameRank(frame, profile.unit) < FrameRank(*best, profile.unit)) {
        best = &frame;
      }
    }
    return best == nullptr ? "" : CleanName(best->function);
  }

  uint32_t FunctionOf(const std::string& name) {
    const auto next = static_cast<uint32_t>(activity_->functions.size());
    return activity_->functions.try_emplace(name, next).first->second;
  }

  uint32_t StackOf(const Profile& profile, std::span<const uint32_t> frames) {
    std::vector<uint32_t> functions;
    for (const uint32_t frame : frames) {
      if (!IsProgram(profile.frames[frame])) continue;
      functions.push_back(FunctionOf(CleanName(profile.frames[frame].function)));
    }
    std::sort(functions.begin(), functions.end());
    functions.erase(std::unique(functions.begin(), functions.end()), functions.end());
    if (functions.empty()) return 0;
    const auto next = static_cast<uint32_t>(activity_->stacks.size());
    const auto [it, fresh] = stacks_.try_emplace(functions, next);
    if (fresh) activity_->stacks.push_back(std::move(functions));
    return it->second;
  }

  void AddState(const Sample& sample, State&& state, uint32_t group) {
    const Key key(group, state.reason, state.function, state.stack, state.idle, state.waker.kind,
                  state.waker.group, state.waker.name, state.waker.function);
    std::vector<State>& states = activity_->groups[group].states;
    const auto [it, fresh] = states_.try_emplace(key, states.size());
    if (fresh) states.push_back(std::move(state));
    State& sum = states[it->second];
    const auto error = static_cast<double>(sample.error);
    sum.time_ns += static_cast<double>(sample.value);
    sum.variance += error * error;
    sum.ticks += sample.count;
    std::vector<uint32_t> threads;
    std::set_union(sum.threads.begin(), sum.threads.end(), sample.threads.begin(),
                   sample.threads.end(), std::back_inserter(threads));
    sum.threads = std::move(threads);
    if (sum.idle) activity_->groups[group].idle_ns += sample.value;
  }

  using Key = std::tuple<uint32_t, Reason, std::string, uint32_t, bool, WakerKind, uint32_t,
                         std::string, std::string>;

  const Profile& wakers_;
  Activity* const activity_;
  std::vector<uint32_t> groups_;  // by thread
  std::map<GroupNames, uint32_t> names_;
  std::map<std::string, uint32_t> by_waker_name_;
  std::map<std::vector<uint32_t>, uint32_t> stacks_;
  std::map<Key, size_t> states_;  // index into the states of the group
};

}  // namespace

Activity ReadActivity(const Profile& wakers, const Profile& cpu, const ThreadFilter& selected,
                      std::vector<Root>* roots) {
  Activity activity;
  activity.window_ns = WindowNs(wakers);
  Reader reader(wakers, &activity);
  std::map<uint32_t, uint32_t> parts;  // by group
  std::vector<std::optional<uint32_t>> part_of(wakers.threads.size());
  for (uint32_t i = 0; i < wakers.threads.size(); i++) {
    if (!selected(wakers.threads[i])) continue;
    const uint32_t whole = reader.GroupOfThread(i);
    const auto [it, fresh] = parts.try_emplace(whole, 0);
    if (fresh) it->second = reader.AddPart(whole);
    part_of[i] = it->second;
    activity.groups[it->second].threads++;
    activity.groups[it->second].wall_ns += wakers.threads[i].ledger.wall_ns();
  }
  for (const Profile* profile : {&wakers, &cpu}) {
    for (const Sample& sample : profile->samples) {
      const uint32_t thread = sample.threads.front();
      reader.Add(*profile, sample, reader.GroupOfThread(thread));
      if (part_of[thread]) reader.Add(*profile, sample, *part_of[thread]);
    }
  }
  for (const auto& [whole, part] : parts) roots->push_back({.part = part, .whole = whole});
  std::stable_sort(roots->begin(), roots->end(), [&](const Root& a, const Root& b) {
    const auto key = [&](const Root& root) {
      const ThreadGroup& group = activity.groups[root.part];
      return std::pair(SeenWaitingNs(group), WaitingNs(group));
    };
    return key(a) > key(b);
  });
  return activity;
}

namespace {

bool IsWait(const State& state) { return !state.idle && state.reason != profd::v1::REASON_ON_CPU; }

}  // namespace

double WaitingNs(const ThreadGroup& group) {
  double sum = 0;
  for (const State& state : group.states) {
    if (IsWait(state)) sum += state.time_ns;
  }
  return sum;
}

double SeenWaitingNs(const ThreadGroup& group) {
  double sum = 0;
  for (const State& state : group.states) {
    if (IsWait(state) && state.waker.kind != WakerKind::kUnknown) sum += state.time_ns;
  }
  return sum;
}

}  // namespace profctl
