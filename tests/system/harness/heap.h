// Programs that allocate in known amounts, and what profd says of what they allocate.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_HEAP_H_
#define PROFD_TESTS_SYSTEM_HARNESS_HEAP_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/system/harness/answer.h"
#include "tests/system/harness/daemon.h"
#include "tests/system/harness/subprocess.h"

namespace profd::e2e {

// What a thread allocates between two of jemalloc's events, and a little more: an allocation that
// passes the mark counts whole.
inline constexpr int64_t kInterval = 65536 + 20480;

// Where a program of tests/targets is; it may not be built.
std::string AllocBinary(const std::string& variant);
bool IsBuilt(const std::string& variant);
// Why the stand-in in Rust is not there.
std::string WhyNoStandin();

// tests/targets/alloc.cc or `standin alloc`, held before each of its phases.
class Allocating {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // Null, with a failure, when it does not come to its first phase.
  static std::unique_ptr<Allocating> Start(const std::string& binary,
                                           std::vector<std::string> arguments,
                                           Environment environment = {});

  int pid() const { return process_->pid(); }
  Subprocess& process() { return *process_; }
  bool AwaitReady();
  // Which process said so last.
  int ready_pid() const { return ready_pid_; }
  void Go() { process_->Write("go\n"); }
  // Both phases to their end, and what was done in them.
  nlohmann::json Run();
  nlohmann::json Account();
  // Closes stdin; gives the exit code.
  std::optional<int> End();

 private:
  explicit Allocating(std::unique_ptr<Subprocess> process) : process_(std::move(process)) {}
  std::unique_ptr<Subprocess> process_;
  int ready_pid_ = 0;
};

// A profd that watches a process allocate.
class HeapTest : public testing::Test {
 protected:
  void SetUp() override;

  void StartDaemon(const std::string& selector, std::vector<std::string> arguments = {});

  // The allocator that runs in a process, once it is watched there; the one whose module has
  // `module` in its name where a process has several.
  v1::AllocatorStatus AwaitWatched(int pid, const std::string& module = "");

  // What the last ten minutes hold of a process.
  Answer Fetch(int pid, const std::string& kind);

  std::unique_ptr<Daemon> daemon_;
};

// Share of the bytes that profd's events account for.
double Coverage(const v1::HeapTotal& heap);

// Bytes by the one function of a family in each stack; what has none is under "".
std::map<std::string, int64_t> BytesBy(const Answer& answer, const std::string& prefix);

int64_t TotalBytes(const Answer& answer);

// How much of an answer is told whole and in names, by bytes.
struct Told {
  double whole = 0;  // of its stacks: those that end where a thread or the process begins
  double named = 0;  // of its frames: those with a function's name
};
Told ToldIn(const Answer& answer);

// For messages: the stacks that are not complete, one a line, with their bytes.
std::string Incomplete(const Answer& answer);
// Of the bytes with a stack, the share whose stack is whole. Walks that met a change of the memory
// map are set aside: how many do depends on what else the machine runs.
double WholeShare(const Answer& answer);

// Of an account: usable bytes of all that was `allocated` or `freed`.
double UsableBytes(const nlohmann::json& account, const std::string& what);

// What holds in every answer: estimates sum to the exact totals, which are those of the threads.
void ExpectAddsUp(const Answer& answer);

// Each thread's bytes are those that it counted, to what it allocated of each allocator before its
// first event.
void ExpectExactByThread(const Answer& answer, const nlohmann::json& account,
                         const std::string& what, int allocators = 1);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_HEAP_H_
