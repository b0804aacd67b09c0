#include "daemon/store/encoded_slice.h"

#include <cstring>

#include "daemon/store/ledger_fields.h"

namespace profd {

SiteTraits TraitsOf(const Site& site) {
  return {.durations = site.kind == Kind::kDuration,
          .of_bursts = IsFromBursts(KeyOf({}, site)),
          .level = IsLevel(site.kind)};
}

bool EncodedSlice::Check() const {
  RowDecoder decoder(*this);
  RowView row;
  while (decoder.TakeThread(&row.thread)) {
    if (!decoder.TakeRow(&row)) return false;
  }
  return decoder.AtEnd();
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
  if (!row_thread_.Take(&gap) || gap >= slice_->threads) return false;
  const uint64_t number = next_thread_ + gap;
  if (number >= slice_->threads) return false;
  next_thread_ = number + 1;
  *thread = static_cast<uint32_t>(number);
  return true;
}

bool RowDecoder::TakeRow(RowView* row) {
  row->ledger = nullptr;
  row->rest_reason = Row::kNoReason;
  row->rest_ns = 0;
  return TakeLedger(row) && TakeSamples(row);
}

bool RowDecoder::AtEnd() const {
  return row_thread_.empty() && row_mask_.empty() && ledger_value_.empty() &&
         row_samples_.empty() && sample_site_.empty() && sample_count_.empty() &&
         sample_weight_.empty() && sample_squares_.empty();
}

bool RowDecoder::TakeLedger(RowView* row) {
  uint64_t mask = 0;
  if (!row_mask_.Take(&mask) || mask >> kLedgerFields != 0) return false;
  if (mask == 0) return true;
  const auto field = static_cast<size_t>(__builtin_ctzll(mask));
  LedgerFields fields{};
  if (IsRest(mask)) {
    int64_t step = 0;
    if (!ledger_value_.TakeZigzag(&step)) return false;
    last_wall_ = WrappingAdd(last_wall_, step);
    // Of time on the run queue the books have the same number: FromFields knows.
    if (field != kFirstOffField + static_cast<size_t>(Reason::kRunQueue)) {
      row->rest_ns = last_wall_;
      if (field != kUnattributedField) {
        row->rest_reason = static_cast<uint8_t>(field - kFirstOffField);
      }
      return true;
    }
    fields[field] = last_wall_;
  } else {
    for (uint64_t left = mask; left != 0; left &= left - 1) {
      if (!ledger_value_.TakeZigzag(&fields[static_cast<size_t>(__builtin_ctzll(left))])) {
        return false;
      }
    }
  }
  ledger_ = FromFields(fields);
  row->ledger = &ledger_;
  return true;
}

bool RowDecoder::TakeSamples(RowView* row) {
  uint64_t count = 0;
  const std::span<const SiteTraits> sites = slice_->sites;
  if (!row_samples_.Take(&count) || count > sites.size()) return false;
  samples_.resize(count);
  squares_.clear();
  const auto interval = static_cast<uint64_t>(slice_->header.tick_interval_ns);
  const bool has_squares = slice_->header.drains != 1;
  uint64_t next_site = 0;
  for (SiteSample& sample : samples_) {
    uint64_t gap = 0, number = 0;
    int64_t rest = 0;
    if (!sample_site_.Take(&gap) || gap >= sites.size() || next_site + gap >= sites.size() ||
        !sample_count_.Take(&number) || ((number & 1) != 0 && !sample_weight_.TakeZigzag(&rest))) {
      return false;
    }
    const uint64_t site = next_site + gap;
    next_site = site + 1;
    const SiteTraits traits = sites[site];
    sample.site = static_cast<uint32_t>(site);
    sample.ticks = FromZigzag(number >> 1);
    const uint64_t usual = traits.durations ? 0 : static_cast<uint64_t>(sample.ticks) * interval;
    sample.weight = WrappingAdd(static_cast<int64_t>(usual), rest);
    if (traits.of_bursts && has_squares) {
      double square = 0;
      if (sample_squares_.size() < sizeof(square)) return false;
      std::memcpy(&square, sample_squares_.data(), sizeof(square));
      sample_squares_.remove_prefix(sizeof(square));
      squares_.push_back(square);
    }
  }
  row->samples = samples_;
  row->squares = squares_;
  return true;
}

}  // namespace profd
