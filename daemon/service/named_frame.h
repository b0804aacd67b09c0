// A frame with its name.
#ifndef PROFD_DAEMON_SERVICE_NAMED_FRAME_H_
#define PROFD_DAEMON_SERVICE_NAMED_FRAME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/symbolize/module_code.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

// A function that was inlined at an address.
struct InlinedFunction {
  std::string function;
  FrameKind kind = FrameKind::kApplication;
  std::string file;   // empty: not known
  uint32_t line = 0;  // 0: not known
};

struct NamedFrame {
  std::string function;
  // Base name of the file, "[kernel]", the name of a kernel module as in "[ext4]", "[jit]", or
  // empty.
  std::string module;
  std::string build_id;
  std::string headers_id = {};  // of a file without a build-id
  // In the file, the kernel's image or its module. In no file: the address; 0 if it is the
  // kernel's.
  uint64_t offset = 0;
  bool exact = false;  // the instruction itself, not a return address
  FrameKind kind = FrameKind::kApplication;
  NameSource found_by = NameSource::kNone;
  std::shared_ptr<const NameDetails> details = {};  // null: nothing
  // By AddLines. What was inlined at the address, innermost first, each into the next and the last
  // into `function`, where its line is.
  std::vector<InlinedFunction> inlined = {};
  std::string file = {};
  uint32_t line = 0;
  // Of the module, if some of its frames have no name; null: not known.
  std::shared_ptr<const symbolize::ModuleCode> code = {};
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_NAMED_FRAME_H_
