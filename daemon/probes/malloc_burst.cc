#include "daemon/probes/malloc_burst.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "bpf/abi.h"
#include "daemon/base/clock.h"
#include "daemon/probes/kernel_hands.h"

namespace profd {
namespace {

// Much longer than the kernel ever takes.
constexpr int64_t kMostWaitNs = 10'000'000'000;

}  // namespace

void MallocBurstProbes::OnMapped(const ProbedModule& where, const GlibcInfo& info) {
  ProbePlaces places;
  {
    absl::MutexLock lock(&mutex_);
    ProbePlaces& known = modules_[where.second];
    if (known == nullptr) {
      std::vector<ProbePlace> list;
      list.reserve(info.functions.size());
      for (const GlibcFunction& function : info.functions) {
        list.push_back({.offset = function.offset,
                        .cookie = PROFD_PROBE_COOKIE(function.place, function.stepped ? 1 : 0,
                                                     static_cast<uint64_t>(where.second))});
      }
      known = std::make_shared<const std::vector<ProbePlace>>(std::move(list));
    }
    places = known;
  }
  reconciler_->Want(KeyOf(ProbeSet::kBurst, where),
                    {.places = std::move(places), .why_none = {}, .present = false});
}

std::map<ProbedModule, std::string> MallocBurstProbes::Places() const {
  std::map<ProbedModule, std::string> places;
  reconciler_->ForEach(ProbeSet::kBurst, [&](const ProbeKey& key, const ProbeState& state) {
    places.emplace(ProbedModule(key.pid, key.module), state.failure);
  });
  return places;
}

std::vector<ProbeKey> MallocBurstProbes::KeysOf(const std::vector<ProbedModule>& where) const {
  std::vector<ProbeKey> keys;
  keys.reserve(where.size());
  for (const ProbedModule& place : where) keys.push_back(KeyOf(ProbeSet::kBurst, place));
  return keys;
}

size_t MallocBurstProbes::PutIn(const std::vector<ProbedModule>& where) {
  breaks_ = reconciler_->breaks(ProbeSet::kBurst);
  const std::vector<ProbeKey> keys = KeysOf(where);
  reconciler_->SetPresent(keys, true);
  reconciler_->Await(ProbeSet::kBurst, MonotonicNs() + kMostWaitNs);
  size_t standing = 0;
  for (const ProbeKey& key : keys) {
    const std::optional<ProbeState> state = reconciler_->StateOf(key);
    if (state && state->stands) ++standing;
  }
  return standing;
}

bool MallocBurstProbes::TakeOut(const std::vector<ProbedModule>& where) {
  const bool unbroken = reconciler_->breaks(ProbeSet::kBurst) == breaks_;
  reconciler_->SetPresent(KeysOf(where), false);
  reconciler_->Await(ProbeSet::kBurst, MonotonicNs() + kMostWaitNs);
  return unbroken;
}

Traps MallocBurstProbes::MeasureTraps() {
  const auto attach = [this](int file, uint64_t offset) {
    const ProbePlace place = {.offset = offset,
                              .cookie = PROFD_PROBE_COOKIE(PROFD_MALLOC_MALLOC, 0, 0)};
    return PutProbes(kernel_, ProbeSet::kBurst, file, getpid(), {&place, 1});
  };
  if (!emulated_) emulated_.emplace(FirstInstruction::kEmulated, attach);
  if (!stepped_) stepped_.emplace(FirstInstruction::kStepped, attach);
  return {.emulated = emulated_->Measure(), .stepped = stepped_->Measure()};
}

}  // namespace profd
