// The bytes in which one delta is kept. Threads and sites are small numbers that the store gives
// out, so that a thread which did nothing but wait costs five to eight bytes.
//
//   blob   = header row*
//   row    = gap head [wall] [mask field*] sample*      threads ascending, gap to the one before
//   sample = site ticks [weight]                         site relative to the one before
//
// All numbers are LEB128 varints, signed ones zigzag. A value that follows from others (the wall
// clock from its parts, the weight from ticks and interval) is kept only where it differs.
#ifndef PROFD_DAEMON_STORE_DELTA_CODEC_H_
#define PROFD_DAEMON_STORE_DELTA_CODEC_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/profile.h"

namespace profd {

// What a delta says about itself, without threads and stacks.
struct DeltaHeader {
  int64_t begin_ns = 0, end_ns = 0;  // monotonic
  bool books_on = false, switch_on = false, tick_on = false, heap_on = false, faults_on = false;
  bool mappings_on = false;
  bool cpu_on = false;
  bool bursts_on = false;
  int64_t tick_interval_ns = 0;
  int64_t ticks = 0, ticks_missed = 0, walks = 0, torn_walks = 0;
  CollectorCost cost{};
  LossCounts losses{};
  int64_t lost_weight_ns = 0;
  int64_t bursts = 0, burst_ns = 0, burst_span_ns = 0;
};

struct SiteSample {
  uint32_t site = 0;
  int64_t weight = 0;  // ns or bytes, by the kind of the site
  int64_t ticks = 0;
  double squares = 0;  // not stored: of several weights that were added up
};

struct ThreadRow {
  uint32_t thread = 0;
  LedgerDelta ledger;
  std::vector<SiteSample> samples;
};

// Writes a blob, row by row, in strictly ascending order of threads.
class DeltaWriter {
 public:
  // `rows`: about how many there will be.
  DeltaWriter(const DeltaHeader& header, size_t rows);

  void Add(const ThreadRow& row);
  // The same as Add of a row whose account says that the thread waited all the time, by far
  // cheaper.
  void AddResting(uint32_t thread, const RestingThread& rest, std::span<const SiteSample> samples);
  std::string Take() && { return std::move(out_); }

 private:
  void PutHead(uint32_t thread, uint64_t form, uint64_t reason, size_t samples);
  void PutIdle(uint32_t thread, uint64_t form, uint64_t reason, int64_t wall_ns,
               std::span<const SiteSample> samples);
  void PutSamples(std::span<const SiteSample> samples, bool idle);

  std::string out_;
  const int64_t ticks_;
  const int64_t tick_interval_ns_;
  int64_t next_thread_ = 0;
  int64_t last_site_ = 0;
  int64_t last_wall_;
};

// Reads what DeltaWriter wrote. Any bytes give rows or an error, never undefined behaviour.
class DeltaReader {
 public:
  // `blob` must outlive the reader. Errors: DataLoss.
  static absl::StatusOr<DeltaReader> Create(std::string_view blob);

  const DeltaHeader& header() const { return header_; }
  // Fills `row`, whose memory is used again. False at the end and where the blob is damaged.
  bool Next(ThreadRow* row);
  // DataLoss when Next stopped because of damage.
  absl::Status status() const;

 private:
  explicit DeltaReader(std::string_view blob) : rest_(blob) {}
  bool ReadHeader();
  bool ReadTargetCosts();
  bool ReadRow(ThreadRow* row);
  bool ReadLedger(uint64_t form, uint64_t reason, LedgerDelta* ledger);
  bool ReadSample(bool idle, SiteSample* sample);
  bool Varint(uint64_t* value);
  bool Zigzag(int64_t* value);

  std::string_view rest_;
  DeltaHeader header_;
  int64_t next_thread_ = 0;
  uint32_t last_site_ = 0;
  int64_t last_wall_ = 0;
  bool damaged_ = false;
};

// sum += delta, field by field.
void AddLedger(const LedgerDelta& delta, LedgerDelta* sum);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_DELTA_CODEC_H_
