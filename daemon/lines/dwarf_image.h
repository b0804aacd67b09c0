// Opens the debug sections of an ELF file for libdw.
#ifndef PROFD_DAEMON_LINES_DWARF_IMAGE_H_
#define PROFD_DAEMON_LINES_DWARF_IMAGE_H_

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "daemon/base/fd.h"
#include "daemon/base/status.h"
#include "daemon/elf/elf_file.h"

namespace profd {

// The debug sections, mapped. Sections that libelf cannot decompress (zstd: elfutils before 0.189)
// are decompressed here, into an ELF file in memory.
class DwarfImage {
 public:
  // Opens a supplementary file, by the name in .gnu_debugaltlink and its build-id (hex). Not ok()
  // if there is none.
  using OpenSupplementary =
      absl::FunctionRef<UniqueFd(const std::string& name, const std::string& build_id)>;

  // The file behind `fd`, which must stay open. If it refers to a supplementary file (dwz), names
  // there are found if `open_supplementary` gives it. Errors: NotFound without debug info,
  // ResourceExhausted if it is too large, DataLoss if it is damaged.
  static absl::StatusOr<DwarfImage> Open(int fd, OpenSupplementary open_supplementary);

  Dwarf* dwarf() const { return dwarf_.get(); }

 private:
  struct ElfDeleter {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct DwarfDeleter {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  DwarfImage() = default;
  static absl::StatusOr<DwarfImage> OpenAlone(int fd, const symbolize::ElfFile& elf,
                                              uint64_t most_decompressed);

  // In the order of their use: the last one dies first.
  UniqueFd supplementary_fd_;
  std::unique_ptr<DwarfImage> supplementary_;  // the supplementary file
  std::unique_ptr<std::string> bytes_;
  std::unique_ptr<Elf, ElfDeleter> elf_;
  std::unique_ptr<Dwarf, DwarfDeleter> dwarf_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_DWARF_IMAGE_H_
