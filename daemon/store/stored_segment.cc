#include "daemon/store/stored_segment.h"

#include <utility>

namespace profd {
namespace {

std::vector<Window> SpansOf(const Segment& segment) {
  std::vector<Window> spans;
  spans.reserve(segment.slices.size());
  for (const Slice& slice : segment.slices) spans.push_back(slice.header.span);
  return spans;
}

size_t OwnBytes(const StoredSegment& stored) {
  return sizeof(StoredSegment) + sizeof(SegmentPtr) + stored.spans.capacity() * sizeof(Window) +
         stored.modules.capacity() * sizeof(ModuleId);
}

}  // namespace

void AddModules(const StackTrace& stack, absl::flat_hash_set<ModuleId>* modules) {
  for (const uint64_t frame : stack.frames) {
    if (IsInFile(frame)) modules->insert(ModuleOf(frame));
  }
}

SegmentPtr RawSegment(Segment segment, size_t shared_bytes) {
  auto stored = std::make_shared<StoredSegment>();
  stored->spans = SpansOf(segment);
  stored->raw = std::move(segment);
  stored->bytes = OwnBytes(*stored) + stored->raw.Bytes() + shared_bytes;
  return stored;
}

SegmentPtr SealedSegment(const Segment& segment, int level) {
  auto stored = std::make_shared<StoredSegment>();
  stored->level = level;
  stored->spans = SpansOf(segment);
  stored->blob = EncodeSegment(segment);
  absl::flat_hash_set<ModuleId> modules;
  for (const auto& stack : segment.stacks) AddModules(*stack, &modules);
  stored->modules = {modules.begin(), modules.end()};
  stored->bytes = OwnBytes(*stored) + stored->blob.capacity();
  return stored;
}

absl::StatusOr<StoredSegmentReader> StoredSegmentReader::Open(const StoredSegment& segment,
                                                              const Known& known) {
  StoredSegmentReader reader(segment);
  if (!segment.raw.slices.empty()) return reader;
  ASSIGN_OR_RETURN(reader.reader_, SegmentReader::Open(segment.blob, known, Sealed::kHere));
  if (reader.reader_->slices() != segment.spans.size()) {
    return absl::DataLossError("stored segment: other slices than were stored");
  }
  return reader;
}

absl::StatusOr<SliceCursor> StoredSegmentReader::Read(size_t index) const {
  if (reader_) return reader_->Read(index);
  return SliceCursor(segment_->raw.slices[index], segment_->raw.sites);
}

void StoredSegmentReader::Unload() {
  if (reader_) reader_->Unload();
}

absl::Status StoredSegmentReader::Load() {
  return reader_ ? reader_->Load(segment_->blob) : absl::OkStatus();
}

}  // namespace profd
