#include "tests/targets/meter.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace waiter {
namespace {

int64_t Read(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

// Both clocks at one instant: whatever holds the thread up between two readings, as an emulated CPU
// that stands still, would be in one of them only.
void ReadBoth(int64_t* wall, int64_t* cpu) {
  constexpr int64_t kTogether = 100'000;
  for (int attempt = 0; attempt < 100; ++attempt) {
    *wall = Now();
    *cpu = ThreadCpu();
    if (Now() - *wall < kTogether) return;
  }
}

// How often the calling thread has left its CPU to wait since it began, by the kernel's account.
int64_t Sleeps() {
  rusage usage;
  Check(getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage");
  return usage.ru_nvcsw;
}

// The second number of a schedstat file.
int64_t ReadDelay(int schedstat) {
  char text[64] = {};
  Check(pread(schedstat, text, sizeof(text) - 1, 0) > 0, "schedstat");
  char* second = nullptr;
  strtoll(text, &second, 10);
  return strtoll(second, nullptr, 10);
}

int OpenSchedstat() {
  const int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  Check(schedstat >= 0, "schedstat");
  return schedstat;
}

// The report of one thread, in a list that grows without a lock: nobody waits for this account of
// waits.
struct Report {
  std::string text;
  Report* next;
};
std::atomic<Report*> reports = nullptr;

}  // namespace

int64_t Now() { return Read(CLOCK_MONOTONIC); }
int64_t ThreadCpu() { return Read(CLOCK_THREAD_CPUTIME_ID); }

int64_t ThreadDelay() {
  const int schedstat = OpenSchedstat();
  const int64_t delay = ReadDelay(schedstat);
  close(schedstat);
  return delay;
}

KEEP_FRAME void UseCpu(int64_t ns) {
  const int64_t end = ThreadCpu() + ns;
  volatile uint64_t sink = 0;
  while (ThreadCpu() < end) {
    for (int i = 0; i < 1000; ++i) sink = sink + static_cast<uint64_t>(i);
  }
}

Meter::Meter(const char* name) : name_(name), tid_(static_cast<int>(syscall(SYS_gettid))) {
  ReadBoth(&begin_, &cpu_begin_);
  if (tid_ != getpid()) pthread_setname_np(pthread_self(), name);
}

Meter::~Meter() {
  Publish();
  if (schedstat_ >= 0) close(schedstat_);
}

void Meter::CountDelay() { schedstat_ = OpenSchedstat(); }

void Meter::Begin() {
  if (schedstat_ >= 0) delay_begin_ = ReadDelay(schedstat_);
  sleeps_begin_ = Sleeps();
  ReadBoth(&wait_begin_, &wait_cpu_begin_);
}

void Meter::End(int path) {
  int64_t end = 0;
  int64_t cpu = 0;
  ReadBoth(&end, &cpu);
  sleeps_ += Sleeps() - sleeps_begin_;
  wait_wall_ += end - wait_begin_;
  wait_cpu_ += cpu - wait_cpu_begin_;
  waits_.push_back({wait_begin_, end, path});
  if (schedstat_ < 0) return;
  const auto place = static_cast<size_t>(path);
  if (delays_.size() <= place) delays_.resize(place + 1);
  delays_[place] += ReadDelay(schedstat_) - delay_begin_;
}

void Meter::Publish() {
  if (published_) return;
  published_ = true;
  std::string waits;
  char text[512];
  for (const Interval& wait : waits_) {
    snprintf(text, sizeof(text), "%s[%lld,%lld,%d]", waits.empty() ? "" : ",",
             static_cast<long long>(wait.begin), static_cast<long long>(wait.end), wait.path);
    waits += text;
  }
  std::string delays;
  for (const int64_t delay : delays_) {
    delays += (delays.empty() ? "" : ",") + std::to_string(delay);
  }
  int64_t end = 0;
  int64_t cpu = 0;
  ReadBoth(&end, &cpu);
  cpu -= cpu_begin_;
  snprintf(text, sizeof(text),
           "{\"name\":\"%s\",\"tid\":%d,\"begin_ns\":%lld,\"end_ns\":%lld,\"cpu_ns\":%lld,"
           "\"wait_wall_ns\":%lld,\"wait_cpu_ns\":%lld,\"sleeps\":%lld,\"all_sleeps\":%lld,"
           "\"waits\":[",
           name_.c_str(), tid_, static_cast<long long>(begin_), static_cast<long long>(end),
           static_cast<long long>(cpu), static_cast<long long>(wait_wall_),
           static_cast<long long>(wait_cpu_), static_cast<long long>(sleeps_),
           static_cast<long long>(Sleeps()));
  auto* report = new Report{text + waits + "],\"delay_ns\":[" + delays + "]}", reports.load()};
  while (!reports.compare_exchange_weak(report->next, report)) {
  }
}

pthread_t Start(void* (*body)(void*), void* argument) {
  pthread_t thread;
  Check(pthread_create(&thread, nullptr, body, argument) == 0, "pthread_create");
  return thread;
}

void Join(pthread_t thread) { Check(pthread_join(thread, nullptr) == 0, "pthread_join"); }

void PrintReport() {
  char head[128];
  const int64_t offset = Read(CLOCK_REALTIME) - Now();
  snprintf(head, sizeof(head), "{\"pid\":%d,\"wall_offset_ns\":%lld,\"threads\":[", getpid(),
           static_cast<long long>(offset));
  std::string threads;  // the newest is the first in the list, and the last here
  for (Report* report = reports.exchange(nullptr); report != nullptr;) {
    threads = report->text + (threads.empty() ? "" : ",") + threads;
    delete std::exchange(report, report->next);
  }
  const std::string line = head + threads + "]}\n";
  // A pipe takes more than PIPE_BUF bytes in pieces.
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(STDOUT_FILENO, line.data() + done, line.size() - done);
    Check(n > 0, "write of the report");
    done += static_cast<size_t>(n);
  }
}

void Check(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "waiter: %s: %s\n", what, strerror(errno));
  _exit(3);
}

void StayOnOneCpu() {
  cpu_set_t allowed;
  Check(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_ZERO(&allowed);
  CPU_SET(cpu, &allowed);
  Check(sched_setaffinity(0, sizeof(allowed), &allowed) == 0, "sched_setaffinity");
}

// Inlined into nobody's frame: a leaf of ours below the function that asked to sleep.
KEEP_FRAME void MeteredSleep(Meter* meter, int64_t us, int path) {
  timespec ts{us / 1'000'000, us % 1'000'000 * 1000};
  meter->Begin();
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR) {
  }
  meter->End(path);
}

}  // namespace waiter
