// An answer to Fetch in memory, checked, with ids resolved to indexes.
#ifndef PROFD_CLIENT_PROFILE_H_
#define PROFD_CLIENT_PROFILE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/kind.h"
#include "client/reason.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Stack of a sample whose time no tick saw, or whose bytes no event.
inline constexpr uint32_t kUnsampled = std::numeric_limits<uint32_t>::max();

struct Stack {
  std::vector<uint32_t> frames;  // indexes into Profile::frames, innermost first
  bool complete = false;
};

struct Sample {
  uint32_t thread = 0;          // index into Profile::threads
  uint32_t stack = kUnsampled;  // index into Profile::stacks, or kUnsampled
  // Off-CPU only; UNSPECIFIED in profiles of bytes.
  Reason reason = profd::v1::REASON_UNSPECIFIED;
  int32_t syscall = -1;
  uint64_t argument = 0;
  // In the unit of the profile.
  int64_t value = 0;   // never negative
  int64_t error = 0;   // standard error of value, never negative
  int64_t weight = 0;  // raw
  uint64_t count = 0;  // ticks, events of the allocator, or sampled objects and pages
  int64_t growth = 0;  // of levels: in the window
};

struct Profile {
  Unit unit = Unit::kNanoseconds;  // by header.kind
  profd::v1::Header header;
  std::vector<profd::v1::Frame> frames;
  std::vector<Stack> stacks;
  std::vector<profd::v1::Thread> threads;
  std::vector<Sample> samples;
  profd::v1::Trailer trailer;
};

// Builds a Profile from the parts of a stream and refuses what does not fit together, so that the
// renderers can trust every index and every sum of times and bytes. No heap total of a thread is
// negative.
class ProfileBuilder {
 public:
  // `asked`: the kind that was asked for.
  explicit ProfileBuilder(ProfileKind asked) : asked_(DescribeKind(asked)) {}

  // Takes the next part. DataLoss when the stream breaks the protocol, ResourceExhausted when the
  // answer is larger than a client should hold, Unimplemented when it is not of the kind that was
  // asked for because the daemon does not know it.
  absl::Status Add(const profd::v1::FetchResponse& part);
  // The profile; DataLoss ("answer incomplete") when no trailer came. The builder is spent.
  absl::StatusOr<Profile> Finish();

 private:
  absl::Status AddHeader(const profd::v1::Header& header);
  absl::Status AddDictionary(const profd::v1::Dictionary& dictionary);
  absl::Status AddThreads(const profd::v1::ThreadBatch& batch);
  absl::Status AddSamples(const profd::v1::SampleBatch& batch);
  // What is summed over an answer; each sum has its own bound.
  enum Column {
    kWall,
    kOnCpu,
    kOff,
    kEstimated,
    kBooks,
    kHeapBytes,
    kHeapWeight,
    kHeapUnseen,
    kValue,
    kError,
    kWeight,
    kGrowth,
    kColumns
  };
  absl::Status Count(Column column, int64_t amount);
  // Counts what is in it, and makes 0 of what is negative.
  absl::Status CountHeap(profd::v1::HeapTotal& total);

  const KindInfo& asked_;
  Profile profile_;
  bool header_seen_ = false;
  bool trailer_seen_ = false;
  uint64_t bytes_ = 0;
  std::array<int64_t, kColumns> totals_{};
  absl::flat_hash_map<uint32_t, uint32_t> frame_index_;
  absl::flat_hash_map<uint32_t, uint32_t> stack_index_;
  absl::flat_hash_map<uint32_t, uint32_t> thread_index_;
};

// Thread name without its trailing number and the separator before it: "storage-03" gives
// "storage". A name that is only a number stays.
std::string ThreadGroup(std::string_view name);

// The group of each thread of the profile, clean: its name where no other thread of its process
// has another name of the same group ("python3"), else what ThreadGroup gives.
std::vector<std::string> ThreadGroups(const Profile& profile);

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
