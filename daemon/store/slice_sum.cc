#include "daemon/store/slice_sum.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

// More entries than this are found by hash.
constexpr size_t kSearched = 8;

}  // namespace

SiteSample& SiteTable::At(uint32_t site) {
  if (last_ < entries_.size() && entries_[last_].site == site) return entries_[last_];
  if (places_.empty()) {
    for (last_ = 0; last_ < entries_.size(); last_++) {
      if (entries_[last_].site == site) return entries_[last_];
    }
    if (entries_.size() == kSearched) Grow();
  } else if (entries_.size() * 2 > places_.size()) {
    Grow();
  }
  if (!places_.empty()) {
    const size_t mask = places_.size() - 1;
    size_t place = Hash(site) & mask;
    for (; places_[place] != 0; place = (place + 1) & mask) {
      last_ = places_[place] - 1;
      if (entries_[last_].site == site) return entries_[last_];
    }
    places_[place] = static_cast<uint32_t>(entries_.size()) + 1;
  }
  last_ = entries_.size();
  return entries_.emplace_back(SiteSample{.site = site});
}

void SiteTable::Grow() {
  places_.assign(std::max(places_.size() * 2, 4 * kSearched), 0);
  const size_t mask = places_.size() - 1;
  for (uint32_t i = 0; i < entries_.size(); i++) {
    size_t place = Hash(entries_[i].site) & mask;
    while (places_[place] != 0) place = (place + 1) & mask;
    places_[place] = i + 1;
  }
}

size_t SliceSum::PlaceOf(uint32_t thread) {
  if (thread >= places_.size()) places_.resize(thread + 1, 0);
  uint32_t& place = places_[thread];
  if (place == 0) {
    threads_.emplace_back().thread = thread;
    place = static_cast<uint32_t>(threads_.size());
  }
  return place - 1;
}

void SliceSum::Add(const Slice& slice, const Mapping& mapping) {
  AddHeader(slice.header, &header_);
  const SiteSample* sample = slice.samples.data();
  const double* squares = slice.squares.data();
  const bool one_drain = slice.header.drains == 1;
  for (const Row& row : slice.rows) {
    const uint32_t number = mapping.threads[row.thread];
    const SiteSample* const end = sample + row.samples;
    if (number == kLeftOut) {
      for (; sample != end; sample++) squares += !one_drain && mapping.of_bursts[sample->site];
      continue;
    }
    size_t sum = PlaceOf(number);
    if (row.ledger != Row::kNoLedger) {
      AddLedger(slice.ledgers[row.ledger], &threads_[sum].ledger);
    }
    if (row.rest_ns != 0) {
      LedgerDelta& ledger = threads_[sum].ledger;
      int64_t& waited = row.rest_reason == Row::kNoReason ? ledger.unattributed_ns
                                                          : ledger.off_ns[row.rest_reason];
      waited = WrappingAdd(waited, row.rest_ns);
      ledger.wall_ns = WrappingAdd(ledger.wall_ns, row.rest_ns);
    }
    for (; sample != end; sample++) {
      size_t to = sum;
      if (!mapping.level_threads.empty() && mapping.levels[sample->site]) {
        to = PlaceOf(mapping.level_threads[row.thread]);
      }
      SiteSample& entry = threads_[to].samples.At(mapping.sites[sample->site]);
      entry.weight = WrappingAdd(entry.weight, sample->weight);
      entry.ticks = WrappingAdd(entry.ticks, sample->ticks);
      if (mapping.of_bursts[sample->site]) {
        const auto weight = static_cast<double>(sample->weight);
        squares_[{number, entry.site}] += one_drain ? weight * weight : *squares++;
      }
    }
  }
}

double SliceSum::Squares(uint32_t thread, uint32_t site) const {
  const auto it = squares_.find({thread, site});
  return it == squares_.end() ? 0 : it->second;
}

SliceSum::Mapping MappingOf(std::span<const Site> sites) {
  SliceSum::Mapping mapping;
  mapping.of_bursts.reserve(sites.size());
  mapping.levels.reserve(sites.size());
  for (const Site& site : sites) {
    mapping.of_bursts.push_back(IsFromBursts(KeyOf({}, site)));
    mapping.levels.push_back(IsLevel(site.kind));
  }
  return mapping;
}

}  // namespace profd
