#include "tests/bpf/kernel_fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/target/procfs.h"
#include "tests/support/machine.h"

namespace profd {

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

int64_t NapOften(int times, int64_t ns) {
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const int64_t before = switches();
  for (int i = 0; i < times; ++i) Nap(ns);
  return switches() - before;
}

void NapForever(int64_t ns) {
  while (true) Nap(ns);
}

void WaitForever() {
  while (true) pause();
}

void* MapShared(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

void UnmapShared(void* memory, size_t bytes) { munmap(memory, bytes); }

size_t CountThreads(const Child& child) {
  const std::filesystem::directory_iterator threads(absl::StrCat("/proc/", child.pid(), "/task"));
  return static_cast<size_t>(std::distance(begin(threads), end(threads)));
}

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

void ExpectBeginsWith(const StackTrace& stack, const void* function, const void* caller,
                      uint64_t skip) {
  ASSERT_GE(stack.frames.size(), 2U);
  EXPECT_EQ(stack.frames[0] & PROFD_FRAME_OFFSET_MASK, FileOffset(function) + skip);
  EXPECT_GT(stack.frames[1] & PROFD_FRAME_OFFSET_MASK, FileOffset(caller));
  EXPECT_LT(stack.frames[1] & PROFD_FRAME_OFFSET_MASK, FileOffset(caller) + 64);
}

void KernelTest::Start(const KernelOptions& options) {
  REQUIRE_FACT("capabilities");
  auto kernel = Kernel::Create(options);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  kernel_ = *std::move(kernel);
  accounts_ = std::make_unique<Accounts>();
}

void KernelTest::Mark(const Child& child) {
  ASSERT_TRUE(Eventually([&] {
    const auto stat = ReadWholeFile(absl::StrCat("/proc/", child.pid(), "/stat"));
    return stat.ok() && absl::StrContains(*stat, ") S ");
  })) << "the child does not wait";
  const auto pidfd = OpenPidfd(child.pid());
  ASSERT_TRUE(pidfd.ok()) << pidfd.status();
  ASSERT_TRUE(kernel_->Mark(pidfd->get(), kTarget).ok());
  Drain();
}

void KernelTest::Poll() {
  const auto status = kernel_->PollEvents([this](auto bytes) { Take(bytes); });
  ASSERT_TRUE(status.ok()) << status;
}

void KernelTest::Drain(bool every_thread) {
  Poll();
  live_.clear();
  for (const bool all : {every_thread, true}) {
    accounts_->BeginReading();
    const auto left_out = kernel_->DrainThreads([this](auto bytes) { Take(bytes); }, all);
    ASSERT_TRUE(left_out.ok()) << left_out.status();
    if (accounts_->EndReading(*left_out, all)) break;
  }
  const auto exited = kernel_->DrainExited();
  ASSERT_TRUE(exited.ok()) << exited.status();
  accounts_->ApplyExited(*exited);
  for (const auto& [key, sums] : *exited) exited_threads_ += static_cast<int64_t>(sums.threads);
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
    sum.involuntary_switches += ledger.delta.involuntary_switches;
    for (size_t i = 0; i < kReasonCount; ++i) {
      sum.off_ns[i] += ledger.delta.off_ns[i];
      sum.waits[i] += ledger.delta.waits[i];
    }
  }
}

void KernelTest::Take(std::span<const uint8_t> bytes) {
  auto record = DecodeAny(bytes);
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
  } else if (const auto* heap = std::get_if<profd_heap_record>(&*record)) {
    heap_.push_back(*heap);
  } else if (const auto* object = std::get_if<profd_live_heap_record>(&*record)) {
    objects_.push_back(*object);
  } else if (const auto* wait = std::get_if<profd_long_wait_record>(&*record)) {
    long_waits_.push_back(*wait);
  }
}

void KernelTest::Tick() {
  const auto status = kernel_->VisitAll(MonotonicNs(), [this](std::span<const uint8_t> bytes) {
    profd_visit visit;
    ASSERT_EQ(bytes.size(), sizeof(visit));
    std::memcpy(&visit, bytes.data(), sizeof(visit));
    found_.push_back(visit);
  });
  ASSERT_TRUE(status.ok()) << status;
}

void KernelTest::Publish(const profd_module_key& key, std::vector<profd_rule> rows) {
  const ModuleRules rules = {.key = key, .rows = std::move(rows)};
  const std::vector<absl::Status> results = kernel_->PublishRules({&rules, 1});
  ASSERT_TRUE(results.at(0).ok()) << results[0];
}

void KernelTest::PublishNoRules() {
  Poll();
  for (const profd_module_record& module : modules_) Publish(module.key, {});
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  for (const profd_module_record& module : modules_) Publish(module.key, {});
}

int64_t KernelTest::Dead() const {
  return std::count_if(last_.begin(), last_.end(), [](const auto& entry) {
    return entry.second.back().type == PROFD_RECORD_DEAD;
  });
}

const Account& KernelTest::Named(const std::string& name) {
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

}  // namespace profd
