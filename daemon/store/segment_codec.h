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
#include "daemon/store/encoded_slice.h"
#include "daemon/store/slice.h"
#include "daemon/store/slice_cursor.h"

namespace profd::store {
class Segment;
class Slice;
class SliceHeader;
}  // namespace profd::store

namespace profd {

inline constexpr uint32_t kSegmentVersion = 1;

// Slice.wait_flags.
inline constexpr uint32_t kWaitEarlier = 1, kWaitLasts = 2;

// The blob of a segment.
std::string EncodeSegment(const Segment& segment);
// The message alone, without compression and checksum.
std::string SerializeSegment(const Segment& segment);

// Give what is in memory already, or null: what a segment says of it is not made again. A thread is
// taken only if it is equal.
struct Known {
  std::function<std::shared_ptr<const StackTrace>(StackId)> stack = nullptr;
  std::function<std::shared_ptr<const ThreadInfo>(ThreadId)> thread = nullptr;
};

// Whose bytes a reader gets.
enum class Sealed : uint8_t {
  kByAnyone,  // any bytes give slices or an error, never undefined behaviour
  kHere,      // this process made the blob: if its checksum is right, rows are not checked again
};

// Reads a segment slice by slice.
class SegmentReader {
 public:
  // Errors: DataLoss.
  static absl::StatusOr<SegmentReader> Open(std::string_view blob, const Known& known = {},
                                            Sealed sealed = Sealed::kByAnyone);
  // The same of a message that is not packed, which must outlive the reader.
  static absl::StatusOr<SegmentReader> Parse(std::string_view message, const Known& known = {});

  // The dictionaries: a segment without slices.
  const Segment& dictionaries() const { return dictionaries_; }
  size_t slices() const { return slices_.size(); }
  // A slice, all of which can be read. What it names is in the dictionaries. The reader must
  // outlive it, and may move. Errors: DataLoss.
  absl::StatusOr<SliceCursor> Read(size_t index) const;

  // Frees what slices are read from, which is most of its memory, of a reader of a blob. No slice
  // can be read until Load brings it back from the same blob. Errors of Load: DataLoss.
  void Unload();
  absl::Status Load(std::string_view blob);

 private:
  struct Place {
    size_t begin, size;
  };
  SegmentReader() = default;
  absl::Status ReadDictionaries(const store::Segment& message, const Known& known);
  absl::Status ReadStacks(const store::Segment& message, const Known& known);
  absl::Status ReadSites(const store::Segment& message);
  absl::Status ReadIdentities(const store::Segment& message);
  absl::Status ReadHeader(const store::SliceHeader& from, SliceHeader* header) const;
  absl::Status ReadWaits(const store::Slice& from, EncodedSlice* slice) const;

  std::unique_ptr<const std::string> content_;  // of a blob, while it is loaded
  std::string_view message_;                    // the same, or what the caller has
  std::vector<Place> slices_;                   // in the message
  Segment dictionaries_;
  Sealed sealed_ = Sealed::kByAnyone;
  std::vector<StackId> stack_ids_;
  std::vector<SiteTraits> traits_;      // of the sites
  std::vector<size_t> loss_of_string_;  // kLossCount: it names none
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SEGMENT_CODEC_H_
