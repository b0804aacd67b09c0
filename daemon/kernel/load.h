// Loads the kernel programs, without those that the kernel refuses.
#ifndef PROFD_DAEMON_KERNEL_LOAD_H_
#define PROFD_DAEMON_KERNEL_LOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/status.h"
#include "daemon/kernel/bpf_kernel.h"

namespace profd {

using UniqueSkeleton = std::unique_ptr<profd_bpf, SkeletonDeleter>;

// Sends libbpf's messages to our log.
void TakeLibbpfMessages();
// Sets how many entries the maps of a skeleton that is not loaded yet have, on a host with so many
// possible CPUs.
void SizeMaps(const KernelOptions& options, uint32_t cpus, profd_bpf* skeleton);
// An error "what: why" that names what is probably missing.
absl::Status LoadError(const char* what, int error);
// Whether programs may run at the system calls that sync files; else only ext4's syncs are seen.
bool HasSyncCalls();
// These programs, in the order in which they are to be attached.
inline constexpr size_t kSyncCallPrograms = 10;
std::array<bpf_program*, kSyncCallPrograms> SyncCallPrograms(const profd_bpf* skeleton);
// The layer of a program; none for a program that profd cannot do without.
std::optional<KernelLayer> LayerOf(const std::string& name);
// Loads the programs in `options`, except those that this kernel rejects; adds these to `refusals`.
absl::StatusOr<UniqueSkeleton> LoadWhatGoes(const KernelOptions& options, LayerRefusals* refusals);

}  // namespace profd

#endif  // PROFD_DAEMON_KERNEL_LOAD_H_
