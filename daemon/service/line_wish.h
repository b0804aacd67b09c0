// What is asked of debug info.
#ifndef PROFD_DAEMON_SERVICE_LINE_WISH_H_
#define PROFD_DAEMON_SERVICE_LINE_WISH_H_

#include <cstdint>

namespace profd {

enum class LineWish : uint8_t {
  kNone,     // nothing is read
  kLines,    // files and line numbers
  kInlines,  // and functions that were inlined
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LINE_WISH_H_
