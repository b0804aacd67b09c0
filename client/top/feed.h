// Asks profd for the rounds of `profctl top`.
#ifndef PROFD_CLIENT_TOP_FEED_H_
#define PROFD_CLIENT_TOP_FEED_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "client/io/connection.h"
#include "client/io/receive.h"
#include "client/top/snapshot.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

struct FeedOptions {
  std::string server;
  profd::v1::FetchRequest interval;  // targets and threads
  profd::v1::GetStacksRequest looks;
  std::chrono::nanoseconds length = std::chrono::seconds(2);  // of an interval
};

// One round after another over one connection, which is made anew after a failure. Intervals follow
// each other without a gap, unless the last one is long ago.
class Feed {
 public:
  explicit Feed(FeedOptions options);

  // The error is one line.
  absl::StatusOr<Snapshot> Next();
  // From any thread: Next ends soon, now and later.
  void Cancel() { canceller_.Cancel(); }

 private:
  absl::StatusOr<Snapshot> Ask();

  FeedOptions options_;
  std::unique_ptr<Connection> connection_;  // null: not connected
  int64_t last_end_ns_ = 0;                 // since the epoch; 0: none
  Canceller canceller_;
};

// Asks in a thread of its own, once per interval, so that a slow daemon does not stop the screen.
class Poller {
 public:
  struct News {
    std::shared_ptr<const Snapshot> snapshot;  // the newest; null: none yet
    std::string error;                         // of the last round; empty: it went well
    // When the snapshot came, or the poller began.
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  };

  // Calls `wake` after each round, in its own thread.
  Poller(FeedOptions options, std::function<void()> wake);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  News Newest() const;
  // While paused nothing is asked.
  void Pause(bool paused);
  void Refresh();

 private:
  void Run();

  const std::chrono::nanoseconds length_;
  const std::function<void()> wake_;
  Feed feed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
  bool paused_ = false;
  bool refresh_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_FEED_H_
