// A segment as the bytes in which it is kept: a message (proto/profd/store/segment.proto) in a
// blob.
#ifndef PROFD_DAEMON_STORE_SEGMENT_CODEC_H_
#define PROFD_DAEMON_STORE_SEGMENT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/status.h"
#include "daemon/store/slice.h"

namespace profd::store {
class Segment;
class Slice;
}  // namespace profd::store

namespace profd {

inline constexpr uint32_t kSegmentVersion = 1;

// Slice.wait_flags.
inline constexpr uint32_t kWaitEarlier = 1, kWaitLasts = 2;

// The blob of a segment.
std::string EncodeSegment(const Segment& segment);
// The message alone, without compression and checksum.
std::string SerializeSegment(const Segment& segment);

// Gives a stack that is in memory already, or null.
using KnownStacks = std::function<std::shared_ptr<const StackTrace>(StackId)>;

// Reads a segment slice by slice. Any bytes give slices or an error, never undefined behaviour.
class SegmentReader {
 public:
  // Errors: DataLoss.
  static absl::StatusOr<SegmentReader> Open(std::string_view blob,
                                            const KnownStacks& known = nullptr);
  // The same of a message that is not packed.
  static absl::StatusOr<SegmentReader> Parse(std::string_view message,
                                             const KnownStacks& known = nullptr);
  SegmentReader(SegmentReader&&) noexcept;
  SegmentReader& operator=(SegmentReader&&) noexcept;
  ~SegmentReader();

  // The dictionaries: a segment without slices.
  const Segment& dictionaries() const { return dictionaries_; }
  size_t slices() const;
  // Fills `slice`, whose memory is used again. What it names is in the dictionaries. Errors:
  // DataLoss.
  absl::Status Read(size_t index, Slice* slice);

 private:
  SegmentReader();
  absl::Status ReadDictionaries(const KnownStacks& known);
  absl::Status ReadStacks(const KnownStacks& known);
  absl::Status ReadSites();
  absl::Status ReadHeader(const store::Slice& from, SliceHeader* header) const;
  absl::Status ReadRows(const store::Slice& from, Slice* slice) const;
  absl::Status ReadWaits(const store::Slice& from, Slice* slice) const;

  std::unique_ptr<store::Segment> message_;
  std::unique_ptr<store::Slice> slice_;
  Segment dictionaries_;
  std::vector<StackId> stack_ids_;
  std::vector<bool> of_bursts_;         // which sites are; empty: none
  std::vector<size_t> loss_of_string_;  // kLossCount: it names none
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SEGMENT_CODEC_H_
