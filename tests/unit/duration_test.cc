#include "daemon/base/duration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace profd {
namespace {

TEST(DurationTest, TakesTheUnitsOfPeople) {
  for (const auto& [text, seconds] : std::vector<std::pair<const char*, double>>{
           {"60s", 60},       {"90s", 90},        {"5m", 300},
           {"5min", 300},     {"5 min", 300},     {"2h", 7200},
           {"1h30m", 5400},   {"1h 30min", 5400}, {"1 hour 30 minutes", 5400},
           {"250ms", 0.25},   {"1.5s", 1.5},      {"0s", 0},
           {"1d", 86400},     {"2 days", 172800}, {"1w", 604800},
           {"1d12h", 129600}, {"10us", 1e-5},     {"10µs", 1e-5},
           {"7ns", 7e-9},     {"90sec", 90}}) {
    const absl::StatusOr<int64_t> read = ParseDuration(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(*read, std::llround(seconds * 1e9)) << text;
  }
}

TEST(DurationTest, IsStrict) {
  for (const std::string bad :
       {"",      "60",     "s",    "-5s",  "+5s",   " 5s",  "5s ",     "5  s",
        "5x",    "inf",    "-inf", "1e3s", "0x5s",  "5m3",  "999999h", "99999999999999999999h",
        "5sinf", "1.2.3s", ".5s",  "5.s",  "5s,3s", "10MS", "10mss",   "ms"}) {
    const absl::StatusOr<int64_t> read = ParseDuration(bad);
    ASSERT_FALSE(read.ok()) << bad;
    const std::string why = bad == "999999h" ? "is longer than ten years" : "is not a duration";
    EXPECT_EQ(read.status().message(), why);
  }
  EXPECT_FALSE(ParseDuration(std::string(10'000, '1') + "s").ok());
}

}  // namespace
}  // namespace profd
