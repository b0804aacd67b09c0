// How a register of the caller is found. Expressions: DWARF 5 section 2.5; of them only those that
// compilers and linkers emit are understood.
#ifndef PROFD_DAEMON_UNWIND_CFA_RULE_H_
#define PROFD_DAEMON_UNWIND_CFA_RULE_H_

#include <cstdint>
#include <span>

namespace profd {

// x86-64 DWARF register numbers (psABI figure 3.36).
inline constexpr uint64_t kDwarfRbp = 6;
inline constexpr uint64_t kDwarfRsp = 7;
inline constexpr uint64_t kDwarfReturnAddress = 16;

struct CfaRule {
  enum class Kind : uint8_t {
    kUnset,
    kRegister,     // reg + offset
    kDereference,  // *(reg + offset)
    kPlt,          // rsp + 8 + ((rip & 15) >= offset) * 8
    kOther,
  };
  Kind kind = Kind::kUnset;
  uint64_t reg = 0;
  int64_t offset = 0;
};

struct RegisterRule {
  enum class Kind : uint8_t {
    kUnset,
    kSame,
    kUndefined,
    kAtCfa,       // *(CFA + offset)
    kCfaValue,    // CFA + offset itself
    kAtRegister,  // *(reg + offset)
    kOther,
  };
  Kind kind = Kind::kUnset;
  uint64_t reg = 0;
  int64_t offset = 0;
};

// kOther if the expression is not understood.
CfaRule CfaFromExpression(std::span<const uint8_t> expression);
RegisterRule RegisterFromExpression(std::span<const uint8_t> expression);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_CFA_RULE_H_
