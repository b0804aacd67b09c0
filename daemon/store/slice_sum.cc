#include "daemon/store/slice_sum.h"

#include <algorithm>
#include <utility>

#include "daemon/store/folding.h"

namespace profd {
namespace {

constexpr uint32_t kNoThread = 0xffffffff;

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

LedgerDelta SliceSum::LedgerOf(const Thread& thread) const {
  LedgerDelta ledger;
  if (thread.ledger != Row::kNoLedger) ledger = ledgers_[thread.ledger];
  AddRest(thread.rest_reason, thread.rest_ns, &ledger);
  return ledger;
}

void SliceSum::AddNumbers(const Slice& slice, const Row& row, size_t place) {
  if (row.ledger != Row::kNoLedger) AddLedger(slice.ledgers[row.ledger], &LedgerAt(place));
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
  AddAmount(sample, mapping.durations[sample.site], &sum);
}

void SliceSum::CountFolded(uint8_t what, size_t place) {
  header_.folded_threads = WrappingAdd(header_.folded_threads, (what & kCountThread) != 0);
  if ((what & kCountProcess) == 0) return;
  LedgerDelta& ledger = LedgerAt(place);
  ledger.folded_processes = WrappingAdd(ledger.folded_processes, 1);
}

void SliceSum::Add(std::span<const Slice* const> slices, const Mapping& mapping) {
  std::vector<Cursor> cursors;
  cursors.reserve(slices.size());
  for (const Slice* slice : slices) {
    AddHeader(slice->header, &header_);
    AddWaits(*slice, mapping);
    cursors.push_back(
        {.slice = slice, .sample = slice->samples.data(), .square = slice->squares.data()});
  }
  const auto next = [](const Cursor& cursor) {
    const std::vector<Row>& rows = cursor.slice->rows;
    return cursor.row < rows.size() ? rows[cursor.row].thread : kNoThread;
  };
  while (true) {
    uint32_t thread = kNoThread;
    for (const Cursor& cursor : cursors) thread = std::min(thread, next(cursor));
    if (thread == kNoThread) return;
    for (Cursor& cursor : cursors) {
      if (next(cursor) == thread) AddRow(mapping, &cursor);
    }
  }
}

void SliceSum::AddRow(const Mapping& mapping, Cursor* cursor) {
  const Slice& slice = *cursor->slice;
  const Row& row = slice.rows[cursor->row++];
  const SiteSample* sample = cursor->sample;
  const SiteSample* const end = sample + row.samples;
  cursor->sample = end;
  const uint32_t number = mapping.threads[row.thread];
  const bool one_drain = slice.header.drains == 1;
  if (number == kLeftOut) {
    for (; sample != end; sample++) cursor->square += !one_drain && mapping.of_bursts[sample->site];
    return;
  }
  const size_t place = PlaceOf(number);
  SiteTable& table = threads_[place].samples;
  for (const SiteSample* soon = sample; soon != end; soon++) {
    table.Prefetch(mapping.sites[soon->site]);
  }
  AddNumbers(slice, row, place);
  bool counts = row.ledger != Row::kNoLedger || row.rest_ns != 0;
  if (!mapping.any_special) {
    counts = counts || sample != end;
    for (; sample != end; sample++) {
      AddAmount(*sample, mapping.durations[sample->site], &table.At(mapping.sites[sample->site]));
    }
  }
  for (; sample != end; sample++) {
    const bool level = mapping.levels[sample->site];
    counts = counts || !level;
    const bool stays = level && !mapping.level_threads.empty();
    AddTo(stays ? PlaceOf(mapping.level_threads[row.thread]) : place, *sample, mapping);
    if (mapping.of_bursts[sample->site]) {
      const auto weight = static_cast<double>(sample->weight);
      squares_[{number, mapping.sites[sample->site]}] +=
          one_drain ? weight * weight : *cursor->square++;
    }
  }
  // Levels may change after the end.
  if (counts && !mapping.uncounted.empty()) {
    CountFolded(std::exchange(mapping.uncounted[row.thread], 0), place);
  }
}

void SliceSum::AddWaits(const Slice& slice, const Mapping& mapping) {
  for (const StoredWait& wait : slice.waits) {
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
  mapping.of_bursts.reserve(sites.size());
  mapping.levels.reserve(sites.size());
  mapping.durations.reserve(sites.size());
  for (const Site& site : sites) {
    mapping.of_bursts.push_back(IsFromBursts(KeyOf({}, site)));
    mapping.levels.push_back(IsLevel(site.kind));
    mapping.durations.push_back(site.kind == Kind::kDuration);
    mapping.any_special |= mapping.of_bursts.back() || mapping.levels.back();
  }
  return mapping;
}

}  // namespace profd
