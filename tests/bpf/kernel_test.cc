// The kernel programs in the running kernel, without the daemon around them.
#include "daemon/kernel/kernel.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/collect/accounts.h"
#include "daemon/collect/decode.h"
#include "daemon/heap/glibc.h"
#include "daemon/heap/map_calls.h"
#include "daemon/heap/probe_point.h"
#include "daemon/heap/usdt.h"
#include "daemon/target/procfs.h"
#include "daemon/unwind/rules.h"
#include "tests/bpf/child.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kWeight = 10 * kMillisecond;
constexpr uint32_t kTarget = 3;
// How long a test waits for the kernel to do what it is about to do; never spent when all is well.
constexpr int64_t kPatience = 20'000 * kMillisecond;

int64_t Accounted(const LedgerDelta& delta) {
  return delta.on_cpu_ns + delta.unattributed_ns +
         std::accumulate(delta.off_ns.begin(), delta.off_ns.end(), int64_t{0});
}

bool Eventually(const std::function<bool()>& condition) {
  for (const int64_t deadline = MonotonicNs() + kPatience; MonotonicNs() < deadline;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void Nap(int64_t ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = ns};
  syscall(SYS_nanosleep, &time, nullptr);
}

[[noreturn]] void NapForever(int64_t ns) {
  while (true) Nap(ns);
}

[[noreturn]] void WaitForever() {
  while (true) pause();
}

// What jemalloc hands to its event function.
struct FakeEvent {
  bool is_alloc;
  uint64_t* current;
  uint64_t* last;
};

// A thread's data as jemalloc 5.3 lays them out. Zero at first, so that they are in no file.
struct FakeAllocator {
  uint8_t cached;
  int8_t depth;
  uint64_t allocated_last, allocated_next;
  uint64_t freed_last, freed_next;
  uint64_t allocated, freed;

  void Allocate(uint64_t bytes);
  void Free(uint64_t bytes);
  void Pass(uint64_t bytes) {  // in code that has no probe
    allocated += bytes;
    EndEvent();
  }
  void EndEvent() {
    allocated_last = allocated;
    allocated_next = allocated_last + 65536;
    freed_last = freed;
    freed_next = freed_last + 65536;
  }
};

}  // namespace

// Stands in for the allocator's event function.
extern "C" [[gnu::noinline]] void ProfdTestHeapEvent(void* /*tsd*/, FakeEvent* event) {
  *event->last = *event->current;
  asm volatile("" ::: "memory");
}
// Stands in for a copy of it: the store is the first instruction.
extern "C" void ProfdTestInlinedEvent(uint64_t value, uint64_t* thread_data);
asm(R"(
  .text
  .globl ProfdTestInlinedEvent
  .type ProfdTestInlinedEvent, @function
ProfdTestInlinedEvent:
  .cfi_startproc
  mov %rdi, 8(%rsi)
  ret
  .cfi_endproc
  .size ProfdTestInlinedEvent, .-ProfdTestInlinedEvent
)");
// Another copy, behind its store.
extern "C" [[gnu::noipa]] void ProfdTestStoredEvent(uint64_t /*value*/, uint64_t* /*thread_data*/,
                                                    uint64_t /*growth*/) {
  asm volatile("" ::: "memory");
}
// Stands in for a function of the slow path.
extern "C" void ProfdTestSlowPath(void* thread_data);
// Stand in for the functions that tell of sampled objects, whatever their arguments are.
extern "C" void ProfdTestObjectBorn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
extern "C" void ProfdTestObjectGone(uint64_t, uint64_t, uint64_t, uint64_t);
asm(R"(
  .text
  .globl ProfdTestSlowPath, ProfdTestObjectBorn, ProfdTestObjectGone
  .type ProfdTestSlowPath, @function
  .type ProfdTestObjectBorn, @function
  .type ProfdTestObjectGone, @function
ProfdTestSlowPath:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestSlowPath, .-ProfdTestSlowPath
ProfdTestObjectBorn:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestObjectBorn, .-ProfdTestObjectBorn
ProfdTestObjectGone:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestObjectGone, .-ProfdTestObjectGone
)");
// Many places for probes, a byte each.
extern "C" void ProfdTestPlaces();
asm(R"(
  .text
  .globl ProfdTestPlaces
  .type ProfdTestPlaces, @function
ProfdTestPlaces:
  .cfi_startproc
  .rept 64
  nop
  .endr
  ret
  .cfi_endproc
  .size ProfdTestPlaces, .-ProfdTestPlaces
)");
constexpr size_t kPlaces = 64;
extern "C" [[gnu::noinline]] void ProfdTestMakesObject(uint64_t size, uint64_t usable,
                                                       uint64_t context) {
  ProfdTestObjectBorn(0, 0x5000, size, usable, context);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] void ProfdTestAllocates(FakeEvent* event) {
  ProfdTestHeapEvent(nullptr, event);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] void ProfdTestFrees(FakeEvent* event) {
  ProfdTestHeapEvent(nullptr, event);
  asm volatile("" ::: "memory");
}

namespace {

void FakeAllocator::Allocate(uint64_t bytes) {
  EndEvent();
  allocated += bytes;
  FakeEvent event{true, &allocated, &allocated_last};
  ProfdTestAllocates(&event);
  EndEvent();
}
void FakeAllocator::Free(uint64_t bytes) {
  EndEvent();
  freed += bytes;
  FakeEvent event{false, &freed, &freed_last};
  ProfdTestFrees(&event);
  EndEvent();
}

// Where a function of this program lies in its file.
uint64_t FileOffset(const void* function) {
  const auto address = reinterpret_cast<uintptr_t>(function);
  const auto maps = ReadWholeFile("/proc/self/maps", 1 << 24);
  if (!maps.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    uint64_t begin = 0, end = 0, offset = 0;
    if (sscanf(std::string(line).c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 &&
        address >= begin && address < end) {
      return address - begin + offset;
    }
  }
  return 0;
}

// A stack that was taken at the begin of `function`, `skip` bytes from its first instruction, as
// `caller` had called it.
void ExpectBeginsWith(const StackTrace& stack, const void* function, const void* caller,
                      uint64_t skip = 0) {
  ASSERT_GE(stack.frames.size(), 2U);
  EXPECT_EQ(stack.frames[0] & PROFD_FRAME_OFFSET_MASK, FileOffset(function) + skip);
  EXPECT_GT(stack.frames[1] & PROFD_FRAME_OFFSET_MASK, FileOffset(caller));
  EXPECT_LT(stack.frames[1] & PROFD_FRAME_OFFSET_MASK, FileOffset(caller) + 64);
}

// What became of one thread, over all drains.
struct Account {
  ThreadInfo info;
  LedgerDelta sum;
  int drains = 0;
};

class KernelTest : public ::testing::Test {
 protected:
  void Start(const KernelOptions& options = {}) {
    auto kernel = Kernel::Create(options);
    if (absl::IsPermissionDenied(kernel.status())) GTEST_SKIP() << kernel.status().message();
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    kernel_ = *std::move(kernel);
    accounts_ = std::make_unique<Accounts>();
  }

  // The account of a thread that runs is off by up to a tick of the scheduler: most children are
  // about to wait.
  static void AwaitSleep(const Child& child) {
    for (int i = 0; i < 500; ++i) {
      const auto stat = ReadWholeFile(absl::StrCat("/proc/", child.pid(), "/stat"));
      if (!stat.ok() || absl::StrContains(*stat, ") S ")) return;
      Nap(kMillisecond);
    }
  }

  void Mark(const Child& child) {
    AwaitSleep(child);
    const auto pidfd = OpenPidfd(child.pid());
    ASSERT_TRUE(pidfd.ok()) << pidfd.status();
    ASSERT_TRUE(kernel_->Mark(pidfd->get(), kTarget).ok());
    Drain();
  }

  void Poll() {
    const auto status = kernel_->PollEvents([this](auto bytes) { Take(bytes); });
    ASSERT_TRUE(status.ok()) << status;
  }

  // As the collector does it. Whatever a drain reports must add up by itself.
  void Drain(bool every_thread = false) {
    Poll();
    live_.clear();
    for (const bool all : {every_thread, true}) {
      accounts_->BeginReading();
      const auto left_out = kernel_->DrainThreads([this](auto bytes) { Take(bytes); }, all);
      ASSERT_TRUE(left_out.ok()) << left_out.status();
      if (accounts_->EndReading(*left_out, all)) break;
    }
    ProfileDelta delta;
    accounts_->Finish(delta);
    for (const RestingThread& rest : delta.resting) {
      AddRest(rest,
              &delta.ledgers.emplace_back(ThreadLedger{.thread = rest.thread, .delta = {}}).delta);
    }
    for (const ThreadInfo& info : delta.threads) {
      by_thread_[static_cast<uint64_t>(info.id)].info = info;
    }
    for (const ThreadLedger& ledger : delta.ledgers) {
      if (Loss(PROFD_LOSS_TORN_LEDGER) == 0) {
        EXPECT_EQ(Accounted(ledger.delta), ledger.delta.wall_ns);
      }
      Account& account = by_thread_[static_cast<uint64_t>(ledger.thread)];
      ++account.drains;
      LedgerDelta& sum = account.sum;
      sum.wall_ns += ledger.delta.wall_ns;
      sum.on_cpu_ns += ledger.delta.on_cpu_ns;
      sum.unattributed_ns += ledger.delta.unattributed_ns;
      sum.books_on_cpu_ns += ledger.delta.books_on_cpu_ns;
      sum.voluntary_switches += ledger.delta.voluntary_switches;
      for (size_t i = 0; i < kReasonCount; ++i) {
        sum.off_ns[i] += ledger.delta.off_ns[i];
        sum.waits[i] += ledger.delta.waits[i];
      }
    }
  }

  void Take(std::span<const uint8_t> bytes) {
    auto record = DecodeRecord(bytes);
    ASSERT_TRUE(record.ok()) << record.status();
    if (auto* stack = std::get_if<StackTrace>(&*record)) {
      stacks_.push_back(std::move(*stack));
    } else if (const auto* thread = std::get_if<profd_thread_record>(&*record)) {
      if (thread->type == PROFD_RECORD_THREAD) {
        live_.push_back(*thread);
      } else {
        last_[thread->thread_id].push_back(*thread);
      }
      accounts_->Apply(*thread);
    } else if (const auto* module = std::get_if<profd_module_record>(&*record)) {
      modules_.push_back(*module);
    } else if (const auto* born = std::get_if<profd_born_record>(&*record)) {
      born_.push_back(*born);
    } else if (const auto* heap = std::get_if<profd_heap_record>(&*record)) {
      heap_.push_back(*heap);
    } else if (const auto* object = std::get_if<profd_live_heap_record>(&*record)) {
      objects_.push_back(*object);
    }
  }

  void Tick(int64_t weight_ns = kWeight) {
    const auto status = kernel_->Tick(weight_ns, MonotonicNs());
    ASSERT_TRUE(status.ok()) << status;
  }

  void Publish(const profd_module_key& key, std::vector<profd_rule> rows) {
    const ModuleRules rules = {.key = key, .rows = std::move(rows)};
    const std::vector<absl::Status> results = kernel_->PublishRules({&rules, 1});
    ASSERT_TRUE(results.at(0).ok()) << results[0];
  }

  uint64_t Loss(profd_loss loss) const { return kernel_->Losses().at(loss); }

  // The account of the only thread of that name; fails the test when there is none.
  const Account& Named(const std::string& name) {
    static const Account kNone;
    const Account* found = nullptr;
    for (const auto& [id, account] : by_thread_) {
      if (account.info.name != name) continue;
      EXPECT_EQ(found, nullptr) << "more than one thread " << name;
      found = &account;
    }
    EXPECT_NE(found, nullptr) << "no thread " << name;
    return found != nullptr ? *found : kNone;
  }

  // Empties the live epoch into `sum`.
  void AddCounters(profd_sample_value& sum) {
    const auto entries = kernel_->DrainCounters();
    ASSERT_TRUE(entries.ok()) << entries.status();
    for (const auto& [key, value] : *entries) {
      sum.count += value.count;
      sum.weight += value.weight;
    }
  }

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Accounts> accounts_;
  std::map<uint64_t, Account> by_thread_;
  std::vector<profd_thread_record> live_;                      // of the last drain
  std::map<uint64_t, std::vector<profd_thread_record>> last_;  // EXITING and DEAD, as they came
  std::vector<StackTrace> stacks_;
  std::vector<profd_module_record> modules_;
  std::vector<profd_born_record> born_;
  std::vector<profd_heap_record> heap_;
  std::vector<profd_live_heap_record> objects_;
};

#define START_OR_SKIP(...) \
  Start(__VA_ARGS__);      \
  if (IsSkipped() || HasFatalFailure()) return

// Kernel objects that this process holds by a descriptor: "prog_id 12".
std::set<std::pair<std::string, uint32_t>> HeldObjects() {
  std::set<std::pair<std::string, uint32_t>> held;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fdinfo"), closedir);
  while (const dirent* entry = readdir(directory.get())) {
    const auto info = ReadWholeFile(absl::StrCat("/proc/self/fdinfo/", entry->d_name));
    if (!info.ok()) continue;
    for (const absl::string_view line : absl::StrSplit(*info, '\n')) {
      const std::vector<std::string> parts = absl::StrSplit(line, ":\t");
      uint32_t id = 0;
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &id)) continue;
      if (parts[0] == "prog_id" || parts[0] == "link_id" || parts[0] == "map_id") {
        held.emplace(parts[0], id);
      }
    }
  }
  return held;
}

