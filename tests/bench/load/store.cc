// bench_store: fills the store with an hour of one-second deltas and times merges of windows of it.
// What no test can wait for: how long an answer takes to add up when profd has run for an hour.
// Naming frames and sending the answer are not part of it. Times are CPU times. Prints one JSON
// object.
#include <malloc.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/store/memory_store.h"

namespace profd {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kTickNs = 10'000'000;
constexpr int kTicks = 100;  // in one delta

struct Options {
  int threads = 200;      // all of them
  int busy = 20;          // of these, wait in changing places
  int stacks = 500;       // different ones that the busy threads wait in
  double new_stacks = 1;  // and that many never seen before, each second
  int frames = 30;
  int64_t seconds = 3600;
  int births = 0;     // threads a second, each in a process of its own, that end within the second
  size_t limit = 20;  // MiB
  int fetches = 25;
};

// CPU time of this thread: what other programs do to the clock on the wall is not the store's.
double CpuMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// A line of /proc/self/status, in MiB; 0 where there is none.
double StatusMib(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) return std::strtod(line.c_str() + strlen(name), nullptr) / 1024;
  }
  return 0;
}

// From here on VmHWM is the peak since.
void ResetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// A server: most threads are idle in one place, a few wait in places of which some are frequent
// and most are rare, now and then in one that was never seen.
class Server {
 public:
  explicit Server(const Options& options) : options_(options), random_(4) {
    std::vector<double> weights;
    for (int i = 0; i < options.stacks; ++i) weights.push_back(1.0 / (i + 1));
    which_ = std::discrete_distribution<int>(weights.begin(), weights.end());
  }

  ProfileDelta Second(int64_t n) {
    ProfileDelta delta;
    delta.begin_ns = n * kSecondNs;
    delta.end_ns = (n + 1) * kSecondNs;
    delta.books_on = delta.switch_on = delta.tick_on = true;
    delta.tick_interval_ns = kTickNs;
    delta.ticks = kTicks;
    delta.cost.daemon_cpu_ns = 20'000'000;
    if (n == 0) AddKnown(&delta);
    for (int thread = 0; thread < options_.threads; ++thread) {
      if (thread < options_.busy) {
        AddBusy(thread, &delta);
      } else {
        AddIdle(thread, &delta);
      }
    }
    for (int i = 0; i < options_.births; ++i) AddShortLived(n * options_.births + i, &delta);
    unseen_ += options_.new_stacks;
    for (; unseen_ >= 1; unseen_--) {
      delta.stacks.push_back(Stack(next_stack_));
      delta.samples.push_back(
          {{ThreadId{1}, StackId{next_stack_}, 7, 202, Reason::kLock}, kTickNs, 1});
      next_stack_++;
    }
    return delta;
  }

 private:
  StackTrace Stack(uint64_t id) {
    StackTrace stack;
    stack.id = StackId{id};
    for (int i = 0; i < options_.frames; ++i) {
      stack.frames.push_back(PROFD_FRAME(1, id * 64 + i));
    }
    return stack;
  }

  void AddKnown(ProfileDelta* delta) {
    for (int i = 0; i < options_.threads; ++i) {
      delta->threads.push_back({.id = ThreadId{uint64_t(i) + 1},
                                .pid = 4711,
                                .tid = 4711 + i,
                                .target = 1,
                                .name = "worker-" + std::to_string(i),
                                .process = "server"});
      delta->stacks.push_back(Stack(kIdleStacks + uint64_t(i)));
    }
    for (int i = 0; i < options_.stacks; ++i) delta->stacks.push_back(Stack(uint64_t(i) + 1));
    next_stack_ = 2 * kIdleStacks;
  }

  void AddIdle(int thread, ProfileDelta* delta) {
    LedgerDelta ledger{.wall_ns = kSecondNs};
    ledger.off_ns[static_cast<size_t>(Reason::kPoll)] = kSecondNs;
    const ThreadId id{uint64_t(thread) + 1};
    delta->ledgers.push_back({id, ledger});
    delta->samples.push_back({{id, StackId{kIdleStacks + uint64_t(thread)}, 5, 232, Reason::kPoll},
                              kTicks * kTickNs,
                              kTicks});
  }

