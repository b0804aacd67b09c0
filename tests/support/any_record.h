// A record of any type, for tests that take all of them.
#ifndef PROFD_TESTS_SUPPORT_ANY_RECORD_H_
#define PROFD_TESTS_SUPPORT_ANY_RECORD_H_

#include <cstdint>
#include <span>
#include <variant>

#include "bpf/abi.h"
#include "daemon/source/record.h"

namespace profd {

using AnyRecord =
    std::variant<profd_thread_record, StackTrace, profd_exec_record, profd_module_record,
                 profd_heap_record, profd_watched_record, profd_page_record, profd_live_heap_record,
                 profd_told_record, profd_long_wait_record>;

inline absl::StatusOr<AnyRecord> DecodeAny(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const uint32_t type, DecodeType(bytes));
  switch (type) {
    case PROFD_RECORD_THREAD:
    case PROFD_RECORD_EXITING:
    case PROFD_RECORD_DEAD:
      return DecodeRecord<profd_thread_record>(bytes);
    case PROFD_RECORD_STACK:
      return DecodeStack(bytes);
    case PROFD_RECORD_EXEC:
      return DecodeRecord<profd_exec_record>(bytes);
    case PROFD_RECORD_MODULE:
      return DecodeRecord<profd_module_record>(bytes);
    case PROFD_RECORD_HEAP:
      return DecodeRecord<profd_heap_record>(bytes);
    case PROFD_RECORD_WATCHED:
      return DecodeRecord<profd_watched_record>(bytes);
    case PROFD_RECORD_PAGE:
      return DecodeRecord<profd_page_record>(bytes);
    case PROFD_RECORD_LIVE_HEAP:
      return DecodeRecord<profd_live_heap_record>(bytes);
    case PROFD_RECORD_TOLD:
      return DecodeRecord<profd_told_record>(bytes);
    case PROFD_RECORD_LONG_WAIT:
      return DecodeRecord<profd_long_wait_record>(bytes);
    default:
      return absl::InvalidArgumentError("record of unknown type");
  }
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_ANY_RECORD_H_
