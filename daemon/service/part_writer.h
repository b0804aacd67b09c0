// Sends a profile in parts, each well below what gRPC takes as one message.
#ifndef PROFD_DAEMON_SERVICE_PART_WRITER_H_
#define PROFD_DAEMON_SERVICE_PART_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "profd/v1/profiler.pb.h"

namespace profd {

// Takes one part of an answer; false when the client is gone.
using SendPart = std::function<bool(const v1::Profile&)>;

// A part is sent when it has grown to this; one entry more keeps it well under 1 MiB.
inline constexpr size_t kPartBytes = 512 << 10;

class PartWriter {
 public:
  // `window`: which of the request's windows. `send` must outlive this.
  PartWriter(const SendPart& send, uint32_t window) : send_(send), window_(window) {}

  // Where the next entry goes. An entry is sent in the order in which it was added.
  v1::Profile& part() { return part_; }
  // To be called for every entry once it is filled.
  template <typename Entry>
  void Added(const Entry& entry) {
    AddedBytes(entry.ByteSizeLong());
  }
  void AddedBytes(size_t bytes) {
    bytes_ += bytes + kEntryOverhead;
    if (bytes_ >= kPartBytes) Flush();
  }
  // Sends what there is.
  void Flush() {
    if (client_left_) return;
    part_.set_window(window_);
    client_left_ = !send_(part_);
    part_.Clear();
    bytes_ = 0;
  }
  // The last part. False when the client left meanwhile.
  bool Finish() {
    part_.set_complete(true);
    Flush();
    return !client_left_;
  }
  // What is added from now on goes nowhere.
  bool client_left() const { return client_left_; }

 private:
  static constexpr size_t kEntryOverhead = 8;  // tag and length

  const SendPart& send_;
  const uint32_t window_;
  v1::Profile part_;
  size_t bytes_ = 0;
  bool client_left_ = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_PART_WRITER_H_
