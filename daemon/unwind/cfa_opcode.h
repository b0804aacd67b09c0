// Call frame instructions (DWARF 5 section 7.24, and two of GNU).
#ifndef PROFD_DAEMON_UNWIND_CFA_OPCODE_H_
#define PROFD_DAEMON_UNWIND_CFA_OPCODE_H_

#include <cstdint>

namespace profd {

// The first three carry an operand in their low six bits.
struct CfaOpcode {
  enum Code : uint8_t {
    kAdvanceLoc = 0x40,
    kOffset = 0x80,
    kRestore = 0xc0,
    kNop = 0x00,
    kSetLoc = 0x01,
    kAdvanceLoc1 = 0x02,
    kAdvanceLoc2 = 0x03,
    kAdvanceLoc4 = 0x04,
    kOffsetExtended = 0x05,
    kRestoreExtended = 0x06,
    kUndefined = 0x07,
    kSameValue = 0x08,
    kRegister = 0x09,
    kRememberState = 0x0a,
    kRestoreState = 0x0b,
    kDefCfa = 0x0c,
    kDefCfaRegister = 0x0d,
    kDefCfaOffset = 0x0e,
    kDefCfaExpression = 0x0f,
    kExpression = 0x10,
    kOffsetExtendedSf = 0x11,
    kDefCfaSf = 0x12,
    kDefCfaOffsetSf = 0x13,
    kValOffset = 0x14,
    kValOffsetSf = 0x15,
    kValExpression = 0x16,
    kGnuArgsSize = 0x2e,
    kGnuNegativeOffsetExtended = 0x2f,
  };
};

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_CFA_OPCODE_H_
