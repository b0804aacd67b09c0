#include "daemon/store/slice_sum.h"

#include <algorithm>
#include <utility>

#include "daemon/store/folding.h"

namespace profd {
namespace {

// Whether it has anything but levels, which may change after the end of a thread.
bool HasMoreThanLevels(const RowView& row, const SliceSum::Mapping& mapping) {
  if (row.ledger != nullptr || row.rest_ns != 0) return true;
  if (!mapping.any_special) return !row.samples.empty();
  return std::any_of(row.samples.begin(), row.samples.end(), [&](const SiteSample& sample) {
    return !IsLevel(mapping.traits[sample.site].kind);
  });
}

}  // namespace

size_t SliceSum::PlaceOf(uint32_t thread) {
  if (thread >= places_.size()) places_.resize(thread + 1, 0);
  uint32_t& place = places_[thread];
  if (place == 0) {
    threads_.emplace_back().thread = thread;
    place = static_cast<uint32_t>(threads_.size());
  }
  return place - 1;
}

LedgerDelta& SliceSum::LedgerAt(size_t place) {
  uint32_t& ledger = threads_[place].ledger;
  if (ledger == Row::kNoLedger) {
    ledger = static_cast<uint32_t>(ledgers_.size());
    ledgers_.emplace_back();
  }
  return ledgers_[ledger];
}

MergedLedger SliceSum::LedgerOf(const Thread& thread) const {
  if (thread.ledger == Row::kNoLedger) {
    const bool known = thread.rest_reason != Row::kNoReason;
    return MergedLedger(
        RestingThread{.wall_ns = thread.rest_ns,
                      .reason = known ? std::optional(Reason{thread.rest_reason}) : std::nullopt});
  }
  LedgerDelta ledger = ledgers_[thread.ledger];
  AddRest(thread.rest_reason, thread.rest_ns, &ledger);
  return MergedLedger(ledger);
}

void SliceSum::AddNumbers(const RowView& row, size_t place) {
  if (row.ledger != nullptr) AddLedger(*row.ledger, &LedgerAt(place));
  if (row.rest_ns == 0) return;
  Thread& thread = threads_[place];
  if (thread.rest_ns != 0 && thread.rest_reason != row.rest_reason) {
    AddRest(thread.rest_reason, thread.rest_ns, &LedgerAt(place));
    thread.rest_ns = 0;
  }
  thread.rest_reason = row.rest_reason;
  thread.rest_ns = WrappingAdd(thread.rest_ns, row.rest_ns);
}

void SliceSum::AddTo(size_t place, const SiteSample& sample, const Mapping& mapping) {
  Amount& sum = threads_[place].samples.At(mapping.sites[sample.site]);
  AddAmount(sample, mapping.traits[sample.site].kind, &sum);
}

void SliceSum::CountFolded(uint8_t what, size_t place) {
  header_.folded_threads = WrappingAdd(header_.folded_threads, (what & kCountThread) != 0);
  if ((what & kCountProcess) == 0) return;
  LedgerDelta& ledger = LedgerAt(place);
  ledger.folded_processes = WrappingAdd(ledger.folded_processes, 1);
}

void SliceSum::Add(std::span<SliceCursor> slices, const Mapping& mapping) {
  for (const SliceCursor& slice : slices) {
    AddHeader(slice.header(), &header_);
    AddWaits(slice.waits(), mapping);
  }
  while (true) {
    uint32_t thread = SliceCursor::kEnd;
    for (const SliceCursor& slice : slices) thread = std::min(thread, slice.thread());
    if (thread == SliceCursor::kEnd) return;
    for (SliceCursor& slice : slices) {
      if (slice.thread() == thread) AddRow(slice.Take(), slice.header().drains == 1, mapping);
    }
  }
}

void SliceSum::AddRow(const RowView& row, bool one_drain, const Mapping& mapping) {
  const uint32_t number = mapping.threads[row.thread];
  if (number == kLeftOut) {
    if (mapping.left_out) mapping.left_out(row);
    return;
  }
  const bool has_more = HasMoreThanLevels(row, mapping);
  if (!has_more && !row.samples.empty()) {
    if (mapping.without_levels) return;
    if (!mapping.level_threads.empty()) return AddLevels(row, mapping);
  }
  const size_t place = PlaceOf(number);
  SiteTable& table = threads_[place].samples;
  for (const SiteSample& soon : row.samples) table.Prefetch(mapping.sites[soon.site]);
  AddNumbers(row, place);
  if (!mapping.any_special) {
    for (const SiteSample& sample : row.samples) {
      // Stands for every kind whose amounts add up.
      AddAmount(sample, Kind::kWait, &table.At(mapping.sites[sample.site]));
    }
  } else {
    const double* square = row.squares.data();
    for (const SiteSample& sample : row.samples) {
      const SiteTraits traits = mapping.traits[sample.site];
      const bool stays = IsLevel(traits.kind) && !mapping.level_threads.empty();
      AddTo(stays ? PlaceOf(mapping.level_threads[row.thread]) : place, sample, mapping);
      if (traits.of_bursts) {
        const auto weight = static_cast<double>(sample.weight);
        squares_[{number, mapping.sites[sample.site]}] += one_drain ? weight * weight : *square++;
      }
    }
  }
  if (has_more && !mapping.uncounted.empty()) {
    CountFolded(std::exchange(mapping.uncounted[row.thread], 0), place);
  }
}

void SliceSum::AddLevels(const RowView& row, const Mapping& mapping) {
  const size_t place = PlaceOf(mapping.level_threads[row.thread]);
  for (const SiteSample& sample : row.samples) AddTo(place, sample, mapping);
}

void SliceSum::AddWaits(std::span<const StoredWait> waits, const Mapping& mapping) {
  for (const StoredWait& wait : waits) {
    const uint32_t thread = mapping.threads[wait.thread];
    if (thread == kLeftOut) continue;
    StoredWait& added = waits_.emplace_back(wait);
    added.thread = thread;
    added.site = mapping.sites[wait.site];
  }
}

double SliceSum::Squares(uint32_t thread, uint32_t site) const {
  const auto it = squares_.find({thread, site});
  return it == squares_.end() ? 0 : it->second;
}

uint8_t WhatToCount(const ThreadInfo& info) {
  if (!info.exited || IsExitedThreads(info) || IsExitedProcesses(info)) return 0;
  // A process ends with its first thread.
  const bool process = info.pid != 0 && info.pid == info.tid;
  return SliceSum::kCountThread | (process ? SliceSum::kCountProcess : 0);
}

SliceSum::Mapping MappingOf(std::span<const Site> sites) {
  SliceSum::Mapping mapping;
  mapping.traits.reserve(sites.size());
  for (const Site& site : sites) {
    const SiteTraits traits = mapping.traits.emplace_back(TraitsOf(site));
    mapping.any_special |= traits.of_bursts || IsLevel(site.kind) || site.kind == Kind::kDuration;
  }
  return mapping;
}

}  // namespace profd
