#include "daemon/source/module.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <thread>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/source/record.h"
#include "daemon/target/procfs.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kRescanInterval = 30 * kSecond;
// Less than the patience of those who ask for a drain.
constexpr int64_t kFilesAtStart = 8 * kSecond;
constexpr int64_t kMapCallsAtStart = kSecond;
constexpr int64_t kStepAtStart = kSecond / 20;
// Pauses between searches for modules that nobody maps: the shortest, and the longest where they
// make no room.
constexpr int64_t kRoomPause = kSecond / 2;
constexpr int64_t kLongestRoomPause = 30 * kSecond;
constexpr int64_t kKeepInterval = 30 * kSecond;
// Who changes its memory map holds the lock for microseconds, or milliseconds if much is mapped.
constexpr int kLooksAtLocks = 10;
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
// Where every process is watched, so many are looked at by themselves first.
constexpr size_t kLargest = 64;

}  // namespace

ModulesSource::ModulesSource(const SourceContext& context, SoughtInModules sought,
                             ModuleLimits limits)
    : context_(context),
      sought_(sought),
      modules_(context.kernel, context.cpu_use, limits, sought) {
  if (PutsProbes()) {
    probes_ = std::make_unique<TargetProbes>(context_.kernel, &modules_, context_.clock);
  }
}

absl::Status ModulesSource::FindFiles() {
  ASSIGN_OR_RETURN(const auto processes, context_.kernel->MappingProcesses());
  std::map<int32_t, uint64_t> ticks;
  for (const profd_mapping_process& process : processes) {
    ticks[process.pid] = CpuTicks(process.pid);
  }
  // Only now, as a map may be locked at any time.
  ASSIGN_OR_RETURN(const std::vector<int32_t> free, FindFree());
  std::vector<int32_t> largest = free;
  std::stable_sort(largest.begin(), largest.end(),
                   [&](int32_t a, int32_t b) { return ticks[a] > ticks[b]; });
  const bool everything = context_.targets->everything();
  if (everything && largest.size() > kLargest) largest.resize(kLargest);
  RETURN_IF_ERROR(context_.kernel->AnnounceMappings(largest));
  if (everything) RETURN_IF_ERROR(Announce(free));
  context_.ring->Poll();
  return absl::OkStatus();
}

bool ModulesSource::AwaitFiles(absl::FunctionRef<void()> follow, absl::FunctionRef<bool()> go_on) {
  int64_t left = kFilesAtStart;
  // Calls `wait`, which takes a step at most, until it returns true, or `most` has passed.
  const auto await = [&](int64_t most, absl::FunctionRef<bool()> wait) {
    most = std::min(most, left);
    for (; most > 0 && go_on(); most -= kStepAtStart, left -= kStepAtStart) {
      if (wait()) return true;
      context_.ring->Poll();
    }
    return false;
  };
  // Somebody may have called exec meanwhile.
  context_.ring->Poll();
  drained_ns_ = context_.clock->MonotonicNs();
  failed_.Update(Look());
  bool known = await(left, [&] { return modules_.WaitIdle(kStepAtStart); });
  drained_ns_ = context_.clock->MonotonicNs();
  follow();
  failed_.Update(Look());
  if (probes_) {
    probes_->GrowUp();
    const auto stand = [&](ProbeSet last) {
      return probes_->Await(last, context_.clock->MonotonicNs() + kStepAtStart);
    };
    known &= await(left, [&] { return stand(ProbeSet::kLive); });
    known &= await(kMapCallsAtStart, [&] { return stand(ProbeSet::kMapCalls); });
  }
  return known && !modules_.IsReading();
}

void ModulesSource::Detach() {
  detached_ = true;
  if (probes_) probes_->SetOn(false);
}

absl::Status ModulesSource::Apply() {
  if (std::exchange(detached_, false) && probes_) probes_->SetOn(true);
  return absl::OkStatus();
}

std::vector<uint32_t> ModulesSource::records() const {
  return {PROFD_RECORD_MODULE, PROFD_RECORD_WATCHED, PROFD_RECORD_EXEC};
}

absl::Status ModulesSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  if (type == PROFD_RECORD_MODULE) {
    ASSIGN_OR_RETURN(const auto module, DecodeRecord<profd_module_record>(bytes));
    modules_.OnAnnounced(module);
  } else if (type == PROFD_RECORD_WATCHED) {
    ASSIGN_OR_RETURN(const auto watched, DecodeRecord<profd_watched_record>(bytes));
    const WatchId id{static_cast<uint16_t>(watched.watch)};
    if (probes_) probes_->OnMapped(watched.pid, id);
  } else {
    ASSIGN_OR_RETURN(const auto exec, DecodeRecord<profd_exec_record>(bytes));
    OnExec(exec);
  }
  return absl::OkStatus();
}

void ModulesSource::OnExec(const profd_exec_record& exec) {
  if (probes_) probes_->OnExec(exec.pid);
  Targets& targets = *context_.targets;
  if (exec.target_id != 0 || (!targets.everything() && targets.OnExec(exec.pid))) {
    looks_.OnExec(context_.clock->MonotonicNs());
  }
}

