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

// Sends libbpf's messages to our log.
void TakeLibbpfMessages();
// An error "what: why" that names what is probably missing.
absl::Status LoadError(const char* what, int error);
// The layer of a program; none for a program that profd cannot do without.
std::optional<KernelLayer> LayerOf(const std::string& name);
// Loads the programs in `options`, except those that this kernel rejects; adds these to `refusals`.
absl::StatusOr<UniqueSkeleton> LoadWhatGoes(const KernelOptions& options, LayerRefusals* refusals);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_LOAD_H_
