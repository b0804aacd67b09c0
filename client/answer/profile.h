// An answer to Fetch in memory, checked, with ids resolved to indexes.
#ifndef PROFD_CLIENT_ANSWER_PROFILE_H_
#define PROFD_CLIENT_ANSWER_PROFILE_H_

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
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Stack of the time or bytes that no sample explains.
inline constexpr uint32_t kUnsampled = std::numeric_limits<uint32_t>::max();

struct Frame {
  std::string function;
  std::string module;  // base name, "[kernel]" or empty
  std::string build_id;
  uint64_t address = 0;
  std::string file;  // path of the source; empty: not known
  int64_t line = 0;  // 0: not known
  // The frame's code was inlined into the next frame's.
  bool inlined = false;
  profd::v1::FrameKind kind = profd::v1::FRAME_KIND_UNSPECIFIED;
  // Every wait or allocation passes through it, so it says nothing.
  bool common = false;
  profd::v1::NameSource found_by = profd::v1::NAME_SOURCE_UNSPECIFIED;
  // Other functions with the same code, and how many more symbols there are.
  std::vector<std::string> other_names = {};
  uint32_t more_names = 0;
  std::string suffix = {};  // of a copy or part that the compiler made: ".cold"; may be empty
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
  std::string group;    // its name without a trailing number
  std::string process;  // name
  profd::v1::Thread ledger;
  // What it allocated or freed, by the sample type; none if unknown.
  std::optional<profd::v1::HeapTotal> heap;
};

// What the attributes of a sample say.
struct Attributes {
  int32_t syscall = -1;
  std::string object;  // may be empty
  std::string idle;    // the kind of idle wait, or empty
  std::string lock;    // where it is; of waits for locks
  std::string lock_kind;
  std::string task;  // what it keeps from going on, or empty
};

// DataLoss if they refer to something unknown.
absl::StatusOr<Attributes> ReadAttributes(
    const profd::v1::Profile& message, const google::protobuf::RepeatedField<uint32_t>& attributes);

// DataLoss with a remedy; `what` is wrong with the answer.
absl::Status DamagedAnswer(std::string_view what);

struct Sample {
  std::vector<uint32_t> threads;  // indexes into Profile::threads; one at least
  uint32_t stack = kUnsampled;    // index into Profile::stacks, or kUnsampled
  uint32_t group = 0;             // index into Profile::groups
  // Off-CPU only; UNSPECIFIED in profiles of bytes.
  Reason reason = profd::v1::REASON_UNSPECIFIED;
  int32_t syscall = -1;
  std::string object;  // may be empty
  std::string lock;    // where it is; of waits for locks
  std::string lock_kind;
  std::string idle;  // the kind of idle wait, or empty
  std::string task;  // what it keeps from going on, e.g. "async task", or empty
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
  std::vector<Sample> samples;                        // without samples that are 0 for this type
  std::shared_ptr<const profd::v1::Profile> message;  // the whole answer; never null

  const profd::v1::Coverage& coverage() const { return message->coverage(); }
};

// One profile for each requested sample type, in that order; at least one.
struct Answer {
  std::vector<Profile> profiles;
  const profd::v1::Profile& message() const { return *profiles.front().message; }
};

// Builds an Answer from the parts of a stream. Rejects inconsistent parts, so that renderers can
// trust every index and every sum of times and bytes. Heap totals of threads are not negative.
class ProfileBuilder {
 public:
  // `asked`: names of the requested sample types; empty: "offcpu". `window`: that of all parts.
  explicit ProfileBuilder(std::vector<std::string> asked, uint32_t window = 0);

  // Takes the next part. DataLoss if the stream breaks the protocol, ResourceExhausted if the
  // answer is too large for a client, Unimplemented if it has unknown sample types.
  absl::Status Add(const profd::v1::Profile& part);
  // DataLoss if the last part is missing. The builder cannot be used afterwards.
  absl::StatusOr<Answer> Finish();

 private:
  absl::Status CheckTypes();
  // What tables name is there, whether a location refers to it or not: writers write all of them.
  absl::Status CheckNames(int first_mapping, int first_function) const;
  absl::Status AddFrames(int first_location);
  absl::Status AddStack(const profd::v1::Stack& sent);
  absl::Status AddThread(const profd::v1::Thread& sent);
  absl::Status AddGroup(const profd::v1::Group& sent);
  absl::Status AddSample(const profd::v1::Sample& sent);
  absl::Status CheckLocks();
  absl::Status CheckSyncs();
  // The text of an index; none where it is out of range.
  const std::string* Text(uint32_t index) const;
  // Columns that are summed over an answer; each sum has its own bound.
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
  // Counts its fields, and sets negative ones to 0.
  absl::Status CountHeap(size_t type, profd::v1::HeapTotal& total);

  const std::vector<std::string> asked_;
  const uint32_t window_;
  std::shared_ptr<profd::v1::Profile> message_;
  // What all sample types have in common.
  Profile shared_;
  std::vector<uint32_t> first_frames_;  // by location, and one more
  std::vector<Profile> profiles_;       // samples, heap totals of threads
  uint64_t bytes_ = 0;
  std::array<int64_t, kColumns> totals_{};
  std::vector<std::array<int64_t, kTypeColumns>> type_totals_;
};

// "redis-server:server+0x40 (pthread mutex)"; empty if the sample names no lock.
std::string DescribeLock(const Sample& sample);

// Whether profd knows what the wait is for ("tcp 10.0.0.1 -> 10.0.0.2:5432, reading"), not only an
// address.
bool NamesObject(const Sample& sample);

// Whether the first label of every group is the same process, so that it says nothing.
bool HasOneProcess(const Profile& profile);

// Names of groups: their labels joined by slashes, without a process that all groups share.
std::vector<std::string> GroupNames(const Profile& profile);

// The name of a thread or group, after its process if there are `many`: "server/worker". The first
// thread of a process has the name of the process.
std::string NameInProcess(const std::string& process, const std::string& name, bool many);

// The group name of each thread, after its process if there are several.
std::vector<std::string> ThreadGroupNames(const Profile& profile);

// More than one process has threads in the profile.
bool HasManyProcesses(const Profile& profile);

// "name (pid)" of one process, "name (9 processes)" of several of one name, else
// "12 processes: a, b, c ...".
std::string DescribeProcesses(const Profile& profile);

// Length of the window that the answer covers, ns; never negative.
int64_t WindowNs(const Profile& profile);

// Whether there is any sample.
bool HasSamples(const Profile& profile);

// Adds the totals of one thread, as a ProfileBuilder leaves them, to those of others.
void AddHeap(const profd::v1::HeapTotal& heap, profd::v1::HeapTotal& sum);

// Growth in the window, of a profile of levels.
int64_t SumGrowth(const Profile& profile);

// What all threads allocated or freed together; none if nothing is known about any.
std::optional<profd::v1::HeapTotal> SumHeap(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_PROFILE_H_
