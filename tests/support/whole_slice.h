// A slice with all its rows, read from a cursor.
#ifndef PROFD_TESTS_SUPPORT_WHOLE_SLICE_H_
#define PROFD_TESTS_SUPPORT_WHOLE_SLICE_H_

#include "daemon/store/slice_cursor.h"

namespace profd {

inline Slice WholeSlice(SliceCursor cursor) {
  Slice slice;
  slice.header = cursor.header();
  slice.waits.assign(cursor.waits().begin(), cursor.waits().end());
  while (cursor.thread() != SliceCursor::kEnd) {
    const RowView& from = cursor.Take();
    Row& row = slice.rows.emplace_back(Row{.thread = from.thread,
                                           .samples = static_cast<uint32_t>(from.samples.size()),
                                           .rest_reason = from.rest_reason,
                                           .rest_ns = from.rest_ns});
    if (from.ledger != nullptr) {
      row.ledger = static_cast<uint32_t>(slice.ledgers.size());
      slice.ledgers.push_back(*from.ledger);
    }
    slice.samples.insert(slice.samples.end(), from.samples.begin(), from.samples.end());
    slice.squares.insert(slice.squares.end(), from.squares.begin(), from.squares.end());
  }
  return slice;
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_WHOLE_SLICE_H_
