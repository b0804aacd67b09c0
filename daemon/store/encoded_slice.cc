#include "daemon/store/encoded_slice.h"

#include <bit>
#include <cstring>

#include "daemon/store/ledger_fields.h"

namespace profd {

SiteTraits TraitsOf(const Site& site) {
  return {.kind = site.kind, .of_bursts = IsFromBursts(KeyOf({}, site))};
}

// Counts what can be counted, and reads only what tells how much there is of the rest.
bool EncodedSlice::Check() const {
  for (const Varints* column : {&row_thread, &row_mask, &ledger_value, &row_samples, &sample_site,
                                &sample_count, &sample_weight}) {
    if (!column->IsWhole()) return false;
  }
  const Varints::Counts counts = sample_count.Count();
  return CheckRows() && CheckSites() && counts.all == sample_site.Count().all &&
         counts.odd == sample_weight.Count().all;
}

bool EncodedSlice::CheckRows() const {
  const size_t rows = row_thread.Count().all;
  if (rows != row_mask.Count().all || rows != row_samples.Count().all) return false;
  uint64_t next_thread = 0, gap = 0, mask = 0;
  for (Varints left = row_thread; left.Take(&gap); next_thread++) {
    if (gap >= threads || (next_thread += gap) >= threads) return false;
  }
  size_t values = 0;
  for (Varints left = row_mask; left.Take(&mask);) {
    if (mask >> kLedgerFields != 0) return false;
    values += static_cast<size_t>(std::popcount(mask));
  }
  return values == ledger_value.Count().all;
}

bool EncodedSlice::CheckSites() const {
  const bool has_squares = header.drains != 1;
  size_t squares = 0;
  uint64_t samples = 0, gap = 0;
  Varints left = sample_site;
  for (Varints rows = row_samples; rows.Take(&samples);) {
    if (samples > sites.size()) return false;
    for (uint64_t next_site = 0; samples > 0; samples--, next_site++) {
      if (!left.Take(&gap) || gap >= sites.size() || (next_site += gap) >= sites.size()) {
        return false;
      }
      if (has_squares) squares += sites[next_site].of_bursts;
    }
  }
  return left.empty() && sample_squares.size() == squares * sizeof(double);
}

RowDecoder::RowDecoder(const EncodedSlice& slice)
    : slice_(&slice),
      row_thread_(slice.row_thread),
      row_mask_(slice.row_mask),
      ledger_value_(slice.ledger_value),
      row_samples_(slice.row_samples),
      sample_site_(slice.sample_site),
      sample_count_(slice.sample_count),
      sample_weight_(slice.sample_weight),
      sample_squares_(slice.sample_squares),
      last_wall_(slice.header.LengthNs()) {}

bool RowDecoder::TakeThread(uint32_t* thread) {
  uint64_t gap = 0;
  if (!row_thread_.Take(&gap)) return false;
  next_thread_ += gap;
  *thread = static_cast<uint32_t>(next_thread_++);
  return true;
}

void RowDecoder::TakeRow(RowView* row) {
  TakeLedger(row);
  TakeSamples(row);
}

void RowDecoder::TakeLedger(RowView* row) {
  row->ledger = nullptr;
  row->rest_reason = Row::kNoReason;
  row->rest_ns = 0;
  uint64_t mask = 0;
  row_mask_.Take(&mask);
  if (mask == 0) return;
  const auto field = static_cast<size_t>(std::countr_zero(mask));
  LedgerFields fields{};
  if (IsRest(mask)) {
    int64_t step = 0;
    ledger_value_.TakeZigzag(&step);
    last_wall_ = WrappingAdd(last_wall_, step);
    // Of time on the run queue the books have the same number: FromFields knows.
    if (field != kFirstOffField + static_cast<size_t>(Reason::kRunQueue)) {
      row->rest_ns = last_wall_;
      if (field != kUnattributedField) {
        row->rest_reason = static_cast<uint8_t>(field - kFirstOffField);
      }
      return;
    }
    fields[field] = last_wall_;
  } else {
    for (uint64_t left = mask; left != 0; left &= left - 1) {
      ledger_value_.TakeZigzag(&fields[static_cast<size_t>(std::countr_zero(left))]);
    }
  }
  ledger_ = FromFields(fields);
  row->ledger = &ledger_;
}

void RowDecoder::TakeSamples(RowView* row) {
  uint64_t count = 0;
  row_samples_.Take(&count);
  samples_.resize(count);
  squares_.clear();
  const auto interval = static_cast<uint64_t>(slice_->header.tick_interval_ns);
  const bool has_squares = slice_->header.drains != 1;
  uint64_t site = 0, gap = 0, number = 0;
  for (SiteSample& sample : samples_) {
    sample_site_.Take(&gap);
    sample_count_.Take(&number);
    int64_t rest = 0;
    if ((number & 1) != 0) sample_weight_.TakeZigzag(&rest);
    site += gap;
    const SiteTraits traits = slice_->sites[site];
    sample.site = static_cast<uint32_t>(site++);
    sample.ticks = FromZigzag(number >> 1);
    const uint64_t usual =
        IsHistogram(traits.kind) ? 0 : static_cast<uint64_t>(sample.ticks) * interval;
    sample.weight = WrappingAdd(static_cast<int64_t>(usual), rest);
    if (traits.of_bursts && has_squares) {
      double square = 0;
      std::memcpy(&square, sample_squares_.data(), sizeof(square));
      sample_squares_.remove_prefix(sizeof(square));
      squares_.push_back(square);
    }
  }
  row->samples = samples_;
  row->squares = squares_;
}

}  // namespace profd
