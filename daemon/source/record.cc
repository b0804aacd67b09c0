#include "daemon/source/record.h"

namespace profd {

absl::StatusOr<StackTrace> DecodeStack(std::span<const uint8_t> bytes) {
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

std::string CommToString(const char (&comm)[PROFD_COMM_LEN]) {
  return std::string(comm, strnlen(comm, sizeof(comm)));
}

}  // namespace profd
