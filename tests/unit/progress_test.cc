#include "client/io/progress.h"

#include <chrono>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profctl {
namespace {

using ::testing::IsEmpty;

// A stream that says when something was written to it.
class Screen : public std::stringbuf {
 public:
  void WaitForText() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return flushed_; });
  }

 protected:
  int sync() override {
    const std::lock_guard lock(mutex_);
    flushed_ = true;
    changed_.notify_all();
    return 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool flushed_ = false;
};

TEST(ProgressTest, SaysWhatIsGoingOnAndWipesItInTheEnd) {
  Screen screen;
  std::ostream out(&screen);
  Progress progress(&out, std::chrono::milliseconds(50));
  progress.Say("waiting for profd");
  screen.WaitForText();
  progress.Finish();
  // The line, maybe several times, and the wipe.
  const std::regex line("\r\033\\[Kwaiting for profd \\.\\.\\. [0-9]+ s");
  const std::string said = screen.str();
  EXPECT_TRUE(std::regex_search(said, line)) << said;
  EXPECT_EQ(std::regex_replace(said, line, ""), "\r\033[K");
  const std::string before = screen.str();
  progress.Say("nobody hears this");
  progress.Finish();
  EXPECT_EQ(screen.str(), before);
}

TEST(ProgressTest, WhatIsQuickSaysNothing) {
  std::ostringstream out;
  {
    Progress progress(&out, std::chrono::hours(1));
    progress.Say("waiting");
  }
  EXPECT_THAT(out.str(), IsEmpty());
  Progress nobody(nullptr, std::chrono::milliseconds(0));
  nobody.Say("waiting");
}

}  // namespace
}  // namespace profctl
