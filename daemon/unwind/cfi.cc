#include "daemon/unwind/cfi.h"

#include <algorithm>
#include <string_view>

#include "daemon/unwind/cfa_opcode.h"
#include "daemon/unwind/cfa_rule.h"
#include "daemon/unwind/pointer_encoding.h"

namespace profd {
namespace {

using enum CfaOpcode::Code;

constexpr uint32_t kExtendedLength = 0xffffffff;
constexpr uint32_t kFirstReservedLength = 0xfffffff0;
constexpr uint64_t kMaxAugmentation = 16;
// Initial instructions from compilers are 3 to 20 bytes long; remember_state is nested once or
// twice.
constexpr uint64_t kMaxInitialInstructions = 4096;
constexpr size_t kMaxRememberedStates = 32;
constexpr size_t kCacheSize = 256;
// All functions of an object share a common entry, so a well-formed file stays far below this.
constexpr uint64_t kBudgetFactor = 16;
constexpr uint64_t kBudgetBase = 1 << 20;
constexpr uint64_t kCommonCost = 64;  // cost of parsing one, in addition to its bytes

}  // namespace

std::optional<uint64_t> ReadFrameHeader(std::span<const uint8_t> header, uint64_t address) {
  ByteReader reader(header);
  const uint8_t version = reader.Read<uint8_t>();
  const uint8_t encoding = reader.Read<uint8_t>();
  reader.Read<uint16_t>();  // encodings of the search table, unused
  if (!reader.ok() || version != 1) return std::nullopt;
  return ReadEncodedPointer(reader, encoding, address, address, 0);
}

// One run of call frame instructions over a state.
class FrameReader::Program {
 public:
  using Stretch = absl::FunctionRef<void(uint64_t, uint64_t, const FrameState&)>;

  // DW_CFA_restore restores from `initial`, which is null while the initial state itself is
  // computed.
  Program(FrameReader& frames, const Common& common, const FrameState* initial, FrameState& state,
          uint64_t begin, uint64_t end)
      : frames_(frames),
        common_(common),
        initial_(initial),
        state_(state),
        location_(begin),
        end_(end),
        remembered_(frames.remembered_) {
    remembered_.clear();
  }

  // False when the instructions are malformed. Stops early past the end of the function.
  bool Run(ByteReader reader, Stretch stretch) {
    while (reader.remaining() > 0 && location_ < end_) {
      if (!Step(reader, stretch) || !reader.ok()) return false;
    }
    if (location_ < end_) stretch(location_, end_, state_);
    return true;
  }

 private:
  bool Step(ByteReader& reader, Stretch stretch) {
    const uint8_t opcode = reader.Read<uint8_t>();
    const uint8_t operand = opcode & 0x3f;
    switch (opcode & 0xc0) {
      case kAdvanceLoc:
        return Advance(operand, stretch);
      case kOffset:
        return SetFromCfa(operand, RegisterRule::Kind::kAtCfa, reader.ReadUleb());
      case kRestore:
        return Restore(operand);
      default:
        return StepExtended(opcode, reader, stretch);
    }
  }

