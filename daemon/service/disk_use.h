// Disk requests of an answer: what they are called, and their sums by device and operation.
#ifndef PROFD_DAEMON_SERVICE_DISK_USE_H_
#define PROFD_DAEMON_SERVICE_DISK_USE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Names of block devices, as they are now.
class DiskNames {
 public:
  // `root`: links to devices by "MAJOR:MINOR".
  explicit DiskNames(std::string root = "/sys/dev/block") : root_(std::move(root)) {}

  // "vda1"; "254:1" if the device is not known. `device` is the kernel's number.
  const std::string& NameOf(uint32_t device);
  // "vda1 read". `argument` is PROFD_DISK_ARGUMENT.
  std::string Describe(uint64_t argument);

 private:
  const std::string root_;
  absl::flat_hash_map<uint32_t, std::string> names_;
};

// Adds the disk requests of all threads, whatever sample type they are told as, and how many
// devices had at a time.
void FillDisks(const MergedProfile& profile, DiskNames& names, v1::Profile* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_DISK_USE_H_
