// Any bytes given as a stored segment give slices within their bounds or an error. What was read
// can be written again, and then reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/store/blob.h"
#include "daemon/store/ledger_fields.h"
#include "daemon/store/merger.h"
#include "daemon/store/rollup.h"
#include "daemon/store/segment_codec.h"
#include "tests/support/whole_slice.h"

namespace {

using profd::Segment;
using profd::SegmentReader;
using profd::Slice;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckSlice(const Segment& dictionaries, const Slice& slice) {
  size_t samples = 0;
  int64_t last = -1;
  for (const profd::Row& row : slice.rows) {
    Require(row.thread < dictionaries.threads.size() && int64_t{row.thread} > last);
    last = row.thread;
    Require(row.ledger == profd::Row::kNoLedger || row.ledger < slice.ledgers.size());
    Require(row.rest_reason == profd::Row::kNoReason || row.rest_reason < profd::kReasonCount);
    samples += row.samples;
  }
  Require(samples == slice.samples.size());
  for (const profd::SiteSample& sample : slice.samples) {
    Require(sample.site < dictionaries.sites.size());
  }
}

// Reads all of it; false if anything is damaged.
bool ReadAll(SegmentReader* reader, Segment* segment) {
  *segment = reader->dictionaries();
  for (size_t i = 0; i < reader->slices(); i++) {
    auto slice = reader->Read(i);
    if (!slice.ok()) return false;
    segment->slices.push_back(profd::WholeSlice(*std::move(slice)));
    CheckSlice(*segment, segment->slices.back());
  }
  return !segment->slices.empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // As it is stored: nearly always refused.
  (void)SegmentReader::Open(input);
  auto reader = SegmentReader::Parse(input);
  if (!reader.ok()) return 0;
  Segment segment;
  if (!ReadAll(&*reader, &segment)) return 0;

  auto again = SegmentReader::Open(profd::EncodeSegment(segment));
  Require(again.ok());
  Segment same;
  Require(ReadAll(&*again, &same));
  Require(same.slices.size() == segment.slices.size());
  for (size_t i = 0; i < same.slices.size(); i++) {
    Require(same.slices[i].rows.size() == segment.slices[i].rows.size());
    Require(same.slices[i].samples.size() == segment.slices[i].samples.size());
    Require(same.slices[i].header.ticks == segment.slices[i].header.ticks);
  }

  const profd::SegmentPtr stored = profd::SealedSegment(segment, 0);
  const Segment rolled = profd::RollUp({&stored, 1}, {.slice_ns = 60'000'000'000, .max_exited = 0});
  Require(!rolled.slices.empty() && rolled.slices.size() <= segment.slices.size());
  for (const bool levels : {false, true}) {
    profd::Merger merger({INT64_MIN / 2, INT64_MAX / 2}, nullptr, levels);
    merger.Add({stored, 0, stored->spans.size()});
    if (levels) merger.AddLevels({}, {}, {});
    const profd::MergedProfile merged = std::move(merger).Finish();
    Require(merged.threads.size() <= segment.threads.size());
  }
  return 0;
}
