#include "daemon/collect/decode.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

template <typename T>
absl::StatusOr<T> Fixed(std::span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(T)) {
    return absl::InvalidArgumentError(
        absl::StrCat("record of ", bytes.size(), " bytes, expected ", sizeof(T)));
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

absl::StatusOr<Record> DecodeStack(std::span<const uint8_t> bytes) {
  if (bytes.size() < PROFD_STACK_HEADER_SIZE) {
    return absl::InvalidArgumentError("stack record without a header");
  }
  profd_stack_record header;
  std::memcpy(&header, bytes.data(), PROFD_STACK_HEADER_SIZE);
  const size_t frames = size_t{header.kernel_frames} + header.user_frames;
  if (frames > PROFD_MAX_FRAMES ||
      bytes.size() < PROFD_STACK_HEADER_SIZE + frames * sizeof(uint64_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat("stack record of ", bytes.size(), " bytes with ", frames, " frames"));
  }
  if (header.walk >= PROFD_WALK_COUNT) {
    return absl::InvalidArgumentError(absl::StrCat("stack record with walk result ", header.walk));
  }
  StackTrace stack;
  stack.id = StackId{header.hash};
  stack.walk = WalkResult{header.walk};
  stack.kernel_frames = header.kernel_frames;
  stack.frames.resize(frames);
  if (frames != 0) {
    std::memcpy(stack.frames.data(), bytes.data() + PROFD_STACK_HEADER_SIZE,
                frames * sizeof(uint64_t));
  }
  return stack;
}

}  // namespace

absl::StatusOr<Record> DecodeRecord(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const uint32_t type, Fixed<uint32_t>(bytes));
  switch (type) {
    case PROFD_RECORD_THREAD:
    case PROFD_RECORD_EXITING:
    case PROFD_RECORD_DEAD:
      return Fixed<profd_thread_record>(bytes);
    case PROFD_RECORD_STACK:
      return DecodeStack(bytes);
    case PROFD_RECORD_EXEC:
      return Fixed<profd_exec_record>(bytes);
    case PROFD_RECORD_MODULE:
      return Fixed<profd_module_record>(bytes);
    case PROFD_RECORD_BORN:
      return Fixed<profd_born_record>(bytes);
    case PROFD_RECORD_HEAP:
      return Fixed<profd_heap_record>(bytes);
    case PROFD_RECORD_WATCHED:
      return Fixed<profd_watched_record>(bytes);
    case PROFD_RECORD_PAGE:
      return Fixed<profd_page_record>(bytes);
    case PROFD_RECORD_LIVE_HEAP:
      return Fixed<profd_live_heap_record>(bytes);
    case PROFD_RECORD_TOLD:
      return Fixed<profd_told_record>(bytes);
    default:
      return absl::InvalidArgumentError(absl::StrCat("record of unknown type ", type));
  }
}

std::string CommToString(const char (&comm)[PROFD_COMM_LEN]) {
  return std::string(comm, strnlen(comm, sizeof(comm)));
}

}  // namespace profd
