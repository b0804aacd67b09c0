// A progress line on the terminal.
#ifndef PROFD_CLIENT_IO_PROGRESS_H_
#define PROFD_CLIENT_IO_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace profctl {

// After `delay`, shows on one line what is going on and for how long, and wipes the line at the
// end. Nobody else may write to `out` meanwhile. nullptr: no output.
class Progress {
 public:
  explicit Progress(std::ostream* out, std::chrono::milliseconds delay = std::chrono::seconds(1));
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Say(std::string what);
  // Wipes the line. Nothing is written after it.
  void Finish();

 private:
  void Run(std::chrono::milliseconds delay);

  std::ostream* const out_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_IO_PROGRESS_H_