bool Exists(const std::pair<std::string, uint32_t>& object) {
  const auto& [kind, id] = object;
  const UniqueFd fd(kind == "prog_id"   ? bpf_prog_get_fd_by_id(id)
                    : kind == "link_id" ? bpf_link_get_fd_by_id(id)
                                        : bpf_map_get_fd_by_id(id));
  return fd.ok() || errno != ENOENT;
}

size_t Count(const std::set<std::pair<std::string, uint32_t>>& objects, const char* kind) {
  return static_cast<size_t>(std::count_if(objects.begin(), objects.end(),
                                           [&](const auto& o) { return o.first == kind; }));
}

// Other daemons may come and go meanwhile: what counts is that our own objects do not outlive us.
class HeapKernelTest : public KernelTest {
 protected:
  static constexpr ModuleId kModule{7};

  static HeapPlace EventPlace() {
    return {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
            .cookie = PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 7)};
  }
  void Attach(int32_t pid) {
    const HeapPlace place = EventPlace();
    Attach(pid, {&place, 1});
  }
  void Attach(int32_t pid, std::span<const HeapPlace> places) {
    ASSERT_NO_FATAL_FAILURE(Put(pid, places));
    for (const HeapPlace& place : places) {
      const auto module = static_cast<uint16_t>(PROFD_HEAP_MODULE(place.cookie));
      kernel_->SetHeapSettled(pid, ModuleId{module}, true);
    }
  }
  // To functions of this program.
  void Put(int32_t pid, std::span<const HeapPlace> places) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    auto probe = kernel_->AttachHeapProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  // Adds to `sums`, by kind.
  void AddHeapCounters() {
    const auto entries = kernel_->DrainHeapCounters();
    ASSERT_TRUE(entries.ok()) << entries.status();
    for (const auto& [key, value] : *entries) {
      sums_[key.kind].weight += value.weight;
      sums_[key.kind].count += value.count;
      stacks_of_[key.kind].insert(key.stack);
    }
  }
  std::vector<profd_heap_record> DrainHeap() {
    std::vector<profd_heap_record> records;
    const auto status = kernel_->DrainHeap([&](std::span<const uint8_t> bytes) {
      const auto record = DecodeRecord(bytes);
      if (record.ok()) records.push_back(std::get<profd_heap_record>(*record));
    });
    EXPECT_TRUE(status.ok()) << status;
    return records;
  }

  Probe probe_;
  std::map<uint32_t, profd_sample_value> sums_;
  std::map<uint32_t, std::set<uint64_t>> stacks_of_;
};