  void AddShortLived(int64_t n, ProfileDelta* delta) {
    const ThreadId id{kShortLived + static_cast<uint64_t>(n)};
    const auto pid = static_cast<int32_t>(10'000 + n % 1'000'000);
    delta->threads.push_back({.id = id,
                              .pid = pid,
                              .tid = pid,
                              .target = 1,
                              .name = "short-lived",
                              .process = "short-lived",
                              .exited = true});
    LedgerDelta ledger{.wall_ns = Between(1'000'000, 50'000'000)};
    ledger.on_cpu_ns = ledger.wall_ns / 4;
    ledger.off_ns[static_cast<size_t>(Reason::kDisk)] = ledger.wall_ns - ledger.on_cpu_ns;
    ledger.minor_faults = Between(50, 200);
    delta->ledgers.push_back({id, ledger});
    delta->samples.push_back(
        {{id, StackId(1 + static_cast<uint64_t>(n % 50)), 5, 0, Reason::kDisk}, kTickNs, 1});
  }

  void AddBusy(int thread, ProfileDelta* delta) {
    LedgerDelta ledger{.wall_ns = kSecondNs};
    const int64_t blocked = Between(kSecondNs / 5, kSecondNs * 4 / 5);
    const int64_t queued = Between(0, kSecondNs / 20);
    ledger.off_ns[static_cast<size_t>(Reason::kLock)] = blocked / 3;
    ledger.off_ns[static_cast<size_t>(Reason::kNet)] = blocked - blocked / 3;
    ledger.off_ns[static_cast<size_t>(Reason::kRunQueue)] = queued;
    ledger.on_cpu_ns = kSecondNs - blocked - queued;
    ledger.waits[static_cast<size_t>(Reason::kLock)] = Between(100, 2000);
    ledger.waits[static_cast<size_t>(Reason::kNet)] = Between(100, 2000);
    ledger.books_on_cpu_ns = ledger.on_cpu_ns;
    ledger.books_runqueue_ns = queued;
    ledger.voluntary_switches = Between(200, 4000);
    ledger.minor_faults = Between(0, 50);
    const ThreadId id{uint64_t(thread) + 1};
    delta->ledgers.push_back({id, ledger});
    std::vector<int> met;
    for (int tick = 0; tick < static_cast<int>(blocked / kTickNs); ++tick) {
      met.push_back(which_(random_));
    }
    std::sort(met.begin(), met.end());
    for (size_t i = 0, end = 0; i < met.size(); i = end) {
      while (end < met.size() && met[end] == met[i]) ++end;
      const auto ticks = static_cast<int64_t>(end - i);
      delta->samples.push_back({{id, StackId(uint64_t(met[i]) + 1), uint64_t(met[i]) % 7, 202,
                                 met[i] % 3 == 0 ? Reason::kLock : Reason::kNet},
                                ticks * kTickNs,
                                ticks});
    }
  }

  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  static constexpr uint64_t kIdleStacks = 1'000'000;
  static constexpr uint64_t kShortLived = 1'000'000;
  const Options options_;
  std::mt19937_64 random_;
  std::discrete_distribution<int> which_;
  uint64_t next_stack_ = 0;
  double unseen_ = 0;
};

double Quantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

int Run(const Options& options) {
  MemoryStore store({.max_bytes = options.limit << 20});
  Server server(options);
  double append_ms = 0;
  size_t samples = 0;
  for (int64_t n = 0; n < options.seconds; ++n) {
    ProfileDelta delta = server.Second(n);
    samples += delta.samples.size();
    const double begin = CpuMs();
    if (const absl::Status status = store.Append(std::move(delta)); !status.ok()) {
      fprintf(stderr, "bench_store: append: %s\n", status.ToString().c_str());
      return 1;
    }
    append_ms += CpuMs() - begin;
  }
  const int64_t end = options.seconds * kSecondNs;
  printf(
      "{\"threads\":%d,\"busy\":%d,\"stacks\":%d,\"new_stacks_per_s\":%g,\"seconds\":%lld,"
      "\"samples_per_delta\":%.0f,\"bytes\":%zu,\"held_s\":%.0f,\"append_cpu_ms\":%.4f,"
      "\"rss_mib\":%.1f,\"windows\":[",
      options.threads, options.busy, options.stacks, options.new_stacks,
      static_cast<long long>(options.seconds),
      static_cast<double>(samples) / static_cast<double>(options.seconds), store.Bytes(),
      static_cast<double>(end - store.OldestNs()) / 1e9,
      append_ms / static_cast<double>(options.seconds), StatusMib("VmRSS:"));
  const char* separator = "";
  for (const int64_t window : {10, 30, 60, 300, 900, 1800, 3600}) {
    if (window > options.seconds) break;
    std::vector<double> took;
    double added_mib = 0;
    size_t threads = 0, stacks = 0;
    double covered = 0;
    for (int i = 0; i < options.fetches; ++i) {
      malloc_trim(0);
      ResetPeak();
      const double rss = StatusMib("VmRSS:");
      const double begin = CpuMs();
      const auto merged = store.Merge({end - window * kSecondNs, end}, nullptr);
      took.push_back(CpuMs() - begin);
      added_mib = std::max(added_mib, StatusMib("VmHWM:") - rss);
      if (!merged.ok()) {
        fprintf(stderr, "bench_store: merge: %s\n", merged.status().ToString().c_str());
        return 1;
      }
      threads = merged->threads.size();
      stacks = merged->stacks.size();
      covered = static_cast<double>(merged->covered.end_ns - merged->covered.begin_ns) / 1e9;
    }
    std::sort(took.begin(), took.end());
    printf(
        "%s{\"window_s\":%lld,\"covered_s\":%.0f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,"
        "\"added_mib\":%.1f,\"threads\":%zu,\"stacks\":%zu}",
        separator, static_cast<long long>(window), covered, Quantile(took, 0.5),
        Quantile(took, 0.99), added_mib, threads, stacks);
    separator = ",";
  }
  printf("]}\n");
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  profd::Options options;
  CLI::App app("Times merges of windows of an hour of history.");
  app.add_option("--threads", options.threads, "All threads")->check(CLI::Range(1, 20'000));
  app.add_option("--busy", options.busy, "Of these, busy ones")->check(CLI::Range(0, 20'000));
  app.add_option("--stacks", options.stacks, "Stacks they wait in")->check(CLI::Range(1, 500'000));
  app.add_option("--new-stacks", options.new_stacks, "Stacks a second that are never seen again")
      ->check(CLI::Range(0.0, 10'000.0));
  app.add_option("--births", options.births, "Threads a second that end at once")
      ->check(CLI::Range(0, 10'000));
  app.add_option("--limit", options.limit, "Limit of the store, MiB")->check(CLI::Range(1, 1024));
  app.add_option("--frames", options.frames, "Frames of a stack")->check(CLI::Range(1, 256));
  app.add_option("--seconds", options.seconds, "History")->check(CLI::Range(10, 3'600));
  app.add_option("--fetches", options.fetches, "Merges of each window")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  options.busy = std::min(options.busy, options.threads);
  return profd::Run(options);
}
