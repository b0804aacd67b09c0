#include "tests/system/harness/answer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace profd::e2e {
namespace {

absl::Status Add(const v1::Dictionary& dictionary, Answer* answer) {
  for (const v1::Frame& frame : dictionary.frames()) {
    if (frame.id() == 0 || frame.function().empty()) {
      return absl::DataLossError(absl::StrCat("frame without id or name: ", frame.DebugString()));
    }
    if (!answer->frames.emplace(frame.id(), frame).second) {
      return absl::DataLossError(absl::StrCat("frame sent twice: ", frame.DebugString()));
    }
  }
  for (const v1::Stack& stack : dictionary.stacks()) {
    for (const uint32_t id : stack.frames()) {
      if (!answer->frames.contains(id)) {
        return absl::DataLossError(absl::StrCat("stack refers to unknown frame ", id));
      }
    }
    if (stack.id() == 0 || !answer->stacks.emplace(stack.id(), stack).second) {
      return absl::DataLossError(absl::StrCat("bad stack id: ", stack.DebugString()));
    }
  }
  return absl::OkStatus();
}

absl::Status Add(const v1::SampleBatch& batch, Answer* answer) {
  for (const v1::Sample& sample : batch.samples()) {
    if (!answer->threads.contains(sample.thread()) ||
        (sample.stack() != 0 && !answer->stacks.contains(sample.stack()))) {
      return absl::DataLossError(
          absl::StrCat("sample refers to what was not sent: ", sample.DebugString()));
    }
    answer->samples.push_back(sample);
  }
  return absl::OkStatus();
}

}  // namespace

const v1::Thread* Answer::FindThread(int32_t tid) const {
  for (const auto& [id, thread] : threads) {
    if (thread.tid() == tid) return &thread;
  }
  return nullptr;
}

std::vector<v1::Sample> Answer::SamplesOf(const v1::Thread& thread) const {
  std::vector<v1::Sample> found;
  for (const v1::Sample& sample : samples) {
    if (sample.thread() == thread.id()) found.push_back(sample);
  }
  return found;
}

std::vector<v1::Frame> Answer::FramesOf(const v1::Sample& sample) const {
  std::vector<v1::Frame> found;
  if (sample.stack() == 0) return found;
  for (const uint32_t id : stacks.at(sample.stack()).frames()) found.push_back(frames.at(id));
  return found;
}

bool Answer::IsComplete(const v1::Sample& sample) const {
  return sample.stack() != 0 && stacks.at(sample.stack()).complete();
}

std::string Answer::Describe(const v1::Sample& sample) const {
  if (sample.stack() == 0) return "[unsampled]";
  std::string text;
  for (const v1::Frame& frame : FramesOf(sample)) {
    absl::StrAppend(&text, text.empty() ? "" : " < ", frame.function());
    if (!frame.module().empty()) absl::StrAppend(&text, "@", frame.module());
  }
  return text;
}

bool Answer::IsRaced(const v1::Sample& sample) const {
  const std::vector<v1::Frame> all = FramesOf(sample);
  return !all.empty() && all.back().kind() == v1::FRAME_KIND_SYNTHETIC &&
         (all.back().function() == "[torn walk]" || all.back().function() == "[memory map busy]");
}

int64_t OffNs(const v1::Thread& thread, v1::Reason reason) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.off()) {
    if (total.reason() == reason) sum += total.time_ns();
  }
  return sum;
}

int64_t OffNs(const v1::Thread& thread) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.off()) sum += total.time_ns();
  return sum;
}

int64_t Waits(const v1::Thread& thread, v1::Reason reason) {
  int64_t sum = 0;
  for (const v1::ReasonTotal& total : thread.off()) {
    if (total.reason() == reason) sum += static_cast<int64_t>(total.waits());
  }
  return sum;
}

absl::StatusOr<Answer> ReadAnswer(grpc::ClientReader<v1::FetchResponse>* reader) {
  Answer answer;
  v1::FetchResponse part;
  absl::Status broken;
  int headers = 0, trailers = 0;
  while (reader->Read(&part)) {
    if (!broken.ok()) continue;
    if ((headers == 0 && !part.has_header()) || trailers > 0) {
      broken = absl::DataLossError("a part before the header or after the trailer");
      continue;
    }
    switch (part.part_case()) {
      case v1::FetchResponse::kHeader:
        ++headers;
        answer.header = part.header();
        break;
      case v1::FetchResponse::kDictionary:
        broken = Add(part.dictionary(), &answer);
        break;
      case v1::FetchResponse::kThreads:
        for (const v1::Thread& thread : part.threads().threads()) {
          if (thread.id() == 0 || !answer.threads.emplace(thread.id(), thread).second) {
            broken = absl::DataLossError(absl::StrCat("bad thread id: ", thread.DebugString()));
          }
        }
        break;
      case v1::FetchResponse::kSamples:
        broken = Add(part.samples(), &answer);
        break;
      case v1::FetchResponse::kTrailer:
        ++trailers;
        answer.trailer = part.trailer();
        break;
      case v1::FetchResponse::PART_NOT_SET:
        broken = absl::DataLossError("an empty part");
        break;
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  if (!broken.ok()) return broken;
  if (headers != 1 || trailers != 1) return absl::DataLossError("not one header and one trailer");
  return answer;
}

}  // namespace profd::e2e
