// Records of the kernel programs as C++ values. Sizes and counts are checked, contents are not.
#ifndef PROFD_DAEMON_SOURCE_RECORD_H_
#define PROFD_DAEMON_SOURCE_RECORD_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/base/status.h"
#include "daemon/profile/profile.h"

namespace profd {

// A record of fixed size, or InvalidArgument. Does not check its type.
template <typename T>
absl::StatusOr<T> DecodeRecord(std::span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(T)) {
    return absl::InvalidArgumentError(
        absl::StrCat("record of ", bytes.size(), " bytes, expected ", sizeof(T)));
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// The enum profd_record_type at the start of each record; it may be any number.
inline absl::StatusOr<uint32_t> DecodeType(std::span<const uint8_t> bytes) {
  return DecodeRecord<uint32_t>(bytes);
}

// A PROFD_RECORD_STACK, or InvalidArgument.
absl::StatusOr<StackTrace> DecodeStack(std::span<const uint8_t> bytes);

// The text of a comm, which need not end in NUL.
std::string CommToString(const char (&comm)[PROFD_COMM_LEN]);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_RECORD_H_
