// Opens the debug sections of an ELF file for libdw.
#ifndef PROFD_DAEMON_LINES_DWARF_IMAGE_H_
#define PROFD_DAEMON_LINES_DWARF_IMAGE_H_

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/status.h"

namespace profd {

// The debug sections, mapped. Sections that libelf cannot decompress (zstd: elfutils before 0.189)
// are decompressed here, into an ELF file in memory.
class DwarfImage {
 public:
  // The file behind `fd`, which must stay open. Errors: NotFound without debug info,
  // ResourceExhausted if it is too large, DataLoss if it is damaged.
  static absl::StatusOr<DwarfImage> Open(int fd);

  Dwarf* dwarf() const { return dwarf_.get(); }

 private:
  struct ElfDeleter {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct DwarfDeleter {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  DwarfImage() = default;

  // In the order of their use: the last one dies first.
  std::unique_ptr<std::string> bytes_;
  std::unique_ptr<Elf, ElfDeleter> elf_;
  std::unique_ptr<Dwarf, DwarfDeleter> dwarf_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_DWARF_IMAGE_H_
