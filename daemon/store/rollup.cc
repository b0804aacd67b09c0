#include "daemon/store/rollup.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/store/catalog.h"
#include "daemon/store/folding.h"
#include "daemon/store/long_waits.h"
#include "daemon/store/slice_sum.h"
#include "daemon/store/spans.h"

namespace profd {
namespace {

struct Source {
  Pick pick;
  StoredSegmentReader reader;
  Catalog::Numbers numbers;
};

class Rollup {
 public:
  Rollup(std::span<const Pick> picks, const RollupOptions& options) : options_(options) {
    Known known = catalog_.known();
    known.thread = [this, of_catalog = known.thread](ThreadId id) {
      auto info = of_catalog(id);
      return info == nullptr && options_.latest ? options_.latest(id) : info;
    };
    // From the newest to the oldest: what is known of a thread last holds.
    for (size_t i = picks.size(); i-- > 0;) {
      const Pick& pick = picks[i];
      auto reader = StoredSegmentReader::Open(*pick.segment, known);
      if (!reader.ok()) {
        CountDamaged(pick);
        continue;
      }
      sources_.push_back({pick, *std::move(reader), {}});
      Source& source = sources_.back();
      source.numbers = catalog_.Add(source.reader.dictionaries());
      // Of many threads all slices together take much memory.
      source.reader.Unload();
    }
    std::reverse(sources_.begin(), sources_.end());
  }

  Segment Run() && {
    Fold();
    for (Source& source : sources_) {
      if (source.reader.Load().ok()) {
        AddSource(source);
      } else {
        CountDamaged(source.pick);
      }
      source.reader.Unload();
    }
    EndSlice();
    return Write();
  }

 private:
  void CountDamaged(const Pick& pick) {
    for (size_t slice = pick.begin; slice < pick.end; slice++) {
      damaged_ns_ += LengthOf(pick.segment->spans[slice]);
    }
  }

  // Decides which threads are added to their process.
  void Fold() {
    infos_ = catalog_.threads();
    for (auto& info : infos_) {
      auto latest = options_.latest ? options_.latest(info->id) : nullptr;
      if (latest != nullptr) info = std::move(latest);
    }
    const auto exited = static_cast<size_t>(
        std::count_if(infos_.begin(), infos_.end(), [](const auto& i) { return i->exited; }));
    target_.resize(infos_.size());
    std::iota(target_.begin(), target_.end(), 0);
    uncounted_.assign(infos_.size(), 0);
    fold_ = exited > options_.max_exited;
    if (!fold_) return;
    FoldThreads();
    FoldProcesses();
  }

  void FoldThreads() {
    for (size_t i = 0, end = infos_.size(); i < end; i++) {
      const auto info = infos_[i];
      if (!info->exited || IsExitedProcesses(*info)) continue;
      uncounted_[i] = WhatToCount(options_.of_drains ? *info : *catalog_.threads()[i]);
      target_[i] = NumberOfRow(ExitedThreadsOf(*info));
    }
  }

  void FoldProcesses() {
    absl::flat_hash_set<ProcessKey> alive;
    for (const auto& info : infos_) {
      if (!info->exited) alive.insert(ProcessKeyOf(*info));
    }
    const auto is_gone = [&](uint32_t row) {
      return infos_[row]->exited && !alive.contains(ProcessKeyOf(*infos_[row]));
    };
    absl::flat_hash_set<uint32_t> gone;
    for (const uint32_t row : target_) {
      if (is_gone(row)) gone.insert(row);
    }
    if (gone.size() <= kMaxExitedProcesses) return;
    ExitedNames names;
    for (uint32_t& row : target_) {
      if (gone.contains(row)) row = NumberOfRow(names.RowFor(*infos_[row]));
    }
  }

  // The catalog's number of a row for several threads.
  uint32_t NumberOfRow(const std::shared_ptr<const ThreadInfo>& row) {
    const uint32_t number = catalog_.Thread(row);
    if (number == infos_.size()) infos_.push_back(row);
    return number;
  }

