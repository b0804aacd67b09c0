// Names for kernel addresses, from /proc/kallsyms.
#ifndef PROFD_DAEMON_SYMBOLIZE_KERNEL_SYMBOLS_H_
#define PROFD_DAEMON_SYMBOLIZE_KERNEL_SYMBOLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/code_range.h"
#include "daemon/base/status.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

struct KernelSymbols {
  std::vector<Symbol> symbols;  // one for each address
  // Where the code of the kernel's image lies; 0: not known.
  uint64_t text_begin = 0, text_end = 0;
};

// Keeps the functions of the kernel's image, which stay until the next boot: some 2 MiB. Those of
// kernel modules and BPF programs come and go, so the file is read again for them. Not thread-safe.
class KernelSymbolTable {
 public:
  // `lasting`: code outside of the image that stays as long as this, and whose names are kept too.
  explicit KernelSymbolTable(std::string path = "/proc/kallsyms",
                             std::vector<CodeRange> lasting = {});

  // Reads what is kept, if it is not there yet. Find would do it. Errors as of Find.
  absl::Status Read();
  // PermissionDenied if the addresses are hidden (CAP_SYSLOG or kptr_restrict).
  absl::StatusOr<KernelSymbols> Find(std::span<const uint64_t> addresses);

 private:
  struct Function {
    uint32_t offset;  // from text_begin_
    uint32_t name;    // where it begins in names_, each of which ends with a zero byte
  };
  class Image;
  struct Lasting {
    CodeRange code;
    std::string name;  // of the symbol at its beginning; empty: there is none
  };

  bool Holds(uint64_t address) const { return text_begin_ <= address && address < text_end_; }
  // The function of the image that an address is in; empty if none is.
  std::string NameInImage(uint64_t address) const;
  // Null if the address is not in lasting code.
  const Lasting* FindLasting(uint64_t address) const;
  // Reads the file once. Names of `wanted`, which ascend, one for each; empty if there is none.
  absl::StatusOr<std::vector<std::string>> ReadFile(std::vector<uint64_t> wanted);

  const std::string path_;
  std::vector<Lasting> lasting_;     // ascending
  std::vector<Function> functions_;  // by offset, each once; empty: not read yet
  std::string names_;
  uint64_t text_begin_ = 0, text_end_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_KERNEL_SYMBOLS_H_
