#include "client/text/time_text.h"

#include <string>
#include <utility>
#include <vector>

#include "client/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profctl {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

absl::TimeZone Zone(const char* name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(name, &zone)) << name;
  return zone;
}

// What `time` is in UTC, or the error.
std::string Read(const std::string& text, const TimeContext& context) {
  const absl::StatusOr<int64_t> time = ParseTime(text, context);
  if (!time.ok()) return std::string(time.status().message());
  return absl::FormatTime("%Y-%m-%d %H:%M:%E*S", absl::FromUnixNanos(*time), absl::UTCTimeZone());
}

int64_t Ns(const char* utc) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M:%E*S", utc, &time, &error)) << utc << error;
  return absl::ToUnixNanos(time);
}

// 2026-11-24 15:30 in Berlin.
TimeContext Berlin() {
  return {.now_ns = Ns("2026-11-24 14:30:00"), .zone = Zone("Europe/Berlin"), .after_ns = {}};
}

TEST(TimeTextTest, Durations) {
  EXPECT_EQ(FormatDuration(0), "0 ns");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(1234), "1.23 us");
  EXPECT_EQ(FormatDuration(999'499), "999 us");
  EXPECT_EQ(FormatDuration(999'600), "1.00 ms");
  EXPECT_EQ(FormatDuration(45'600'000), "45.6 ms");
  EXPECT_EQ(FormatDuration(60 * kSecond), "60.0 s");
  EXPECT_EQ(FormatDuration(999 * kSecond), "999 s");
  EXPECT_EQ(FormatDuration(1000 * kSecond), "16.7 min");
  EXPECT_EQ(FormatDuration(3599 * kSecond), "1.00 h");
  EXPECT_EQ(FormatDuration(3600 * kSecond), "1.00 h");
  EXPECT_EQ(FormatDuration(5400 * kSecond), "1.50 h");
  EXPECT_EQ(FormatDuration(47 * 3600 * kSecond), "47.0 h");
  EXPECT_EQ(FormatDuration(72 * 3600 * kSecond), "3.00 d");
  EXPECT_EQ(FormatDuration(-1'500'000), "-1.50 ms");
  EXPECT_EQ(FormatDuration(INT64_MIN).front(), '-');
}

TEST(TimeTextTest, DurationsThatAreWrittenCanBeRead) {
  for (double ns = 1; ns < 9e16; ns *= 1.37) {
    const std::string text = FormatDuration(static_cast<int64_t>(ns));
    const absl::StatusOr<int64_t> read = ParseDuration(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(FormatDuration(*read), text);
    EXPECT_NEAR(static_cast<double>(*read), ns, ns * 0.01 + 1) << text;
  }
}

TEST(TimeTextTest, TimesMayLieMoreThanTenYearsBack) {
  EXPECT_TRUE(ParseTime("4000d ago", {.now_ns = 1'769'864'700 * int64_t{1'000'000'000}}).ok());
}

TEST(TimeTextTest, MessagesNameTheDurationThatIsNone) {
  EXPECT_EQ(ParseDuration("5\x1b[3x").status().message(),
            "'5?[3x' is not a duration; use one such as 90s, 5min, 2h, 1h30m or 250ms");
}

TEST(TimeTextTest, TimesInTheLocalZone) {
  for (const auto& [text, utc] : std::vector<std::pair<const char*, const char*>>{
           {"14:00", "2026-11-24 13:00:00"},
           {"14:00:05.25", "2026-11-24 13:00:05.25"},
           {"15:30", "2026-11-24 14:30:00"},
           {"15:31", "2026-11-23 14:31:00"},  // the last one until now
           {"today 00:30", "2026-11-23 23:30:00"},
           {"yesterday 14:00", "2026-11-23 13:00:00"},
           {"yesterday", "2026-11-22 23:00:00"},
           {"2026-11-24", "2026-11-23 23:00:00"},
           {"2026-11-24 14:00:05", "2026-11-24 13:00:05"},
           {"2026-11-24T14:00", "2026-11-24 13:00:00"},
           {"2026-07-01 14:00", "2026-07-01 12:00:00"},  // summer time
           {"now", "2026-11-24 14:30:00"},
           {"5min ago", "2026-11-24 14:25:00"},
           {"1h 30min ago", "2026-11-24 13:00:00"}}) {
    EXPECT_EQ(Read(text, Berlin()), utc) << text;
  }
}

TEST(TimeTextTest, TimesWithAZoneOfTheirOwn) {
  for (const auto& [text, utc] : std::vector<std::pair<const char*, const char*>>{
           {"2026-01-31T13:05:00Z", "2026-01-31 13:05:00"},
           {"2026-01-31T14:05:00.25+01:00", "2026-01-31 13:05:00.25"},
           {"2026-01-31 13:05:00 UTC", "2026-01-31 13:05:00"},
           {"2026-01-31 08:05:00 -0500", "2026-01-31 13:05:00"},
           {"2026-01-31 13:05 Z", "2026-01-31 13:05:00"},
           {"2026-01-31 08:05 America/New_York", "2026-01-31 13:05:00"},
           {"20260131T130500Z", "2026-01-31 13:05:00"},
           {"13:05:00Z", "2026-11-24 13:05:00"},
           {"14:40Z", "2026-11-23 14:40:00"},
           {"yesterday 13:05 UTC", "2026-11-23 13:05:00"},
           {"1769864700", "2026-01-31 13:05:00"},
           {"1769864700.5", "2026-01-31 13:05:00.5"}}) {
    EXPECT_EQ(Read(text, Berlin()), utc) << text;
  }
}

TEST(TimeTextTest, AnEndWithoutADateIsTheFirstAfterTheBegin) {
  TimeContext context = Berlin();
  context.after_ns = Ns("2026-11-23 22:50:00");  // yesterday 23:50
  EXPECT_EQ(Read("23:55", context), "2026-11-23 22:55:00");
  EXPECT_EQ(Read("00:05", context), "2026-11-23 23:05:00");
  EXPECT_EQ(Read("23:50", context), "2026-11-24 22:50:00");
  EXPECT_EQ(Read("2026-11-23 23:52", context), "2026-11-23 22:52:00");
}

TEST(TimeTextTest, BadTimesGetOneLineThatSaysWhatMayBeWritten) {
  for (const std::string bad : {"",
                                "noon",
                                "-1",
                                "1.",
                                ".5",
                                "1.0000000001",
                                "25:00",
                                "12:60",
                                "12:",
                                ":30",
                                "1:2:3:4",
                                "2026-13-31T13:05:00Z",
                                "2026-02-30",
                                "2026-01-31T",
                                "2026-01-31 ",
                                "0001-01-01T00:00:00Z",
                                "99999999999999999999",
                                "9999999999",
                                "infinite-future",
                                "inf",
                                "today 25:00",
                                "tomorrow 14:00",
                                "14:00 Mars/Olympus",
                                "14:00 ../../etc/passwd",
                                "14:00 +9900",
                                "14:00:00+1:00",
                                "5 ago",
                                "ago",
                                "yesterday 14:00 15:00",
                                "0",
                                "14:00\n15:00"}) {
    const absl::StatusOr<int64_t> read = ParseTime(bad, Berlin());
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.status().message(),
              "'" + CleanName(bad) +
                  "' is not a time after 1970; use one such as 14:00, yesterday 14:00, 2026-01-31 "
                  "14:00:05, 2026-01-31T14:00:05+01:00, 1769864700, '5min ago' or now");
  }
  EXPECT_FALSE(ParseTime(std::string(10'000, '1'), Berlin()).ok());
}

TEST(TimeTextTest, TimesThatAreWrittenCanBeRead) {
  for (const char* name : {"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"}) {
    const absl::TimeZone zone = Zone(name);
    for (const char* reader : {"UTC", "Asia/Tokyo"}) {
      const TimeContext context = {
          .now_ns = Ns("2026-11-24 14:30:00"), .zone = Zone(reader), .after_ns = {}};
      // Over both changes of the clocks, and each hour of the days in which Berlin and Newfoundland
      // have an hour twice.
      constexpr int64_t kFineStep = 3'599 * kSecond, kCoarseStep = 21'599 * kSecond;
      const auto step = [](int64_t ns) {
        const bool berlin = ns > Ns("2026-10-24 12:00:00") && ns < Ns("2026-10-25 12:00:00");
        const bool st_johns = ns > Ns("2026-10-31 12:00:00") && ns < Ns("2026-11-01 12:00:00");
        return berlin || st_johns ? kFineStep : kCoarseStep;
      };
      for (int64_t ns = Ns("2026-03-01 00:00:07"); ns < context.now_ns; ns += step(ns)) {
        for (const std::string& text :
             {FormatTime(ns, zone), FormatFileTimeUtc(ns), FormatTimeRfc3339(ns)}) {
          const absl::StatusOr<int64_t> read = ParseTime(text, context);
          ASSERT_TRUE(read.ok()) << text;
          ASSERT_EQ(*read, ns) << text;
          ASSERT_EQ(text.find(' '), std::string::npos) << "a shell would split it: " << text;
        }
      }
    }
  }
  EXPECT_EQ(FormatTime(1'769'864'700 * kSecond, Zone("Europe/Berlin")),
            "2026-01-31T14:05:00+01:00");
  EXPECT_EQ(FormatTime(1'769'864'700 * kSecond, absl::UTCTimeZone()), "2026-01-31T13:05:00Z");
  EXPECT_EQ(FormatTimeRfc3339(1'769'864'700'000'000'001), "2026-01-31T13:05:00.000000001Z");
}

}  // namespace
}  // namespace profctl
