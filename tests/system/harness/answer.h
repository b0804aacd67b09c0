// One answer to a Fetch, read from its stream.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_
#define PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profd/v1/profiler.grpc.pb.h"
#include "tests/answer.h"

namespace profd::e2e {

using test::Frame;
using test::Sample;
using test::Thread;

struct Answer : test::Answer {
  // Null when there is none.
  const Thread* FindThread(int32_t tid) const;
  // Samples of one thread of this answer.
  std::vector<Sample> SamplesOf(const Thread& thread) const;
  // For messages: "leaf < ... < root".
  std::string Describe(const Sample& sample) const;
  // The walk raced with its thread, and its last frame says so: torn by a wake-up, or the memory
  // map was locked.
  bool IsRaced(const Sample& sample) const;
};

// Time off-CPU of one reason, of all, and of all but the run queue, ns.
int64_t OffNs(const Thread& thread, v1::Reason reason);
int64_t OffNs(const Thread& thread);
int64_t Waits(const Thread& thread, v1::Reason reason);

// Reads a stream to its end. DataLoss when it breaks its own rules.
absl::StatusOr<Answer> ReadAnswer(grpc::ClientReader<v1::Profile>* reader);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_ANSWER_H_
