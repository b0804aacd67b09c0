#include "client/top/feed.h"

#include <utility>

#include "client/analysis/looks.h"
#include "client/text/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"
#include "daemon/profile/sample_type.h"

namespace profctl {
namespace {

// Longer would delay quitting.
constexpr std::chrono::seconds kConnectTimeout(1);
// An interval that would be longer than so many begins anew: after a pause, or a lost daemon.
constexpr int64_t kMostIntervals = 3;

}  // namespace

Feed::Feed(FeedOptions options) : options_(std::move(options)) {
  for (const profd::Kind kind : {profd::Kind::kWait, profd::Kind::kAlloc}) {
    options_.interval.add_sample_types(std::string(profd::DescribeSampleType(kind).name));
  }
  // The samples are of no use here: as few as can be.
  options_.interval.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
}

absl::StatusOr<Snapshot> Feed::Next() {
  absl::StatusOr<Snapshot> snapshot = Ask();
  if (!snapshot.ok()) {
    connection_.reset();
    return snapshot.status();
  }
  last_end_ns_ = snapshot->waits().coverage().end_ns();
  return snapshot;
}

absl::StatusOr<Snapshot> Feed::Ask() {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, Connection::Open(options_.server, kConnectTimeout));
  }
  profd::v1::Window& window = *options_.interval.mutable_window();
  window.Clear();
  const int64_t longest_ns = kMostIntervals * options_.length.count();
  if (last_end_ns_ != 0 && profd::WallNs() - last_end_ns_ < longest_ns &&
      profd::WallNs() > last_end_ns_) {
    window.set_begin_ns(last_end_ns_);
  } else {
    window.set_since_ns(options_.length.count());
  }
  ASSIGN_OR_RETURN(
      std::vector<Answer> answers,
      ReceiveParts(
          *connection_,
          [&](profd::v1::Profiler::Stub& stub, grpc::ClientContext* context) {
            return stub.Fetch(context, options_.interval);
          },
          {options_.interval.sample_types().begin(), options_.interval.sample_types().end()}, 1,
          &canceller_, nullptr));
  absl::StatusOr<std::vector<Answer>> looked = ReceiveParts(
      *connection_,
      [&](profd::v1::Profiler::Stub& stub, grpc::ClientContext* context) {
        return stub.GetStacks(context, options_.looks);
      },
      {}, 1, &canceller_, nullptr);
  // Without looks there are still ledgers: the kernel may not allow them.
  absl::StatusOr<Looks> looks =
      looked.ok() ? ReadLooks(std::move(looked->front())) : looked.status();
  if (absl::IsUnavailable(looks.status()) || absl::IsCancelled(looks.status())) {
    return looks.status();
  }
  return MakeSnapshot(std::move(answers.front()), std::move(looks));
}

Poller::Poller(FeedOptions options, std::function<void()> wake)
    : length_(options.length),
      wake_(std::move(wake)),
      feed_(std::move(options)),
      thread_([this] { Run(); }) {}

Poller::~Poller() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  feed_.Cancel();
  thread_.join();
}

Poller::News Poller::Newest() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

void Poller::Pause(bool paused) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  changed_.notify_all();
}

void Poller::Refresh() {
  {
    const std::lock_guard lock(mutex_);
    refresh_ = true;
  }
  changed_.notify_all();
}

void Poller::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::chrono::steady_clock::now() + length_;
    refresh_ = false;
    lock.unlock();
    absl::StatusOr<Snapshot> snapshot = feed_.Next();
    lock.lock();
    if (snapshot.ok()) {
      news_.snapshot = std::make_shared<const Snapshot>(*std::move(snapshot));
      news_.since = std::chrono::steady_clock::now();
      news_.error.clear();
    } else {
      news_.error = CleanName(std::string(snapshot.status().message()));
    }
    wake_();
    while (!stopping_ && !refresh_ && (paused_ || std::chrono::steady_clock::now() < next)) {
      if (paused_) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next);
      }
    }
  }
}

}  // namespace profctl