TEST_F(HeapKernelTest, EventsAreWeighedAndTotalsAreExact) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator allocator;
    allocator.Allocate(100'000);  // before anybody watches
    me.Wait();
    for (int i = 0; i < 10; ++i) allocator.Allocate(70'000);
    for (int i = 0; i < 5; ++i) allocator.Free(80'000);
    allocator.allocated += 123;  // not yet an event's worth
    me.Signal();
    me.Wait();
    // An event that no probe sees.
    allocator.allocated_last = allocator.allocated += 70'000;
    allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 10U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, 700'000U);
  EXPECT_EQ(sums_[PROFD_KIND_FREE].count, 5U);
  EXPECT_EQ(sums_[PROFD_KIND_FREE].weight, 400'000U);
  EXPECT_NE(stacks_of_[PROFD_KIND_ALLOC], stacks_of_[PROFD_KIND_FREE]);
  std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& allocated = records[0].heap.counters[0];
  EXPECT_EQ(allocated.kind, uint32_t{PROFD_KIND_ALLOC});
  EXPECT_EQ(allocated.module_id, 7U);
  EXPECT_EQ(allocated.base, 100'000U);
  EXPECT_EQ(allocated.total, 800'123U) << "read where the allocator keeps it";
  EXPECT_EQ(allocated.seen, 700'000U);
  EXPECT_EQ(allocated.gaps, 0U);
  EXPECT_EQ(records[0].heap.counters[1].total, 400'000U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);

  child.Signal();
  child.Wait();
  records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].gaps, 1U);
  EXPECT_EQ(records[0].heap.counters[0].unseen, 70'123U);
  EXPECT_EQ(records[0].heap.counters[0].total, 940'123U);
  const profd_heap_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 16U);
  EXPECT_EQ(cost.walks, 16U);
  EXPECT_GT(cost.walk_ns, 0U);

  // Without the probe nothing runs, and the counters are read all the same.
  probe_ = {};
  EXPECT_THAT(DrainHeap(), SizeIs(1));
}

// The caller of the function that the probe stands on is there without any rule, as is the
// function.
TEST_F(HeapKernelTest, StackBeginsWithTheFunctionAndItsCaller) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator allocator;
    me.Wait();
    allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(stacks_, SizeIs(1));
  ExpectBeginsWith(stacks_[0], reinterpret_cast<const void*>(&ProfdTestHeapEvent),
                   reinterpret_cast<const void*>(&ProfdTestAllocates));
}

// Threads count while the epochs change under them: every event is in one of them, once.
TEST_F(HeapKernelTest, EpochsCountEveryEventOnce) {
  START_OR_SKIP();
  struct Shared {
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> events = 0, bytes = 0;
    std::atomic<int> running = 4;
  };
  auto* shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared;
  const Child child([shared](Child& me) {
    me.Wait();
    for (uint64_t t = 0; t < 4; ++t) {
      std::thread([shared, t] {
        FakeAllocator allocator{};
        while (!shared->stop) {
          for (uint64_t i = 0; i < 20; ++i) {
            allocator.Allocate(65'536 + t + i);
            shared->bytes += 65'536 + t + i;
          }
          shared->events += 20;
        }
        --shared->running;
        WaitForever();
      }).detach();
    }
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    AddHeapCounters();
    Poll();
  }
  shared->stop = true;
  ASSERT_TRUE(Eventually([&] { return shared->running == 0; }));
  // Both epochs.
  AddHeapCounters();
  AddHeapCounters();
  EXPECT_GT(shared->events, 1'000U);
  EXPECT_EQ(Loss(PROFD_LOSS_HEAP_FULL), 0U);
  const uint64_t busy = Loss(PROFD_LOSS_HEAP_BUSY);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count + busy, shared->events);
  if (busy == 0) {
    EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, shared->bytes);
  }
  munmap(shared, sizeof(Shared));
}

// A copy of the event in the middle of a function: its registers say what the function's arguments
// would.
TEST_F(HeapKernelTest, InlinedEventsAreReadFromRegisters) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator data;
    auto* const address = reinterpret_cast<uint64_t*>(&data);
    data.EndEvent();
    me.Wait();
    for (uint64_t i = 1; i <= 3; ++i) {
      data.allocated = 70'000 * i;
      ProfdTestInlinedEvent(data.allocated, address);
      data.EndEvent();
    }
    data.allocated += 75'000;
    data.allocated_last = data.allocated;  // the store lies behind
    ProfdTestStoredEvent(data.allocated, address, 75'000);
    ProfdTestStoredEvent(data.allocated + 1, address, 1);  // one came there another way
    data.EndEvent();
    // The function tells where the counter itself is.
    data.Allocate(80'000);
    data.allocated += 55;
    me.Signal();
    WaitForever();
  });
  Mark(child);
  constexpr uint32_t kRdi = 14, kRsi = 13, kRdx = 12;
  const HeapPlace places[] = {
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestInlinedEvent)),
       .cookie = PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 1, 9, kRdi,
                                           PROFD_NO_REGISTER, kRsi, 8)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestStoredEvent)),
       .cookie =
           PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 0, 9, kRdi, kRdx, kRsi, 8)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
       .cookie = PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 5U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, 365'000U);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& counter = records[0].heap.counters[0];
  EXPECT_EQ(counter.events, 5U) << "one counter, whichever way an event went";
  EXPECT_EQ(counter.gaps, 0U);
  EXPECT_EQ(counter.total, 365'055U);
  EXPECT_EQ(counter.module_id, 9U);
  EXPECT_EQ(records[0].heap.counters[1].events, 0U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);
  EXPECT_EQ(kernel_->HeapCost().events, 6U);
  EXPECT_EQ(kernel_->HeapCost().stepped, 3U);
}

// Events that no probe sees are told by the next function of the slow path, once each; what is
// given to it must look like a thread's data.
TEST_F(HeapKernelTest, SlowPathTellsOfUnseenEvents) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator data;
    static uint64_t pointers[8] = {0x7f0000001000, 0x7f0000002000, 0x7f0000003000, 0x7f0000004000};
    data.Pass(1'000'000);  // before anybody watches
    me.Wait();
    ProfdTestSlowPath(pointers);  // no thread's data
    ProfdTestSlowPath(&data);     // tells where they lie
    ProfdTestSlowPath(&data);
    data.Pass(70'000);
    data.Pass(80'000);
    ProfdTestSlowPath(&data);  // 150,000, late
    ProfdTestSlowPath(&data);  // nothing new
    data.Allocate(90'000);
    ProfdTestSlowPath(&data);
    data.Pass(65'000);
    data.Allocate(66'000);  // what came before it was not told: a gap
    ProfdTestSlowPath(&data);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  const auto at = [](auto* function) {
    return FileOffset(reinterpret_cast<const void*>(function));
  };
  const HeapPlace places[] = {
      {.offset = at(&ProfdTestSlowPath),
       .cookie = PROFD_HEAP_SLOW_COOKIE(PROFD_HEAP_JEMALLOC_SLOW_ALLOC, 0, 9,
                                        offsetof(FakeAllocator, allocated_last))},
      {.offset = at(&ProfdTestHeapEvent),
       .cookie = PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 3U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, 306'000U);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  const profd_heap_counter& counter = records[0].heap.counters[0];
  EXPECT_EQ(counter.base, 1'000'000U);
  EXPECT_EQ(counter.seen, 306'000U);
  EXPECT_EQ(counter.late, 150'000U);
  EXPECT_EQ(counter.gaps, 1U);
  EXPECT_EQ(counter.unseen, 65'000U);
  EXPECT_EQ(counter.events, 3U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U) << "pointers are no thread's data";
}

// What comes by at a place is an event if the thread's data are as they are at one; else it leaves
// no trace but in the place's tally. While two probes stand in one place an event is told once.
TEST_F(HeapKernelTest, WhatIsNoEventIsRefused) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator data;
    static uint64_t far[4096];
    auto* const address = reinterpret_cast<uint64_t*>(&data);
    me.Wait();
    data.Allocate(70'000);
    FakeEvent apart{true, &data.allocated, &far[4000]};
    ProfdTestAllocates(&apart);
    FakeEvent event{true, &data.allocated, &data.allocated_last};
    data.allocated += 2;
    std::memset(&event, 7, 1);  // neither an allocation nor none
    ProfdTestAllocates(&event);
    data.EndEvent();
    std::memset(&event, 1, 1);
    data.allocated_next = data.allocated_last + (5 << 20);
    data.allocated += 1;
    ProfdTestAllocates(&event);  // the next one would be due too late
    data.EndEvent();
    data.allocated -= 1'000;
    ProfdTestAllocates(&event);  // the count goes back
    data.allocated = 70'000;
    data.EndEvent();
    data.Allocate(80'000);
    data.depth = 7;  // in the allocator
    data.allocated += 70'000;
    ProfdTestInlinedEvent(data.allocated, address);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  constexpr uint32_t kRdi = 14, kRsi = 13;
  const HeapPlace places[] = {
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestHeapEvent)),
       .cookie = PROFD_HEAP_NUMBERED(PROFD_HEAP_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, 0, 9), 3)},
      {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestInlinedEvent)),
       .cookie = PROFD_HEAP_NUMBERED(PROFD_HEAP_INLINED_COOKIE(PROFD_HEAP_JEMALLOC_INLINED_ALLOC, 1,
                                                               9, kRdi, PROFD_NO_REGISTER, kRsi, 8),
                                     25)}};
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  const Probe first = std::move(probe_);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), places));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].count, 2U);
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, 150'000U);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].events, 2U);
  EXPECT_EQ(records[0].heap.counters[0].seen, 150'000U);
  EXPECT_EQ(records[0].heap.counters[1].events, 0U);
  EXPECT_EQ(records[0].heap.counters[2].address, 0U);
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> tallies;
  for (const HeapTally& tally : kernel_->HeapTallies()) {
    EXPECT_EQ(tally.module, ModuleId{9});
    tallies[tally.number] = {tally.held, tally.refused};
  }
  EXPECT_THAT(tallies, ElementsAre(Pair(3, Pair(4, 8)), Pair(25, Pair(0, 2))))
      << "each came by at two probes";
  EXPECT_EQ(kernel_->HeapRefusals(), 10U);
}

TEST_F(HeapKernelTest, StacksOfSomeEventsWeighForAll) {
  START_OR_SKIP();
  constexpr uint64_t kEvents = 20'000;
  const Child child([](Child& me) {
    static FakeAllocator allocator;
    me.Wait();
    for (uint64_t i = 0; i < kEvents; ++i) allocator.Allocate(70'000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  kernel_->SetHeapSampling(4);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  AddHeapCounters();
  const auto count = static_cast<double>(sums_[PROFD_KIND_ALLOC].count);
  EXPECT_NEAR(count, kEvents / 4.0, 5 * std::sqrt(kEvents * 0.25 * 0.75));
  EXPECT_EQ(sums_[PROFD_KIND_ALLOC].weight, sums_[PROFD_KIND_ALLOC].count * 70'000 * 4);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].events, kEvents) << "totals know of all";
  EXPECT_EQ(records[0].heap.counters[0].seen, kEvents * 70'000);
  EXPECT_EQ(kernel_->HeapCost().events, kEvents);
}

TEST_F(HeapKernelTest, ThreadThatExitsLeavesItsTotals) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Wait();
    static FakeAllocator allocator;
    std::thread([] {
      allocator.Allocate(70'000);
      allocator.allocated += 99;
    }).join();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(heap_, SizeIs(1));
  EXPECT_EQ(heap_[0].exiting, 1U);
  EXPECT_EQ(heap_[0].heap.counters[0].total, 70'099U);
  const std::vector<profd_heap_record> records = DrainHeap();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].heap.counters[0].address, 0U) << "the other thread has none";
}

// An event of one thread says where all of them keep their data: what those have allocated and
// freed that have no event is read there, as long as they live and when they end.
TEST_F(HeapKernelTest, ThreadsWithoutAnEventAreRead) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static thread_local FakeAllocator allocator;
    std::atomic<int> waiting = 0;
    std::thread old([&] {
      prctl(PR_SET_NAME, "old");
      allocator.Pass(1'000'000);  // before anybody watches
      allocator.allocated += 500;
      allocator.freed += 300;
      ++waiting;
      WaitForever();
    });
    std::thread untouched([&] {
      prctl(PR_SET_NAME, "untouched");
      ++waiting;
      WaitForever();
    });
    while (waiting != 2) Nap(kMillisecond);
    me.Wait();
    allocator.Allocate(70'000);
    FakeEvent freed{false, &allocator.freed, &allocator.freed_last};
    allocator.freed += 10'000;
    ProfdTestFrees(&freed);
    allocator.EndEvent();
    std::thread([] {
      prctl(PR_SET_NAME, "young");
      allocator.EndEvent();
      allocator.allocated = 4'000;
      allocator.freed = 1'000;
    }).join();
    Nap(10 * kMillisecond);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(heap_, SizeIs(1));
  EXPECT_EQ(heap_[0].exiting, 1U);
  EXPECT_EQ(heap_[0].unread, 0U);
  EXPECT_EQ(heap_[0].none_ended, 1U) << "but it";
  EXPECT_EQ(heap_[0].heap.counters[0].base, 0U);
  EXPECT_EQ(heap_[0].heap.counters[0].total, 4'000U);
  EXPECT_EQ(heap_[0].heap.counters[1].total, 1'000U);
  std::map<uint64_t, profd_heap> by_allocated;
  for (const profd_heap_record& record : DrainHeap()) {
    by_allocated[record.heap.counters[0].total] = record.heap;
    EXPECT_EQ(record.unread, 0U);
    EXPECT_EQ(record.none_ended, 0U);
  }
  ASSERT_THAT(by_allocated, ElementsAre(Key(0), Key(70'000U), Key(1'000'500U)));
  EXPECT_EQ(by_allocated[0].counters[0].address, 0U) << "it never asked the allocator for anything";
  const profd_heap& old = by_allocated[1'000'500];
  EXPECT_EQ(old.counters[0].base, 1'000'000U);
  EXPECT_EQ(old.counters[0].events, 0U);
  EXPECT_EQ(old.counters[0].kind, uint32_t{PROFD_KIND_ALLOC});
  EXPECT_EQ(old.counters[1].kind, uint32_t{PROFD_KIND_FREE});
  EXPECT_EQ(old.counters[1].base, 0U);
  EXPECT_EQ(old.counters[1].total, 300U);
  EXPECT_EQ(old.counters[1].module_id, 7U);
}

// Which pages of the sample a child touches, by their addresses, and how often.
class FaultKernelTest : public KernelTest {
 protected:
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kPages = 4096;

  static char* Map() {
    void* memory =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, kPages * kPage, MADV_NOHUGEPAGE);
    return static_cast<char*>(memory);
  }
  // Touches memory as often as it is told to, and gives it back each time.
  static void TouchAsTold(Child& me, char* memory) {
    while (true) {
      me.Wait();
      for (uint64_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPage] = 1;
      me.Signal();
      me.Wait();
      madvise(memory, kPages * kPage, MADV_DONTNEED);
      me.Signal();
    }
  }
  // One round of it.
  std::map<uint64_t, int> Round(const Child& child, const char* memory) {
    touched_.clear();
    child.Signal();
    child.Wait();
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeRecord(bytes);
                      if (!record.ok()) return;
                      if (const auto* page = std::get_if<profd_page_record>(&*record)) {
                        const uint64_t offset = page->address - reinterpret_cast<uintptr_t>(memory);
                        if (offset >= kPages * kPage) return;
                        EXPECT_EQ(page->pid, child.pid());
                        EXPECT_EQ(page->process_id, page->thread_id);
                        EXPECT_NE(page->stack, 0U);
                        EXPECT_EQ(offset % kPage, 0U);
                        sizes_.insert(page->size);
                        ++touched_[offset / kPage];
                      } else if (const auto* stack = std::get_if<StackTrace>(&*record)) {
                        stacks_.insert(stack->id);
                      }
                    })
                    .ok());
    child.Signal();
    child.Wait();
    return touched_;
  }

  std::map<uint64_t, int> touched_;
  std::set<uint64_t> sizes_;
  std::set<StackId> stacks_;
};

TEST_F(FaultKernelTest, PagesOfTheSampleAreToldEachTimeTheyAreTouched) {
  START_OR_SKIP();
  char* memory = Map();
  const Child child([memory](Child& me) { TouchAsTold(me, memory); });
  Mark(child);
  // Off: nothing is told.
  EXPECT_THAT(Round(child, memory), IsEmpty());
  EXPECT_EQ(kernel_->FaultCost().faults, 0U);
  // All pages.
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  EXPECT_THAT(Round(child, memory), SizeIs(kPages));
  EXPECT_THAT(sizes_, ElementsAre(kPage));
  EXPECT_THAT(stacks_, Not(IsEmpty()));
  const profd_fault_cost cost = kernel_->FaultCost();
  EXPECT_GE(cost.faults, kPages);
  EXPECT_GE(cost.walks, kPages);
  EXPECT_GT(cost.walk_ns, kPages * 100);
  // One in four, and the same ones each time.
  sizes_.clear();
  ASSERT_TRUE(kernel_->SetFaults(4).ok());
  const std::map<uint64_t, int> sampled = Round(child, memory);
  EXPECT_NEAR(static_cast<double>(sampled.size()), kPages / 4.0, 4 * 28);
  EXPECT_THAT(sizes_, ElementsAre(4 * kPage));
  EXPECT_EQ(Round(child, memory), sampled);
  for (const auto& [page, times] : sampled) {
    EXPECT_EQ(times, 1);
    const uint64_t number = reinterpret_cast<uintptr_t>(memory) / kPage + page;
    EXPECT_LT(profd_page_hash(number, kernel_->fault_seed()), profd_page_threshold(4));
  }
  ASSERT_TRUE(kernel_->SetFaults(0).ok());
  EXPECT_FALSE(kernel_->faults_on());
  EXPECT_THAT(Round(child, memory), IsEmpty());
  EXPECT_EQ(Loss(PROFD_LOSS_FAULT_BUSY), 0U);
}

// Others fault, too: they are none of ours. Nor are pages of files.
TEST_F(FaultKernelTest, OnlyAnonymousPagesOfTargetsAreTold) {
  START_OR_SKIP();
  ASSERT_TRUE(kernel_->SetFaults(1).ok());
  char* memory = Map();
  for (uint64_t i = 0; i < kPages; ++i) memory[i * kPage] = 1;
  const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(ftruncate(file.get(), kPages * kPage), 0);
  char* shared = static_cast<char*>(
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(shared, MAP_FAILED);
  const Child child([shared](Child& me) { TouchAsTold(me, shared); });
  Mark(child);
  EXPECT_THAT(Round(child, shared), IsEmpty());
  EXPECT_GE(kernel_->FaultCost().faults, kPages) << "the child's, all the same";
  EXPECT_LT(kernel_->FaultCost().faults, 2 * kPages) << "not ours";
}

// Between two rounds of probes nothing was to be seen: what happened then is no gap.
TEST_F(HeapKernelTest, TimeWithoutProbesIsNoGap) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    static FakeAllocator allocator;
    while (true) {
      me.Wait();
      for (int i = 0; i < 3; ++i) allocator.Allocate(70'000);
      me.Signal();
    }
  });
  Mark(child);
  const HeapPlace place = EventPlace();
  const auto round = [&](bool probed) {
    if (probed) Put(child.pid(), {&place, 1});
    child.Signal();
    child.Wait();
    probe_ = {};
    const std::vector<profd_heap_record> records = DrainHeap();
    return records.empty() ? profd_heap_counter{} : records[0].heap.counters[0];
  };
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  EXPECT_EQ(round(true).seen, 210'000U);
  round(false);
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  profd_heap_counter counter = round(true);
  EXPECT_EQ(counter.seen, 420'000U);
  EXPECT_EQ(counter.total, 630'000U) << "exact, seen or not";
  EXPECT_EQ(counter.gaps, 0U);
  EXPECT_EQ(counter.unseen, 0U);
  // Without a new round it is one.
  round(false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 630'000U);
  EXPECT_EQ(counter.gaps, 1U);
  EXPECT_EQ(counter.unseen, 210'000U);
  // While other probes are still to come nothing counts, and that is no gap either.
  kernel_->SetHeapSettled(child.pid(), kModule, false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 630'000U);
  EXPECT_EQ(counter.total, 1'260'000U);
  kernel_->SetHeapSettled(child.pid(), kModule, true);
  counter = round(true);
  EXPECT_EQ(counter.seen, 840'000U);
  EXPECT_EQ(counter.gaps, 1U);
  // Where it was never said all counts.
  kernel_->ForgetHeapSettled(child.pid(), kModule);
  round(false);
  counter = round(true);
  EXPECT_EQ(counter.seen, 1'050'000U);
  EXPECT_EQ(counter.total, 1'890'000U);
  EXPECT_EQ(counter.gaps, 1U);
}

// A SIGKILL in the moment in which probes are put in, or taken out: the kernel then cannot write to
// the memory of the process that is probed, and gives up.
TEST_F(HeapKernelTest, KilledWhileItPutsProbesInAndTakesThemOut) {
  START_OR_SKIP();
  constexpr int64_t kLatest = kMillisecond;
  const auto* const text = reinterpret_cast<const char*>(&ProfdTestPlaces);
  std::vector<HeapPlace> places;
  for (uint64_t i = 0; i < kPlaces; ++i) places.push_back({.offset = FileOffset(text + i)});
  const Child target([](Child&) { WaitForever(); });
  const auto text_now = [&] {
    std::string bytes(kPlaces, '\0');
    const iovec local{.iov_base = bytes.data(), .iov_len = kPlaces};
    const iovec remote{.iov_base = const_cast<char*>(text), .iov_len = kPlaces};
    EXPECT_EQ(process_vm_readv(target.pid(), &local, 1, &remote, 1, 0),
              static_cast<ssize_t>(kPlaces));
    return bytes;
  };
  const std::string without(text, kPlaces);
  ASSERT_NO_FATAL_FAILURE(Attach(target.pid(), places));
  EXPECT_EQ(text_now(), std::string(kPlaces, '\xcc'));
  const bool together = probe_.links.multi.ok();
  probe_ = Probe();
  ASSERT_EQ(text_now(), without);
  // Where each place has a descriptor of its own the kernel waits for all programs at each.
  const int rounds = together ? 60 : 12;
  if (!together) places.resize(8);

  int left = 0;
  for (int round = 0; round < rounds; ++round) {
    const bool taken_out = round % 2 == 1;
    const Child prober([&](Child& me) {
      if (!taken_out) me.Signal();
      Attach(target.pid(), places);
      if (taken_out) me.Signal();
      probe_ = Probe();
    });
    prober.Wait();
    Nap(kLatest * round / rounds);
    kill(prober.pid(), SIGKILL);
    ASSERT_EQ(waitpid(prober.pid(), nullptr, 0), prober.pid());
    if (text_now() != without) ++left;
  }
  EXPECT_EQ(left, 0);
}

class LiveKernelTest : public KernelTest {
 protected:
  void Attach(int32_t pid, profd_live_place born, profd_live_place gone) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const HeapPlace places[] = {
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestObjectBorn)),
         .cookie = PROFD_LIVE_COOKIE(born, 0, 7)},
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestObjectGone)),
         .cookie = PROFD_LIVE_COOKIE(gone, 0, 7)}};
    auto probe = kernel_->AttachLiveProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  void ExpectObject(size_t index, const Child& child, bool gone, uint64_t size, uint64_t born) {
    const profd_live_heap_record& object = objects_.at(index);
    SCOPED_TRACE(index);
    EXPECT_EQ(object.stack == 0, gone);
    EXPECT_EQ(object.size, size);
    EXPECT_EQ(object.context, 0x7000U);
    EXPECT_EQ(object.born, born);
    EXPECT_EQ(object.pid, child.pid());
    EXPECT_EQ(object.module_id, 7U);
    EXPECT_NE(object.thread_id, 0U);
    EXPECT_LT(static_cast<int64_t>(object.time), MonotonicNs());
  }

  Probe probe_;
};

TEST_F(LiveKernelTest, ObjectsComeAndGo) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    struct {
      uint64_t born = 5, context = 0x7000, size = 1000;
    } info;
    const auto address = reinterpret_cast<uint64_t>(&info);
    me.Wait();
    ProfdTestMakesObject(1000, 1024, 0x7000);
    ProfdTestObjectGone(0, 1024, address, 0);       // 5.3.0
    ProfdTestObjectGone(0, 0x5000, 2048, address);  // 5.3.1
    ProfdTestObjectGone(0, 1024, 1024, 1024);       // neither
    info.context = 1;
    ProfdTestObjectGone(0, 1024, address, 0);
    ProfdTestObjectBorn(0, 0x5000, 1000, 1024, 1);
    ProfdTestObjectBorn(0, 0x5000, 1000, 0, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_3, PROFD_LIVE_GONE_5_3));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(objects_, SizeIs(3));
  ExpectObject(0, child, false, 1024, 0);
  ExpectObject(1, child, true, 1024, 5);
  ExpectObject(2, child, true, 2048, 5);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_GONE), 2U);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 2U);
  const profd_heap_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 7U);
  EXPECT_EQ(cost.walks, 1U);

  ASSERT_THAT(stacks_, SizeIs(1));
  EXPECT_EQ(static_cast<uint64_t>(stacks_[0].id), objects_[0].stack);
  ExpectBeginsWith(stacks_[0], reinterpret_cast<const void*>(&ProfdTestObjectBorn),
                   reinterpret_cast<const void*>(&ProfdTestMakesObject));
}

