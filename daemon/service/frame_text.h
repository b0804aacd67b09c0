// What rules about code look at: a named frame.
#ifndef PROFD_DAEMON_SERVICE_FRAME_TEXT_H_
#define PROFD_DAEMON_SERVICE_FRAME_TEXT_H_

#include <string_view>

#include "daemon/symbolize/symbolizer.h"

namespace profd {

struct FrameText {
  std::string_view function;
  std::string_view module;  // base name, "[kernel]" or empty
  FrameKind kind = FrameKind::kApplication;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_FRAME_TEXT_H_
