// What a running profd has in the kernel, seen and changed from outside: for states that the kernel
// comes to only by a race.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_KERNEL_STATE_H_
#define PROFD_TESTS_SYSTEM_HARNESS_KERNEL_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "bpf/abi.h"
#include "daemon/base/fd.h"

namespace profd::e2e {

// The map of that name which process `pid` has open. NotFound when there is none.
absl::StatusOr<UniqueFd> OpenMapOf(int pid, const std::string& name);

// A global variable of the kernel programs that process `pid` loaded, as an array of 32-bit words,
// shared with them.
class KernelWords {
 public:
  static absl::StatusOr<std::unique_ptr<KernelWords>> Open(int pid, const std::string& variable);
  ~KernelWords();
  KernelWords(const KernelWords&) = delete;
  KernelWords& operator=(const KernelWords&) = delete;
  std::span<uint32_t> words() const { return words_; }

 private:
  KernelWords() = default;
  void* memory_ = nullptr;
  size_t size_ = 0;
  std::span<uint32_t> words_;
};

// Changes the account that a profd keeps of the thread that leads process `pid`. Nobody else writes
// to it while that thread sleeps.
absl::Status ChangeAccount(const UniqueFd& threads, int pid,
                           const std::function<void(profd_thread&)>& change);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_KERNEL_STATE_H_
