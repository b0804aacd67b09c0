#include "daemon/service/name_ends.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/service/wait_object.h"

namespace profd {
namespace {

bool ShowsObjects(const FetchPlan& plan) {
  const std::vector<v1::GroupKey>& keys = plan.group_by;
  const bool kept = keys.empty() || std::count(keys.begin(), keys.end(), v1::GROUP_KEY_OBJECT) > 0;
  // Two windows are compared, and an end is there now alone.
  return kept && plan.AsksWaits() && !plan.baseline;
}

// The waiters of each object that has another end.
std::map<StackId, OtherEnds::Waiters> WaitersOf(const FetchPlan& plan, const MergedProfile& profile,
                                                WaitObjects* objects) {
  std::map<StackId, OtherEnds::Waiters> waiters;
  const auto add = [&](const SampleKey& key, size_t thread) {
    if (key.kind != Kind::kWait || !objects->Of(ObjectOf(key)).near) return;
    waiters[ObjectOf(key)].insert(ProcessIdOf(*profile.threads[thread].info));
  };
  if (plan.longest) {
    for (const MergedWait& merged : profile.long_waits) {
      if (plan.reasons[static_cast<size_t>(merged.wait.key.reason)]) {
        add(merged.wait.key, merged.thread);
      }
    }
    return waiters;
  }
  for (size_t i = 0; i < profile.threads.size(); i++) {
    for (const Sample& sample : profile.threads[i].samples) {
      if (plan.Shows(sample.key)) add(sample.key, i);
    }
  }
  return waiters;
}

const ThreadInfo& InfoOf(const MergedThread& thread) { return *thread.info; }
const ThreadInfo& InfoOf(const LookedThread& thread) { return thread.info; }

template <typename Threads>
std::set<int32_t> PidsOf(const Threads& threads) {
  std::set<int32_t> pids;
  for (const auto& thread : threads) pids.insert(InfoOf(thread).pid);
  return pids;
}

}  // namespace

void NameOtherEnds(const FetchPlan& plan, const MergedProfile& profile,
                   const OtherEnds::Sources& sources, WaitObjects* objects) {
  if (!ShowsObjects(plan)) return;
  OtherEnds ends(sources, profile.covered.end_ns + BootNs() - MonotonicNs());
  std::vector<std::pair<StackId, size_t>> questions;
  for (auto& [object, waiters] : WaitersOf(plan, profile, objects)) {
    const auto question = ends.Ask(objects->Of(object).near->end, std::move(waiters));
    if (question) questions.emplace_back(object, *question);
  }
  ends.Find(PidsOf(profile.threads));
  for (const auto& [object, question] : questions) {
    objects->SetOtherEnd(object, ends.Phrase(question));
  }
}

LookedObjects::Key LookedObjects::KeyOf(const LookedThread& thread) {
  // A descriptor fits into 31 bits.
  const bool descriptor = thread.object && IsDescriptor(thread.syscall) &&
                          *thread.object <= std::numeric_limits<int32_t>::max();
  return {thread.described, ProcessIdOf(thread.info),
          descriptor ? static_cast<int32_t>(*thread.object) : -1};
}

LookedObjects::LookedObjects(const Look& look, const OtherEnds::Sources& sources,
                             WaitObjects* objects)
    : objects_(objects) {
  OtherEnds ends(sources);
  std::map<Key, std::optional<size_t>> questions;
  for (const LookedThread& thread : look.threads) {
    const WaitObject& object = objects_->Of(thread.described);
    if (!object.near) continue;
    const auto [it, fresh] = questions.try_emplace(KeyOf(thread));
    if (!fresh) continue;
    const auto& [described, process, descriptor] = it->first;
    it->second = ends.Ask(object.near->end, {process},
                          descriptor < 0 ? std::nullopt : std::optional(descriptor));
  }
  ends.Find(PidsOf(look.threads));
  for (const auto& [key, question] : questions) {
    if (question) phrases_[key] = ends.Phrase(*question);
  }
}

std::string LookedObjects::TextOf(const LookedThread& thread) const {
  const WaitObject& object = objects_->Of(thread.described);
  const auto phrase = phrases_.find(KeyOf(thread));
  return phrase == phrases_.end() ? object.text : WithOtherEnd(object, phrase->second);
}

}  // namespace profd
