// What groups of threads did, by hand.
#ifndef PROFD_TESTS_UNIT_FIXTURE_ACTIVITY_H_
#define PROFD_TESTS_UNIT_FIXTURE_ACTIVITY_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "client/analysis/activity.h"

namespace profctl {

inline constexpr double kS = 1e9;

// Groups by hand, each of one thread by default, in a window of 30 s.
class Program {
 public:
  Program() {
    activity_.window_ns = static_cast<int64_t>(30 * kS);
    activity_.stacks.emplace_back();
  }

  uint32_t Add(const std::string& name, uint32_t threads = 1) {
    ThreadGroup group = {.process = "p", .name = name, .threads = threads};
    group.wall_ns = threads * activity_.window_ns;
    for (uint32_t i = 0; i < threads; i++) activity_.wall_ns.push_back(activity_.window_ns);
    activity_.groups.push_back(std::move(group));
    return static_cast<uint32_t>(activity_.groups.size() - 1);
  }

  // Of all threads of the group; `first` is the number of its first thread.
  State& Do(uint32_t group, Reason reason, const std::string& function, double seconds,
            Waker waker = {}) {
    State state = {.reason = reason, .function = function, .waker = std::move(waker)};
    uint32_t first = 0;
    for (uint32_t i = 0; i < group; i++) first += activity_.groups[i].threads;
    for (uint32_t i = 0; i < activity_.groups[group].threads; i++) {
      state.threads.push_back(first + i);
    }
    state.time_ns = seconds * kS;
    activity_.groups[group].states.push_back(std::move(state));
    return activity_.groups[group].states.back();
  }
  State& Run(uint32_t group, const std::string& function, double seconds) {
    return Do(group, profd::v1::REASON_ON_CPU, function, seconds);
  }
  State& Wait(uint32_t group, Reason reason, double seconds, Waker waker) {
    return Do(group, reason, "W", seconds, std::move(waker));
  }

  // A stack with this function.
  uint32_t Inside(const std::string& function) {
    const auto next = static_cast<uint32_t>(activity_.functions.size());
    const uint32_t number = activity_.functions.try_emplace(function, next).first->second;
    activity_.stacks.push_back({number});
    return static_cast<uint32_t>(activity_.stacks.size() - 1);
  }

  const Activity& activity() const { return activity_; }

 private:
  Activity activity_;
};

inline Waker By(uint32_t group, const std::string& function = "Wake") {
  return {.kind = WakerKind::kGroup, .group = group, .function = function};
}
inline Waker ByInterrupt(const std::string& name) {
  return {.kind = WakerKind::kInterrupt, .name = name};
}
inline Waker ByNobody() { return {.kind = WakerKind::kUnknown}; }

// A few groups that do anything.
inline Program DrawProgram(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Program program;
  const uint32_t groups = 1 + below(6);
  for (uint32_t g = 0; g < groups; g++) program.Add("g" + std::to_string(g), 1 + below(3));
  for (uint32_t s = below(40); s > 0; s--) {
    const std::string function = "f" + std::to_string(below(5));
    const double seconds = below(1000) / 100.0;
    Waker waker = below(3) == 0 ? ByInterrupt("[timer]") : By(below(groups), function);
    State& state = below(3) == 0 ? program.Run(below(groups), function, seconds)
                                 : program.Do(below(groups), static_cast<Reason>(1 + below(12)),
                                              function, seconds, std::move(waker));
    if (state.reason == profd::v1::REASON_RUNQUEUE) state.waker = {};
    state.idle = state.for_work = state.reason == profd::v1::REASON_POLL;
    if (below(2) == 0) state.stack = program.Inside("f" + std::to_string(below(5)));
  }
  return program;
}

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_ACTIVITY_H_