TEST_F(LiveKernelTest, ArgumentsOfTheVersionBefore) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Wait();
    ProfdTestObjectBorn(0, 0x5000, 1024, 0x7000, 0);
    ProfdTestObjectGone(0, 0x5000, 1024, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_2, PROFD_LIVE_GONE_5_2));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(objects_, SizeIs(2));
  ExpectObject(0, child, false, 1024, 0);
  ExpectObject(1, child, true, 1024, 0);
}

// With nobody to read the ring what does not fit is counted.
TEST_F(LiveKernelTest, LossesAreCounted) {
  START_OR_SKIP();
  constexpr uint64_t kObjects = 60'000;  // more than the ring holds
  const Child child([](Child& me) {
    me.Wait();
    for (uint64_t i = 0; i < kObjects; ++i) ProfdTestObjectGone(0, 0x5000, 1024, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_2, PROFD_LIVE_GONE_5_2));
  child.Signal();
  child.Wait();
  Poll();
  EXPECT_GT(Loss(PROFD_LOSS_LIVE_GONE), 0U);
  EXPECT_EQ(objects_.size() + Loss(PROFD_LOSS_LIVE_GONE), kObjects);
}

}  // namespace

extern "C" [[gnu::noinline]] char* ProfdTestMaps(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  asm volatile("" ::: "memory");
  return static_cast<char*>(memory);
}

namespace {

constexpr size_t kPage = 4096;

class MapKernelTest : public HeapKernelTest {
 protected:
  // Into the libc of this program, for one process.
  Probe AttachCalls(int32_t pid) {
    Dl_info place;
    if (dladdr(reinterpret_cast<void*>(&mmap), &place) == 0) return {};
    const UniqueFd libc(open(place.dli_fname, O_RDONLY | O_CLOEXEC));
    const auto calls = FindMapCalls(libc.get());
    EXPECT_TRUE(calls.ok()) << calls.status();
    std::vector<HeapPlace> places;
    if (calls.ok()) {
      for (const MapCall& call : *calls) {
        places.push_back(
            {.offset = call.offset, .cookie = PROFD_MAP_COOKIE(call.call, call.stepped)});
      }
    }
    EXPECT_THAT(places, SizeIs(5));
    auto probe = kernel_->AttachMapProbe(libc.get(), pid, places);
    EXPECT_TRUE(probe.ok()) << probe.status();
    return probe.ok() ? *std::move(probe) : Probe();
  }
  // A child does `what`, and `sums_` are of that alone.
  void Count(const std::function<void()>& what, bool is_target = true) {
    const Child child([&](Child& me) {
      me.Wait();
      what();
      me.Signal();
      WaitForever();
    });
    if (is_target) Mark(child);
    const Probe probe = AttachCalls(child.pid());
    child.Signal();
    child.Wait();
    sums_.clear();
    AddHeapCounters();
  }
  uint64_t Pages(profd_kind kind) { return sums_[kind].weight / kPage; }
  uint64_t Calls(profd_kind kind) { return sums_[kind].count; }
};

TEST_F(MapKernelTest, CallsAreCountedToTheByte) {
  START_OR_SKIP();
  Count([] {
    char* memory = ProfdTestMaps(10 * kPage + 1);
    munmap(memory, 4 * kPage - 1);
    memory = static_cast<char*>(mremap(memory + 4 * kPage, 7 * kPage, 20 * kPage, MREMAP_MAYMOVE));
    mremap(memory, 20 * kPage, 5 * kPage, 0);
    char* heap = static_cast<char*>(sbrk(0));
    brk(heap + 3 * kPage);
    sbrk(6 * kPage);
    brk(heap + kPage);
    madvise(memory, 5 * kPage, MADV_WILLNEED);
    madvise(memory, 5 * kPage, MADV_DONTNEED);
    madvise(memory, 2 * kPage, MADV_FREE);
    munmap(memory, 5 * kPage);
  });
  EXPECT_EQ(sums_[PROFD_KIND_MAPPED].weight, (11 + 13 + 3 + 6) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_MAPPED), 4U);
  EXPECT_EQ(sums_[PROFD_KIND_UNMAPPED].weight, (4 + 15 + 8 + 5) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_UNMAPPED), 4U);
  EXPECT_EQ(sums_[PROFD_KIND_RETURNED].weight, (5 + 2) * kPage);
  EXPECT_EQ(Calls(PROFD_KIND_RETURNED), 2U);
  EXPECT_EQ(Loss(PROFD_LOSS_MAP_LOST), 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_MAP_BUSY), 0U);
  const profd_heap_cost cost = kernel_->MapCost();
  EXPECT_EQ(cost.events, 11U);
  EXPECT_EQ(cost.walks, 10U);
  EXPECT_GT(cost.walk_ns, 0U);
}

