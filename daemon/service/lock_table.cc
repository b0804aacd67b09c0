#include "daemon/service/lock_table.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "daemon/base/wrapping.h"
#include "daemon/memory/process_memory.h"
#include "daemon/profile/waker_estimate.h"
#include "daemon/service/lock_owner.h"
#include "daemon/service/lock_waits.h"
#include "daemon/service/memory_names.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"
#include "daemon/service/waker_frames.h"

namespace profd {
namespace {

constexpr size_t kMostLocks = 200;
constexpr size_t kMostPlaces = 8;
constexpr int kMostOwners = 32;
constexpr size_t kMostProcesses = 64;    // whose memory is read
constexpr size_t kMostAddresses = 4096;  // of one process
constexpr double kLargestError = 4e18;   // stays one that can be added up
constexpr std::string_view kNoStack = "[unsampled]";

int64_t ErrorOf(double variance) {
  return std::llround(std::min(std::sqrt(variance), kLargestError));
}

bool IsWaitForLock(const SampleKey& key) {
  return key.kind == Kind::kWait && key.reason == Reason::kLock;
}

// The file behind a descriptor, as it is now; empty: not known.
std::string FileOf(const ProcessId& process, uint64_t descriptor) {
  if (process.start_ns == 0) return "";
  const auto directory = ProcessDirectory::Open("/proc", process.pid, process.start_ns);
  if (!directory.ok()) return "";
  const absl::StatusOr<std::string> path = directory->ReadLink(absl::StrCat("fd/", descriptor));
  return path.ok() ? CleanText(*path, kMaxPathText) : "";
}

// Of threads that ended early the start of the process is not known.
std::vector<ProcessId> StartsOf(const MergedProfile& profile) {
  std::vector<ProcessId> ids;
  for (const MergedThread& thread : profile.threads) {
    const ProcessId id = ProcessIdOf(*thread.info);
    if (id.start_ns != 0) ids.push_back(id);
  }
  return ids;
}

}  // namespace

void LockTable::Sum::Add(int64_t amount, double error) {
  ns = WrappingAdd(ns, amount);
  variance += error * error;
}

LockTable::LockTable(const MergedProfile& profile, const NamedStacks& stacks, FrameNames* names)
    : profile_(profile), stacks_(stacks), names_(names), ids_(StartsOf(profile)) {
  for (const MergedThread& thread : profile.threads) {
    const ProcessId process = ids_.Of(*thread.info);
    for (const Sample& sample : thread.samples) {
      if (!IsWaitForLock(sample.key)) continue;
      const LockFrames& frames = stacks_.stacks()[NumberOf(*thread.info, sample.key)].lock;
      const LockWait wait = DescribeLockWait(sample.key, frames, "");
      if (!frames.contended || frames.kind == kLibcLock) continue;
      if (wait.object == LockWait::Object::kAddress) kinds_[{process, wait.address}] = frames.kind;
    }
  }
  std::map<ProcessId, std::set<uint64_t>> addresses;
  for (const MergedThread& thread : profile.threads) {
    const ProcessId process = ids_.Of(*thread.info);
    for (const Sample& sample : thread.samples) {
      if (!IsWaitForLock(sample.key)) continue;
      const uint32_t stack = NumberOf(*thread.info, sample.key);
      const LockWait wait = DescribeLockWait(sample.key, FramesOf(process, sample.key, stack), "");
      if (wait.object == LockWait::Object::kFile && files_.size() < kMostAddresses) {
        files_.try_emplace({process, wait.address});
      }
      if (wait.object != LockWait::Object::kAddress) continue;
      if (addresses.size() == kMostProcesses && !addresses.contains(process)) continue;
      std::set<uint64_t>& of_process = addresses[process];
      if (of_process.size() < kMostAddresses) of_process.insert(wait.address);
    }
  }
  MemoryNames memory;
  for (const auto& [process, set] : addresses) {
    const std::vector<uint64_t> list(set.begin(), set.end());
    std::vector<MemoryName> found = memory.Name(process, list);
    for (size_t i = 0; i < list.size(); i++) places_[{process, list[i]}] = std::move(found[i]);
  }
  for (auto& [key, path] : files_) path = FileOf(key.first, key.second);
}

uint32_t LockTable::NumberOf(const ThreadInfo& thread, const SampleKey& key) const {
  return stacks_.NumberOf(key.stack, ProcessIdOf(thread));
}

WaitedLock LockTable::Of(const ThreadInfo& thread, const SampleKey& key,
                         std::string_view idle) const {
  const ProcessId process = ids_.Of(thread);
  const uint32_t number = NumberOf(thread, key);
  const LockWait wait = DescribeLockWait(key, FramesOf(process, key, number), idle);
  WaitedLock lock = {.kind = wait.kind, .idle = wait.idle, .shared = wait.shared};
  switch (wait.object) {
    case LockWait::Object::kAddress: {
      lock.address = wait.address;
      const auto place = places_.find({process, wait.address});
      lock.name =
          place == places_.end() ? absl::StrCat("0x", absl::Hex(wait.address)) : place->second.text;
      if (place != places_.end() && place->second.shared) {
        lock.shared = true;
        lock.address = 0;
      }
      break;
    }
    case LockWait::Object::kFile: {
      const auto file = files_.find({process, wait.address});
      lock.name = file == files_.end() || file->second.empty()
                      ? absl::StrCat("file descriptor ", wait.address)
                      : file->second;
      lock.shared = file != files_.end() && !file->second.empty();
      break;
    }
    case LockWait::Object::kSemaphores:
      lock.name = absl::StrCat("semaphore set ", wait.address);
      break;
    case LockWait::Object::kNone: {
      const std::string_view function = PlaceOf(number);
      lock.name = function == kNoStack ? std::string(function)
                                       : absl::StrCat("lock of ", std::string(function));
      break;
    }
  }
  return lock;
}

LockFrames LockTable::FramesOf(const ProcessId& process, const SampleKey& key,
                               uint32_t stack) const {
  const LockFrames& frames = stacks_.stacks()[stack].lock;
  if (!frames.kind.empty() && frames.kind != kLibcLock) return frames;
  for (const uint64_t address : {key.argument, LockAt(kPthreadRwlock, key.argument)}) {
    const auto known = kinds_.find({process, address});
    if (known == kinds_.end() || LockAt(known->second, key.argument) != address) continue;
    return {.kind = known->second, .contended = true};
  }
  return frames;
}

std::string_view LockTable::PlaceOf(uint32_t stack) const {
  const NamedStack& named = stacks_.stacks()[stack];
  if (named.frames.empty()) return kNoStack;
  const NamedFrame& frame = stacks_.frames()[named.frames[named.lock_place]];
  return named.lock_line < frame.inlined.size() ? frame.inlined[named.lock_line].function
                                                : frame.function;
}

LockTable::Use& LockTable::UseOf(const MergedThread& thread, uint32_t process,
                                 const WaitedLock& lock) {
  if (lock.shared)
    process = first_of_name_.try_emplace(thread.info->process, process).first->second;
  Use& use = uses_[{process, lock}];
  use.processes.insert(ids_.Of(*thread.info));
  return use;
}

void LockTable::AddThread(const MergedThread& thread, uint32_t process,
                          const std::vector<Wait>& waits, const EstimatedThread& all) {
  std::set<const Use*> seen;
  for (const Wait& wait : waits) {
    Use& use = UseOf(thread, process, wait.lock);
    use.time.Add(wait.sample->amount, static_cast<double>(wait.sample->error));
    use.samples = WrappingAdd(use.samples, wait.sample->ticks);
    if (seen.insert(&use).second) use.threads++;
    const uint32_t stack = NumberOf(*thread.info, wait.sample->key);
    use.waiters[PlaceOf(stack)].time.Add(wait.sample->amount,
                                         static_cast<double>(wait.sample->error));
  }
  if (waits.empty()) return;
  AddEnded(thread, process, waits, all);
  AddReleasers(thread, process, waits, all);
}

// Waits that ended, but where no tick of the window saw one, have no row.
void LockTable::AddEnded(const MergedThread& thread, uint32_t process,
                         const std::vector<Wait>& waits, const EstimatedThread& all) {
  using Place = std::tuple<StackId, uint64_t, int32_t>;
  const auto place_of = [](const SampleKey& key) {
    return Place(key.stack, key.argument, key.syscall);
  };
  const EndedThread ended =
      EstimateEnded(all, thread.samples.OfKind(Kind::kEnded), profile_.tick_interval_ns);
  if (ended.rows.empty()) return;
  std::map<Place, std::pair<WaitCount*, WaitCount*>> counts;
  for (const Wait& wait : waits) {
    const SampleKey& key = wait.sample->key;
    Use& use = UseOf(thread, process, wait.lock);
    counts[place_of(key)] = {&use.count, &use.waiters[PlaceOf(NumberOf(*thread.info, key))].count};
  }
  std::map<WaitCount*, std::vector<const EndedRow*>> rows;
  for (const EndedRow& row : ended.rows) {
    const auto found = counts.find(place_of(row.wait));
    if (found == counts.end()) continue;
    rows[found->second.first].push_back(&row);
    rows[found->second.second].push_back(&row);
  }
  for (const auto& [count, list] : rows) count->AddThread(list, ended);
}

// Wakers are known by the waiter's stack. A stack that waited for several locks gives each of them
// a part of its wakers, as of its time.
void LockTable::AddReleasers(const MergedThread& thread, uint32_t process,
                             const std::vector<Wait>& waits, const EstimatedThread& all) {
  struct Stack {
    int64_t ns = 0;
    std::map<Use*, int64_t> locks;
  };
  std::map<StackId, Stack> stacks;
  for (const Wait& wait : waits) {
    Stack& stack = stacks[wait.sample->key.stack];
    stack.ns = WrappingAdd(stack.ns, wait.sample->amount);
    int64_t& of_lock = stack.locks[&UseOf(thread, process, wait.lock)];
    of_lock = WrappingAdd(of_lock, wait.sample->amount);
  }
  for (const auto& [id, stack] : stacks) {
    if (stack.locks.size() < 2) continue;
    for (const auto& [use, ns] : stack.locks) use->shared = true;
  }
  for (const EstimatedSample& s : EstimateWakers(all, thread.samples.OfKind(Kind::kWaker))) {
    if (s.key.reason != Reason::kLock) continue;
    const auto found = stacks.find(WaiterOf(s.key));
    if (found == stacks.end() || found->second.ns <= 0) continue;
    for (const auto& [use, ns] : found->second.locks) {
      const double share = static_cast<double>(ns) / static_cast<double>(found->second.ns);
      const int64_t amount = std::llround(static_cast<double>(s.amount) * share);
      const double error = static_cast<double>(s.error) * share;
      if (s.key.stack == kWakerUnknown) {
        use->unknown.Add(amount, error);
        continue;
      }
      Released& released = use->releasers[s.key.stack];
      released.waiter = found->first;
      released.process = ProcessIdOf(*thread.info);
      released.time.Add(amount, error);
    }
  }
}

LockTable::ReleaserNames LockTable::NameReleasers(
    const std::vector<const std::pair<const Key, Use>*>& uses) const {
  NamedStacks stacks(profile_.stacks, &profile_.modules);
  for (const auto* entry : uses) {
    const Use& use = entry->second;
    for (const auto& [waker, of] : use.releasers) {
      stacks.Add(of.waiter, of.process);
      stacks.AddWoken(of.waiter, of.process, waker);
    }
  }
  stacks.Name(names_, LineWish::kNone);
  std::vector<FrameText> texts;
  texts.reserve(stacks.frames().size());
  for (const NamedFrame& frame : stacks.frames()) {
    texts.push_back({frame.function, frame.module, frame.kind});
  }
  const LockPlaceRule places(texts);
  ReleaserNames found;
  for (const auto* entry : uses) {
    const Use& use = entry->second;
    for (const auto& [waker, of] : use.releasers) {
      const uint32_t number = stacks.NumberOfWoken(of.waiter, of.process, waker);
      // The waker's frames, outermost first after its name, up to the separator.
      std::vector<uint32_t> frames;
      for (const uint32_t frame : stacks.stacks()[number].frames) {
        if (texts[frame].kind == FrameKind::kSynthetic &&
            texts[frame].function == kWakerSeparator) {
          break;
        }
        frames.push_back(frame);
      }
      if (frames.empty()) continue;
      Releaser& releaser = found[waker];
      releaser.first = texts[frames.front()].function;
      frames.erase(frames.begin());
      std::reverse(frames.begin(), frames.end());
      // Of an interrupt the name says all.
      if (frames.empty() || releaser.first.starts_with("[")) continue;
      releaser.second = texts[frames[places.Of(frames)]].function;
    }
  }
  return found;
}

void LockTable::FillWaiters(const Use& use, v1::LockUse* out) const {
  std::vector<const std::pair<const std::string_view, Waiter>*> waiters;
  for (const auto& entry : use.waiters) waiters.push_back(&entry);
  std::stable_sort(waiters.begin(), waiters.end(), [](const auto* a, const auto* b) {
    return a->second.time.ns > b->second.time.ns;
  });
  for (size_t i = 0; i < std::min(waiters.size(), kMostPlaces); i++) {
    const auto& [function, waiter] = *waiters[i];
    v1::LockPlace* place = out->add_waiters();
    place->set_function(std::string(function));
    place->set_time_ns(waiter.time.ns);
    place->set_error_ns(ErrorOf(waiter.time.variance));
    if (CountsEndedWaits(profile_)) FillWaitCount(waiter.count, place->mutable_waits());
  }
}

void LockTable::FillReleasers(const Use& use, const ReleaserNames& names, v1::LockUse* out) {
  std::map<Releaser, Sum> sums;
  for (const auto& [waker, of] : use.releasers) {
    const auto name = names.find(waker);
    Sum& sum = sums[name == names.end() ? Releaser() : name->second];
    sum.ns = WrappingAdd(sum.ns, of.time.ns);
    sum.variance += of.time.variance;
  }
  std::vector<std::pair<Releaser, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  int64_t left_out = 0;
  for (size_t i = 0; i < rows.size(); i++) {
    const auto& [name, sum] = rows[i];
    if (i >= kMostPlaces) {
      left_out = WrappingAdd(left_out, sum.ns);
      continue;
    }
    v1::LockPlace* place = out->add_releasers();
    place->set_waker(CleanText(name.first, kMaxNameText));
    place->set_function(CleanText(name.second));
    place->set_time_ns(sum.ns);
    place->set_error_ns(ErrorOf(sum.variance));
  }
  out->set_release_unknown_ns(use.unknown.ns);
  out->set_release_left_out_ns(left_out);
  out->set_shared_releasers(use.shared);
}

void LockTable::FillOwners(v1::Profile* out) const {
  bool refused = false;
  for (int i = 0; i < std::min(out->locks_size(), kMostOwners); i++) {
    v1::LockUse* lock = out->mutable_locks(i);
    if (lock->kind() != kPthreadMutex || !lock->idle().empty() || lock->address() == 0) continue;
    const auto use = std::find_if(uses_.begin(), uses_.end(), [&](const auto& entry) {
      return entry.first.first == lock->process();
    });
    const auto owner = OwnerOfMutex(*use->second.processes.begin(), lock->address());
    refused = refused || absl::IsPermissionDenied(owner.status());
    if (!owner.ok() || !owner->has_value()) continue;
    lock->set_owner_tid((*owner)->tid);
    lock->set_owner((*owner)->name);
  }
  if (refused) {
    out->add_lock_notes("Who holds the locks now cannot be read: profd needs CAP_SYS_PTRACE.");
  }
}

void LockTable::Fill(v1::Profile* out) const {
  std::vector<const std::pair<const Key, Use>*> uses;
  for (const auto& entry : uses_) uses.push_back(&entry);
  std::stable_sort(uses.begin(), uses.end(), [](const auto* a, const auto* b) {
    const bool a_idle = !a->first.second.idle.empty(), b_idle = !b->first.second.idle.empty();
    return a_idle != b_idle ? b_idle : a->second.time.ns > b->second.time.ns;
  });
  int64_t left_out_ns = 0;
  for (size_t i = kMostLocks; i < uses.size(); i++) {
    left_out_ns = WrappingAdd(left_out_ns, uses[i]->second.time.ns);
  }
  out->set_locks_left_out(uses.size() > kMostLocks ? uses.size() - kMostLocks : 0);
  out->set_locks_left_out_ns(left_out_ns);
  uses.resize(std::min(uses.size(), kMostLocks));
  const ReleaserNames names = NameReleasers(uses);
  for (const auto* entry : uses) {
    const auto& [process, lock] = entry->first;
    const Use& use = entry->second;
    v1::LockUse* row = out->add_locks();
    row->set_process(process);
    row->set_name(lock.name);
    row->set_kind(std::string(lock.kind));
    row->set_address(lock.address);
    row->set_idle(std::string(lock.idle));
    row->set_time_ns(use.time.ns);
    row->set_error_ns(ErrorOf(use.time.variance));
    row->set_samples(Count(use.samples));
    row->set_threads(use.threads);
    row->set_processes(static_cast<uint32_t>(use.processes.size()));
    if (CountsEndedWaits(profile_)) FillWaitCount(use.count, row->mutable_waits());
    FillWaiters(use, row);
    FillReleasers(use, names, row);
  }
  FillOwners(out);
  if (!uses.empty()) AddLockNotes(profile_, out);
}

}  // namespace profd
