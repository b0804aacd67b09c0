// The frames and stacks of one answer, each sent once under a small number.
#ifndef PROFD_DAEMON_SERVICE_DICTIONARY_H_
#define PROFD_DAEMON_SERVICE_DICTIONARY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/profile/profile.h"
#include "daemon/service/frame_names.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// Takes one part of an answer; false when the client is gone.
using SendPart = std::function<bool(const v1::FetchResponse&)>;

// A part is sent when it has grown to this; one entry more keeps it well under 1 MiB.
inline constexpr size_t kPartBytes = 512 << 10;

class StackDictionary {
 public:
  // `known` must outlive this.
  explicit StackDictionary(std::span<const std::shared_ptr<const StackTrace>> known);

  // The number of a stack; 0 for StackId 0. A stack that is not known gets an entry of its own.
  uint32_t Add(StackId id);
  // The same, of a stack that was added before.
  uint32_t NumberOf(StackId id) const;
  // Whether it ends at a proven root.
  bool Complete(StackId id) const;
  // Names the frames of all added stacks and sends frames and stacks. False when the client left.
  bool Send(FrameNames* names, const SendPart& send) const;

 private:
  absl::flat_hash_map<StackId, const StackTrace*> known_;
  absl::flat_hash_map<StackId, uint32_t> numbers_;
  std::vector<StackId> added_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_DICTIONARY_H_