// Memory that is another's too, or a file's, and what changes nothing.
TEST_F(MapKernelTest, OnlyPrivateMemoryCounts) {
  START_OR_SKIP();
  Count([] {
    const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
    if (ftruncate(file.get(), 8 * kPage) != 0) _exit(1);
    void* shared = mmap(nullptr, 8 * kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void* of_file = mmap(nullptr, 8 * kPage, PROT_READ, MAP_PRIVATE, file.get(), 0);
    madvise(of_file, 8 * kPage, MADV_DONTNEED);
    mremap(of_file, 8 * kPage, 4 * kPage, 0);
    of_file = mremap(of_file, 4 * kPage, 6 * kPage, MREMAP_MAYMOVE);
    munmap(of_file, 6 * kPage);
    munmap(of_file, 6 * kPage);  // nothing is there
    munmap(shared, 8 * kPage);
    brk(nullptr);
    mmap(nullptr, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(nullptr, SIZE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(nullptr, SIZE_MAX, MADV_DONTNEED);
  });
  EXPECT_THAT(sums_, IsEmpty());
  EXPECT_EQ(kernel_->MapCost().events, 12U);
}

TEST_F(MapKernelTest, WhatIsReplacedIsNoMore) {
  START_OR_SKIP();
  Count([] {
    const UniqueFd file(memfd_create("profd-test", MFD_CLOEXEC));
    if (ftruncate(file.get(), 8 * kPage) != 0) _exit(1);
    char* memory = ProfdTestMaps(12 * kPage);
    munmap(memory + 8 * kPage, 4 * kPage);
    constexpr int kInPlace = MAP_PRIVATE | MAP_FIXED;
    // The same again, then with two pages behind it, then a file over three of them.
    mmap(memory, 8 * kPage, PROT_READ, kInPlace | MAP_ANONYMOUS, -1, 0);
    mmap(memory, 10 * kPage, PROT_READ, kInPlace | MAP_ANONYMOUS, -1, 0);
    mmap(memory + kPage, 3 * kPage, PROT_READ, kInPlace, file.get(), 0);
    // Parts of another protection are mappings of their own; the file is left out.
    mprotect(memory + 6 * kPage, kPage, PROT_NONE);
    munmap(memory, 10 * kPage);
  });
  EXPECT_EQ(Pages(PROFD_KIND_MAPPED), 12U + 2);
  EXPECT_EQ(Pages(PROFD_KIND_UNMAPPED), 4U + 3 + 7);
}

TEST_F(MapKernelTest, OthersAreNotCounted) {
  START_OR_SKIP();
  Count([] { munmap(ProfdTestMaps(kPage), kPage); }, false);
  EXPECT_THAT(sums_, IsEmpty());
  EXPECT_EQ(kernel_->MapCost().events, 0U);
}

TEST_F(MapKernelTest, StackBeginsWithTheFunctionAndItsCaller) {
  START_OR_SKIP();
  Count([] { ProfdTestMaps(kPage); });
  Poll();
  ASSERT_THAT(stacks_, SizeIs(1));
  const auto* code = reinterpret_cast<const uint8_t*>(&mmap);
  ExpectBeginsWith(stacks_[0], code, reinterpret_cast<const void*>(&ProfdTestMaps),
                   ChooseProbePoint({code, kProbePointBytes}).skip);
}

// Of calls that are left out those that are counted make up: 5 standard deviations.
TEST_F(MapKernelTest, SomeCallsWeighForAll) {
  START_OR_SKIP();
  constexpr uint64_t kCalls = 4'000, kOneIn = 4;
  kernel_->SetMapSampling(kOneIn);
  const Child child([](Child& me) {
    char* memory = ProfdTestMaps(kPage);
    me.Wait();
    for (uint64_t i = 0; i < kCalls; ++i) madvise(memory, kPage, MADV_DONTNEED);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  const Probe probe = AttachCalls(child.pid());
  child.Signal();
  child.Wait();
  const auto entries = kernel_->DrainHeapCounters();
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_THAT(*entries, SizeIs(1));
  const auto& [key, value] = entries->front();
  EXPECT_EQ(key.kind, uint8_t{PROFD_KIND_RETURNED});
  EXPECT_EQ(key.arg0, kOneIn);
  EXPECT_EQ(value.weight, value.count * kOneIn * kPage);
  const double expected = static_cast<double>(kCalls) / kOneIn;
  EXPECT_NEAR(static_cast<double>(value.count), expected,
              5 * std::sqrt(expected * (1 - 1.0 / kOneIn)));
  EXPECT_EQ(kernel_->MapCost().events, kCalls);
  EXPECT_EQ(kernel_->MapCost().walks, value.count);
}

TEST_F(MapKernelTest, WithoutTheLayerTheOthersAreThere) {
  START_OR_SKIP({.map_layer = false});
  EXPECT_FALSE(kernel_->has_map_layer());
  const HeapPlace place = {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestMaps)),
                           .cookie = PROFD_MAP_COOKIE(PROFD_MAP_MMAP, 0)};
  const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(kernel_->AttachMapProbe(self.get(), getpid(), {&place, 1}).ok());
  EXPECT_TRUE(kernel_->DrainHeapCounters().ok());
  EXPECT_EQ(kernel_->MapCost().events, 0U);
}

// What a child does with glibc's malloc, by its own count.
struct MallocAccount {
  uint64_t allocated = 0, freed = 0;
  uint32_t allocations = 0, frees = 0;

  // The chunk that a request of so many bytes needs; one that is found may be 16 larger.
  void* Got(size_t request, void* memory) {
    allocated += std::max<size_t>(32, (request + 23) & ~size_t{15}) - 8;
    ++allocations;
    return memory;
  }
  void Gives(void* memory) {
    freed += malloc_usable_size(memory);
    ++frees;
  }
};

class MallocKernelTest : public KernelTest {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "this build has another malloc";
#endif
    shared_ = static_cast<MallocAccount*>(mmap(
        nullptr, sizeof(MallocAccount), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared_, MAP_FAILED);
  }

  void Attach(int32_t pid) {
    const auto maps = ReadWholeFile("/proc/self/maps", 1 << 24);
    ASSERT_TRUE(maps.ok());
    std::string path;
    for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
      if (absl::StrContains(line, "/libc.so")) path = std::string(line.substr(line.find('/')));
    }
    const UniqueFd library(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto found = FindGlibc(library.get());
    ASSERT_TRUE(found.ok() && *found) << path;
    std::vector<HeapPlace> places;
    for (const GlibcFunction& function : (*found)->functions) {
      const int stepped = function.stepped ? 1 : 0;
      places.push_back(
          {.offset = function.offset, .cookie = PROFD_MALLOC_COOKIE(function.place, stepped, 7)});
    }
    auto probe = kernel_->AttachMallocProbe(library.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }

  // Of the only thread; with the weights of its samples, by kind.
  profd_malloc_thread DrainOne() {
    const auto counts = kernel_->DrainMalloc();
    EXPECT_TRUE(counts.ok()) << counts.status();
    if (!counts.ok()) return {};
    weights_.clear();
    for (const auto& [key, value] : counts->samples) {
      EXPECT_EQ(key.arg0, uint64_t{PROFD_BURST_ARGUMENT});
      weights_[key.kind].weight += value.weight;
      weights_[key.kind].count += value.count;
    }
    EXPECT_LE(counts->threads.size(), 1U);
    return counts->threads.empty() ? profd_malloc_thread{} : counts->threads[0].second;
  }

  MallocAccount* shared_ = nullptr;
  Probe probe_;
  std::map<uint32_t, profd_sample_value> weights_;
};

// So that no compiler knows what is called.
void* (*volatile call_malloc)(size_t) = malloc;
void* (*volatile call_calloc)(size_t, size_t) = calloc;
void* (*volatile call_realloc)(void*, size_t) = realloc;
void (*volatile call_free)(void*) = free;

void UseAllOfMalloc(MallocAccount* account) {
  void* a = account->Got(100, call_malloc(100));
  void* b = account->Got(150, call_calloc(3, 50));
  void* c = account->Got(200, call_realloc(nullptr, 200));
  account->Gives(c);
  c = account->Got(1000, call_realloc(c, 1000));
  void* d = account->Got(200, reallocarray(nullptr, 10, 20));
  void* e = nullptr;
  if (posix_memalign(&e, 16, 48) != 0) abort();
  account->Got(48, e);
  void* f = account->Got(64, aligned_alloc(16, 64));
  call_free(nullptr);
  for (void* memory : {a, b, c, d, e}) {
    account->Gives(memory);
    call_free(memory);
  }
  account->Gives(f);
  if (call_realloc(f, 0) != nullptr) abort();
}

TEST_F(MallocKernelTest, EveryCallOfABurstIsCountedOnce) {
  START_OR_SKIP();
  const Child child([this](Child& me) {
    while (true) {
      me.Wait();
      UseAllOfMalloc(shared_);
      me.Signal();
    }
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  const auto round = [&](int64_t begin_ns, int64_t length_ns) {
    *shared_ = {};
    kernel_->SetMallocBurst(begin_ns, length_ns);
    child.Signal();
    child.Wait();
    return DrainOne();
  };
  round(MonotonicNs(), kPatience);  // pages are touched, the library is at home
  profd_malloc_thread sum = round(MonotonicNs(), kPatience);
  EXPECT_EQ(sum.allocated, shared_->allocated);
  EXPECT_EQ(sum.freed, shared_->freed);
  EXPECT_EQ(sum.allocations, shared_->allocations);
  EXPECT_EQ(sum.frees, shared_->frees);
  EXPECT_EQ(sum.module_id, 7U);
  EXPECT_GT(sum.calls, sum.allocations + sum.frees) << "free(NULL), and two that call another one";
  EXPECT_LT(sum.stepped, sum.calls);
  EXPECT_GT(sum.ns, 0U);
  // Few calls have all their stacks taken.
  EXPECT_EQ(weights_[PROFD_KIND_ALLOC].weight, sum.allocated);
  EXPECT_EQ(weights_[PROFD_KIND_ALLOC].count, sum.allocations);
  EXPECT_EQ(weights_[PROFD_KIND_FREE].weight, sum.freed);

  // Before a burst and after it nothing counts, but costs.
  const profd_malloc_cost cost = kernel_->MallocCost();
  sum = round(MonotonicNs() + kPatience, kPatience);
  EXPECT_EQ(sum.calls, 0U);
  sum = round(MonotonicNs() - 2 * kMillisecond, kMillisecond);
  EXPECT_EQ(sum.calls, 0U);
  EXPECT_GT(kernel_->MallocCost().calls, cost.calls + 20);
  EXPECT_EQ(kernel_->MallocCost().ns, cost.ns);
  // No probe, no call.
  probe_ = {};
  EXPECT_EQ(round(MonotonicNs(), kPatience).calls, 0U);
  EXPECT_EQ(Loss(PROFD_LOSS_MALLOC_FULL), 0U);
}

// What is larger than 16 bytes' alignment is made of a larger chunk, of which a part is given back.
TEST_F(MallocKernelTest, AlignedMemoryIsCountedAsItWasAskedFor) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Wait();
    void* a = aligned_alloc(64, 640);  // a chunk of 656 bytes
    void* b = nullptr;
    if (posix_memalign(&b, 256, 500) != 0) abort();  // of 512
    asm volatile("" ::"r"(a), "r"(b));
    me.Signal();
    me.Wait();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  kernel_->SetMallocBurst(MonotonicNs(), kPatience);
  child.Signal();
  child.Wait();
  const profd_malloc_thread sum = DrainOne();
  EXPECT_EQ(sum.allocated, 648U + 504U);
  EXPECT_EQ(sum.allocations, 2U);
}

// Of many calls the stacks of a sample are taken, which weigh for all of them.
TEST_F(MallocKernelTest, SampledStacksWeighForAll) {
  constexpr uint32_t kCalls = 30'000;
  START_OR_SKIP();
  const Child child([this](Child& me) {
    me.Wait();
    for (uint32_t i = 0; i < kCalls; ++i) {
      const size_t size = i % 10 == 0 ? 5000 : 16 + i * 7 % 300;
      call_free(shared_->Got(size, call_malloc(size)));
    }
    me.Signal();
    me.Wait();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid()));
  kernel_->SetMallocBurst(MonotonicNs(), kPatience);
  child.Signal();
  child.Wait();
  const profd_malloc_thread sum = DrainOne();
  EXPECT_EQ(sum.allocations, kCalls);
  EXPECT_EQ(sum.allocated, shared_->allocated);
  const profd_sample_value& sampled = weights_[PROFD_KIND_ALLOC];
  EXPECT_LT(sampled.count, kCalls / 10);
  EXPECT_GT(sampled.count, kCalls / 40);
  EXPECT_NEAR(static_cast<double>(sampled.weight) / static_cast<double>(sum.allocated), 1, 0.15);
}

TEST_F(KernelTest, NothingIsLeftBehind) {
  for (const bool switch_layer : {true, false, true}) {
    const auto before = HeldObjects();
    START_OR_SKIP({.switch_layer = switch_layer});
    const auto held = HeldObjects();
    const size_t links = switch_layer ? 10 : 9;
    EXPECT_EQ(Count(held, "link_id") - Count(before, "link_id"), links);
    // The tick by list is run, not attached; the heap's three, that of mapping calls and that of
    // malloc are attached to what they find, those of page faults when they are asked for.
    const size_t programs = links + 7 + (kernel_->ticks_by_list() ? 1 : 0);
    EXPECT_EQ(Count(held, "prog_id") - Count(before, "prog_id"), programs);
    for (const auto& object : held) EXPECT_TRUE(Exists(object)) << object.first << object.second;
    kernel_.reset();
    EXPECT_EQ(HeldObjects(), before);
    for (const auto& object : held) {
      EXPECT_TRUE(Eventually([&] { return !Exists(object); }))
          << object.first << " " << object.second << " is still there";
    }
  }
}

TEST_F(KernelTest, MarkIsInheritedAndTheBooksAddUp) {
  START_OR_SKIP();
  constexpr int kNaps = 50;
  Child child([](Child& me) {
    me.Wait();
    std::thread napper([&] {
      pthread_setname_np(pthread_self(), "napper");
      for (int i = 0; i < kNaps; ++i) Nap(2 * kMillisecond);
      WaitForever();
    });
    std::thread spinner([&] {
      pthread_setname_np(pthread_self(), "spinner");
      while (ThreadCpuNs() < 50 * kMillisecond) {
      }
      WaitForever();
    });
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pthread_setname_np(pthread_self(), "grandchild");
      WaitForever();
    }
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_THAT(live_, SizeIs(1));
  EXPECT_EQ(live_[0].pid, child.pid());
  EXPECT_EQ(live_[0].born, 0);
  child.Signal();
  child.Wait();
  // Drained while they work, until all of them wait for ever.
  ASSERT_TRUE(Eventually([&] {
    Drain(/*every_thread=*/true);
    return live_.size() == 4 && std::all_of(live_.begin(), live_.end(), [](const auto& record) {
             return record.ledger.phase == PROFD_PHASE_BLOCKED &&
                    record.ledger.reason == PROFD_REASON_SIGNAL;
           });
  }));
  for (const profd_thread_record& record : live_) {
    EXPECT_EQ(record.target_id, kTarget);
    EXPECT_EQ(record.born, record.tid != child.pid());
    // All runs are settled, so our sum is the kernel's, to the nanosecond.
    if (record.born == 0) continue;
    EXPECT_EQ(record.ledger.exec_runtime, record.books.exec_runtime);
  }
  const uint64_t unseen = accounts_->switches_unseen();
  const LedgerDelta& napper = Named("napper").sum;
  EXPECT_NEAR(napper.waits[PROFD_REASON_SLEEP], kNaps, static_cast<double>(unseen));
  EXPECT_GE(napper.off_ns[PROFD_REASON_SLEEP] + napper.off_ns[PROFD_REASON_RUNQUEUE],
            kNaps * 2 * kMillisecond);
  // The clock of a thread's CPU time is the kernel's book; what is read last is a little short.
  EXPECT_GE(Named("spinner").sum.on_cpu_ns, 49 * kMillisecond);
  EXPECT_EQ(Named("napper").info.pid, child.pid());
  EXPECT_NE(Named("grandchild").info.pid, child.pid());
  EXPECT_EQ(Loss(PROFD_LOSS_THREAD_STORAGE), 0U);
}

TEST_F(KernelTest, MarkingTwiceChangesNothing) {
  START_OR_SKIP();
  const Child child([](Child&) { WaitForever(); });
  Mark(child);
  ASSERT_THAT(live_, SizeIs(1));
  const profd_thread_record first = live_[0];
  Mark(child);
  Drain(/*every_thread=*/true);
  ASSERT_THAT(live_, SizeIs(1));
  EXPECT_EQ(live_[0].thread_id, first.thread_id);
  EXPECT_EQ(live_[0].begin, first.begin);
}

TEST_F(KernelTest, ProcessThatIsGoneCannotBeMarked) {
  START_OR_SKIP();
  const pid_t pid = fork();
  if (pid == 0) WaitForever();
  const auto pidfd = OpenPidfd(pid);
  ASSERT_TRUE(pidfd.ok());
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_TRUE(absl::IsNotFound(kernel_->Mark(pidfd->get(), kTarget).status()));
}

TEST_F(KernelTest, DefaultTargetIsEveryProcessButOurs) {
  START_OR_SKIP({.switch_layer = true, .default_target = kTarget});
  const Child child([](Child&) { WaitForever(); });
  Drain();
  std::set<int32_t> pids;
  for (const profd_thread_record& record : live_) pids.insert(record.pid);
  EXPECT_THAT(pids, Contains(child.pid()));
  EXPECT_THAT(pids, Not(Contains(getpid())));
}

TEST_F(KernelTest, EpochsCountEverySampleOnce) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    for (int i = 1; i <= 8; ++i) std::thread(NapForever, i * kMillisecond).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  profd_sample_value drained{};
  uint64_t weight = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const uint64_t before = kernel_->TickStats().off_cpu;
    Tick(kWeight + i);
    weight += (kernel_->TickStats().off_cpu - before) * static_cast<uint64_t>(kWeight + i);
    Poll();
    if (i % 3 != 0) AddCounters(drained);
  }
  AddCounters(drained);
  EXPECT_GT(drained.count, 1'000U);
  EXPECT_EQ(drained.count, kernel_->TickStats().off_cpu);
  EXPECT_EQ(drained.weight, weight);
  EXPECT_EQ(Loss(PROFD_LOSS_COUNTERS_FULL), 0U);
  const profd_tick_stats stats = kernel_->TickStats();
  // A torn walk is tried once more.
  EXPECT_GE(stats.walks + stats.repeats, stats.off_cpu);
  EXPECT_LE(stats.walks + stats.repeats, stats.off_cpu + stats.torn);
  // Both epochs are empty.
  for (int i = 0; i < 2; ++i) {
    const auto entries = kernel_->DrainCounters();
    ASSERT_TRUE(entries.ok());
    EXPECT_THAT(*entries, IsEmpty());
  }
}

// Every nap has an argument of its own, and with it a counter: no epoch has place for so many.
TEST_F(KernelTest, FullCounterMapIsCountedAsLoss) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    constexpr size_t kThreads = 200;
    constexpr size_t kRequests = 1000;
    static timespec requests[kThreads][kRequests];
    for (auto& own : requests) {
      for (timespec& request : own) request = {.tv_sec = 0, .tv_nsec = 10 * kMillisecond};
      std::thread([&own] {
        for (size_t i = 0;; ++i) syscall(SYS_nanosleep, &own[i % kRequests], nullptr);
      }).detach();
    }
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  const auto lost = [&] { return Loss(PROFD_LOSS_COUNTERS_FULL); };
  ASSERT_TRUE(Eventually([&] {
    Tick();
    Poll();
    return lost() > 0;
  }));
  profd_sample_value drained{};
  AddCounters(drained);
  EXPECT_EQ(drained.count + lost(), kernel_->TickStats().off_cpu);
  EXPECT_EQ(Loss(PROFD_LOSS_COUNTERS_FULL_NS), lost() * uint64_t{kWeight});
  EXPECT_EQ(drained.weight, drained.count * uint64_t{kWeight});

  // The other epoch has place again, and so has this one once it was drained.
  const uint64_t lost_before = lost();
  for (int i = 0; i < 2; ++i) {
    Tick();
    AddCounters(drained);
  }
  EXPECT_EQ(lost(), lost_before);
  EXPECT_EQ(drained.count + lost(), kernel_->TickStats().off_cpu);
}

TEST_F(KernelTest, StacksAreSentOnceUntilTrimmed) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  for (int i = 0; i < 200; ++i) {
    Tick();
    Poll();
    ASSERT_TRUE(kernel_->TrimKnownStacks(false).ok());
    Nap(kMillisecond);
  }
  std::set<uint64_t> known;
  for (const StackTrace& stack : stacks_) {
    EXPECT_TRUE(known.insert(static_cast<uint64_t>(stack.id)).second) << "a stack was sent twice";
  }
  // Every sample names a stack that was sent.
  const auto entries = kernel_->DrainCounters();
  ASSERT_TRUE(entries.ok());
  EXPECT_GT(entries->size(), 0U);
  for (const auto& [key, value] : *entries) EXPECT_THAT(known, Contains(key.stack));

  ASSERT_TRUE(kernel_->TrimKnownStacks(true).ok());
  stacks_.clear();
  EXPECT_TRUE(Eventually([&] {
    Tick();
    Poll();
    return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
      return known.contains(static_cast<uint64_t>(stack.id));
    });
  }));
}

TEST_F(KernelTest, ThreadThatLivesBetweenDrainsLeavesItsAccount) {
  START_OR_SKIP();
  constexpr int kNaps = 3;
  const Child child([](Child& me) {
    me.Wait();
    std::thread([] {
      pthread_setname_np(pthread_self(), "brief");
      for (int i = 0; i < kNaps; ++i) Nap(2 * kMillisecond);
    }).join();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  child.Wait();
  // The thread is joined before its last switch.
  ASSERT_TRUE(Eventually([&] {
    Poll();
    return last_.size() == 1 && last_.begin()->second.size() == 2;
  }));
  const profd_thread_record& exiting = last_.begin()->second[0];
  const profd_thread_record& dead = last_.begin()->second[1];
  EXPECT_EQ(exiting.type, uint32_t{PROFD_RECORD_EXITING});
  EXPECT_EQ(dead.type, uint32_t{PROFD_RECORD_DEAD});
  EXPECT_EQ(exiting.pid, child.pid());
  EXPECT_EQ(CommToString(exiting.comm), "brief");
  for (const profd_thread_record& record : {exiting, dead}) {
    EXPECT_EQ(record.target_id, kTarget);
    EXPECT_EQ(record.born, 1);
    const LedgerDelta totals = ExactTotals(record);
    EXPECT_EQ(Accounted(totals), totals.wall_ns);
    EXPECT_GE(totals.wall_ns, kNaps * 2 * kMillisecond);
    EXPECT_NEAR(totals.waits[PROFD_REASON_SLEEP], kNaps, 1);
  }
  EXPECT_GE(dead.now, exiting.now);
  EXPECT_EQ(dead.ledger.exec_runtime, dead.books.exec_runtime);

  Drain();
  EXPECT_EQ(Named("brief").drains, 1);
  EXPECT_TRUE(Named("brief").info.exited);
  EXPECT_EQ(Named("brief").sum.wall_ns, ExactTotals(dead).wall_ns);
  for (int i = 0; i < 3; ++i) Drain();
  EXPECT_EQ(accounts_->vanished(), 0U);
}

// Nobody waits for it, so it stays in the list of tasks.
TEST_F(KernelTest, ZombieIsNotCountedOn) {
  for (const bool switch_layer : {true, false}) {
    START_OR_SKIP({.switch_layer = switch_layer});
    by_thread_.clear();
    last_.clear();
    const Child child([](Child& me) {
      me.Wait();
      pthread_setname_np(pthread_self(), "zombie");
    });
    Mark(child);
    child.Signal();
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
    const size_t records = switch_layer ? 2 : 1;
    ASSERT_TRUE(Eventually([&] {
      Poll();
      return last_.size() == 1 && last_.begin()->second.size() == records;
    }));
    ASSERT_TRUE(Eventually([&] {
      Drain();
      return Named("zombie").info.exited;
    }));
    const profd_thread_record& final = last_.begin()->second.back();
    const LedgerDelta sum = Named("zombie").sum;
    // Without its last switch the account may be closed a little after the start of the exit.
    EXPECT_GE(sum.wall_ns, static_cast<int64_t>(final.now - final.begin) - 100'000);
    if (switch_layer) {
      // By the scheduler's clock, whose distance from ours is known to some microseconds.
      EXPECT_NEAR(static_cast<double>(sum.wall_ns), static_cast<double>(final.now - final.begin),
                  100'000);
    }
    for (int i = 0; i < 4; ++i) Drain();
    EXPECT_EQ(Named("zombie").sum.wall_ns, sum.wall_ns);
    EXPECT_EQ(accounts_->live_threads(), 0U);
    EXPECT_EQ(accounts_->vanished(), 0U);
    kernel_.reset();
  }
}

TEST_F(KernelTest, ModulesAreAnnouncedOnceAndRulesMakeWalksComplete) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;
  const auto key_of = [](const profd_module_record& m) {
    return Key(m.key.ino, m.key.dev, m.key.generation);
  };
  std::set<Key> keys;
  for (const auto& module : modules_) EXPECT_TRUE(keys.insert(key_of(module)).second);
  ASSERT_GE(keys.size(), 3U) << "the program, the C library and the loader";
  const std::vector<profd_module_record> announced = std::exchange(modules_, {});

  const auto tick_until = [&](profd_walk walk) {
    return Eventually([&] {
      Tick();
      Poll();
      return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
        return stack.walk == WalkResult{static_cast<uint8_t>(walk)};
      });
    });
  };
  EXPECT_TRUE(tick_until(PROFD_WALK_RULES_PENDING));
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  EXPECT_THAT(modules_, IsEmpty()) << "announced again";

  ASSERT_TRUE(kernel_->ForgetModule(announced[0].key).ok());
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(kernel_->AnnounceMappings().ok());
    Poll();
    return !modules_.empty();
  }));
  ASSERT_THAT(modules_, SizeIs(1));
  EXPECT_EQ(key_of(modules_[0]), key_of(announced[0]));

  std::set<uint32_t> ids;
  for (const profd_module_record& module : announced) {
    const auto id = kernel_->ModuleIdOf(module.key);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(ids.insert(*id).second);
    const auto mapping = OpenMapping(module.pid, module.start, module.end);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    const auto file = MappedFile::Map(mapping->fd.get());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto table = CompileRules(file->bytes());
    ASSERT_TRUE(table.ok()) << table.status();
    Publish(module.key, table->rows);
  }
  EXPECT_GT(kernel_->RuleBytes(), 0U);
  stacks_.clear();
  EXPECT_TRUE(tick_until(PROFD_WALK_COMPLETE));
  const ModuleRules unknown = {.key = {.ino = 1, .dev = 2, .generation = 3}, .rows = {}};
  EXPECT_FALSE(kernel_->PublishRules({&unknown, 1}).at(0).ok());
}

