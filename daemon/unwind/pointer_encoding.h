// Pointers in .eh_frame and .eh_frame_hdr. Format: the LSB's chapter on DWARF extensions.
#ifndef PROFD_DAEMON_UNWIND_POINTER_ENCODING_H_
#define PROFD_DAEMON_UNWIND_POINTER_ENCODING_H_

#include <cstdint>
#include <optional>

#include "daemon/unwind/byte_reader.h"

namespace profd {

// DW_EH_PE_*: how a pointer is encoded.
inline constexpr uint8_t kPointerOmit = 0xff;
inline constexpr uint8_t kPointerIndirect = 0x80;
inline constexpr uint8_t kPointerBaseMask = 0x70;
inline constexpr uint8_t kPointerFormatMask = 0x0f;
inline constexpr uint8_t kPointerAligned = 0x50;  // a base: the next multiple of a word

// Reads one pointer. Empty when malformed, omitted, indirect or of an encoding not in use.
// `field_address` is the address of the reader's first byte.
std::optional<uint64_t> ReadEncodedPointer(ByteReader& reader, uint8_t encoding,
                                           uint64_t field_address, uint64_t data_base,
                                           uint64_t text_base);

// Reads one number of this format, without a base. Empty when malformed or not in use.
std::optional<uint64_t> ReadPointerFormat(ByteReader& reader, uint8_t format);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_POINTER_ENCODING_H_
