// A segment as the store holds it: raw while it is young, later as a blob. Immutable, so that
// readers share it with the writer.
#ifndef PROFD_DAEMON_STORE_STORED_SEGMENT_H_
#define PROFD_DAEMON_STORE_STORED_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status.h"
#include "daemon/store/segment_codec.h"
#include "daemon/store/slice.h"
#include "daemon/store/slice_cursor.h"

namespace profd {

struct StoredSegment {
  int level = 0;                  // how often it was rolled up
  std::vector<Window> spans;      // of its slices, in time order; never empty
  Segment raw;                    // only where the blob is empty
  std::string blob;               // of this process
  std::vector<ModuleId> modules;  // that its stacks name; empty where it is raw
  size_t bytes = 0;               // that it takes

  int64_t begin_ns() const { return spans.front().begin_ns; }
  int64_t end_ns() const { return spans.back().end_ns; }
};
using SegmentPtr = std::shared_ptr<const StoredSegment>;

// Some slices of a segment: [begin, end).
struct Pick {
  SegmentPtr segment;
  size_t begin = 0, end = 0;
};

// Adds the modules that the stack's frames are in.
void AddModules(const StackTrace& stack, absl::flat_hash_set<ModuleId>* modules);

// `shared_bytes`: what of the infos and frames it names to add to its size.
SegmentPtr RawSegment(Segment segment, size_t shared_bytes);
// Encodes it.
SegmentPtr SealedSegment(const Segment& segment, int level);

// Reads either form, slice by slice. Must not outlive the segment.
class StoredSegmentReader {
 public:
  // Errors: DataLoss for a damaged blob.
  static absl::StatusOr<StoredSegmentReader> Open(const StoredSegment& segment, const Known& known);
  const Segment& dictionaries() const { return reader_ ? reader_->dictionaries() : segment_->raw; }
  // A slice of the segment. The reader must outlive it. Errors: DataLoss.
  absl::StatusOr<SliceCursor> Read(size_t index) const;
  // As of SegmentReader.
  void Unload();
  absl::Status Load();

 private:
  explicit StoredSegmentReader(const StoredSegment& segment) : segment_(&segment) {}
  const StoredSegment* segment_;
  std::optional<SegmentReader> reader_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_STORED_SEGMENT_H_