// As many threads as do not fit into what the kernel writes at once.
class RestTest : public KernelTest, public ::testing::WithParamInterface<bool> {};

TEST_P(RestTest, ThreadsAtRestAreLeftOutUntilTheyRun) {
  constexpr size_t kThreads = 300;
  const bool layer = GetParam();
  START_OR_SKIP({.switch_layer = layer});
  const Child child([](Child& me) {
    for (size_t i = 1; i < kThreads; ++i) {
      std::thread([&, i] {
        if (i != kThreads / 2) WaitForever();
        pthread_setname_np(pthread_self(), "waker");
        while (true) {
          me.Wait();
          Nap(kMillisecond);
          me.Signal();
        }
      }).detach();
    }
    WaitForever();
  });
  Mark(child);
  ASSERT_TRUE(Eventually([&] {
    Drain(/*every_thread=*/true);
    return live_.size() == kThreads &&
           std::all_of(live_.begin(), live_.end(),
                       [](const auto& record) { return record.at_rest != 0; });
  }));
  for (const bool all : {false, true, false}) {
    size_t written = 0;
    const auto left_out = kernel_->DrainThreads([&](auto) { ++written; }, all);
    ASSERT_TRUE(left_out.ok()) << left_out.status();
    EXPECT_EQ(left_out->threads, all ? 0 : kThreads);
    EXPECT_EQ(written, all ? kThreads : 0);
  }
  const int64_t began = MonotonicNs();
  Drain();
  EXPECT_THAT(live_, IsEmpty());
  const int64_t before = Named("waker").sum.wall_ns;
  const int64_t switches = Named("waker").sum.voluntary_switches;
  for (int i = 0; i < 10; ++i) {
    child.Signal();
    child.Wait();
    Drain();
    EXPECT_LE(live_.size(), 2U);
  }
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return live_.empty();
  }));
  const LedgerDelta& waker = Named("waker").sum;
  EXPECT_GE(waker.voluntary_switches - switches, 20);
  EXPECT_GE(waker.wall_ns - before, 10 * kMillisecond);
  EXPECT_LE(waker.wall_ns - before, MonotonicNs() - began);
  EXPECT_EQ(Accounted(waker), waker.wall_ns);
  EXPECT_EQ(accounts_->vanished(), 0U);
  EXPECT_EQ(accounts_->live_threads(), kThreads);
  if (layer) {
    EXPECT_GE(waker.off_ns[PROFD_REASON_SLEEP], 10 * kMillisecond);
    EXPECT_EQ(waker.unattributed_ns, 0);
  }
  // All are killed: their ends are told, and none is waited for.
  ASSERT_EQ(kill(child.pid(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    Drain();
    return accounts_->live_threads() == 0;
  }));
  EXPECT_EQ(accounts_->vanished(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Layers, RestTest, ::testing::Bool(),
                         [](const auto& layer) { return layer.param ? "Switch" : "BooksOnly"; });

TEST_F(KernelTest, WithoutTheSwitchLayerTheBooksAddUp) {
  START_OR_SKIP({.switch_layer = false});
  const Child child([](Child& me) {
    me.Wait();
    std::thread([&] {
      pthread_setname_np(pthread_self(), "napper");
      for (int i = 0; i < 50; ++i) Nap(2 * kMillisecond);
      me.Signal();
      WaitForever();
    }).detach();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  child.Signal();
  for (int i = 0; i < 2; ++i) {
    child.Wait();
    Drain();
  }
  const LedgerDelta& napper = Named("napper").sum;
  EXPECT_GE(napper.wall_ns, 100 * kMillisecond);
  EXPECT_EQ(napper.on_cpu_ns, napper.books_on_cpu_ns);
  EXPECT_GT(napper.on_cpu_ns, 0);
  EXPECT_GE(napper.voluntary_switches, 50);
  EXPECT_GE(napper.unattributed_ns + napper.off_ns[PROFD_REASON_RUNQUEUE], 100 * kMillisecond);
  EXPECT_EQ(kernel_->SwitchCost().timed, 0U);
}

// Each phase begins with a drain and ends with one; what a phase holds is told by its own part.
TEST_F(KernelTest, LayerThatIsShedAndRestoredCountsNothingTwice) {
  constexpr int kNaps = 50;
  // Before the kernel side: a child would keep its link open.
  const Child child([](Child& me) {
    pthread_setname_np(pthread_self(), "napper");
    while (true) {
      me.Wait();
      for (int i = 0; i < kNaps; ++i) Nap(2 * kMillisecond);
      me.Signal();
    }
  });
  START_OR_SKIP();
  Mark(child);
  const auto nap = [&] {
    by_thread_.clear();
    child.Signal();
    child.Wait();
    Drain();
    for (const profd_thread_record& record : live_) EXPECT_EQ(record.pid, child.pid());
    EXPECT_THAT(by_thread_, SizeIs(1));
    return by_thread_.begin()->second.sum;
  };
  for (int round = 0; round < 3; ++round) {
    const LedgerDelta exact = nap();
    EXPECT_EQ(exact.unattributed_ns, 0);
    EXPECT_GE(exact.off_ns[PROFD_REASON_SLEEP] + exact.off_ns[PROFD_REASON_RUNQUEUE],
              kNaps * 2 * kMillisecond);
    EXPECT_NEAR(exact.waits[PROFD_REASON_SLEEP], kNaps, 2);

    ASSERT_TRUE(kernel_->SetSwitchLayer(false).ok());
    EXPECT_FALSE(kernel_->switch_on());
    const uint64_t timed = kernel_->SwitchCost().timed;
    const LedgerDelta shed = nap();
    EXPECT_GE(shed.unattributed_ns + shed.off_ns[PROFD_REASON_RUNQUEUE], kNaps * 2 * kMillisecond);
    EXPECT_EQ(shed.on_cpu_ns, shed.books_on_cpu_ns);
    EXPECT_EQ(shed.waits[PROFD_REASON_SLEEP], 0);
    EXPECT_GE(shed.voluntary_switches, kNaps);
    EXPECT_EQ(kernel_->SwitchCost().timed, timed) << "it runs while it is shed";

    ASSERT_TRUE(kernel_->SetSwitchLayer(true).ok());
    Drain();
  }
  EXPECT_EQ(accounts_->vanished(), 0U);
}

TEST_F(KernelTest, ListedThreadsAreVisitedAndNoOthers) {
  START_OR_SKIP();
  if (!kernel_->ticks_by_list()) GTEST_SKIP() << "needs Linux 6.10 or later";
  const Child child([](Child& me) {
    std::thread([] {
      pthread_setname_np(pthread_self(), "spinner");
      while (true) {
      }
    }).detach();
    std::thread([&] {
      pthread_setname_np(pthread_self(), "waiter");
      WaitForever();
    }).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  ASSERT_THAT(live_, SizeIs(3));
  std::vector<profd_visit> visits;
  for (const profd_thread_record& record : live_) {
    visits.push_back({.thread_id = record.thread_id,
                      .weight_ns = 1'000 + visits.size(),
                      .kernel_tid = record.kernel_tid,
                      .outcome = PROFD_VISIT_NONE});
  }
  // Another thread has the number by now; nobody has it.
  visits.push_back({.thread_id = visits[0].thread_id + 100,
                    .weight_ns = 1,
                    .kernel_tid = visits[0].kernel_tid,
                    .outcome = PROFD_VISIT_NONE});
  visits.push_back({.thread_id = 1, .weight_ns = 1, .kernel_tid = 1 << 30, .outcome = 0});

  const auto outcome = [&](const char* name) {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (CommToString(live_[i].comm) == name) return profd_visit_outcome(visits[i].outcome);
    }
    return PROFD_VISIT_NONE;
  };
  // The rules of what it runs are not there yet, and until they are a wait is walked again.
  Poll();
  for (const profd_module_record& module : modules_) {
    Publish(module.key, {});
  }
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  for (const profd_module_record& module : modules_) {
    Publish(module.key, {});
  }
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(kernel_->TickListed(visits, MonotonicNs()).ok());
    return outcome("waiter") == PROFD_VISIT_SAME && outcome("spinner") == PROFD_VISIT_RUNNING;
  }));
  EXPECT_EQ(visits[3].outcome, uint32_t{PROFD_VISIT_GONE});
  EXPECT_EQ(visits[4].outcome, uint32_t{PROFD_VISIT_GONE});

  // Each sample weighs what its visit says.
  const auto counted = kernel_->DrainCounters();
  ASSERT_TRUE(counted.ok());
  ASSERT_THAT(*counted, Not(IsEmpty()));
  for (const auto& [key, value] : *counted) {
    const auto visit = std::find_if(visits.begin(), visits.begin() + 3,
                                    [&](const auto& v) { return v.thread_id == key.thread_id; });
    ASSERT_NE(visit, visits.begin() + 3);
    EXPECT_EQ(value.weight, value.count * visit->weight_ns);
  }
}

TEST_F(KernelTest, ThreadIsAnnouncedAtItsBirth) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    me.Wait();
    std::thread([] { WaitForever(); }).detach();
    me.Signal();
    WaitForever();
  });
  Mark(child);
  EXPECT_THAT(born_, IsEmpty());
  child.Signal();
  child.Wait();
  Drain();
  ASSERT_THAT(born_, SizeIs(1));
  ASSERT_THAT(live_, SizeIs(2));
  EXPECT_TRUE(std::any_of(live_.begin(), live_.end(), [&](const profd_thread_record& record) {
    return record.thread_id == born_[0].thread_id && record.kernel_tid == born_[0].kernel_tid;
  }));
}

}  // namespace

