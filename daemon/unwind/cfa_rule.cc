#include "daemon/unwind/cfa_rule.h"

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/unwind/byte_reader.h"

namespace profd {
namespace {

// Operations of DWARF expressions.
constexpr uint8_t kOpDeref = 0x06;
constexpr uint8_t kOpAnd = 0x1a;
constexpr uint8_t kOpPlus = 0x22;
constexpr uint8_t kOpShl = 0x24;
constexpr uint8_t kOpGe = 0x2a;
constexpr uint8_t kOpLit0 = 0x30;
constexpr uint8_t kOpBreg0 = 0x70;
constexpr uint8_t kLastBreg = 31;

// The operation at the start of an expression, if it is register + offset.
struct BasedAddress {
  uint64_t reg = 0;
  int64_t offset = 0;
};

std::optional<BasedAddress> ReadBasedAddress(ByteReader& reader) {
  const uint8_t op = reader.Read<uint8_t>();
  if (op < kOpBreg0 || op > kOpBreg0 + kLastBreg) return std::nullopt;
  BasedAddress address;
  address.reg = op - kOpBreg0;
  address.offset = reader.ReadSleb();
  if (!reader.ok()) return std::nullopt;
  return address;
}

// The expression that linkers emit for a lazy PLT: after the `push` of an entry the stack is one
// word deeper.
std::optional<int64_t> PltThreshold(std::span<const uint8_t> expression) {
  constexpr std::array<uint8_t, 6> kHead = {kOpBreg0 + kDwarfRsp, 8,     kOpBreg0 + 16, 0,
                                            kOpLit0 + 15,         kOpAnd};
  constexpr std::array<uint8_t, 4> kTail = {kOpGe, kOpLit0 + 3, kOpShl, kOpPlus};
  if (expression.size() != kHead.size() + 1 + kTail.size()) return std::nullopt;
  if (!std::equal(kHead.begin(), kHead.end(), expression.begin()) ||
      !std::equal(kTail.begin(), kTail.end(), expression.end() - kTail.size())) {
    return std::nullopt;
  }
  const int threshold = expression[kHead.size()] - kOpLit0;
  if (threshold < 0 || threshold > 15) return std::nullopt;
  return threshold;
}

}  // namespace

CfaRule CfaFromExpression(std::span<const uint8_t> expression) {
  if (const std::optional<int64_t> threshold = PltThreshold(expression)) {
    return {CfaRule::Kind::kPlt, kDwarfRsp, *threshold};
  }
  ByteReader reader(expression);
  const std::optional<BasedAddress> address = ReadBasedAddress(reader);
  if (address && reader.remaining() == 0) {
    return {CfaRule::Kind::kRegister, address->reg, address->offset};
  }
  if (address && reader.remaining() == 1 && reader.Read<uint8_t>() == kOpDeref) {
    return {CfaRule::Kind::kDereference, address->reg, address->offset};
  }
  return {CfaRule::Kind::kOther, 0, 0};
}

RegisterRule RegisterFromExpression(std::span<const uint8_t> expression) {
  ByteReader reader(expression);
  const std::optional<BasedAddress> address = ReadBasedAddress(reader);
  if (address && reader.remaining() == 0) {
    return {RegisterRule::Kind::kAtRegister, address->reg, address->offset};
  }
  return {RegisterRule::Kind::kOther, 0, 0};
}

}  // namespace profd
