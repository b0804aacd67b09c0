// The kernel programs in the running kernel, without the daemon around them.
#ifndef PROFD_TESTS_BPF_KERNEL_FIXTURE_H_
#define PROFD_TESTS_BPF_KERNEL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/source/accounts.h"
#include "tests/bpf/child.h"
#include "tests/support/any_record.h"

namespace profd {

inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr uint32_t kTarget = 3;
// How long a test waits for the kernel to do what it is about to do; never spent when all is well.
inline constexpr int64_t kPatience = 60'000 * kMillisecond;

int64_t Accounted(const LedgerDelta& delta);

// Whether the condition holds within kPatience.
bool Eventually(const std::function<bool()>& condition);

void Nap(int64_t ns);
// Returns how often the calling thread gave up its CPU for that: a nap that the timer ends before
// the thread is off its CPU is no wait.
int64_t NapOften(int times, int64_t ns);
[[noreturn]] void NapForever(int64_t ns);
[[noreturn]] void WaitForever();

// A value in memory that a child shares with its parent.
void* MapShared(size_t bytes);
void UnmapShared(void* memory, size_t bytes);
template <typename T>
class Shared {
 public:
  Shared() : value_(new(MapShared(sizeof(T))) T{}) {}
  ~Shared() { UnmapShared(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

// How many threads the process has that the kernel still lists.
size_t CountThreads(const Child& child);

// Where a function of this program lies in its file.
uint64_t FileOffset(const void* function);
template <typename... Arguments>
uint64_t FileOffset(void (*function)(Arguments...)) {
  return FileOffset(reinterpret_cast<const void*>(function));
}

// A stack that was taken at the begin of `function`, `skip` bytes from its first instruction, as
// `caller` had called it.
void ExpectBeginsWith(const StackTrace& stack, const void* function, const void* caller,
                      uint64_t skip = 0);

// What became of one thread, over all drains.
struct Account {
  ThreadInfo info;
  LedgerDelta sum;
  int drains = 0;
};

// These layers and no others: the verifier takes a second for all, and ten where it is emulated.
// `visits`: all threads can be visited.
constexpr KernelOptions WithLayers(std::initializer_list<bool KernelOptions::*> layers,
                                   bool visits = false) {
  KernelOptions options = {.switch_layer = false,
                           .heap_layer = false,
                           .fault_layer = false,
                           .map_layer = false,
                           .malloc_layer = false,
                           .cpu_layer = false,
                           .disk_layer = false,
                           .waker_layer = false,
                           .switch_stack_layer = false,
                           .visits_all = visits};
  for (bool KernelOptions::* layer : layers) options.*layer = true;
  return options;
}

class KernelTest : public ::testing::Test {
 protected:
  // What is always loaded, and the layer of switches.
  static constexpr KernelOptions kCore = WithLayers({&KernelOptions::switch_layer}, true);
  static constexpr KernelOptions kDisk = WithLayers({&KernelOptions::disk_layer});

  static KernelOptions WithSwitch(bool on) {
    KernelOptions options = kCore;
    options.switch_layer = on;
    return options;
  }

  // Skips the test where the machine does not let it load anything.
  void Start(const KernelOptions& options = kCore);

  // Adopts the process, once it waits: the account of a thread that runs is off by up to a tick of
  // the scheduler.
  void Mark(const Child& child);

  void Poll();

  // As the collector does it. Whatever a drain reports must add up by itself.
  void Drain(bool every_thread = false);

  // Visits every thread, and adds what was found to `found_`.
  void Tick();
  void Publish(const profd_module_key& key, std::vector<profd_rule> rows);
  // For all that targets run. Until the rules are there a wait is walked again and again.
  void PublishNoRules();
  uint64_t Loss(profd_loss loss) const { return kernel_->Losses().at(loss); }

  // Threads whose final accounts have come.
  int64_t Dead() const;

  // The account of the only thread of that name; fails the test when there is none.
  const Account& Named(const std::string& name);

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Accounts> accounts_;
  std::map<uint64_t, Account> by_thread_;
  std::vector<profd_thread_record> live_;                      // of the last drain
  std::map<uint64_t, std::vector<profd_thread_record>> last_;  // EXITING and DEAD, as they came
  int64_t exited_threads_ = 0;                                 // that were folded, over all drains
  std::vector<StackTrace> stacks_;
  std::vector<profd_module_record> modules_;
  std::vector<profd_visit> found_;
  std::vector<profd_heap_record> heap_;
  std::vector<profd_live_heap_record> objects_;
  std::vector<profd_long_wait_record> long_waits_;

 private:
  void Take(std::span<const uint8_t> bytes);
};

#define START_OR_SKIP(...) \
  Start(__VA_ARGS__);      \
  if (IsSkipped() || HasFatalFailure()) return

}  // namespace profd

#endif  // PROFD_TESTS_BPF_KERNEL_FIXTURE_H_