  bool StepExtended(uint8_t opcode, ByteReader& reader, Stretch stretch) {
    switch (opcode) {
      case kNop:
        return true;
      case kSetLoc: {
        const std::optional<uint64_t> location = frames_.ReadPointer(reader, common_.encoding);
        return location && *location >= location_ && MoveTo(*location, stretch);
      }
      case kAdvanceLoc1:
        return Advance(reader.Read<uint8_t>(), stretch);
      case kAdvanceLoc2:
        return Advance(reader.Read<uint16_t>(), stretch);
      case kAdvanceLoc4:
        return Advance(reader.Read<uint32_t>(), stretch);
      case kOffsetExtended: {
        const uint64_t reg = reader.ReadUleb();
        return SetFromCfa(reg, RegisterRule::Kind::kAtCfa, reader.ReadUleb());
      }
      case kOffsetExtendedSf: {
        const uint64_t reg = reader.ReadUleb();
        return SetFromCfa(reg, RegisterRule::Kind::kAtCfa,
                          static_cast<uint64_t>(reader.ReadSleb()));
      }
      case kGnuNegativeOffsetExtended: {
        const uint64_t reg = reader.ReadUleb();
        return SetFromCfa(reg, RegisterRule::Kind::kAtCfa, -reader.ReadUleb());
      }
      case kRestoreExtended:
        return Restore(reader.ReadUleb());
      case kUndefined:
        return Set(reader.ReadUleb(), {RegisterRule::Kind::kUndefined, 0, 0});
      case kSameValue:
        return Set(reader.ReadUleb(), {RegisterRule::Kind::kSame, 0, 0});
      case kRegister: {
        const uint64_t reg = reader.ReadUleb();
        reader.ReadUleb();
        return Set(reg, {RegisterRule::Kind::kOther, 0, 0});
      }
      case kValOffset: {
        const uint64_t reg = reader.ReadUleb();
        return SetFromCfa(reg, RegisterRule::Kind::kCfaValue, reader.ReadUleb());
      }
      case kValOffsetSf: {
        const uint64_t reg = reader.ReadUleb();
        return SetFromCfa(reg, RegisterRule::Kind::kCfaValue,
                          static_cast<uint64_t>(reader.ReadSleb()));
      }
      case kExpression: {
        const uint64_t reg = reader.ReadUleb();
        return Set(reg, RegisterFromExpression(reader.ReadBytes(reader.ReadUleb())));
      }
      case kValExpression: {
        const uint64_t reg = reader.ReadUleb();
        reader.ReadBytes(reader.ReadUleb());
        return Set(reg, {RegisterRule::Kind::kOther, 0, 0});
      }
      case kRememberState:
        if (remembered_.size() >= kMaxRememberedStates) return false;
        remembered_.push_back(state_);
        return true;
      case kRestoreState:
        if (remembered_.empty()) return false;
        state_ = remembered_.back();
        remembered_.pop_back();
        return true;
      case kDefCfa: {
        const uint64_t reg = reader.ReadUleb();
        return SetCfa(reg, reader.ReadUleb());
      }
      case kDefCfaSf: {
        const uint64_t reg = reader.ReadUleb();
        return SetCfa(reg, Factored(static_cast<uint64_t>(reader.ReadSleb())));
      }
      case kDefCfaRegister: {
        const uint64_t reg = reader.ReadUleb();
        return CfaIsRegister() && SetCfa(reg, static_cast<uint64_t>(state_.cfa.offset));
      }
      case kDefCfaOffset: {
        const uint64_t offset = reader.ReadUleb();
        return CfaIsRegister() && SetCfa(state_.cfa.reg, offset);
      }
      case kDefCfaOffsetSf: {
        const uint64_t offset = Factored(static_cast<uint64_t>(reader.ReadSleb()));
        return CfaIsRegister() && SetCfa(state_.cfa.reg, offset);
      }
      case kDefCfaExpression:
        state_.cfa = CfaFromExpression(reader.ReadBytes(reader.ReadUleb()));
        return true;
      case kGnuArgsSize:
        reader.ReadUleb();
        return true;
      default:
        return false;
    }
  }

  bool Advance(uint64_t delta, Stretch stretch) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(delta, common_.code_align, &bytes) || bytes > end_ - location_) {
      bytes = end_ - location_;
    }
    return MoveTo(location_ + bytes, stretch);
  }

  // `location` must not be before the current location.
  bool MoveTo(uint64_t location, Stretch stretch) {
    if (location > end_) location = end_;
    if (location > location_) stretch(location_, location, state_);
    location_ = location;
    return true;
  }

  // Modulo 2^64, like the addresses.
  uint64_t Factored(uint64_t value) const {
    return value * static_cast<uint64_t>(common_.data_align);
  }

  bool CfaIsRegister() const { return state_.cfa.kind == CfaRule::Kind::kRegister; }

  bool SetCfa(uint64_t reg, uint64_t offset) {
    state_.cfa = {CfaRule::Kind::kRegister, reg, static_cast<int64_t>(offset)};
    return true;
  }

  bool SetFromCfa(uint64_t reg, RegisterRule::Kind kind, uint64_t factored) {
    return Set(reg, {kind, 0, static_cast<int64_t>(Factored(factored))});
  }

  bool Set(uint64_t reg, const RegisterRule& rule) {
    if (RegisterRule* slot = Slot(state_, reg)) *slot = rule;
    return true;
  }

  bool Restore(uint64_t reg) {
    if (initial_ == nullptr) return false;
    if (RegisterRule* slot = Slot(state_, reg)) *slot = *Slot(*initial_, reg);
    return true;
  }

  // Null for a register that no walk needs.
  template <typename State>
  static auto Slot(State& state, uint64_t reg) -> decltype(&state.rbp) {
    switch (reg) {
      case kDwarfRbp:
        return &state.rbp;
      case kDwarfRsp:
        return &state.rsp;
      case kDwarfReturnAddress:
        return &state.return_address;
      default:
        return nullptr;
    }
  }

  FrameReader& frames_;
  const Common& common_;
  const FrameState* initial_;
  FrameState& state_;
  uint64_t location_;
  const uint64_t end_;
  std::vector<FrameState>& remembered_;
};