// Stand in for probes: the no-op is the first instruction, arguments are where the function's are.
extern "C" void ProfdTestTellsAlloc(uint64_t, uint64_t, uint64_t, const uint64_t*);
extern "C" void ProfdTestTellsFree(uint64_t);
asm(R"(
  .text
  .globl ProfdTestTellsAlloc, ProfdTestTellsFree
  .type ProfdTestTellsAlloc, @function
  .type ProfdTestTellsFree, @function
ProfdTestTellsAlloc:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestTellsAlloc, .-ProfdTestTellsAlloc
ProfdTestTellsFree:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestTellsFree, .-ProfdTestTellsFree
)");
extern "C" {
// Data of the file, not memory without one.
[[gnu::section(".probes")]] volatile uint16_t ProfdTestSemaphore = 0;
}

namespace {

class ToldKernelTest : public KernelTest {
 protected:
  // At both probes, with the arguments of the first as `text` says.
  void Attach(int32_t pid, const std::string& text, bool semaphore = false) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const uint64_t count =
        semaphore ? FileOffset(const_cast<const uint16_t*>(&ProfdTestSemaphore)) : 0;
    const HeapPlace places[] = {
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsAlloc)),
         .cookie = PROFD_USDT_COOKIE(PROFD_USDT_ALLOC, 0, 7, Number(text, 3)),
         .semaphore = count},
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsFree)),
         .cookie = PROFD_USDT_COOKIE(PROFD_USDT_FREE, 0, 7, Number("8@%rdi", 1)),
         .semaphore = count}};
    auto probe = kernel_->AttachToldProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  uint32_t Number(const std::string& text, int count) {
    const auto spec = ParseUsdtArguments(text, count);
    EXPECT_TRUE(spec.ok()) << spec.status();
    const auto number = kernel_->NumberOfArguments(spec.value_or(profd_usdt_spec{}));
    EXPECT_TRUE(number.ok()) << number.status();
    return number.value_or(0);
  }
  // The child does it once, all records of it.
  std::vector<profd_told_record> Told(const Child& child) {
    child.Signal();
    child.Wait();
    std::vector<profd_told_record> told;
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeRecord(bytes);
                      ASSERT_TRUE(record.ok());
                      if (const auto* object = std::get_if<profd_told_record>(&*record))
                        told.push_back(*object);
                      if (const auto* stack = std::get_if<StackTrace>(&*record))
                        stacks_.push_back(*stack);
                    })
                    .ok());
    for (const profd_told_record& record : told) {
      EXPECT_EQ(record.pid, child.pid());
      EXPECT_EQ(record.module_id, 7U);
      EXPECT_NE(record.thread_id, 0U);
      EXPECT_LT(static_cast<int64_t>(record.time), MonotonicNs());
    }
    return told;
  }

  Probe probe_;
};

