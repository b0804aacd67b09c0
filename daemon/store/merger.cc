#include "daemon/store/merger.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/store/long_waits.h"
#include "daemon/store/spans.h"

namespace profd {
namespace {

// Long waits are kept up to this number while slices are added.
constexpr size_t kMaxWaits = 1 << 16;

}  // namespace

Merger::Merger(Window requested, std::function<bool(const ThreadInfo&)> keep, bool levels)
    : keep_(std::move(keep)), with_levels_(levels) {
  profile_.requested = requested;
}

uint32_t Merger::RowOf(uint32_t thread, bool present) {
  if (thread >= rows_.size()) {
    rows_.resize(catalog_.threads().size(), kUnasked);
    uncounted_.resize(catalog_.threads().size(), 0);
  }
  if (rows_[thread] == kUnasked) rows_[thread] = ChooseRow(thread, present);
  return rows_[thread];
}

uint32_t Merger::ChooseRow(uint32_t thread, bool present) {
  const auto info = catalog_.threads()[thread];
  if (keep_ && !keep_(*info)) return SliceSum::kLeftOut;
  if (present && !info->exited) return thread;
  const bool sum_of_processes = IsExitedProcesses(*info);
  const bool sum_of_threads = IsExitedThreads(*info);
  const bool alive = alive_.contains(ProcessKeyOf(*info));
  if (sum_of_threads && alive) return thread;
  if (!sum_of_processes && exited_rows_ < kMaxExitedRows) {
    exited_rows_++;
    return thread;
  }
  const auto row = alive ? ExitedThreadsOf(*info) : names_.RowFor(*info);
  if (row->id == info->id) return thread;
  uncounted_[thread] = WhatToCount(*info);
  const uint32_t number = catalog_.Thread(row);
  catalog_.MakePartOf(thread, number);
  return number;
}

void Merger::CountDamaged(Window span) {
  profile_.losses[static_cast<size_t>(Loss::kStoreDamaged)] +=
      static_cast<uint64_t>(CeilSeconds(LengthOf(span)));
}

bool Merger::ReadPick(const Pick& pick, Take take, absl::FunctionRef<void(Window)> lose) {
  auto reader = StoredSegmentReader::Open(*pick.segment, catalog_.known());
  if (!reader.ok()) {
    for (size_t i = pick.begin; i < pick.end; i++) lose(pick.segment->spans[i]);
    return false;
  }
  const Segment& dictionaries = reader->dictionaries();
  const Catalog::Numbers numbers = catalog_.Add(dictionaries);
  if (reading_recent_ || !all_listed_) FindAlive(dictionaries, numbers);
  SliceSum::Mapping mapping = MappingOf(dictionaries.sites);
  mapping.threads = numbers.threads;
  mapping.sites = numbers.sites;
  bool whole = true;
  std::vector<SliceCursor> slices;
  slices.reserve(pick.end - pick.begin);
  for (size_t i = pick.begin; i < pick.end; i++) {
    auto slice = reader->Read(i);
    if (slice.ok()) {
      slices.push_back(*std::move(slice));
    } else {
      whole = false;
      lose(pick.segment->spans[i]);
    }
  }
  take(slices, dictionaries, &mapping);
  return whole;
}

bool Merger::IsRecent(const Pick& pick) {
  const int64_t end_ns = pick.segment->spans[pick.end - 1].end_ns;
  if (!newest_ns_) newest_ns_ = end_ns;
  return WrappingSubtract(*newest_ns_, end_ns) < kRecentNs;
}

void Merger::FindAlive(const Segment& dictionaries, const Catalog::Numbers& numbers) {
  for (size_t i = 0; i < numbers.threads.size(); i++) {
    const ThreadInfo& info = *catalog_.threads()[numbers.threads[i]];
    if (!info.exited && info.pid != 0) alive_.insert(ProcessKeyOf(*dictionaries.threads[i]));
  }
}

void Merger::AddPart(const Sums::Part& part) {
  if (part.instead.empty()) {
    Add(part.pick);
  } else if (!AddSlices(part.pick, &part.instead)) {
    for (auto pick = part.instead.rbegin(); pick != part.instead.rend(); ++pick) Add(*pick);
  }
}

bool Merger::AddSlices(const Pick& pick, const std::vector<Pick>* sum_of) {
  reading_recent_ = IsRecent(pick);
  std::vector<uint32_t> numbers, rows;  // by the segment's threads
  std::vector<uint8_t> uncounted;
  std::vector<bool> ended;
  const auto add = [&](auto slices, const Segment& dictionaries, SliceSum::Mapping* mapping) {
    numbers.assign(mapping->threads.begin(), mapping->threads.end());
    rows.assign(numbers.size(), kUnasked);
    uncounted.assign(numbers.size(), 0);
    ended.assign(numbers.size(), false);
    for (const SliceCursor& slice : slices) {
      const SliceHeader& header = slice.header();
      if (sum_of == nullptr) {
        profile_.coarsest_ns = std::max(profile_.coarsest_ns, header.LengthNs());
      }
      if (reading_recent_ && header.books_ns < header.LengthNs()) all_listed_ = false;
    }
    // Only threads with a row are asked for.
    for (const SliceCursor& slice : slices) {
      slice.ForEachThread([&](uint32_t thread) {
        if (rows[thread] != kUnasked) return;
        const uint32_t number = numbers[thread];
        const ThreadInfo& info = *dictionaries.threads[thread];
        // What else it did may be part of another row.
        if (info.only_levels) {
          rows[thread] = SliceSum::kLeftOut;
          return;
        }
        rows[thread] = RowOf(number, reading_recent_ || !all_listed_);
        // Where it ended. Another segment may have counted it, and hold no more than its levels.
        ended[thread] = info.exited;
        if (ended[thread]) uncounted[thread] = uncounted_[number];
      });
    }
    for (const SliceCursor& slice : slices) {
      for (const StoredWait& wait : slice.waits()) {
        uint32_t& row = rows[wait.thread];
        if (row == kUnasked) row = RowOf(numbers[wait.thread], reading_recent_ || !all_listed_);
      }
    }
    mapping->threads = rows;
    mapping->uncounted = uncounted;
    mapping->without_levels = !with_levels_;
    if (with_levels_) {
      mapping->left_out = [&](const RowView& row) {
        if (dictionaries.threads[row.thread]->only_levels) AddGrowth(row, numbers, *mapping);
      };
    }
    sum_.Add(slices, *mapping);
    if (sum_.waits().size() > kMaxWaits) KeepLongestWaits();
  };
  const bool whole = ReadPick(pick, add, [&](Window span) {
    if (sum_of == nullptr) CountDamaged(span);
  });
  for (size_t i = 0; i < rows.size(); i++) {
    if (ended[i] && uncounted[i] == 0) uncounted_[numbers[i]] = 0;
  }
  if (reading_recent_ && !whole) all_listed_ = false;
  if (!whole || sum_of == nullptr) return whole;
  for (const Pick& part : *sum_of) {
    for (size_t i = part.begin; i < part.end; i++) {
      profile_.coarsest_ns = std::max(profile_.coarsest_ns, LengthOf(part.segment->spans[i]));
    }
  }
  return true;
}

void Merger::KeepLongestWaits() {
  profile_.losses[PROFD_LOSS_LONG_WAIT] +=
      KeepLongest({catalog_.threads(), catalog_.sites()}, kLongWaitsOfAnswer, &sum_.waits());
}

void Merger::FinishWaits(absl::FunctionRef<void(StackId)> name_stack) {
  KeepLongestWaits();
  for (const StoredWait& stored : sum_.waits()) {
    const int64_t end_ns = WrappingAdd(stored.begin_ns, stored.duration_ns);
    if (stored.begin_ns >= profile_.covered.end_ns || end_ns <= profile_.covered.begin_ns) continue;
    const size_t thread = sum_.Place(stored.thread);
    const Site& site = catalog_.sites()[stored.site];
    name_stack(site.stack);
    name_stack(stored.waker);
    name_stack(ObjectOf(KeyOf(ThreadId{}, site)));
    profile_.long_waits.push_back({.thread = thread,
                                   .wait = {.key = KeyOf(profile_.threads[thread].info->id, site),
                                            .begin_ns = stored.begin_ns,
                                            .duration_ns = stored.duration_ns,
                                            .doubt_ns = stored.doubt_ns,
                                            .earlier = stored.earlier,
                                            .lasts = stored.lasts,
                                            .waker = stored.waker},
                                   .similar = stored.similar});
  }
}

void Merger::AddGrowth(const RowView& row, std::span<const uint32_t> numbers,
                       const SliceSum::Mapping& mapping) {
  for (const SiteSample& sample : row.samples) {
    Amount& growth = growths_[{numbers[row.thread], mapping.sites[sample.site]}];
    growth.weight = WrappingAdd(growth.weight, sample.weight);
    growth.ticks = WrappingAdd(growth.ticks, sample.ticks);
  }
}

uint32_t Merger::RowOfGrowth(uint32_t thread) {
  if (thread < rows_.size() && rows_[thread] != kUnasked) return rows_[thread];
  const auto info = catalog_.threads()[thread];
  if (!info->exited) return RowOf(thread, true);
  if (keep_ && !keep_(*info)) return SliceSum::kLeftOut;
  const bool alive = alive_.contains(ProcessKeyOf(*info));
  return catalog_.Thread(alive ? ExitedThreadsOf(*info) : names_.RowFor(*info));
}

void Merger::AddGrowths() {
  absl::btree_map<Place, Amount> of_rows;
  for (const auto& [place, growth] : growths_) {
    const uint32_t row = RowOfGrowth(place.first);
    if (row == SliceSum::kLeftOut) continue;
    Amount& to = of_rows[{row, place.second}];
    to.weight = WrappingAdd(to.weight, growth.weight);
    to.ticks = WrappingAdd(to.ticks, growth.ticks);
  }
  for (const auto& [place, growth] : of_rows) {
    if (growth.weight == 0 && growth.ticks == 0) continue;
    Amount& to = sum_.At(place.first).samples.At(place.second);
    to.weight = WrappingAdd(to.weight, growth.weight);
    to.ticks = WrappingAdd(to.ticks, growth.ticks);
  }
}

void Merger::AddChanges(const Pick& pick, int64_t sign) {
  const auto add = [&](auto slices, const Segment&, const SliceSum::Mapping* mapping) {
    for (SliceCursor& slice : slices) AddChanges(&slice, *mapping, sign);
  };
  ReadPick(pick, add, [this](Window span) { CountDamaged(span); });
}

void Merger::AddChanges(SliceCursor* slice, const SliceSum::Mapping& mapping, int64_t sign) {
  while (slice->thread() != SliceCursor::kEnd) {
    const RowView& row = slice->Take();
    for (const SiteSample& sample : row.samples) {
      if (!IsLevel(mapping.traits[sample.site].kind)) continue;
      Amount& level = levels_[{mapping.threads[row.thread], mapping.sites[sample.site]}];
      level.weight = sign > 0 ? WrappingAdd(level.weight, sample.weight)
                              : WrappingSubtract(level.weight, sample.weight);
      level.ticks = sign > 0 ? WrappingAdd(level.ticks, sample.ticks)
                             : WrappingSubtract(level.ticks, sample.ticks);
    }
  }
}

// The latest threads first: which ones keep their rows does not depend on how maps are ordered.
void Merger::ChooseRowsOfLevels() {
  std::vector<std::pair<ThreadId, uint32_t>> threads;
  for (const auto& [place, level] : levels_) {
    if (level.weight == 0 && level.ticks == 0) continue;
    threads.emplace_back(catalog_.threads()[place.first]->id, place.first);
  }
  std::sort(threads.begin(), threads.end(), std::greater<>());
  for (const auto& [id, number] : threads) RowOf(number, true);
}

void Merger::AddLevels(const Levels& levels, const std::vector<Pick>& changes,
                       const std::vector<Pick>& later) {
  // The later ones know more of their threads.
  for (auto pick = later.rbegin(); pick != later.rend(); ++pick) AddChanges(*pick, -1);
  for (auto pick = changes.rbegin(); pick != changes.rend(); ++pick) AddChanges(*pick, 1);
  for (const auto& [key, level] : levels) {
    if (level.stack != nullptr) catalog_.AddStack(level.stack);
    Amount& to = levels_[{catalog_.Thread(level.thread), catalog_.SiteNumber(key.second)}];
    to.weight = WrappingAdd(to.weight, level.weight);
    to.ticks = WrappingAdd(to.ticks, level.ticks);
  }
  ChooseRowsOfLevels();
  absl::flat_hash_map<Place, Amount> of_rows;
  for (const auto& [place, level] : levels_) {
    if (level.weight == 0 && level.ticks == 0) continue;
    const uint32_t row = RowOf(place.first, true);
    if (row == SliceSum::kLeftOut) continue;
    Amount& to = of_rows[{row, place.second}];
    to.weight = WrappingAdd(to.weight, level.weight);
    to.ticks = WrappingAdd(to.ticks, level.ticks);
    sum_.At(row).samples.At(place.second);
  }
  levels_ = std::move(of_rows);
  AddGrowths();
}

// Of levels, what there is takes the place of the growth.
std::vector<MergedSamples::Extra> Merger::TakeExtras(SliceSum::Thread* thread) {
  std::vector<MergedSamples::Extra> extras;
  for (SiteTable::Cursor sample(thread->samples); sample.Next();) {
    const SiteTraits traits = TraitsOf(catalog_.sites()[sample.site()]);
    const bool level = with_levels_ && IsLevel(traits.kind);
    if (!level && !traits.of_bursts) continue;
    MergedSamples::Extra& extra = extras.emplace_back();
    extra.site = sample.site();
    if (traits.of_bursts) extra.squares = sum_.Squares(thread->thread, extra.site);
    if (!level) continue;
    extra.growth = sample.amount().weight;
    const auto there = levels_.find({thread->thread, extra.site});
    *thread->samples.FindSorted(extra.site) = there == levels_.end() ? Amount{} : there->second;
  }
  return extras;
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
  profile_.switch_stacks_ns = header.switch_stacks_ns;
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
  profile_.long_rest_ns = header.long_rest_ns;
  profile_.long_work_ns = header.long_work_ns;
  profile_.cost = header.cost;
  for (size_t i = 0; i < kLossCount; i++) profile_.losses[i] += header.losses[i];
  absl::flat_hash_set<StackId> named;
  const auto name_stack = [&](StackId id) {
    auto stack = catalog_.Stack(id);
    if (stack != nullptr && named.insert(id).second) profile_.stacks.push_back(std::move(stack));
  };
  uint64_t unknown = 0;
  // Stacks of a site are looked up once, however many threads were there.
  enum : uint8_t { kNotAsked, kKnown, kUnknown };
  std::vector<uint8_t> sites(catalog_.sites().size(), kNotAsked);
  const auto name_stacks = [&](uint32_t number) {
    const Site& site = catalog_.sites()[number];
    name_stack(ObjectOf(KeyOf(ThreadId{}, site)));
    name_stack(site.stack);
    const bool known = site.stack == StackId{} || catalog_.Stack(site.stack) != nullptr;
    sites[number] = known ? kKnown : kUnknown;
  };
  for (const StoredWait& wait : sum_.waits()) sum_.At(wait.thread);
  profile_.threads.reserve(sum_.threads().size());
  const auto all_sites = std::make_shared<const std::vector<Site>>(catalog_.sites());
  for (SliceSum::Thread& sum : sum_.threads()) {
    MergedThread& thread = profile_.threads.emplace_back();
    thread.info = catalog_.threads()[sum.thread];
    thread.ledger = sum_.LedgerOf(sum);
    sum.samples.Sort();
    for (SiteTable::Cursor sample(sum.samples); sample.Next();) {
      uint8_t& site = sites[sample.site()];
      if (site == kNotAsked) name_stacks(sample.site());
      if (site == kUnknown && !IsHistogram(catalog_.sites()[sample.site()].kind)) {
        unknown += static_cast<uint64_t>(std::max<int64_t>(sample.amount().ticks, 0));
      }
    }
    std::vector<MergedSamples::Extra> extras = TakeExtras(&sum);
    thread.samples = {all_sites, thread.info->id, std::move(sum.samples), std::move(extras)};
  }
  FinishWaits(name_stack);
  profile_.losses[static_cast<size_t>(Loss::kStackUnknown)] += unknown;
  profile_.modules = catalog_.modules();
  return std::move(profile_);
}

}  // namespace profd
