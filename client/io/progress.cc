#include "client/io/progress.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr std::chrono::milliseconds kInterval(200);
constexpr char kWipe[] = "\r\033[K";

}  // namespace

Progress::Progress(std::ostream* out, std::chrono::milliseconds delay) : out_(out) {
  if (out_ != nullptr) thread_ = std::thread([this, delay] { Run(delay); });
}

void Progress::Say(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::Run(std::chrono::milliseconds delay) {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, delay, [&] { return finished_; })) return;
  do {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began;
    *out_ << kWipe << ClipEnd(absl::StrFormat("%s ... %.0f s", what_, since.count()), PageColumns())
          << std::flush;
  } while (!changed_.wait_for(lock, kInterval, [&] { return finished_; }));
  *out_ << kWipe << std::flush;
}

}  // namespace profctl