absl::Status ModulesSource::Drain(ProfileDelta& delta) {
  drained_ns_ = delta.end_ns;
  if (context_.kernel->TakeUntoldExecs()) {
    // Somebody may match a name by now, or run what nobody ran before.
    looks_.OnExec(context_.clock->MonotonicNs());
    next_rescan_ns_ = 0;
  }
  const uint64_t unreadable = modules_.unreadable();
  delta.losses[static_cast<size_t>(Loss::kModuleUnreadable)] +=
      unreadable - std::exchange(unreadable_, unreadable);
  const uint64_t over_limit = modules_.over_limit();
  delta.losses[static_cast<size_t>(Loss::kRulesFull)] +=
      over_limit - std::exchange(over_limit_, over_limit);
  const uint64_t forgotten = modules_.forgotten();
  delta.losses[static_cast<size_t>(Loss::kModulesForgotten)] +=
      forgotten - std::exchange(forgotten_, forgotten);
  context_.kernel->AdvanceModuleClock();
  return std::exchange(failed_, absl::OkStatus());
}

void ModulesSource::Rescan() {
  const int64_t now = context_.clock->MonotonicNs();
  if (now < next_rescan_ns_) return;
  next_rescan_ns_ = now + kRescanInterval;
  if (context_.targets->Rescan() || looks_.found().all() != 0) looks_.Want();
  if (probes_) probes_->Refresh();
}

void ModulesSource::OnProcesses(const std::set<int32_t>& pids) {
  const bool more = !std::includes(processes_.begin(), processes_.end(), pids.begin(), pids.end());
  processes_ = pids;
  if (!PutsProbes()) return;
  looks_.OnDrain(modules_.found(), more, drained_ns_);
  if (probes_) probes_->KeepOnly(pids);
}

absl::StatusOr<std::vector<int32_t>> ModulesSource::FindFree() {
  std::set<int32_t> pids, locked;
  RETURN_IF_ERROR(FindLocked(pids, locked));
  for (const int32_t pid : locked) {
    if (!locked_.contains(pid)) {
      LogWarning("the memory map of PID ", pid, " stays locked: its files are not looked at");
    }
  }
  locked_ = std::move(locked);
  std::vector<int32_t> free;
  std::set_difference(pids.begin(), pids.end(), locked_.begin(), locked_.end(),
                      std::back_inserter(free));
  return free;
}

absl::Status ModulesSource::AnnounceMappings() {
  ASSIGN_OR_RETURN(const std::vector<int32_t> free, FindFree());
  return Announce(free);
}

absl::Status ModulesSource::Announce(std::span<const int32_t> free) {
  // One pass over all processes is cheaper than one for each.
  const bool all = context_.targets->everything() && locked_.empty();
  return all ? context_.kernel->AnnounceMappings() : context_.kernel->AnnounceMappings(free);
}

absl::Status ModulesSource::FindLocked(std::set<int32_t>& all, std::set<int32_t>& locked) {
  for (int look = 0; look < kLooksAtLocks; ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    ASSIGN_OR_RETURN(const auto processes, context_.kernel->MappingProcesses());
    std::set<int32_t> still;
    for (const profd_mapping_process& process : processes) {
      if (process.pid <= 0) continue;  // not in our PID namespace
      all.insert(process.pid);
      if (process.locked != 0 && (look == 0 || locked.contains(process.pid))) {
        still.insert(process.pid);
      }
    }
    locked = std::move(still);
    if (locked.empty()) break;
  }
  return absl::OkStatus();
}

absl::Status ModulesSource::Look() {
  if (!looks_.wanted()) return absl::OkStatus();
  const absl::Status status = AnnounceMappings();
  looks_.Looked(status.ok(), drained_ns_);
  context_.ring->Poll();
  return status;
}

bool ModulesSource::WantsNamed() const {
  return modules_.Use().retired != 0 && context_.clock->MonotonicNs() >= next_keep_ns_;
}

void ModulesSource::KeepOnly(const absl::flat_hash_set<ModuleId>& named) {
  next_keep_ns_ = context_.clock->MonotonicNs() + kKeepInterval;
  modules_.KeepOnly(named);
  if (probes_) probes_->KeepKnownModules();
}

void ModulesSource::Step() {
  LookEarly();
  MakeRoom();
  if (probes_) probes_->JudgePlaces();
}

void ModulesSource::LookEarly() {
  if (!PutsProbes()) return;
  const int64_t now = context_.clock->MonotonicNs();
  if (looks_.IsEarlyDue(modules_.found(), modules_.IsReading(), now)) LookNow();
}

bool ModulesSource::LookNow() {
  const int64_t now = context_.clock->MonotonicNs();
  context_.cpu->Begin();
  const absl::Status status = AnnounceMappings();
  failed_.Update(status);
  // This attaches probes.
  context_.ring->Poll();
  const int64_t used = context_.cpu->Charge(&look_cpu_ns_);
  // The time may exceed the CPU time, because memory maps may be locked.
  const int64_t took = std::max(used, context_.clock->MonotonicNs() - now);
  looks_.LookedEarly(status.ok(), now, took);
  next_room_ns_ = std::max(next_room_ns_, now + took * MappingLooks::kRarity);
  return status.ok() && locked_.empty();
}

void ModulesSource::MakeRoom() {
  if (!modules_.IsCrowded()) {
    room_pause_ns_ = kRoomPause;
    return;
  }
  const int64_t now = context_.clock->MonotonicNs();
  if (now < next_room_ns_) return;
  next_room_ns_ = now + room_pause_ns_;
  room_pause_ns_ = std::min(2 * room_pause_ns_, kLongestRoomPause);
  const uint32_t begin = context_.kernel->AdvanceModuleClock();
  if (LookNow()) modules_.MakeRoom(begin);
}

void ModulesSource::Costs(std::vector<CostRow>& rows) const {
  rows.push_back({.account = "look", .payer = Payer::kDaemon, .ns = look_cpu_ns_});
  rows.push_back({.account = "rules", .payer = Payer::kDaemon, .ns = context_.cpu_use->rules});
}

}  // namespace profd
