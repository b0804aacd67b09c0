#include "daemon/store/merger.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/store/spans.h"

namespace profd {

Merger::Merger(Window requested, std::function<bool(const ThreadInfo&)> keep)
    : keep_(std::move(keep)) {
  profile_.requested = requested;
}

uint32_t Merger::Kept(uint32_t thread) {
  if (thread >= kept_.size()) kept_.resize(catalog_.threads().size(), kUnasked);
  uint32_t& kept = kept_[thread];
  if (kept == kUnasked) {
    kept = keep_ && !keep_(*catalog_.threads()[thread]) ? SliceSum::kLeftOut : thread;
  }
  return kept;
}

void Merger::ReadPick(const Pick& pick,
                      const std::function<void(const Slice&, const SliceSum::Mapping&)>& take) {
  uint64_t& damaged = profile_.losses[static_cast<size_t>(Loss::kStoreDamaged)];
  const auto lose = [&](size_t i) {
    damaged += static_cast<uint64_t>(CeilSeconds(LengthOf(pick.segment->spans[i])));
  };
  auto reader = StoredSegmentReader::Open(*pick.segment, catalog_.Known());
  if (!reader.ok()) {
    for (size_t i = pick.begin; i < pick.end; i++) lose(i);
    return;
  }
  const Segment& dictionaries = reader->dictionaries();
  const Catalog::Numbers numbers = catalog_.Add(dictionaries);
  SliceSum::Mapping mapping = MappingOf(dictionaries.sites);
  mapping.threads = numbers.threads;
  mapping.sites = numbers.sites;
  for (size_t i = pick.begin; i < pick.end; i++) {
    const auto slice = reader->Read(i);
    if (slice.ok()) {
      take(**slice, mapping);
    } else {
      lose(i);
    }
  }
}

void Merger::Add(const Pick& pick) {
  std::vector<uint32_t> threads;
  ReadPick(pick, [&](const Slice& slice, const SliceSum::Mapping& mapping) {
    if (threads.size() != mapping.threads.size()) {
      threads.assign(mapping.threads.size(), kUnasked);
    }
    // Only threads with a row are asked for.
    for (const Row& row : slice.rows) {
      if (threads[row.thread] == kUnasked) threads[row.thread] = Kept(mapping.threads[row.thread]);
    }
    SliceSum::Mapping kept = mapping;
    kept.threads = threads;
    profile_.coarsest_ns = std::max(profile_.coarsest_ns, slice.header.LengthNs());
    sum_.Add(slice, kept);
  });
}

void Merger::AddChanges(const Pick& pick, int64_t sign) {
  ReadPick(pick, [&](const Slice& slice, const SliceSum::Mapping& mapping) {
    const SiteSample* sample = slice.samples.data();
    for (const Row& row : slice.rows) {
      for (uint32_t i = 0; i < row.samples; i++, sample++) {
        if (!mapping.levels[sample->site]) continue;
        Amount& level = levels_[{mapping.threads[row.thread], mapping.sites[sample->site]}];
        level.weight = sign > 0 ? WrappingAdd(level.weight, sample->weight)
                                : WrappingSubtract(level.weight, sample->weight);
        level.ticks = sign > 0 ? WrappingAdd(level.ticks, sample->ticks)
                               : WrappingSubtract(level.ticks, sample->ticks);
      }
    }
  });
}

void Merger::AddLevels(const Levels& levels, const std::vector<Pick>& changes,
                       const std::vector<Pick>& later) {
  with_levels_ = true;
  // The later ones know more of their threads.
  for (auto pick = later.rbegin(); pick != later.rend(); ++pick) AddChanges(*pick, -1);
  for (auto pick = changes.rbegin(); pick != changes.rend(); ++pick) AddChanges(*pick, 1);
  for (const auto& [key, level] : levels) {
    if (level.stack != nullptr) catalog_.AddStack(level.stack);
    Amount& to = levels_[{catalog_.Thread(level.thread), catalog_.SiteNumber(key.second)}];
    to.weight = WrappingAdd(to.weight, level.weight);
    to.ticks = WrappingAdd(to.ticks, level.ticks);
  }
  for (const auto& [place, level] : levels_) {
    if (level.weight == 0 && level.ticks == 0) continue;
    if (Kept(place.first) == SliceSum::kLeftOut) continue;
    sum_.At(place.first).samples.At(place.second);
  }
}

MergedProfile Merger::Finish() && {
  const SliceHeader& header = sum_.header();
  if (!sum_.empty()) profile_.covered = header.span;
  profile_.books_ns = header.books_ns;
  profile_.switch_ns = header.switch_ns;
  profile_.tick_ns = header.tick_ns;
  profile_.heap_ns = header.heap_ns;
  profile_.faults_ns = header.faults_ns;
  profile_.mappings_ns = header.mappings_ns;
  profile_.cpu_ns = header.cpu_ns;
  profile_.disk_ns = header.disk_ns;
  profile_.wakers_ns = header.wakers_ns;
  profile_.bursts_on_ns = header.bursts_on_ns;
  profile_.bursts = header.bursts;
  profile_.burst_ns = header.burst_ns;
  profile_.burst_span_ns = header.burst_span_ns;
  profile_.tick_interval_ns = header.tick_interval_ns;
  profile_.ticks = header.ticks;
  profile_.ticks_missed = header.ticks_missed;
  profile_.walks = header.walks;
  profile_.torn_walks = header.torn_walks;
  profile_.lost_weight_ns = header.lost_weight_ns;
  profile_.folded_threads = header.folded_threads;
  profile_.cost = header.cost;
  for (size_t i = 0; i < kLossCount; i++) profile_.losses[i] += header.losses[i];
  absl::flat_hash_set<StackId> named;
  uint64_t unknown = 0;
  profile_.threads.reserve(sum_.threads().size());
  for (SliceSum::Thread& sum : sum_.threads()) {
    MergedThread& thread = profile_.threads.emplace_back();
    thread.info = *catalog_.threads()[sum.thread];
    thread.ledger = sum.ledger;
    const std::vector<SiteSample> samples = std::move(sum.samples).Take();
    thread.samples.reserve(samples.size());
    for (const SiteSample& s : samples) {
      const Site& site = catalog_.sites()[s.site];
      Sample& sample = thread.samples.emplace_back(
          Sample{.key = KeyOf(thread.info.id, site), .weight = s.weight, .ticks = s.ticks});
      if (IsFromBursts(sample.key)) sample.squares = sum_.Squares(sum.thread, s.site);
      if (with_levels_ && IsLevel(site.kind)) {
        const auto level = levels_.find({sum.thread, s.site});
        const bool none = level == levels_.end();
        sample.growth = sample.weight;
        sample.weight = none ? 0 : level->second.weight;
        sample.ticks = none ? 0 : level->second.ticks;
      }
      if (site.stack == StackId{}) continue;
      auto stack = catalog_.Stack(site.stack);
      if (stack == nullptr) {
        unknown += static_cast<uint64_t>(std::max<int64_t>(s.ticks, 0));
      } else if (named.insert(site.stack).second) {
        profile_.stacks.push_back(std::move(stack));
      }
    }
  }
  profile_.losses[static_cast<size_t>(Loss::kStackUnknown)] += unknown;
  return std::move(profile_);
}

}  // namespace profd
