// Fake hands: attach nothing, check the rules of ProbeHands, and fail when a test wants it.
#ifndef PROFD_TESTS_SUPPORT_FAKE_HANDS_H_
#define PROFD_TESTS_SUPPORT_FAKE_HANDS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/probes/hands.h"

namespace profd {

class FakeHands final : public ProbeHands {
 public:
  // Called during a step; then the result of the step.
  std::function<void(const ProbeKey&)> meanwhile = [](const ProbeKey&) {};
  std::function<absl::Status(const ProbeKey&)> attaches = [](const ProbeKey&) {
    return absl::OkStatus();
  };
  std::function<absl::Status(const ProbeKey&)> looks = [](const ProbeKey&) {
    return absl::OkStatus();
  };
  bool at_once = true;

  const std::map<ProbeKey, std::vector<uint64_t>>& standing() const { return standing_; }
  const std::set<GuardKey>& guards() const { return guards_; }
  Gate GateOf(const ProbedModule& where) const {
    const auto gate = gates_.find(where);
    return gate == gates_.end() ? Gate::kUnknown : gate->second;
  }
  size_t gates() const { return gates_.size(); }
  // In order of the calls.
  std::vector<ProbeKey> attached, looked;
  std::vector<size_t> detached;  // how many together
  int opened = 0;

  absl::Status Attach(const ProbeKey& key, const std::vector<ProbePlace>& places) override {
    EXPECT_FALSE(standing_.contains(key)) << "put in twice";
    ExpectNothingCounts(key);
    return Put(key, places);
  }
  absl::Status Replace(const ProbeKey& key, const std::vector<ProbePlace>& places) override {
    EXPECT_TRUE(standing_.contains(key)) << "nothing to replace";
    return Put(key, places);
  }
  void Detach(const std::vector<ProbeKey>& keys) override {
    detached.push_back(keys.size());
    for (const ProbeKey& key : keys) {
      EXPECT_EQ(standing_.erase(key), 1U) << "taken out twice";
      ExpectNothingCounts(key);
      const bool guarded = !RulesOf(key.set).keeps_guard || guards_.contains({key.set, key.module});
      EXPECT_TRUE(guarded) << "the guard goes last";
      meanwhile(key);
    }
  }
  void DropGuards(const std::vector<GuardKey>& guards) override {
    for (const GuardKey& guard : guards) {
      EXPECT_EQ(guards_.erase(guard), 1U);
      for (const auto& [key, places] : standing_) {
        EXPECT_NE(GuardKey(key.set, key.module), guard) << "the guard goes last";
      }
    }
  }
  absl::Status Look(const ProbeKey& key) override {
    looked.push_back(key);
    meanwhile(key);
    return looks(key);
  }
  void SetGate(const ProbedModule& where, Gate gate) override {
    if (gate == Gate::kUnknown) {
      gates_.erase(where);
    } else {
      gates_[where] = gate;
    }
    if (gate == Gate::kOpen) ++opened;
  }

 private:
  absl::Status Put(const ProbeKey& key, const std::vector<ProbePlace>& places) {
    EXPECT_FALSE(places.empty());
    meanwhile(key);
    if (absl::Status status = attaches(key); !status.ok()) return status;
    std::vector<uint64_t>& offsets = standing_[key];
    offsets.clear();
    for (const ProbePlace& place : places) offsets.push_back(place.offset);
    if (RulesOf(key.set).keeps_guard) guards_.insert({key.set, key.module});
    attached.push_back(key);
    return absl::OkStatus();
  }
  // Hits do not count while probes are being attached or detached.
  void ExpectNothingCounts(const ProbeKey& key) const {
    if (!RulesOf(key.set).all_or_none) return;
    EXPECT_EQ(GateOf({key.pid, key.module}), at_once ? Gate::kClosed : Gate::kUnknown);
  }

  std::map<ProbeKey, std::vector<uint64_t>> standing_;
  std::set<GuardKey> guards_;
  std::map<ProbedModule, Gate> gates_;
};

inline ProbePlaces PlacesAt(std::vector<uint64_t> offsets) {
  std::vector<ProbePlace> places;
  for (const uint64_t offset : offsets) places.push_back({.offset = offset});
  return std::make_shared<const std::vector<ProbePlace>>(std::move(places));
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_FAKE_HANDS_H_
