#include "client/commands/top.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/output.h"
#include "client/top/layout.h"
#include "client/top/model.h"
#include "client/top/screen.h"
#include "client/top/top_json.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

using Clock = std::chrono::steady_clock;

// So that a late answer is told of while it is awaited.
constexpr std::chrono::milliseconds kRedraw(500);

absl::Status RunBatch(const TopOptions& options, std::ostream& out) {
  Feed feed(options.feed);
  Clock::time_point next = Clock::now();
  for (uint32_t round = 0; !options.rounds || round < *options.rounds; ++round) {
    if (round > 0) {
      // Rounds that are late already are skipped.
      next = std::max(next + options.feed.length, Clock::now());
      std::this_thread::sleep_until(next);
    }
    ASSIGN_OR_RETURN(const Snapshot snapshot, feed.Next());
    const TopRows rows = MakeRows(snapshot, options.wanted);
    if (options.json) {
      RETURN_IF_ERROR(Print(RenderTopJson(snapshot, rows), out));
      continue;
    }
    TopView view;
    view.snapshot = &snapshot;
    view.rows = &rows;
    const std::string text = TopText(view, options.wanted, options.colour);
    RETURN_IF_ERROR(Print(absl::StrCat(round > 0 ? "\n" : "", text), out));
  }
  return absl::OkStatus();
}

// What is on the screen, and the rows of the snapshot that it shows.
class Session {
 public:
  Session(const TopOptions& options, Screen* screen) : options_(options), screen_(screen) {
    state_.wanted = options.wanted;
  }

  void Run() {
    Poller poller(options_.feed, Screen::Wake);
    while (!state_.quit && !screen_->Quits()) {
      if (!state_.paused) Take(poller.Newest());
      Draw();
      screen_->Wait(kRedraw);
      while (const std::optional<Key> key = screen_->NextKey()) {
        const bool was_paused = state_.paused;
        Press(*key, rows_.rows, extent_, &state_);
        MakeRowsAnew();
        if (was_paused != state_.paused) poller.Pause(state_.paused);
        if (std::exchange(state_.refresh, false) && !state_.paused) poller.Refresh();
        if (state_.quit) break;
      }
    }
  }

 private:
  void Take(Poller::News news) {
    const bool fresh = news.snapshot != news_.snapshot;
    news_ = std::move(news);
    if (fresh) MakeRowsAnew();
  }

  void MakeRowsAnew() {
    if (news_.snapshot == nullptr) return;
    rows_ = MakeRows(*news_.snapshot, state_.wanted);
    Follow(rows_.rows, extent_.room, &state_);
  }

  void Draw() {
    const std::chrono::nanoseconds age = Clock::now() - news_.since;
    const TopView view = {.server = options_.feed.server,
                          .snapshot = news_.snapshot.get(),
                          .rows = news_.snapshot == nullptr ? nullptr : &rows_,
                          .error = news_.error,
                          .age_ns = state_.paused ? 0 : age.count(),
                          .interval_ns = options_.feed.length.count()};
    const TopScreen drawn = Compose(view, screen_->Size(), &state_);
    extent_ = drawn.extent;
    screen_->Draw(drawn);
  }

  const TopOptions& options_;
  Screen* const screen_;
  TopState state_;
  Poller::News news_;
  TopRows rows_;
  Extent extent_;
};

}  // namespace

absl::Status RunTop(const TopOptions& options, std::ostream& out) {
  if (options.batch) return RunBatch(options, out);
  ASSIGN_OR_RETURN(const std::unique_ptr<Screen> screen, Screen::Open(options.colour));
  Session(options, screen.get()).Run();
  return absl::OkStatus();
}

}  // namespace profctl
