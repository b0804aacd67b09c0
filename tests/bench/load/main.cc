// bench_load: says "ready PID" once it is as large as asked for, runs until its time is over,
// until SIGTERM or until its parent ends, and prints what it did as a line of JSON.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/bench/load/load.h"

namespace load {

std::atomic<bool> g_stop{false};

int64_t Now() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * int64_t{1'000'000'000} + ts.tv_nsec;
}

void Sleep(int64_t ns) {
  const timespec ts{ns / 1'000'000'000, ns % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
}

void Check(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "bench_load: %s failed: %s\n", what, strerror(errno));
  _exit(1);
}

pthread_t Start(const char* name, void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  pthread_t thread;
  errno = pthread_create(&thread, &attributes, body, argument);
  Check(errno == 0, "pthread_create");
  pthread_attr_destroy(&attributes);
  pthread_setname_np(thread, name);
  return thread;
}

namespace {

struct Options {
  int threads = 10;
  std::string switch_rate = "0";
  int pairs = 0;
  int64_t stacks = 0;
  int stack_threads = 64;
  int64_t wait_us = 10'000;
  int modules = 0;
  std::string module_file, module_directory;
  int64_t seconds = 0;
};

struct Switches {
  int64_t voluntary = 0, involuntary = 0;
};
Switches Count() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_nvcsw, usage.ru_nivcsw};
}

int Run(const Options& options) {
  const bool any_rate = options.switch_rate == "max";
  const int64_t rate = any_rate ? 0 : strtoll(options.switch_rate.c_str(), nullptr, 10);
  const int pairs =
      options.pairs > 0 ? options.pairs : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));

  // Taken by sigtimedwait below, in no other thread.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);

  const int64_t loading = Now();
  StartModules(options.module_file, options.module_directory, options.modules,
               options.wait_us * 1000);
  const int64_t loaded = Now();
  StartIdle(options.threads);
  if (options.stacks > 0) {
    StartStacks(options.stacks, options.stack_threads, options.wait_us * 1000);
  }
  StartSwitches(rate, any_rate, pairs);
  printf("ready %d\n", getpid());
  fflush(stdout);

  const int64_t begin = Now();
  const Switches before = Count();
  const int64_t waits = StackWaits();
  if (options.seconds > 0) {
    const timespec limit{options.seconds, 0};
    sigtimedwait(&signals, nullptr, &limit);
  } else {
    sigwaitinfo(&signals, nullptr);
  }
  const Switches after = Count();
  const double seconds = static_cast<double>(Now() - begin) / 1e9;
  const int64_t all_waits = StackWaits();
  printf(
      "{\"threads\":%d,\"stacks\":%lld,\"stack_waits\":%lld,\"modules\":%d,"
      "\"modules_load_ms\":%.0f,\"seconds\":%.3f,\"voluntary_switches\":%lld,"
      "\"involuntary_switches\":%lld,\"voluntary_per_s\":%.0f,"
      "\"switches_per_s\":%.0f,\"stack_waits_per_s\":%.0f}\n",
      options.threads, static_cast<long long>(std::min(options.stacks, all_waits)),
      static_cast<long long>(all_waits), options.modules,
      static_cast<double>(loaded - loading) / 1e6, seconds,
      static_cast<long long>(after.voluntary - before.voluntary),
      static_cast<long long>(after.involuntary - before.involuntary),
      static_cast<double>(after.voluntary - before.voluntary) / seconds,
      static_cast<double>(after.voluntary - before.voluntary + after.involuntary -
                          before.involuntary) /
          seconds,
      static_cast<double>(all_waits - waits) / seconds);
  fflush(stdout);
  _exit(0);  // threads are blocked for good
}

}  // namespace
}  // namespace load

int main(int argc, char** argv) {
  load::Options options;
  CLI::App app("A process of chosen size, to measure how a profiler's cost grows.");
  app.add_option("--threads", options.threads, "Threads that are blocked for good")
      ->check(CLI::Range(0, 20'000));
  app.add_option("--switch-rate", options.switch_rate,
                 "Context switches a second, over all pairs of threads that wake each other; "
                 "max = as many as the machine gives")
      ->check([](const std::string& text) {
        const bool number = !text.empty() && text.size() < 12 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return number || text == "max" ? "" : "neither a number nor max: " + text;
      });
  app.add_option("--pairs", options.pairs, "Such pairs; 0 = one for each CPU")
      ->check(CLI::Range(0, 64));
  app.add_option("--stacks", options.stacks, "Different stacks that threads wait in, by turns")
      ->check(CLI::Range(0, 131'072));
  app.add_option("--stack-threads", options.stack_threads, "Threads that do so")
      ->check(CLI::Range(1, 5'000));
  app.add_option("--wait-us", options.wait_us, "Length of each such wait")
      ->check(CLI::Range(50, 1'000'000));
  auto* modules = app.add_option("--modules", options.modules, "Shared objects to call through")
                      ->check(CLI::Range(0, 4'000));
  app.add_option("--module-file", options.module_file, "The shared object to copy")
      ->check(CLI::ExistingFile);
  app.add_option("--module-dir", options.module_directory,
                 "Where the copies go; whoever started this removes it")
      ->check(CLI::ExistingDirectory);
  app.add_option("--seconds", options.seconds, "Length of the run; 0 = until SIGTERM")
      ->check(CLI::Range(0, 86'400));
  CLI11_PARSE(app, argc, argv);
  if (modules->count() > 0 && (options.module_file.empty() || options.module_directory.empty())) {
    fprintf(stderr, "bench_load: --modules needs --module-file and --module-dir\n");
    return 2;
  }
  return load::Run(options);
}
