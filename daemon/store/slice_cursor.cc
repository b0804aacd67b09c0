#include "daemon/store/slice_cursor.h"

#include <algorithm>
#include <utility>

namespace profd {

SliceCursor::SliceCursor(const Slice& slice, std::span<const Site> sites)
    : slice_(&slice), sites_(sites) {
  FindNext();
}

SliceCursor::SliceCursor(std::unique_ptr<const EncodedSlice> slice) : encoded_(std::move(slice)) {
  decoder_.emplace(*encoded_);
  FindNext();
}

void SliceCursor::FindNext() {
  if (decoder_) {
    if (!decoder_->TakeThread(&thread_)) thread_ = kEnd;
  } else {
    thread_ = row_ < slice_->rows.size() ? slice_->rows[row_].thread : kEnd;
  }
}

const RowView& SliceCursor::Take() {
  view_.thread = thread_;
  if (decoder_) {
    decoder_->TakeRow(&view_);
  } else {
    TakeRaw();
  }
  FindNext();
  return view_;
}

void SliceCursor::TakeRaw() {
  const Row& row = slice_->rows[row_++];
  view_.ledger = row.ledger == Row::kNoLedger ? nullptr : &slice_->ledgers[row.ledger];
  view_.rest_reason = row.rest_reason;
  view_.rest_ns = row.rest_ns;
  view_.samples = std::span(slice_->samples).subspan(sample_, row.samples);
  sample_ += row.samples;
  if (slice_->squares.empty()) return;
  const auto of_bursts = static_cast<size_t>(
      std::count_if(view_.samples.begin(), view_.samples.end(),
                    [&](const SiteSample& s) { return TraitsOf(sites_[s.site]).of_bursts; }));
  view_.squares = std::span(slice_->squares).subspan(square_, of_bursts);
  square_ += of_bursts;
}

}  // namespace profd
