#include "daemon/store/memory_store.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "daemon/store/aging.h"
#include "daemon/store/folding.h"
#include "daemon/store/rollup.h"
#include "daemon/store/spans.h"

namespace profd {
namespace {

// A segment is sealed when it is this long and of so many drains, or longer still, or before it
// takes more than this, raw. Each names all its threads, so with rare drains it should not be
// short.
constexpr int64_t kSegmentNs = 10 * kSecondNs;
constexpr size_t kSegmentDrains = 6;
constexpr int64_t kMostSegmentNs = 60 * kSecondNs;
constexpr size_t kMaxOpenBytes = 4u << 20;
// Sealing more than this leaves much unused memory, which goes back to the kernel.
constexpr size_t kTrimAbove = 2u << 20;
// The same after a roll-up or a sum of more threads than this.
constexpr size_t kTrimThreads = 2048;
// Share of the byte limit that the open segment, and that known stacks and threads, may take.
constexpr size_t kOpenShare = 4;
constexpr size_t kKnownShare = 4;
// With less than this share of the limit in use, there is room for more detail again.
constexpr double kRoomy = 0.6;

}  // namespace

struct MemoryStore::Picks {
  std::vector<profd::Pick> window;        // slices of the window
  std::vector<profd::Pick> later;         // of sealed segments, after them
  std::vector<profd::Pick> open_changes;  // of raw segments, not after them
};

MemoryStore::MemoryStore(MemoryStoreOptions options)
    : options_(std::move(options)),
      boot_(std::make_shared<const BootIdentity>(options_.boot)),
      published_(std::make_shared<const Shelf>()) {
  absl::MutexLock lock(&writing_);
  shelf_.levels = std::make_shared<const Levels>();
  Publish();
}

void MemoryStore::IdentifyModulesBy(
    std::function<std::shared_ptr<const ModuleIdentity>(ModuleId)> identify) {
  absl::MutexLock lock(&writing_);
  identify_ = std::move(identify);
}

absl::Status MemoryStore::Append(ProfileDelta delta) {
  absl::MutexLock lock(&writing_);
  if (delta.end_ns < delta.begin_ns) {
    return absl::InvalidArgumentError("delta ends before it begins");
  }
  if (delta.end_ns < shelf_.newest_ns) {
    return absl::InvalidArgumentError("delta is older than the one before");
  }
  shelf_.newest_ns = delta.end_ns;
  shelf_.open.push_back(intake_.Take(std::move(delta)));
  open_bytes_ += shelf_.open.back()->bytes;
  shelf_.unknown_stacks = intake_.unknown_stacks();
  // Readers have it before the rest is done.
  Publish();
  if (IsFull()) Seal();
  KeepAge();
  // One of both in one append, so that none takes long.
  if (!RollUpOnce() && options_.sum_share > 0 && shelf_.sums.MakeNext(shelf_.sealed)) {
    trim_ |= intake_.threads() > kTrimThreads;
  }
  KeepBytes();
  Publish();
  // What this replaced is free by now, unless a reader has it.
  if (std::exchange(trim_, false)) malloc_trim(0);
  return absl::OkStatus();
}

bool MemoryStore::IsFull() const {
  const int64_t length_ns = shelf_.newest_ns - shelf_.open.front()->begin_ns();
  const size_t drains = shelf_.open.size();
  if (length_ns >= (drains >= kSegmentDrains ? kSegmentNs : kMostSegmentNs)) return true;
  return open_bytes_ > std::min(kMaxOpenBytes, options_.max_bytes / kOpenShare);
}

void MemoryStore::Seal() {
  if (shelf_.open.empty()) return;
  if (std::any_of(shelf_.open.begin(), shelf_.open.end(),
                  [](const SegmentPtr& raw) { return HasLevels(raw->raw); })) {
    auto levels = std::make_shared<Levels>(*shelf_.levels);
    for (const SegmentPtr& raw : shelf_.open) AddLevels(raw->raw, levels.get());
    level_bytes_ = BytesOf(*levels);
    shelf_.levels = std::move(levels);
  }
  const RollupOptions options = {
      .max_exited = kMaxExitedThreads,
      .of_drains = true,
      .latest = [this](ThreadId id) ABSL_NO_THREAD_SAFETY_ANALYSIS { return intake_.Thread(id); },
      .identify = identify_,
      .boot = boot_};
  shelf_.sealed.push_back(SealedSegment(RollUp(shelf_.open, options), 0));
  sealed_bytes_ += shelf_.sealed.back()->bytes;
  shelf_.open.clear();
  trim_ |= std::exchange(open_bytes_, 0) > kTrimAbove;
}

bool MemoryStore::RollUpOnce() {
  const auto step = NextRollup(shelf_.sealed, shelf_.newest_ns, haste_);
  if (!step) return false;
  const auto begin = shelf_.sealed.begin() + static_cast<std::ptrdiff_t>(step->begin);
  const auto end = shelf_.sealed.begin() + static_cast<std::ptrdiff_t>(step->end);
  const std::vector<SegmentPtr> segments(begin, end);
  for (const SegmentPtr& segment : segments) sealed_bytes_ -= segment->bytes;
  const Segment rolled = RollUp(
      segments,
      {.slice_ns = kAgingLevels[step->level].slice_ns,
       // All of them for want of room.
       .max_exited = haste_ > 0 ? 0 : kMaxExitedThreads,
       .latest = [this](ThreadId id) ABSL_NO_THREAD_SAFETY_ANALYSIS { return intake_.Thread(id); },
       .boot = boot_});
  trim_ |= rolled.threads.size() > kTrimThreads;
  shelf_.sums.OnRollup(segments.front()->begin_ns(), segments.back()->end_ns(),
                       kAgingLevels[step->level].slice_ns);
  const auto place = shelf_.sealed.erase(begin, end);
  if (rolled.slices.empty()) {
    for (const SegmentPtr& segment : segments) {
      shelf_.damaged_s +=
          static_cast<uint64_t>(CeilSeconds(segment->end_ns() - segment->begin_ns()));
    }
    return true;
  }
  const auto stored = shelf_.sealed.insert(place, SealedSegment(rolled, step->level));
  sealed_bytes_ += (*stored)->bytes;
  return true;
}

void MemoryStore::KeepAge() {
  while (!shelf_.sealed.empty() &&
         shelf_.sealed.front()->end_ns() < shelf_.newest_ns - options_.max_age_ns) {
    sealed_bytes_ -= shelf_.sealed.front()->bytes;
    shelf_.sealed.pop_front();
  }
  if (!shelf_.sealed.empty()) shelf_.sums.OnDrop(shelf_.sealed.front()->begin_ns());
  const int64_t forget_ns = shelf_.newest_ns - options_.grace_ns;
  intake_.Forget(std::min(forget_ns, shelf_.newest_ns - options_.max_age_ns), forget_ns);
}

void MemoryStore::KeepBytes() {
  if (haste_ > 0 && !NextRollup(shelf_.sealed, shelf_.newest_ns, haste_) &&
      static_cast<double>(BytesNow()) < kRoomy * static_cast<double>(options_.max_bytes)) {
    haste_--;
  }
  shelf_.sums.Shrink(
      static_cast<size_t>(options_.sum_share * static_cast<double>(options_.max_bytes)));
  while (BytesNow() > options_.max_bytes) {
    if (intake_.bytes() > options_.max_bytes / kKnownShare) {
      intake_.Shrink(options_.max_bytes / kKnownShare);
    } else if (RollUpOnce()) {
      continue;
    } else if (haste_ < kMostHaste) {
      haste_++;
    } else if (shelf_.sums.size() > 0) {
      shelf_.sums.Shrink(0);
    } else if (!shelf_.sealed.empty()) {
      DropOldest();
    } else if (!shelf_.open.empty()) {
      Seal();
    } else {
      intake_.Shrink(0);
      return;
    }
  }
}

void MemoryStore::DropOldest() {
  const StoredSegment& oldest = *shelf_.sealed.front();
  if (shelf_.dropped_ns == 0) shelf_.dropped.begin_ns = oldest.begin_ns();
  shelf_.dropped.end_ns = oldest.end_ns();
  shelf_.dropped_ns += std::max<int64_t>(oldest.end_ns() - oldest.begin_ns(), 1);
  sealed_bytes_ -= oldest.bytes;
  shelf_.sealed.pop_front();
}

size_t MemoryStore::BytesNow() const {
  return sealed_bytes_ + open_bytes_ + level_bytes_ + shelf_.sums.bytes() + intake_.bytes();
}

void MemoryStore::Publish() {
  shelf_.bytes = BytesNow();
  auto shelf = std::make_shared<const Shelf>(shelf_);
  absl::MutexLock lock(&mutex_);
  // The former one goes after the lock, unless a reader has it.
  published_.swap(shelf);
}

absl::flat_hash_set<ModuleId> MemoryStore::NamedModules() const {
  std::shared_ptr<const Shelf> shelf;
  {
    absl::MutexLock lock(&mutex_);
    shelf = published_;
  }
  absl::flat_hash_set<ModuleId> named;
  for (const SegmentPtr& segment : shelf->sealed) {
    named.insert(segment->modules.begin(), segment->modules.end());
  }
  for (const auto& [key, level] : *shelf->levels) {
    if (level.stack) AddModules(*level.stack, &named);
  }
  return named;
}

int64_t MemoryStore::OldestNs() const {
  absl::MutexLock lock(&mutex_);
  if (!published_->sealed.empty()) return published_->sealed.front()->begin_ns();
  return published_->open.empty() ? 0 : published_->open.front()->begin_ns();
}

size_t MemoryStore::Bytes() const {
  absl::MutexLock lock(&mutex_);
  return published_->bytes;
}

LossCounts MemoryStore::Losses() const {
  absl::MutexLock lock(&mutex_);
  LossCounts losses{};
  losses[static_cast<size_t>(Loss::kStoreDropped)] =
      static_cast<uint64_t>(CeilSeconds(published_->dropped_ns));
  losses[static_cast<size_t>(Loss::kStoreDamaged)] = published_->damaged_s;
  losses[static_cast<size_t>(Loss::kStackUnknown)] = published_->unknown_stacks;
  return losses;
}

MemoryStore::Picks MemoryStore::Pick(const Shelf& shelf, Window window) {
  std::vector<SegmentPtr> all(shelf.sealed.begin(), shelf.sealed.end());
  all.insert(all.end(), shelf.open.begin(), shelf.open.end());
  Picks picks;
  // Slices for which `take` is true; these are next to each other.
  const auto pick = [&](const auto& take) {
    for (const SegmentPtr& segment : all) {
      const auto& spans = segment->spans;
      if (segment->end_ns() < window.begin_ns || segment->begin_ns() >= window.end_ns) continue;
      const auto begin = std::find_if(spans.begin(), spans.end(), take);
      const auto end = std::find_if_not(begin, spans.end(), take);
      if (begin == end) continue;
      picks.window.push_back({segment, static_cast<size_t>(begin - spans.begin()),
                              static_cast<size_t>(end - spans.begin())});
    }
  };
  pick([&](Window span) { return MiddleInside(span, window); });
  if (picks.window.empty()) {
    pick([&](Window span) {
      return span.end_ns > window.begin_ns && span.begin_ns < window.end_ns;
    });
  }
  // The last one that overlaps the window need not be part of it.
  const int64_t end_ns =
      picks.window.empty() ? window.end_ns
                           : picks.window.back().segment->spans[picks.window.back().end - 1].end_ns;
  for (const SegmentPtr& segment : all) {
    const auto& spans = segment->spans;
    const auto first = std::find_if(spans.begin(), spans.end(), [&](Window span) {
      return picks.window.empty() ? span.begin_ns >= end_ns : span.end_ns > end_ns;
    });
    const auto later = static_cast<size_t>(first - spans.begin());
    const bool open = segment->blob.empty();
    if (open && later > 0) picks.open_changes.push_back({segment, 0, later});
    if (!open && later < spans.size()) picks.later.push_back({segment, later, spans.size()});
  }
  return picks;
}

absl::StatusOr<MergedProfile> MemoryStore::MergeWindow(
    Window window, const std::function<bool(const ThreadInfo&)>& keep, bool levels) const {
  if (window.end_ns < window.begin_ns) {
    return absl::InvalidArgumentError("window ends before it begins");
  }
  std::shared_ptr<const Shelf> shelf;
  {
    absl::MutexLock lock(&mutex_);
    shelf = published_;
  }
  const Picks picks = Pick(*shelf, window);
  Merger merger(window, keep, levels);
  if (!picks.window.empty()) {
    const profd::Pick& last = picks.window.back();
    const std::vector<Sums::Part> parts = shelf->sums.Replace(
        picks.window, last.segment->spans[last.end - 1].end_ns - Merger::kRecentNs);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) merger.AddPart(*part);
  }
  if (levels) merger.AddLevels(*shelf->levels, picks.open_changes, picks.later);
  MergedProfile profile = std::move(merger).Finish();
  // What would be too old by now anyway is no loss.
  const int64_t begin =
      std::max({shelf->dropped.begin_ns, window.begin_ns, shelf->newest_ns - options_.max_age_ns});
  const int64_t end = std::min(shelf->dropped.end_ns, window.end_ns);
  if (end > begin) {
    profile.losses[static_cast<size_t>(Loss::kStoreDropped)] +=
        static_cast<uint64_t>(CeilSeconds(end - begin));
  }
  return profile;
}

absl::StatusOr<MergedProfile> MemoryStore::Merge(
    Window window, const std::function<bool(const ThreadInfo&)>& keep) const {
  return MergeWindow(window, keep, false);
}

absl::StatusOr<MergedProfile> MemoryStore::MergeLevels(
    Window window, const std::function<bool(const ThreadInfo&)>& keep) const {
  return MergeWindow(window, keep, true);
}

}  // namespace profd
