// Fixed answers of a daemon, for tests of what the client makes of them.
#ifndef PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_
#define PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/answer/profile.h"
#include "daemon/profile/profile.h"
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

  explicit AnswerWriter(profd::Kind kind = profd::Kind::kWait);

  // Returns the index of the thread.
  uint32_t AddThread(int pid, int tid, const std::string& process, const std::string& name,
                     int64_t wall_ns, int64_t on_cpu_ns);
  // `frames` innermost first; none: the sample is [unsampled]. The ledger grows by `time_ns`.
  void AddSample(uint32_t thread, profd::v1::Reason reason, const std::vector<FrameSpec>& frames,
                 int64_t time_ns, int64_t error_ns, bool complete = true);
  // As AddSample in a profile of bytes; the thread's total grows by `bytes`. Each event stands for
  // 64 KiB and costs 800 ns.
  void AddBytes(uint32_t thread, const std::vector<FrameSpec>& frames, int64_t bytes,
                int64_t error_bytes, uint64_t events, bool complete = true);
  // The same in a profile of levels: what there is, of so many pages or objects, and what it grew
  // by.
  void AddLevel(uint32_t thread, const std::vector<FrameSpec>& frames, int64_t bytes,
                int64_t error_bytes, uint64_t count, int64_t growth_bytes, bool complete = true);
  // Gives the last sample an attribute.
  void AddLabel(const std::string& key, const std::string& text);
  // Events of the thread that no probe saw.
  void AddUnseen(uint32_t thread, uint64_t gaps, int64_t bytes);
  // So much of the thread's total is estimated from bursts of tracing.
  void SetEstimatedBytes(uint32_t thread, int64_t bytes);
  // Reasons of so much of the thread's ledger are estimated.
  void SetEstimated(uint32_t thread, int64_t time_ns);
  profd::v1::Coverage& coverage() { return *message_.mutable_coverage(); }
  profd::v1::SampleType& type() { return *message_.mutable_sample_types(0); }
  profd::v1::Profile& message() { return message_; }

  // The whole answer, grouped by these keys; by default as for a flame graph.
  profd::v1::Profile Message(const std::vector<profd::v1::GroupKey>& keys = kByName) const;
  // The stream: head, tables, threads, samples, and the last part.
  std::vector<profd::v1::Profile> Parts(
      const std::vector<profd::v1::GroupKey>& keys = kByName) const;
  Profile Build(const std::vector<profd::v1::GroupKey>& keys = kByName) const;

  static const std::vector<profd::v1::GroupKey> kByName, kByThread;

 private:
  uint32_t String(const std::string& text);
  uint32_t AddFrame(const FrameSpec& spec);
  // Returns the index of a new stack.
  uint32_t AddStack(const std::vector<FrameSpec>& frames, bool complete);
  uint32_t AddAttribute(const std::string& key, const std::string& text, int64_t number);
  profd::v1::Sample& AddValues(uint32_t thread, uint32_t stack, int64_t value, int64_t error,
                               int64_t weight, uint64_t count);
  profd::v1::HeapTotal& Heap(uint32_t thread);

  profd::Kind kind_;
  profd::v1::Profile message_;
  std::vector<FrameSpec> specs_;               // by location
  std::vector<std::string_view> idle_ = {""};  // by stack
};

// What `profctl fetch --format json` writes of the answer.
std::string WrittenJson(const AnswerWriter& answer);

// A node-like program: locks, disk, run queue, idle workers, a broken stack, a hostile name.
AnswerWriter ServerAnswer();
// Nothing but idle waits.
AnswerWriter IdleAnswer();
// The per-switch layer was off for a fifth of the window.
AnswerWriter ShedAnswer();
// Two programs, three processes.
AnswerWriter ProcessesAnswer();

// Who ended waits, and what ran, as `profctl why` gets it: samples with the reason "on-cpu" become
// those of time on a CPU.
profd::v1::Profile WakersAndCpu(const AnswerWriter& answer);

// Allocations of a node-like program: stacks by event, bytes that no event stands for, a broken
// stack, a hostile name, a thread of which nothing is known.
AnswerWriter AllocAnswer();
// What one thread of another program freed.
AnswerWriter FreeAnswer();
// Half of the events were seen, in four fifths of the window.
AnswerWriter UncoveredAnswer();
// Resident memory of a node-like program: what grew, what shrank, what is gone, a broken stack.
AnswerWriter ResidentAnswer();
// What the calls of a program mapped.
AnswerWriter MappedAnswer();
// Allocations were not watched.
AnswerWriter UnwatchedAnswer();

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_FIXTURE_PROFILE_H_