TEST_F(ToldKernelTest, ObjectsComeAndGo) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    while (true) {
      me.Wait();
      ProfdTestTellsAlloc(0x5000, 100, 8'000, nullptr);
      ProfdTestTellsFree(0x5000);
      ProfdTestTellsAlloc(0, 100, 8'000, nullptr);
      ProfdTestTellsAlloc(0x6000, 100, 0, nullptr);
      ProfdTestTellsAlloc(0x6000, 1ULL << 47, 8'000, nullptr);
      ProfdTestTellsAlloc(0x6000, 100, 1ULL << 47, nullptr);
      me.Signal();
    }
  });
  Mark(child);
  EXPECT_THAT(Told(child), IsEmpty()) << "nobody watches";
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@%rdi 8@%rsi 8@%rdx"));
  const std::vector<profd_told_record> told = Told(child);
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].gone, 0U);
  EXPECT_EQ(told[0].address, 0x5000U);
  EXPECT_EQ(told[0].size, 100U);
  EXPECT_EQ(told[0].weight, 8'000U);
  EXPECT_EQ(told[1].gone, 1U);
  EXPECT_EQ(told[1].address, 0x5000U);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 4U) << "what no object can be";
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_GONE), 0U);
  const profd_heap_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 6U);
  EXPECT_EQ(cost.walks, 2U);
  // From the place of the probe, by the rules of where it is.
  ASSERT_THAT(stacks_, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(static_cast<uint64_t>(stacks_[i].id), told[i].stack);
    ASSERT_FALSE(stacks_[i].frames.empty());
  }
  EXPECT_EQ(stacks_[0].frames[0] & PROFD_FRAME_OFFSET_MASK,
            FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsAlloc)));
  EXPECT_EQ(stacks_[1].frames[0] & PROFD_FRAME_OFFSET_MASK,
            FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsFree)));
  probe_ = {};
  EXPECT_THAT(Told(child), IsEmpty());
}

TEST_F(ToldKernelTest, ArgumentsOfEveryForm) {
  START_OR_SKIP();
  // rdi = 3, rsi = 0xffffff80, rdx = the fourth value, rcx = the values.
  const Child child([](Child& me) {
    while (true) {
      me.Wait();
      const uint64_t values[4] = {11, 22, 0xfffffffffffffff6, 44};
      ProfdTestTellsAlloc(3, 0xffffff80, 44, values);
      me.Signal();
    }
  });
  Mark(child);
  struct Case {
    const char* text;
    uint64_t address, size, weight;
  };
  for (const Case& test : {Case{"8@%rdi 4@%esi 8@%rdx", 3, 0xffffff80, 44},
                           Case{"8@$4096 1@%sil -8@$7", 4096, 0x80, 7},
                           Case{"8@(%rcx) 8@8(%rcx) 8@24(%rcx)", 11, 22, 44},
                           Case{"8@-16(%rcx,%rdi,8) 8@(%rcx,%rdi,8) 2@16(%rcx)", 22, 44, 0xfff6},
                           // Address 0 - 10 is as good as any; of a byte its sign.
                           Case{"-1@16(%rcx) 4@%esi 4@24(%rcx)", ~uint64_t{9}, 0xffffff80, 44},
                           Case{"-1@%sil 1@%dil 1@%dl", ~uint64_t{127}, 3, 44}}) {
    SCOPED_TRACE(test.text);
    ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), test.text));
    const std::vector<profd_told_record> told = Told(child);
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].address, test.address);
    EXPECT_EQ(told[0].size, test.size);
    EXPECT_EQ(told[0].weight, test.weight);
    probe_ = {};
  }
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 0U);
  // Memory that nobody has.
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@(%rdi) 8@%rdi 8@%rdx"));
  EXPECT_THAT(Told(child), IsEmpty());
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 1U);
}

TEST_F(ToldKernelTest, ArgumentsAreNumberedOnce) {
  START_OR_SKIP();
  const uint32_t first = Number("8@%rdi 8@%rsi 8@%rdx", 3);
  EXPECT_EQ(Number("8@%rsi", 1), first + 1);
  EXPECT_EQ(Number("8@%rdi 8@%rsi 8@%rdx", 3), first);
  for (uint32_t i = first + 2; i < PROFD_MAX_USDT_SPECS; ++i) {
    EXPECT_EQ(Number(absl::StrCat("8@$", i), 1), i);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      kernel_->NumberOfArguments(*ParseUsdtArguments("8@$999999", 1)).status()));
  EXPECT_EQ(Number("8@%rsi", 1), first + 1) << "what is known stays";
}

TEST_F(ToldKernelTest, SemaphoreCountsTheProbesOfThatProcess) {
  START_OR_SKIP();
  auto* seen = static_cast<volatile uint16_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(const_cast<uint16_t*>(seen), MAP_FAILED);
  const auto tell = [seen](int place) {
    return [seen, place](Child& me) {
      while (true) {
        me.Wait();
        seen[place] = ProfdTestSemaphore;
        me.Signal();
      }
    };
  };
  const Child child(tell(0)), other(tell(1));
  Mark(child);
  Mark(other);
  const auto look = [&] {
    for (const Child* process : {&child, &other}) {
      process->Signal();
      process->Wait();
    }
    EXPECT_EQ(seen[1], 0) << "no probe stands there";
    EXPECT_EQ(ProfdTestSemaphore, 0) << "nor here";
    return seen[0];
  };
  EXPECT_EQ(look(), 0);
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@%rdi 8@%rsi 8@%rdx", true));
    EXPECT_EQ(look(), 2) << "one for each place";
    probe_ = {};
    EXPECT_EQ(look(), 0);
  }
  munmap(const_cast<uint16_t*>(seen), 4096);
}

}  // namespace
}  // namespace profd
