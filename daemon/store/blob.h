// Compressed bytes with a checksum.
//
//   blob = checksum of the rest (CRC-32, 4 bytes, little endian), one frame of zstd
#ifndef PROFD_DAEMON_STORE_BLOB_H_
#define PROFD_DAEMON_STORE_BLOB_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/base/status.h"

namespace profd {

// Larger ones are refused before any memory is taken.
inline constexpr size_t kMaxBlobContent = 64u << 20;

std::string PackBlob(std::string_view content);
// Errors: DataLoss for anything that PackBlob did not write.
absl::StatusOr<std::string> UnpackBlob(std::string_view blob);

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_BLOB_H_
