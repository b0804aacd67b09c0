#include "daemon/unwind/pointer_encoding.h"

namespace profd {
namespace {

// DW_EH_PE_* formats and bases.
enum PointerFormat : uint8_t {
  kAbsolute = 0x00,
  kUleb128 = 0x01,
  kUdata2 = 0x02,
  kUdata4 = 0x03,
  kUdata8 = 0x04,
  kSleb128 = 0x09,
  kSdata2 = 0x0a,
  kSdata4 = 0x0b,
  kSdata8 = 0x0c,
};
enum PointerBase : uint8_t {
  kPcRelative = 0x10,
  kTextRelative = 0x20,
  kDataRelative = 0x30,
};

}  // namespace

std::optional<uint64_t> ReadPointerFormat(ByteReader& reader, uint8_t format) {
  uint64_t value = 0;
  switch (format) {
    case kAbsolute:
    case kUdata8:
    case kSdata8:
      value = reader.Read<uint64_t>();
      break;
    case kUleb128:
      value = reader.ReadUleb();
      break;
    case kUdata2:
      value = reader.Read<uint16_t>();
      break;
    case kUdata4:
      value = reader.Read<uint32_t>();
      break;
    case kSleb128:
      value = static_cast<uint64_t>(reader.ReadSleb());
      break;
    case kSdata2:
      value = static_cast<uint64_t>(int64_t{reader.Read<int16_t>()});
      break;
    case kSdata4:
      value = static_cast<uint64_t>(int64_t{reader.Read<int32_t>()});
      break;
    default:
      return std::nullopt;
  }
  if (!reader.ok()) return std::nullopt;
  return value;
}

std::optional<uint64_t> ReadEncodedPointer(ByteReader& reader, uint8_t encoding,
                                           uint64_t field_address, uint64_t data_base,
                                           uint64_t text_base) {
  if (encoding == kPointerOmit || (encoding & kPointerIndirect) != 0) return std::nullopt;
  uint64_t base = 0;
  switch (encoding & kPointerBaseMask) {
    case 0:
      break;
    case kPcRelative:
      base = field_address + reader.position();
      break;
    case kTextRelative:
      base = text_base;
      break;
    case kDataRelative:
      base = data_base;
      break;
    default:
      return std::nullopt;
  }
  const std::optional<uint64_t> value = ReadPointerFormat(reader, encoding & kPointerFormatMask);
  if (!value) return std::nullopt;
  return base + *value;
}

}  // namespace profd