  void AddSource(Source& source) {
    const std::vector<uint32_t>& numbers = source.numbers.threads;
    SliceSum::Mapping mapping = MappingOf(source.reader.dictionaries().sites);
    mapping.sites = source.numbers.sites;
    std::vector<uint32_t> threads;
    std::vector<uint8_t> uncounted;
    threads.reserve(numbers.size());
    uncounted.reserve(numbers.size());
    const auto& infos = source.reader.dictionaries().threads;
    for (size_t i = 0; i < numbers.size(); i++) {
      threads.push_back(target_[numbers[i]]);
      // Where it ended. Another segment may have counted it, and hold no more than its levels.
      const bool ended = options_.of_drains || infos[i]->exited;
      uncounted.push_back(ended ? uncounted_[numbers[i]] : 0);
    }
    const std::vector<uint8_t> before = uncounted;
    mapping.threads = threads;
    if (fold_) {
      mapping.level_threads = numbers;
      mapping.uncounted = uncounted;
    }
    for (size_t i = source.pick.begin; i < source.pick.end; i++) {
      const Window span = source.pick.segment->spans[i];
      auto slice = source.reader.Read(i);
      if (!slice.ok()) {
        damaged_ns_ += LengthOf(span);
        continue;
      }
      const int64_t stretch = options_.slice_ns > 0 ? MiddleOf(span) / options_.slice_ns : 0;
      if (options_.slice_ns == 0 || stretch != stretch_) EndSlice();
      stretch_ = stretch;
      if (!sum_) sum_.emplace();
      sum_->Add({&*slice, 1}, mapping);
    }
    for (size_t i = 0; i < numbers.size(); i++) {
      if (uncounted[i] != before[i]) uncounted_[numbers[i]] = 0;
    }
  }

  // Levels that came and went leave nothing.
  bool IsNothing(const SiteSample& sample) const {
    return sample.weight == 0 && sample.ticks == 0 && IsLevel(catalog_.sites()[sample.site].kind);
  }

  bool IsNothing(const SliceSum::Thread& thread) const {
    bool any = false, nothing = thread.ledger == Row::kNoLedger && thread.rest_ns == 0;
    thread.samples.ForEach([&](const SiteSample& sample) {
      any = true;
      nothing = nothing && IsNothing(sample);
    });
    return any && nothing;
  }

  // Ends the slice that was added up. A sum takes several times as much memory, so there is only
  // one. Threads and sites still have the catalog's numbers.
  void EndSlice() {
    if (!sum_) return;
    Slice& slice = slices_.emplace_back();
    slice.header = std::move(sum_->header());
    slice.waits = std::move(sum_->waits());
    std::vector<SliceSum::Thread>& threads = sum_->threads();
    std::sort(threads.begin(), threads.end(),
              [](const auto& a, const auto& b) { return a.thread < b.thread; });
    const bool one_drain = slice.header.drains == 1;
    slice.rows.reserve(threads.size());
    slice.ledgers.reserve(sum_->ledgers().size());
    for (const SliceSum::Thread& thread : threads) {
      if (IsNothing(thread)) continue;
      Row& row = slice.rows.emplace_back(Row{
          .thread = thread.thread, .rest_reason = thread.rest_reason, .rest_ns = thread.rest_ns});
      if (thread.ledger != Row::kNoLedger) {
        row.ledger = static_cast<uint32_t>(slice.ledgers.size());
        slice.ledgers.push_back(sum_->ledgers()[thread.ledger]);
      }
      thread.samples.ForEach([&](const SiteSample& sample) {
        if (IsNothing(sample)) return;
        row.samples++;
        slice.samples.push_back(sample);
        if (!one_drain && IsOfBursts(sample)) {
          slice.squares.push_back(sum_->Squares(thread.thread, sample.site));
        }
      });
    }
    sum_.reset();
  }

  bool IsOfBursts(const SiteSample& sample) const {
    return IsFromBursts(KeyOf({}, catalog_.sites()[sample.site]));
  }

  // Numbers the sites anew, the most frequent first: rows name them by small steps.
  void NumberSites(Segment* segment) {
    std::vector<uint32_t> uses(catalog_.sites().size(), 0);
    for (const Slice& slice : slices_) {
      for (const SiteSample& sample : slice.samples) uses[sample.site]++;
      for (const StoredWait& wait : slice.waits) uses[wait.site]++;
    }
    std::vector<uint32_t> order;
    for (uint32_t site = 0; site < uses.size(); site++) {
      if (uses[site] > 0) order.push_back(site);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return uses[a] > uses[b]; });
    sites_.assign(uses.size(), 0);
    absl::flat_hash_set<StackId> named;
    const auto add_stack = [&](StackId id) {
      if (!named.insert(id).second) return;
      if (auto stack = catalog_.Stack(id)) segment->stacks.push_back(std::move(stack));
    };
    for (const uint32_t site : order) {
      sites_[site] = static_cast<uint32_t>(segment->sites.size());
      segment->sites.push_back(catalog_.sites()[site]);
      add_stack(catalog_.sites()[site].stack);
      add_stack(ObjectOf(KeyOf(ThreadId{}, catalog_.sites()[site])));
    }
    for (const Slice& slice : slices_) {
      for (const StoredWait& wait : slice.waits) {
        if (wait.waker != StackId{}) add_stack(wait.waker);
      }
    }
    if (!options_.of_drains) return;
    for (const Source& source : sources_) {
      for (const auto& stack : source.reader.dictionaries().stacks) add_stack(stack->id);
    }
  }

