// Gives the rows of a slice one after another, whether it is in memory or bytes.
#ifndef PROFD_DAEMON_STORE_SLICE_CURSOR_H_
#define PROFD_DAEMON_STORE_SLICE_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/store/encoded_slice.h"
#include "daemon/store/slice.h"

namespace profd {

class SliceCursor {
 public:
  static constexpr uint32_t kEnd = 0xffffffff;

  // `slice` and `sites`, those of its segment, must outlive this.
  SliceCursor(const Slice& slice, std::span<const Site> sites);
  // Of one that was checked.
  explicit SliceCursor(std::unique_ptr<const EncodedSlice> slice);

  const SliceHeader& header() const { return encoded_ ? encoded_->header : slice_->header; }
  std::span<const StoredWait> waits() const { return encoded_ ? encoded_->waits : slice_->waits; }
  // Calls `function` with the thread of each row, whatever was taken.
  template <typename Function>
  void ForEachThread(Function function) const {
    if (encoded_) {
      RowDecoder decoder(*encoded_);
      for (uint32_t thread = 0; decoder.TakeThread(&thread);) function(thread);
    } else {
      for (const Row& row : slice_->rows) function(row.thread);
    }
  }

  // The thread of the row that is taken next; kEnd after the last one.
  uint32_t thread() const { return thread_; }
  // Valid until the next call. Not after the last one.
  const RowView& Take();

 private:
  void TakeRaw();
  void FindNext();

  // One of both.
  const Slice* slice_ = nullptr;
  std::unique_ptr<const EncodedSlice> encoded_;

  std::span<const Site> sites_;
  size_t row_ = 0, sample_ = 0, square_ = 0;  // what of `slice_` is next
  std::optional<RowDecoder> decoder_;
  uint32_t thread_ = kEnd;
  RowView view_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SLICE_CURSOR_H_
