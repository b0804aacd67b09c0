// What a thread did over a window, in little room where it only waited.
#ifndef PROFD_DAEMON_STORE_MERGED_LEDGER_H_
#define PROFD_DAEMON_STORE_MERGED_LEDGER_H_

#include <cstdint>
#include <memory>

#include "daemon/profile/profile.h"

namespace profd {

// There may be tens of thousands, most of which stand for nothing but a wait.
class MergedLedger {
 public:
  MergedLedger() = default;
  explicit MergedLedger(const RestingThread& rest) : rest_(rest) {}
  explicit MergedLedger(const LedgerDelta& whole) : whole_(std::make_unique<LedgerDelta>(whole)) {}

  LedgerDelta Get() const {
    if (whole_ != nullptr) return *whole_;
    LedgerDelta ledger;
    AddRest(rest_, &ledger);
    return ledger;
  }
  // What threads that only waited have none of: all zero for them.
  const HeapDelta& allocated() const { return Beside().allocated; }
  const HeapDelta& freed() const { return Beside().freed; }
  int64_t folded_processes() const { return Beside().folded_processes; }
  // To be changed. Null: it only waited.
  LedgerDelta* whole() { return whole_.get(); }

 private:
  const LedgerDelta& Beside() const {
    static const LedgerDelta kNothing;
    return whole_ != nullptr ? *whole_ : kNothing;
  }

  RestingThread rest_;
  std::unique_ptr<LedgerDelta> whole_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MERGED_LEDGER_H_