FrameReader::FrameReader(const FrameSection& section)
    : section_(section),
      budget_(section.bytes.size() * kBudgetFactor + kBudgetBase),
      cache_(kCacheSize) {}

std::optional<uint8_t> ReadPointerEncoding(std::span<const uint8_t> record, uint64_t address) {
  FrameSection section;
  section.bytes = record;
  section.address = address;
  FrameReader reader(section);
  const FrameReader::Common* common = reader.FindCommon(0);
  if (common == nullptr) return std::nullopt;
  return common->encoding;
}

std::optional<FrameReader::Record> FrameReader::ReadRecord(uint64_t position) const {
  ByteReader reader(section_.bytes, position);
  uint64_t length = reader.Read<uint32_t>();
  const bool extended = length == kExtendedLength;
  if (extended) {
    length = reader.Read<uint64_t>();
  } else if (length >= kFirstReservedLength) {
    return std::nullopt;
  }
  if (!reader.ok() || length > reader.remaining()) return std::nullopt;
  Record record;
  record.begin = reader.position();
  record.end = record.begin + length;
  // The LSB keeps the id at 4 bytes under 64-bit lengths; DWARF does not.
  const bool wide = extended && section_.debug_frame;
  const uint64_t id_size = wide ? sizeof(uint64_t) : sizeof(uint32_t);
  record.body = record.begin;
  if (length < id_size) return record;  // a terminator has length 0
  const uint64_t id = wide ? reader.Read<uint64_t>() : reader.Read<uint32_t>();
  record.body = reader.position();
  if (section_.debug_frame) {
    record.is_common = id == (wide ? UINT64_MAX : UINT32_MAX);
    record.common = id;
  } else {
    // The id of a function is the distance back from the id field to its common entry.
    record.is_common = id == 0;
    record.common = id <= record.begin ? record.begin - id : UINT64_MAX;
  }
  return record;
}

uint64_t FrameReader::ForEachFunction(absl::FunctionRef<void(const FrameDescription&)> found) {
  uint64_t malformed = 0;
  uint64_t position = 0;
  while (position < section_.bytes.size()) {
    const std::optional<Record> record = ReadRecord(position);
    if (!record) return malformed + 1;  // nothing after it can be located
    const bool terminator = record->begin == record->end;
    if (terminator && !section_.exact_size) break;
    if (!record->is_common) {
      if (const std::optional<Function> function = ReadFunction(position, *record)) {
        found(function->description);
      } else {
        ++malformed;
      }
    }
    position = record->end;
  }
  return malformed;
}

bool FrameReader::Run(uint64_t position,
                      absl::FunctionRef<void(uint64_t, uint64_t, const FrameState&)> stretch) {
  const std::optional<Record> record = ReadRecord(position);
  if (!record || record->is_common) return false;
  const std::optional<Function> function = ReadFunction(position, *record);
  if (!function) return false;
  const uint64_t begin = function->description.begin;
  FrameState state = function->common->initial;
  Program program(*this, *function->common, &function->common->initial, state, begin,
                  begin + function->description.size);
  return program.Run(function->program, stretch);
}

std::optional<FrameReader::Function> FrameReader::ReadFunction(uint64_t position,
                                                               const Record& record) {
  if (record.common >= section_.bytes.size()) return std::nullopt;
  const Common* common = FindCommon(record.common);
  if (common == nullptr) return std::nullopt;
  ByteReader reader(section_.bytes.first(record.end), record.body);
  const std::optional<uint64_t> begin = ReadPointer(reader, common->encoding);
  if (!begin) return std::nullopt;
  const std::optional<uint64_t> size =
      ReadPointerFormat(reader, common->encoding & kPointerFormatMask);
  if (!size || *begin + *size < *begin) return std::nullopt;
  if (common->augmented) reader.ReadBytes(reader.ReadUleb());
  if (!reader.ok()) return std::nullopt;
  return Function{{position, *begin, *size}, common, reader};
}

