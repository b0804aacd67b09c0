// Sections of ELF files that are compressed (SHF_COMPRESSED).
#ifndef PROFD_DAEMON_UNWIND_COMPRESSED_SECTION_H_
#define PROFD_DAEMON_UNWIND_COMPRESSED_SECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace profd {

// The contents of such a section, from zlib or zstd. Empty if it is malformed, holds less than its
// header says, or is larger than `max_bytes`. Hostile input. Format: the gABI's chapter on
// sections.
std::optional<std::vector<uint8_t>> UnpackSection(std::span<const uint8_t> section,
                                                  uint64_t max_bytes);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_COMPRESSED_SECTION_H_
