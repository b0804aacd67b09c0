// A run of tests/targets/waiter and what it measured of itself.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_TARGET_H_
#define PROFD_TESTS_SYSTEM_HARNESS_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/system/harness/subprocess.h"

namespace profd::e2e {

// Of one thread. Times are CLOCK_MONOTONIC, ns.
struct SelfMeasured {
  struct Wait {
    int64_t begin_ns, end_ns;
    int path;
  };
  std::string name;
  int tid = 0;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t cpu_ns = 0;        // of the whole life
  int64_t wait_wall_ns = 0;  // sum over waits
  int64_t wait_cpu_ns = 0;   // CPU time inside the waits
  std::vector<Wait> waits;

  int64_t LifeNs() const { return end_ns - begin_ns; }
  // Time off-CPU, run queue included: of the life, and of the measured waits alone.
  int64_t OffNs() const { return LifeNs() - cpu_ns; }
  int64_t WaitOffNs() const { return wait_wall_ns - wait_cpu_ns; }
};

struct Report {
  int pid = 0;
  int64_t wall_offset_ns = 0;  // wall clock = monotonic + this
  std::vector<SelfMeasured> threads;

  // The threads of that name, in order of birth.
  std::vector<const SelfMeasured*> Named(const std::string& name) const;
};

absl::StatusOr<Report> ParseReport(const std::string& line);

class Target {
 public:
  // Returns once the program is ready and waits for Go(), blocked in a read of its stdin.
  // `program` is another copy of it, if any.
  static absl::StatusOr<std::unique_ptr<Target>> Start(const std::vector<std::string>& scenario,
                                                       const std::string& program = "");

  int pid() const { return process_->pid(); }
  int64_t started_wall_ns() const { return started_wall_ns_; }
  // Lets the scenario begin.
  bool Go() { return process_->Write("go\n"); }
  // The next report of it; there is one a process image.
  absl::StatusOr<Report> AwaitReport(milliseconds timeout = seconds(60));
  Subprocess& process() { return *process_; }

 private:
  Target() = default;
  std::unique_ptr<Subprocess> process_;
  int64_t started_wall_ns_ = 0;
};

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_TARGET_H_