const FrameReader::Common* FrameReader::FindCommon(uint64_t position) {
  Common& common = cache_[(position / 4) % kCacheSize];
  if (common.position != position) {
    common = Common();
    common.position = position;
    common.valid = !exhausted_ && ParseCommon(position, common);
  }
  return common.valid ? &common : nullptr;
}

bool FrameReader::ParseCommon(uint64_t position, Common& common) {
  Charge(kCommonCost);
  const std::optional<Record> record = ReadRecord(position);
  if (!record || !record->is_common || record->body == record->begin) return false;
  ByteReader reader(section_.bytes.first(record->end), record->body);
  const bool well_formed = ParseCommonHeader(reader, common);
  Charge(reader.position() - record->begin);
  if (!well_formed || reader.remaining() > kMaxInitialInstructions) return false;
  Charge(reader.remaining());
  // Initial instructions describe a single state: with a range of one byte, they cannot advance.
  FrameState state = common.initial;
  Program program(*this, common, nullptr, state, 0, 1);
  if (!program.Run(reader, [](uint64_t, uint64_t, const FrameState&) {})) return false;
  common.initial = state;
  return true;
}

bool FrameReader::ParseCommonHeader(ByteReader& reader, Common& common) {
  const uint8_t version = reader.Read<uint8_t>();
  const std::string_view augmentation = reader.ReadString(kMaxAugmentation);
  if (version != 1 && version != 3 && version != 4) return false;
  if (version == 4) {
    const uint8_t address_size = reader.Read<uint8_t>();
    const uint8_t segment_size = reader.Read<uint8_t>();
    if (address_size != sizeof(uint64_t) || segment_size != 0) return false;
  }
  common.code_align = reader.ReadUleb();
  common.data_align = reader.ReadSleb();
  const uint64_t return_column = version == 1 ? reader.Read<uint8_t>() : reader.ReadUleb();
  if (return_column != kDwarfReturnAddress) return false;
  return ParseAugmentation(reader, augmentation, common) && reader.ok();
}

bool FrameReader::ParseAugmentation(ByteReader& reader, std::string_view augmentation,
                                    Common& common) {
  if (augmentation.empty()) return true;
  if (augmentation[0] != 'z') return false;
  common.augmented = true;
  const uint64_t size = reader.ReadUleb();
  const uint64_t begin = reader.position();
  const std::span<const uint8_t> rest = reader.ReadBytes(size);
  if (!reader.ok()) return false;
  ByteReader data(section_.bytes.first(begin + rest.size()), begin);
  for (const char letter : augmentation.substr(1)) {
    switch (letter) {
      case 'R':
        common.encoding = data.Read<uint8_t>();
        break;
      case 'L':
        data.Read<uint8_t>();
        break;
      case 'P': {
        const uint8_t encoding = data.Read<uint8_t>();
        if (encoding == kPointerOmit) break;
        if ((encoding & kPointerBaseMask) == kPointerAligned) {
          const uint64_t address = section_.address + data.position();
          data.ReadBytes(-address % sizeof(uint64_t));
          data.Read<uint64_t>();
        } else if (!ReadPointerFormat(data, encoding & kPointerFormatMask)) {
          return false;
        }
        break;
      }
      case 'S':
        common.initial.signal_frame = true;
        break;
      case 'B':
      case 'G':
        break;  // arm64: pointer authentication, memory tagging
      default:
        return false;
    }
  }
  return data.ok();
}

std::optional<uint64_t> FrameReader::ReadPointer(ByteReader& reader, uint8_t encoding) const {
  return ReadEncodedPointer(reader, encoding, section_.address, section_.data_base,
                            section_.text_base);
}

void FrameReader::Charge(uint64_t bytes) {
  if (bytes > budget_) {
    exhausted_ = true;
    budget_ = 0;
  } else {
    budget_ -= bytes;
  }
}

}  // namespace profd
