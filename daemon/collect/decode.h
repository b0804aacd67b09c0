// Records of the kernel programs as C++ values. Sizes and counts are checked, contents are not.
#ifndef PROFD_DAEMON_COLLECT_DECODE_H_
#define PROFD_DAEMON_COLLECT_DECODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "bpf/abi.h"
#include "daemon/base/status.h"
#include "daemon/profile/profile.h"

namespace profd {

using Record = std::variant<profd_thread_record, StackTrace, profd_exec_record, profd_module_record,
                            profd_born_record, profd_heap_record, profd_watched_record,
                            profd_page_record, profd_live_heap_record, profd_told_record>;

// Any bytes give a record or InvalidArgument.
absl::StatusOr<Record> DecodeRecord(std::span<const uint8_t> bytes);

// A comm, which need not end in NUL.
std::string CommToString(const char (&comm)[PROFD_COMM_LEN]);

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_DECODE_H_
