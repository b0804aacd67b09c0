// What a bare wake-up costs: a thread that sleeps until random instants, one in each interval, as
// profd's tick does, and does nothing else.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t Now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Sleeps until one random instant in each interval; prints CPU time as JSON");
  int64_t interval_ms = 10;
  double seconds = 10;
  app.add_option("--interval-ms", interval_ms, "length of an interval")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--seconds", seconds, "how long to go on")->check(CLI::Range(0.1, 3600.0));
  CLI11_PARSE(app, argc, argv);

  std::minstd_rand random(1);
  const int64_t interval = interval_ms * 1'000'000;
  std::uniform_int_distribution<int64_t> offset(0, interval - 1);
  const int64_t begin = Now(CLOCK_MONOTONIC);
  const int64_t cpu = Now(CLOCK_THREAD_CPUTIME_ID);
  int64_t count = 0;
  for (; static_cast<double>(count * interval) < seconds * kSecond; ++count) {
    const int64_t at = begin + count * interval + offset(random);
    const timespec until = {at / kSecond, at % kSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }
  const int64_t used = Now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  std::printf("{\"wakeups\":%lld,\"cpu_ns\":%lld}\n", static_cast<long long>(count),
              static_cast<long long>(used));
  return 0;
}
