// Fixed answers of a daemon, for tests of what the client makes of them.
#ifndef PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_
#define PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_

#include <string>
#include <utility>
#include <vector>

#include "client/profile.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Builds an answer thread by thread, frame by frame.
class AnswerWriter {
 public:
  struct FrameSpec {
    std::string function;
    std::string module;
    profd::v1::FrameKind kind;
  };

  AnswerWriter();

  // Returns the id of the thread.
  uint32_t AddThread(int pid, int tid, const std::string& process, const std::string& name,
                     int64_t wall_ns, int64_t on_cpu_ns);
  // `frames` innermost first; none: the sample is [unsampled]. The ledger grows by `time_ns`.
  void AddSample(uint32_t thread, profd::v1::Reason reason, const std::vector<FrameSpec>& frames,
                 int64_t time_ns, int64_t error_ns, bool complete = true);
  // Reasons of so much of the thread's ledger are estimated.
  void SetEstimated(uint32_t thread, int64_t time_ns);
  profd::v1::Header& header() { return header_; }
  profd::v1::Trailer& trailer() { return trailer_; }

  // The stream, with its trailer or without.
  std::vector<profd::v1::FetchResponse> Parts(bool with_trailer = true) const;
  Profile Build() const;

 private:
  profd::v1::Header header_;
  profd::v1::Dictionary dictionary_;
  profd::v1::ThreadBatch threads_;
  profd::v1::SampleBatch samples_;
  profd::v1::Trailer trailer_;
};

// A node-like program: locks, disk, run queue, idle workers, a broken stack, a hostile name.
AnswerWriter ServerAnswer();
// Nothing but idle waits.
AnswerWriter IdleAnswer();
// The per-switch layer was off for a fifth of the window.
AnswerWriter ShedAnswer();
// Two programs, three processes.
AnswerWriter ProcessesAnswer();

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_
