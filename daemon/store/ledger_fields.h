// The numbers of a ledger as a list, chosen so that most of them are 0.
#ifndef PROFD_DAEMON_STORE_LEDGER_FIELDS_H_
#define PROFD_DAEMON_STORE_LEDGER_FIELDS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/profile/profile.h"

namespace profd {

inline constexpr size_t kUnattributedField = 2;
inline constexpr size_t kFirstOffField = 8;
inline constexpr size_t kLedgerFields = 30 + 2 * kReasonCount;
static_assert(kLedgerFields < 64, "a mask has a bit for each");
// The order is part of the format of segments: kSegmentVersion.
using LedgerFields = std::array<int64_t, kLedgerFields>;

LedgerFields ToFields(const LedgerDelta& ledger);
LedgerDelta FromFields(const LedgerFields& fields);

// A bit for each field that is not 0.
uint64_t MaskOf(const LedgerFields& fields);

// Whether a ledger with these fields says that the thread was in one wait all the time.
constexpr bool IsRest(uint64_t mask) {
  constexpr uint64_t kWaits =
      ((uint64_t{1} << kReasonCount) - 1) << kFirstOffField | uint64_t{1} << kUnattributedField;
  return (mask & kWaits) != 0 && (mask & (mask - 1)) == 0;
}

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_LEDGER_FIELDS_H_
