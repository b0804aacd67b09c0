// Loads the kernel programs, without those that the kernel refuses.
#ifndef PROFD_DAEMON_KERNEL_LOAD_H_
#define PROFD_DAEMON_KERNEL_LOAD_H_

#include <memory>
#include <optional>
#include <string>

#include "daemon/base/status.h"
#include "daemon/kernel/bpf_kernel.h"

namespace profd {

using UniqueSkeleton = std::unique_ptr<profd_bpf, SkeletonDeleter>;

// Has libbpf's messages go to our log.
void TakeLibbpfMessages();
// "what: why", with what is likely missing.
absl::Status LoadError(const char* what, int error);
// The layer that a program belongs to; none where nothing works without it.
std::optional<KernelLayer> LayerOf(const std::string& name);
// Loads all that is asked for but what this kernel refuses, which goes into `refusals`.
absl::StatusOr<UniqueSkeleton> LoadWhatGoes(const KernelOptions& options, LayerRefusals* refusals);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_LOAD_H_
