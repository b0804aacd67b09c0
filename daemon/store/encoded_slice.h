// The rows of a slice, read from its bytes one after another: all of them are never in memory.
#ifndef PROFD_DAEMON_STORE_ENCODED_SLICE_H_
#define PROFD_DAEMON_STORE_ENCODED_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/store/slice.h"
#include "daemon/store/wire.h"

namespace profd {

// The numbers of one thread, as in Row.
struct RowView {
  uint32_t thread = 0;
  const LedgerDelta* ledger = nullptr;  // null: none
  uint8_t rest_reason = Row::kNoReason;
  int64_t rest_ns = 0;
  std::span<const SiteSample> samples;
  std::span<const double> squares;  // as in Slice, of these samples
};

// What of a site is to be known for each of its samples.
struct SiteTraits {
  Kind kind = Kind::kWait;
  bool of_bursts = false;
};
SiteTraits TraitsOf(const Site& site);

// A slice of which only the columns of numbers are not read yet. What it names lives in its
// segment, which must outlive it.
struct EncodedSlice {
  SliceHeader header;
  std::vector<StoredWait> waits;
  size_t threads = 0;                 // of the segment
  std::span<const SiteTraits> sites;  // the same
  // Columns of the message.
  Varints row_thread, row_mask, ledger_value, row_samples;
  Varints sample_site, sample_count, sample_weight;
  std::string_view sample_squares;

  // Whether the columns are whole: they have as many numbers as each other, and name nothing that
  // is not there.
  bool Check() const;

 private:
  bool CheckRows() const;
  bool CheckSites() const;
};

class RowDecoder {
 public:
  // `slice` was checked, and must outlive this.
  explicit RowDecoder(const EncodedSlice& slice);

  // The thread of the next row. False at the end.
  bool TakeThread(uint32_t* thread);
  // What that row says. Valid until the next call.
  void TakeRow(RowView* row);

 private:
  void TakeLedger(RowView* row);
  void TakeSamples(RowView* row);

  const EncodedSlice* slice_;
  Varints row_thread_, row_mask_, ledger_value_, row_samples_;
  Varints sample_site_, sample_count_, sample_weight_;
  std::string_view sample_squares_;
  uint64_t next_thread_ = 0;
  int64_t last_wall_ = 0;
  LedgerDelta ledger_;
  std::vector<SiteSample> samples_;
  std::vector<double> squares_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_ENCODED_SLICE_H_
