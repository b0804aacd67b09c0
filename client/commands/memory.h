// profctl memory: the memory of processes, now and over a window.
#ifndef PROFD_CLIENT_COMMANDS_MEMORY_H_
#define PROFD_CLIENT_COMMANDS_MEMORY_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct MemoryOptions {
  std::string server;
  profd::v1::GetMemoryRequest request;
  bool json = false;
  bool colour = false;
};

// The error is one line.
absl::Status PrintMemory(const MemoryOptions& options, std::ostream& out);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMANDS_MEMORY_H_
