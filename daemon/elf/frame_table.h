// The search table of .eh_frame_hdr: where functions begin, and where .eh_frame describes them.
#ifndef PROFD_DAEMON_ELF_FRAME_TABLE_H_
#define PROFD_DAEMON_ELF_FRAME_TABLE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "daemon/elf/elf_file.h"

namespace profd::symbolize {

struct FrameTable {
  uint64_t address = 0;  // of .eh_frame_hdr; what the entries are relative to
  FileRange entries;
};

// Virtual addresses.
struct FrameTableEntry {
  uint64_t begin = 0;        // of the function
  uint64_t description = 0;  // in .eh_frame
};

// The segment of .eh_frame_hdr; null without one.
const Segment* FrameHeaderSegment(const ElfFile& elf);

// The table, if it has the form that all linkers write; at most eight million entries. Hostile
// input.
std::optional<FrameTable> FindFrameTable(const ElfFile& elf);

// Reads the table in pieces, in its own order, until `visit` returns false. Where it cannot be
// read, the entries up to there were visited.
void ForEachEntry(const ElfFile& elf, const FrameTable& table,
                  absl::FunctionRef<bool(const FrameTableEntry&)> visit);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_ELF_FRAME_TABLE_H_
