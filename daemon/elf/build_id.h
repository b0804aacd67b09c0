// The GNU build-id among ELF notes.
#ifndef PROFD_DAEMON_ELF_BUILD_ID_H_
#define PROFD_DAEMON_ELF_BUILD_ID_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"

namespace profd::symbolize {

// Copies `size` bytes at `offset` to `out`; false if they are not all there.
using NoteReader = absl::FunctionRef<bool(uint64_t offset, void* out, size_t size)>;

// As hex, from the notes between `begin` and `end`; "" when there is none. Notes are aligned to 8
// bytes if `align` is 8, else to 4. Hostile input.
std::string BuildIdFromNotes(NoteReader read, uint64_t begin, uint64_t end, uint64_t align);

// The same, of a file that consists of notes, as /sys/kernel/notes. "" if it cannot be read.
std::string BuildIdOfNotesFile(const std::string& path);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_ELF_BUILD_ID_H_
