#include "tests/system/harness/answer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace profd::e2e {

const Thread* Answer::FindThread(int32_t tid) const {
  for (const Thread& thread : threads) {
    if (thread.tid == tid) return &thread;
  }
  return nullptr;
}

std::vector<Sample> Answer::SamplesOf(const Thread& thread) const {
  std::vector<Sample> found;
  for (const Sample& sample : samples) {
    const Thread& other = threads[sample.thread];
    if (other.pid == thread.pid && other.tid == thread.tid) found.push_back(sample);
  }
  return found;
}

std::string Answer::Describe(const Sample& sample) const {
  if (sample.stack == 0) return "[unsampled]";
  std::string text;
  for (const Frame& frame : FramesOf(sample)) {
    absl::StrAppend(&text, text.empty() ? "" : " < ", frame.function);
    if (!frame.module.empty()) absl::StrAppend(&text, "@", frame.module);
  }
  return text;
}

bool Answer::IsRaced(const Sample& sample) const {
  const std::vector<Frame> all = FramesOf(sample);
  return !all.empty() && all.back().kind == v1::FRAME_KIND_SYNTHETIC &&
         (all.back().function == "[torn walk]" || all.back().function == "[memory map busy]");
}

int64_t OffNs(const Thread& thread, v1::Reason reason) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.ledger.off()) {
    if (total.reason() == reason) sum += total.time_ns();
  }
  return sum;
}

int64_t OffNs(const Thread& thread) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.ledger.off()) sum += total.time_ns();
  return sum;
}

int64_t Waits(const Thread& thread, v1::Reason reason) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.ledger.off()) {
    if (total.reason() == reason) sum += static_cast<int64_t>(total.waits());
  }
  return sum;
}

absl::StatusOr<Answer> ReadAnswer(grpc::ClientReader<v1::Profile>* reader) {
  Answer answer;
  v1::Profile part;
  absl::Status good;
  while (reader->Read(&part)) {
    if (good.ok()) good = answer.Add(part);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  if (good.ok()) good = answer.Finish();
  if (!good.ok()) return good;
  return answer;
}

}  // namespace profd::e2e
