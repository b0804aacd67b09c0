// One answer to a Fetch, put together again from its stream.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_
#define PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profd/v1/profiler.grpc.pb.h"

namespace profd::e2e {

struct Answer {
  v1::Header header;
  v1::Trailer trailer;
  std::map<uint32_t, v1::Frame> frames;
  std::map<uint32_t, v1::Stack> stacks;
  std::map<uint32_t, v1::Thread> threads;
  std::vector<v1::Sample> samples;

  // Null when there is none.
  const v1::Thread* FindThread(int32_t tid) const;
  // Samples of one thread.
  std::vector<v1::Sample> SamplesOf(const v1::Thread& thread) const;
  // Frames of a sample's stack, innermost first; empty for time without a sample.
  std::vector<v1::Frame> FramesOf(const v1::Sample& sample) const;
  bool IsComplete(const v1::Sample& sample) const;
  // For messages: "leaf < ... < root".
  std::string Describe(const v1::Sample& sample) const;
  // The walk raced with its thread, and its last frame says so: torn by a wake-up, or the memory
  // map was locked.
  bool IsRaced(const v1::Sample& sample) const;
};

// Time off-CPU of one reason, of all, and of all but the run queue, ns.
int64_t OffNs(const v1::Thread& thread, v1::Reason reason);
int64_t OffNs(const v1::Thread& thread);
int64_t Waits(const v1::Thread& thread, v1::Reason reason);

// Reads a stream to its end. DataLoss when it breaks its own rules: an entry that is referred to
// before it was sent, an id 0 or sent twice with another meaning, no header, no trailer.
absl::StatusOr<Answer> ReadAnswer(grpc::ClientReader<v1::FetchResponse>* reader);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_
