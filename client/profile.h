// An answer to Fetch in memory, checked, with ids resolved to indexes.
#ifndef PROFD_CLIENT_PROFILE_H_
#define PROFD_CLIENT_PROFILE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/kind.h"
#include "client/reason.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Stack of a sample that stands for what no sample saw.
inline constexpr uint32_t kUnsampled = std::numeric_limits<uint32_t>::max();

struct Frame {
  std::string function;
  std::string module;  // base name, "[kernel]" or empty
  std::string build_id;
  uint64_t address = 0;
  int64_t line = 0;  // 0: not known
  profd::v1::FrameKind kind = profd::v1::FRAME_KIND_UNSPECIFIED;
  // Every wait or allocation passes it: it says nothing.
  bool common = false;
  profd::v1::NameSource found_by = profd::v1::NAME_SOURCE_UNSPECIFIED;
};

struct Stack {
  std::vector<uint32_t> frames;  // indexes into Profile::frames, innermost first
  bool complete = false;
  uint32_t origin = kUnsampled;  // index into Profile::frames; kUnsampled without frames
};

struct Thread {
  int32_t pid = 0;
  int32_t tid = 0;
  std::string name;
  std::string group;    // its name, or what it has in common with others but for a number
  std::string process;  // name
  profd::v1::Thread ledger;
  // What it allocated or freed, by the sample type; none where nothing is known.
  std::optional<profd::v1::HeapTotal> heap;
};

struct Sample {
  std::vector<uint32_t> threads;  // indexes into Profile::threads; one at least
  uint32_t stack = kUnsampled;    // index into Profile::stacks, or kUnsampled
  uint32_t group = 0;             // index into Profile::groups
  // Off-CPU only; UNSPECIFIED in profiles of bytes.
  Reason reason = profd::v1::REASON_UNSPECIFIED;
  int32_t syscall = -1;
  std::string object;  // may be empty
  std::string idle;    // the kind of idle wait, or empty
  // In the unit of the profile.
  int64_t value = 0;   // never negative
  int64_t error = 0;   // standard error of value, never negative
  int64_t weight = 0;  // raw
  uint64_t count = 0;  // as the sample type says
  int64_t growth = 0;  // of levels: in the window
};

// One sample type of an answer.
struct Profile {
  const SampleTypeInfo* kind = nullptr;  // never null
  Unit unit = Unit::kNanoseconds;        // that of the kind
  profd::v1::SampleType type;
  std::vector<Frame> frames;
  std::vector<Stack> stacks;
  std::vector<Thread> threads;
  // Labels, one for each of message->group_by(); the first group has none.
  std::vector<std::vector<std::string>> groups;
  std::vector<Sample> samples;                        // without those that are 0 of this type
  std::shared_ptr<const profd::v1::Profile> message;  // the whole answer; never null

  const profd::v1::Coverage& coverage() const { return message->coverage(); }
};

// One profile for each sample type that was asked for, in that order; one at least.
struct Answer {
  std::vector<Profile> profiles;
  const profd::v1::Profile& message() const { return *profiles.front().message; }
};

// Builds an Answer from the parts of a stream and refuses what does not fit together, so that the
// renderers can trust every index and every sum of times and bytes. No heap total of a thread is
// negative.
class ProfileBuilder {
 public:
  // `asked`: names of the sample types that were asked for; "offcpu" where there is none.
  explicit ProfileBuilder(std::vector<std::string> asked);

  // Takes the next part. DataLoss when the stream breaks the protocol, ResourceExhausted when the
  // answer is larger than a client should hold, Unimplemented when it does not have the sample
  // types that were asked for.
  absl::Status Add(const profd::v1::Profile& part);
  // DataLoss ("answer incomplete") when the last part did not come. The builder is spent.
  absl::StatusOr<Answer> Finish();

 private:
  absl::Status CheckTypes();
  absl::Status AddFrames(int first_location);
  absl::Status AddStack(const profd::v1::Stack& sent);
  absl::Status AddThread(const profd::v1::Thread& sent);
  absl::Status AddGroup(const profd::v1::Group& sent);
  absl::Status AddSample(const profd::v1::Sample& sent);
  absl::Status ReadAttributes(const profd::v1::Sample& sent, Sample* sample) const;
  // The text of an index; none where it is out of range.
  const std::string* Text(uint32_t index) const;
  // What is summed over an answer; each sum has its own bound.
  enum Column { kWall, kOnCpu, kOff, kEstimated, kIdle, kBooks, kColumns };
  enum TypeColumn {
    kValue,
    kError,
    kWeight,
    kGrowth,
    kHeapBytes,
    kHeapWeight,
    kHeapUnseen,
    kTypeColumns
  };
  static absl::Status Count(int64_t amount, int64_t* total);
  // Counts what is in it, and makes 0 of what is negative.
  absl::Status CountHeap(size_t type, profd::v1::HeapTotal& total);

  const std::vector<std::string> asked_;
  std::shared_ptr<profd::v1::Profile> message_;
  // What all sample types have in common.
  Profile shared_;
  std::vector<uint32_t> first_frames_;  // by location, and one more
  std::vector<Profile> profiles_;       // samples, heap totals of threads
  uint64_t bytes_ = 0;
  std::array<int64_t, kColumns> totals_{};
  std::vector<std::array<int64_t, kTypeColumns>> type_totals_;
};

// The first label of every group is the same process: it says nothing.
bool HasOneProcess(const Profile& profile);

// Name of a group, its labels with slashes between them. Without the first one, where that is a
// process and all groups have the same.
std::vector<std::string> GroupNames(const Profile& profile);

// The name of each thread's group, after its process where there are several.
std::vector<std::string> ThreadGroupNames(const Profile& profile);

// More than one process has threads in the profile.
bool HasManyProcesses(const Profile& profile);

// "name (pid)" of one process, "name (9 processes)" of several of one name, else
// "12 processes: a, b, c ...".
std::string DescribeProcesses(const Profile& profile);

// Length of the window really covered, ns; never negative.
int64_t WindowNs(const Profile& profile);

// A tick saw a thread off-CPU, or a probe an event of an allocator.
bool HasSamples(const Profile& profile);

// Adds the totals of one thread, as a ProfileBuilder leaves them, to those of others.
void AddHeap(const profd::v1::HeapTotal& heap, profd::v1::HeapTotal& sum);

// What the samples of a profile of levels grew by in the window.
int64_t SumGrowth(const Profile& profile);

// What the threads of the profile allocated or freed together; none where nothing is known of any.
std::optional<profd::v1::HeapTotal> SumHeap(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_PROFILE_H_
