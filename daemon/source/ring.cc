#include "daemon/source/ring.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/source/record.h"

namespace profd {

void Ring::Add(Source* source) {
  for (const uint32_t type : source->records()) table_[type].push_back(source);
}

void Ring::Poll() {
  polled_ns_ = clock_->MonotonicNs();
  const absl::Status status =
      kernel_->PollEvents([this](std::span<const uint8_t> bytes) { Dispatch(bytes); });
  if (!status.ok()) LogError(status.ToString());
}

void Ring::Dispatch(std::span<const uint8_t> bytes) {
  const absl::Status status = Deliver(bytes);
  if (!status.ok() && bad_records_++ == 0) LogError("bad record: ", status.ToString());
}

absl::Status Ring::Deliver(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const uint32_t type, DecodeType(bytes));
  if (type == PROFD_RECORD_STACK) {
    ASSIGN_OR_RETURN(StackTrace stack, DecodeStack(bytes));
    stacks_.push_back(std::move(stack));
    return absl::OkStatus();
  }
  const auto wanted = table_.find(type);
  // Records of a source that is off are ignored. Other types are invalid.
  if (wanted == table_.end()) {
    if (type == 0 || type > PROFD_RECORD_LAST) {
      return absl::InvalidArgumentError(absl::StrCat("record of unknown type ", type));
    }
    return absl::OkStatus();
  }
  absl::Status status;
  for (Source* source : wanted->second) status.Update(source->OnRecord(type, bytes));
  return status;
}

}  // namespace profd
