#include "daemon/probes/kernel_hands.h"

#include <unistd.h>

#include <utility>

#include "bpf/abi.h"

namespace profd {
namespace {

// Beside the worker.
constexpr size_t kTakers = 15;

}  // namespace

KernelHands::KernelHands(ProbeKernel* kernel, const Modules* modules, Looker look)
    : kernel_(kernel), modules_(modules), look_(std::move(look)), takers_(kTakers) {}

absl::StatusOr<Probe> PutProbes(ProbeKernel* kernel, ProbeSet set, int file, int32_t pid,
                                std::span<const ProbePlace> places) {
  switch (set) {
    case ProbeSet::kBurst:
      return kernel->AttachMallocProbe(file, pid, places);
    case ProbeSet::kTold:
      return kernel->AttachToldProbe(file, pid, places);
    case ProbeSet::kEvents:
    case ProbeSet::kSlowPaths:
      return kernel->AttachHeapProbe(file, pid, places);
    case ProbeSet::kLive:
      return kernel->AttachLiveProbe(file, pid, places);
    case ProbeSet::kMapCalls:
      return kernel->AttachMapProbe(file, pid, places);
  }
  return absl::InternalError("no such probes");
}

absl::StatusOr<Probe> KernelHands::Put(const ProbeKey& key, const std::vector<ProbePlace>& places) {
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(key.module));
  ASSIGN_OR_RETURN(Probe probe, PutProbes(kernel_, key.set, file.get(), key.pid, places));
  if (RulesOf(key.set).keeps_guard) guards_.insert_or_assign({key.set, key.module}, probe.guard);
  return probe;
}

Traps KernelHands::traps() const {
  absl::MutexLock lock(&mutex_);
  return traps_;
}

void KernelHands::MeasureTraps() {
  if (traps().emulated != 0) return;
  const auto attach = [this](int file, uint64_t offset) {
    const ProbePlace place = {.offset = offset,
                              .cookie = PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 0)};
    // We are no target: either program ends at once.
    auto probe = PutProbes(kernel_, ProbeSet::kEvents, file, getpid(), {&place, 1});
    return probe.ok() ? std::move(probe)
                      : PutProbes(kernel_, ProbeSet::kMapCalls, file, getpid(), {&place, 1});
  };
  const Traps traps = {.emulated = TrapGauge(FirstInstruction::kEmulated, attach).Measure(),
                       .stepped = TrapGauge(FirstInstruction::kStepped, attach).Measure()};
  absl::MutexLock lock(&mutex_);
  traps_ = traps;
}

absl::Status KernelHands::Attach(const ProbeKey& key, const std::vector<ProbePlace>& places) {
  if (key.set != ProbeSet::kBurst) MeasureTraps();
  ASSIGN_OR_RETURN(Probe probe, Put(key, places));
  probes_.insert_or_assign(key, std::move(probe));
  return absl::OkStatus();
}

absl::Status KernelHands::Replace(const ProbeKey& key, const std::vector<ProbePlace>& places) {
  ASSIGN_OR_RETURN(Probe probe, Put(key, places));
  Probe old = std::exchange(probes_[key], std::move(probe));
  return absl::OkStatus();
}

void KernelHands::Detach(const std::vector<ProbeKey>& keys) {
  std::vector<Probe> probes;
  for (const ProbeKey& key : keys) {
    const auto at = probes_.find(key);
    if (at == probes_.end()) continue;
    probes.push_back(std::move(at->second));
    probes_.erase(at);
  }
  takers_.Remove(std::move(probes));
}

void KernelHands::DropGuards(const std::vector<GuardKey>& guards) {
  std::vector<Probe> unused;
  for (const GuardKey& key : guards) {
    const auto at = guards_.find(key);
    if (at == guards_.end()) continue;
    unused.emplace_back().guard = std::move(at->second);
    guards_.erase(at);
  }
  takers_.Remove(std::move(unused));
}

void KernelHands::SetGate(const ProbedModule& where, Gate gate) {
  const auto& [pid, module] = where;
  if (gate == Gate::kUnknown) {
    kernel_->ForgetHeapSettled(pid, module);
  } else {
    kernel_->SetHeapSettled(pid, module, gate == Gate::kOpen);
  }
}

}  // namespace profd
