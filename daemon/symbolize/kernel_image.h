// What code of the kernel is, whatever its address: a kernel lies at another one after each boot.
#ifndef PROFD_DAEMON_SYMBOLIZE_KERNEL_IMAGE_H_
#define PROFD_DAEMON_SYMBOLIZE_KERNEL_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/code_range.h"
#include "daemon/profile/identity.h"

namespace profd::symbolize {

// The file of frames in the kernel's image, and of those that are in no file.
inline constexpr char kKernelName[] = "[kernel]";

struct KernelFiles {
  std::string symbols = "/proc/kallsyms";
  std::string modules = "/proc/modules";
  std::string notes = "/sys/kernel/notes";
  std::string modules_folder = "/sys/module";
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
  // Code outside of the image that stays as long as this process: its own programs.
  std::vector<CodeRange> lasting{};
};

struct KernelPlace {
  std::string module;    // "[kernel]", or the name of a kernel module: "[ext4]"
  std::string build_id;  // hex; empty: not known
  uint64_t offset = 0;   // from the start of its code
};

// Where the kernel and its modules lie. Not thread-safe.
class KernelImage {
 public:
  explicit KernelImage(KernelFiles files = {});
  const KernelFiles& files() const { return files_; }

  // The image's code lies between these addresses (0: not known). Reads which modules there are.
  void Update(uint64_t text_begin, uint64_t text_end);
  // None: it is in neither, such as BPF programs and trampolines, or that is not known.
  std::optional<KernelPlace> Find(uint64_t address);

 private:
  struct Part {
    std::string module;
    uint64_t begin = 0, end = 0;
    std::optional<std::string> build_id;  // none: not read yet
  };
  void ReadModules();

  const KernelFiles files_;
  std::vector<Part> parts_;  // ascending
};

// Of the boot that runs; empty if it cannot be read.
std::string ReadBootId(const KernelFiles& files = {});
// The same with the kernel's build-id and address.
BootIdentity ReadBootIdentity(const KernelFiles& files = {});

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_KERNEL_IMAGE_H_
