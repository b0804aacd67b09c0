// An answer to Fetch in memory, checked, with ids resolved to indexes.
#ifndef PROFD_CLIENT_PROFILE_H_
#define PROFD_CLIENT_PROFILE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/reason.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Stack of a sample whose time no tick saw.
inline constexpr uint32_t kUnsampled = std::numeric_limits<uint32_t>::max();

struct Stack {
  std::vector<uint32_t> frames;  // indexes into Profile::frames, innermost first
  bool complete = false;
};

struct Sample {
  uint32_t thread = 0;          // index into Profile::threads
  uint32_t stack = kUnsampled;  // index into Profile::stacks, or kUnsampled
  Reason reason = profd::v1::REASON_OTHER;
  int32_t syscall = -1;
  uint64_t argument = 0;
  int64_t time_ns = 0;   // never negative
  int64_t error_ns = 0;  // standard error of time_ns, never negative
  int64_t weight_ns = 0;
  uint64_t ticks = 0;
};

struct Profile {
  profd::v1::Header header;
  std::vector<profd::v1::Frame> frames;
  std::vector<Stack> stacks;
  std::vector<profd::v1::Thread> threads;
  std::vector<Sample> samples;
  profd::v1::Trailer trailer;
};

// Builds a Profile from the parts of a stream and refuses what does not fit together, so that the
// renderers can trust every index and every sum of times.
class ProfileBuilder {
 public:
  // Takes the next part. DataLoss when the stream breaks the protocol, ResourceExhausted when the
  // answer is larger than a client should hold.
  absl::Status Add(const profd::v1::FetchResponse& part);
  // The profile; DataLoss ("answer incomplete") when no trailer came. The builder is spent.
  absl::StatusOr<Profile> Finish();

 private:
  absl::Status AddDictionary(const profd::v1::Dictionary& dictionary);
  absl::Status AddThreads(const profd::v1::ThreadBatch& batch);
  absl::Status AddSamples(const profd::v1::SampleBatch& batch);
  // What is summed over an answer; each sum has its own bound.
  enum Column { kWall, kOnCpu, kOff, kEstimated, kBooks, kTime, kError, kWeight, kColumns };
  absl::Status CountTime(Column column, int64_t ns);

  Profile profile_;
  bool header_seen_ = false;
  bool trailer_seen_ = false;
  uint64_t bytes_ = 0;
  std::array<int64_t, kColumns> totals_ns_{};
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

}  // namespace profctl

#endif  // PROFD_CLIENT_PROFILE_H_
