// Functions, files and lines of addresses, from DWARF 2 to 5 through libdw.
#ifndef PROFD_DAEMON_LINES_DWARF_LINES_H_
#define PROFD_DAEMON_LINES_DWARF_LINES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status.h"
#include "daemon/lines/dwarf_image.h"
#include "daemon/lines/source_line.h"

namespace profd {

// The debug info of one file, with indexes of what was looked up. The functions of split DWARF are
// in .dwo files, which libdw opens. libdw does not survive every damaged file: to be used where a
// crash harms nobody (the worker).
class DwarfLines {
 public:
  // `open_supplementary`, errors: as DwarfImage::Open.
  static absl::StatusOr<std::unique_ptr<DwarfLines>> Open(
      int fd, DwarfImage::OpenSupplementary open_supplementary);

  // The code at a virtual address.
  LineChain Find(uint64_t address);

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    Dwarf_Off die = 0;  // of a compilation unit or of a function
    bool Contains(uint64_t address) const { return address >= begin && address < end; }
  };
  using Ranges = std::vector<Range>;  // by begin
  struct Unit {
    Dwarf_Die die{};   // in the .dwo file, if there is one
    Ranges functions;  // offsets in the same file
  };

  explicit DwarfLines(DwarfImage image) : image_(std::move(image)) {}

  void ReadUnits();
  static void AddRanges(Dwarf_Die* die, Ranges* out);
  // The narrowest one around `address`; null if there is none.
  static const Range* FindRange(const Ranges& ranges, uint64_t address);
  // A compilation unit and its functions; null if it cannot be read. Valid as long as this.
  Unit* FindUnit(Dwarf_Off offset);
  static void AddFunctions(Dwarf_Die* parent, bool in_types, int depth, Ranges* out);
  // Appends the functions that are inlined at `address` into `function`, outermost first.
  static void AddInlined(Dwarf_Die function, uint64_t address, std::vector<Dwarf_Die>* out);
  const std::string& NameOf(Dwarf_Die* function);

  DwarfImage image_;
  Ranges units_;
  std::map<Dwarf_Off, Unit> read_units_;                 // by offset in the file itself
  absl::flat_hash_map<const void*, std::string> names_;  // by the address of the function's entry
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_DWARF_LINES_H_
