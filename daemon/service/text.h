// Bytes from outside as text that may be sent.
#ifndef PROFD_DAEMON_SERVICE_TEXT_H_
#define PROFD_DAEMON_SERVICE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// Bytes of names of processes and threads, and of paths, at most.
inline constexpr size_t kMaxNameText = 256;
inline constexpr size_t kMaxPathText = 1024;

// `bytes` as valid UTF-8 of at most `limit` bytes (plus an ellipsis where it was cut): protobuf
// refuses strings that are not. Every bad or control byte becomes '?'.
std::string CleanText(std::string_view bytes, size_t limit = 4096);

// The name of a thread of the kernel's worker pools without its number: "kworker/u4:1-events" gives
// "kworker", as any of them may have done the work. Other names stay as they are.
std::string_view WithoutWorkerNumber(std::string_view thread);

// What follows the last '/'.
std::string_view BaseName(std::string_view path);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_TEXT_H_