  void NumberThreads(Segment* segment) {
    std::vector<bool> used(infos_.size(), false), has_more(infos_.size(), false);
    for (const Slice& slice : slices_) {
      auto samples = slice.samples.begin();
      for (const Row& row : slice.rows) {
        const auto end = samples + row.samples;
        used[row.thread] = true;
        const bool only_levels = row.ledger == Row::kNoLedger && row.rest_ns == 0 &&
                                 row.samples > 0 &&
                                 std::all_of(samples, end, [&](const SiteSample& sample) {
                                   return IsLevel(catalog_.sites()[sample.site].kind);
                                 });
        if (!only_levels) has_more[row.thread] = true;
        samples = end;
      }
      for (const StoredWait& wait : slice.waits) used[wait.thread] = has_more[wait.thread] = true;
    }
    threads_.assign(infos_.size(), 0);
    for (size_t i = 0; i < used.size(); i++) {
      if (!used[i]) continue;
      threads_[i] = static_cast<uint32_t>(segment->threads.size());
      auto info = infos_[i];
      if (info->only_levels == has_more[i]) {
        auto other = std::make_shared<ThreadInfo>(*info);
        other->only_levels = !has_more[i];
        info = std::move(other);
      }
      segment->threads.push_back(std::move(info));
    }
  }

  void AddIdentities(Segment* segment) {
    absl::flat_hash_set<ModuleId> named;
    for (const auto& stack : segment->stacks) AddModules(*stack, &named);
    for (const ModuleId id : named) {
      const auto known = catalog_.modules().find(id);
      std::shared_ptr<const ModuleIdentity> identity;
      if (known != catalog_.modules().end()) {
        identity = known->second;
      } else if (options_.identify) {
        identity = options_.identify(id);
      }
      if (identity != nullptr) segment->modules.emplace(id, std::move(identity));
    }
    segment->boot = options_.boot;
  }

  Segment Write() {
    Segment segment;
    for (Slice& slice : slices_) {
      slice.header.losses[PROFD_LOSS_LONG_WAIT] +=
          KeepLongest({infos_, catalog_.sites()}, options_.long_waits, &slice.waits);
    }
    NumberSites(&segment);
    NumberThreads(&segment);
    AddIdentities(&segment);
    for (Slice& slice : slices_) Renumber(&slice);
    segment.slices = std::move(slices_);
    if (segment.slices.empty()) return segment;
    LossCounts& losses = segment.slices.back().header.losses;
    losses[static_cast<size_t>(Loss::kStoreDamaged)] +=
        static_cast<uint64_t>(CeilSeconds(damaged_ns_));
    return segment;
  }

  // From the catalog's numbers to the segment's. Those of threads keep their order.
  void Renumber(Slice* slice) {
    for (StoredWait& wait : slice->waits) {
      wait.thread = threads_[wait.thread];
      wait.site = sites_[wait.site];
    }
    std::vector<std::pair<SiteSample, std::optional<double>>> row_samples;  // with their squares
    auto sample = slice->samples.begin();
    auto square = slice->squares.begin(), sorted_square = square;
    for (Row& row : slice->rows) {
      row.thread = threads_[row.thread];
      row_samples.clear();
      for (auto from = sample; from != sample + row.samples; ++from) {
        const bool has_square = !slice->squares.empty() && IsOfBursts(*from);
        row_samples.emplace_back(*from, has_square ? std::optional(*square++) : std::nullopt);
        row_samples.back().first.site = sites_[from->site];
      }
      std::sort(row_samples.begin(), row_samples.end(),
                [](const auto& a, const auto& b) { return a.first.site < b.first.site; });
      for (const auto& [sorted, its_square] : row_samples) {
        *sample++ = sorted;
        if (its_square) *sorted_square++ = *its_square;
      }
    }
  }

  const RollupOptions& options_;
  Catalog catalog_;
  std::vector<Source> sources_;
  std::vector<std::shared_ptr<const ThreadInfo>> infos_;  // by number of the catalog
  std::vector<uint32_t> target_;    // the same, but for rows of several: to which it is added
  std::vector<uint8_t> uncounted_;  // the same, see SliceSum::Mapping
  std::optional<SliceSum> sum_;     // of the slice that is being added up
  std::vector<Slice> slices_;       // those before
  std::vector<uint32_t> sites_, threads_;  // new numbers, by those of the catalog
  int64_t stretch_ = 0;
  int64_t damaged_ns_ = 0;
  bool fold_ = false;
};

}  // namespace

Segment RollUp(std::span<const Pick> picks, const RollupOptions& options) {
  return Rollup(picks, options).Run();
}

Segment RollUp(std::span<const SegmentPtr> segments, const RollupOptions& options) {
  std::vector<Pick> picks;
  picks.reserve(segments.size());
  for (const SegmentPtr& segment : segments) picks.push_back({segment, 0, segment->spans.size()});
  return RollUp(picks, options);
}

}  // namespace profd
