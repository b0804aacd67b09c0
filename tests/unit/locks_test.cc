// Kinds of locks by frames, where they are, and the table of an answer.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/memory/process_memory.h"
#include "daemon/service/idle.h"
#include "daemon/service/lock_kind.h"
#include "daemon/service/memory_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd {

// Places to be found in this very program.
extern "C" {
int64_t profd_locks_test_bss[4];
int64_t profd_locks_test_data[4] = {1, 2, 3, 4};
}

namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr StackId kStack{101};

// What a stack of user frames, innermost first, says.
LockFrames Frames(const std::vector<std::string>& functions,
                  FrameKind kind = FrameKind::kApplication) {
  std::vector<FrameText> texts = {{"futex_wait", "[kernel]", FrameKind::kKernel}};
  for (const std::string& function : functions) {
    const bool libc = function.starts_with("_") || function.starts_with("pthread_") ||
                      function.starts_with("sem_");
    texts.push_back({function, libc ? "libc.so.6" : "prog", libc ? FrameKind::kLibc : kind});
  }
  std::vector<uint32_t> stack(texts.size());
  for (uint32_t i = 0; i < stack.size(); i++) stack[i] = i;
  const IdleRule idle(texts);
  return LockRule(texts, &idle).OfStack(stack);
}

LockWait Wait(const std::vector<std::string>& functions, uint64_t argument, int syscall = SYS_futex,
              std::string_view idle = "") {
  return DescribeLockWait(
      {.stack = kStack, .argument = argument, .syscall = syscall, .reason = Reason::kLock},
      Frames(functions), idle);
}

TEST(LockKindTest, ContentionIsToldByTheFramesOfTheLock) {
  const auto expect = [](std::string_view kind, const std::vector<std::string>& functions) {
    const LockFrames found = Frames(functions);
    EXPECT_TRUE(found.contended) << kind;
    EXPECT_EQ(found.kind, kind);
  };
  expect(kPthreadMutex, {"__lll_lock_wait", "pthread_mutex_lock", "app::Take"});
  expect(kPthreadMutex, {"__lll_lock_wait", "___pthread_mutex_lock", "std::mutex::lock()", "app"});
  expect(kPthreadRwlock, {"__pthread_rwlock_rdlock_full64", "app::Read"});
  expect(kLibcLock, {"__lll_lock_wait_private", "_int_malloc", "app::Work"});
  expect(kStdMutex, {"std::sys::pal::unix::futex::futex_wait",
                     "std::sys::sync::mutex::futex::Mutex::lock_contended", "storage::Cache::get"});
  expect(kStdRwlockRead, {"std::sys::pal::unix::futex::futex_wait",
                          "std::sys::sync::rwlock::futex::RwLock::read_contended", "app::read"});
  expect(kStdRwlockWrite, {"std::sys::sync::rwlock::futex::RwLock::write_contended", "app::write"});
  expect(kParkingLotMutex, {"parking_lot_core::parking_lot::park",
                            "parking_lot::raw_mutex::RawMutex::lock_slow", "app::take"});
  expect(kFullChannel, {"std::thread::park", "crossbeam_channel::context::Context::wait_until",
                        "crossbeam_channel::flavors::array::Channel<T>::send", "app::run"});
  expect(kTokioMutex, {"tokio::runtime::park::CachedParkThread::block_on",
                       "tokio::sync::mutex::Mutex<T>::blocking_lock", "app::run"});
  expect(kAbslMutex, {"AbslInternalPerThreadSemWait_lts_20220623",
                      "absl::lts_20220623::Mutex::Block(absl::lts_20220623::base_internal::"
                      "PerThreadSynch*)",
                      "absl::lts_20220623::Mutex::LockSlowLoop(absl::lts_20220623::SynchWaitParams*"
                      ", int)",
                      "absl::lts_20220623::Mutex::Lock()", "app::Take"});
  expect(kPostgresLock, {"sem_wait", "PGSemaphoreLock", "LWLockAcquire", "XLogFlush"});
  expect(kStdOnce, {"std::sys::pal::unix::futex::futex_wait",
                    "std::sys::sync::once::futex::Once::call", "app::config"});
}

TEST(LockKindTest, WaitsForEventsAreNoContention) {
  const auto expect = [](std::string_view kind, const std::vector<std::string>& functions) {
    const LockFrames found = Frames(functions);
    EXPECT_FALSE(found.contended) << kind;
    EXPECT_EQ(found.kind, kind);
  };
  expect("condition variable", {"pthread_cond_wait", "app::Pool::Next"});
  expect("condition variable", {"std::sys::pal::unix::futex::futex_wait",
                                "std::sys::sync::condvar::futex::Condvar::wait", "app::next"});
  // Until a condition holds, not for a lock, although the same function of the mutex waits.
  expect("condition variable",
         {"absl::lts_20220623::Mutex::Block(absl::base_internal::PerThreadSynch*)",
          "absl::lts_20220623::Mutex::LockSlowLoop(absl::SynchWaitParams*, int)",
          "absl::lts_20220623::Mutex::LockWhen(absl::Condition const&)", "app::Next"});
  expect("semaphore", {"__new_sem_wait_slow64", "sem_wait", "app::Next"});
  expect("thread join", {"__pthread_clockjoin_ex", "pthread_join", "app::End"});
  expect("barrier", {"pthread_barrier_wait", "app::Round"});
  expect("", {"syscall", "app::OwnFutex"});
  // What runs below such code is not the wait.
  EXPECT_FALSE(Frames({"app::OwnFutex", "std::sys::sync::once::futex::Once::call"}).contended);
}

// The function that wants a lock is not that of the lock.
TEST(LockKindTest, PlacesAreOfTheProgram) {
  const auto place = [](const std::vector<std::string>& functions) {
    std::vector<FrameText> texts = {{"futex_wait", "[kernel]", FrameKind::kKernel}};
    for (const std::string& f : functions) {
      const FrameKind kind = f.starts_with("[")        ? FrameKind::kSynthetic
                             : f.starts_with("libc::") ? FrameKind::kLibc
                                                       : FrameKind::kApplication;
      texts.push_back({f, "prog", kind});
    }
    std::vector<uint32_t> stack(texts.size());
    for (uint32_t i = 0; i < stack.size(); i++) stack[i] = i;
    return std::string(texts[LockPlaceRule(texts).Of(stack)].function);
  };
  EXPECT_EQ(place({"parking_lot_core::park", "<parking_lot::raw_mutex::RawMutex>::lock_slow",
                   "lock_api::mutex::Mutex<R,T>::lock", "storage::Cache::get", "app::main"}),
            "storage::Cache::get");
  EXPECT_EQ(place({"PGSemaphoreLock", "LWLockAcquireOrWait", "XLogFlush", "CommitTransaction"}),
            "XLogFlush");
  EXPECT_EQ(place({"PGSemaphoreUnlock", "LWLockRelease", "XLogFlush"}), "XLogFlush");
  EXPECT_EQ(place({"parking_lot::raw_mutex::RawMutex::lock_slow"}),
            "parking_lot::raw_mutex::RawMutex::lock_slow")
      << "nothing else is there";
  // A walk that ended early does not make libc the one that wanted the lock.
  EXPECT_EQ(place({"libc::fn_85e50", "[unwind rules pending]"}), "[unwind rules pending]");
  EXPECT_EQ(place({"libc::fn_85e50", "app::Take", "[no unwind rule]"}), "app::Take");
  EXPECT_EQ(place({"libc::fn_85e50", "libc::start_thread"}), "libc::fn_85e50");
}

TEST(LockKindTest, WaitingForAMutexAfterAConditionIsContention) {
  const LockFrames found =
      Frames({"__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait", "app::Next"});
  EXPECT_TRUE(found.contended);
  EXPECT_EQ(found.kind, kPthreadMutex);
}

TEST(LockKindTest, TheSystemCallSaysWhereTheLockIs) {
  const LockWait mutex = Wait({"__lll_lock_wait", "pthread_mutex_lock", "app"}, 0x1000);
  EXPECT_EQ(mutex.idle, "");
  EXPECT_EQ(mutex.object, LockWait::Object::kAddress);
  EXPECT_EQ(mutex.address, 0x1000u);
  // Readers wait at 8 in a rwlock, writers at 12.
  EXPECT_EQ(Wait({"pthread_rwlock_rdlock", "app"}, 0x1008).address, 0x1000u);
  EXPECT_EQ(Wait({"pthread_rwlock_wrlock", "app"}, 0x100c).address, 0x1000u);
  const LockWait writer = Wait({"std::sys::sync::rwlock::futex::RwLock::write_contended"}, 0x1004);
  EXPECT_EQ(writer.address, 0x1000u);
  EXPECT_EQ(writer.kind, kStdRwlockRead) << "one lock";
  // These park a thread: the futex is the thread's own.
  EXPECT_EQ(Wait({"parking_lot::raw_mutex::RawMutex::lock_slow", "app"}, 0x1000).object,
            LockWait::Object::kNone);
  EXPECT_EQ(Wait({"app::OwnFutex"}, 0).object, LockWait::Object::kNone) << "no argument";
}

TEST(LockKindTest, FileLocksAndSemaphoreSetsAreContention) {
  const LockWait file = Wait({"flock", "app"}, 7, SYS_flock);
  EXPECT_EQ(file.kind, "file lock");
  EXPECT_EQ(file.idle, "");
  EXPECT_EQ(file.object, LockWait::Object::kFile);
  EXPECT_EQ(file.address, 7u);
  EXPECT_EQ(Wait({"semop", "app"}, 3, SYS_semop).object, LockWait::Object::kSemaphores);
  EXPECT_EQ(Wait({"semtimedop", "app"}, 3, SYS_semtimedop).idle, "");
}

TEST(LockKindTest, TheRestSaysWhatItIs) {
  EXPECT_EQ(Wait({"pthread_cond_wait", "app"}, 0x1028).idle, "condition variable");
  EXPECT_EQ(Wait({"syscall", "app"}, 0x1000).idle, "other futex wait");
  EXPECT_EQ(Wait({"pthread_cond_wait", "app"}, 0x1028, SYS_futex, "tokio worker").idle,
            "tokio worker");
  EXPECT_EQ(DescribeLockWait({.reason = Reason::kLock}, {}, "").idle, "not sampled");
}

ProcessId Self() {
  const absl::StatusOr<ProcessDirectory> directory = ProcessDirectory::Open("/proc", getpid());
  EXPECT_TRUE(directory.ok());
  const absl::StatusOr<std::string> text = directory->Read("stat");
  EXPECT_TRUE(text.ok());
  return {.pid = getpid(), .start_ns = ParseStat(*text)->start_ns};
}

std::vector<std::string> NamesOf(const ProcessId& process, const std::vector<uint64_t>& places) {
  std::vector<std::string> texts;
  for (const MemoryName& name : MemoryNames().Name(process, places)) texts.push_back(name.text);
  return texts;
}

uint64_t AddressOf(const void* place) { return reinterpret_cast<uint64_t>(place); }

TEST(MemoryNamesTest, VariablesOfAProgramHaveTheirSymbol) {
  const std::vector<std::string> names =
      NamesOf(Self(), std::vector<uint64_t>{AddressOf(&profd_locks_test_bss[0]),
                                            AddressOf(&profd_locks_test_bss[3]),
                                            AddressOf(&profd_locks_test_data[1])});
  EXPECT_THAT(names,
              ElementsAre(EndsWith(":profd_locks_test_bss"), EndsWith(":profd_locks_test_bss+0x18"),
                          EndsWith(":profd_locks_test_data+0x8")));
}

TEST(MemoryNamesTest, OtherMemoryIsNamedAfterItsMapping) {
  // Not a local variable: a sanitizer keeps these elsewhere.
  const void* const frame = __builtin_frame_address(0);
  void* const anonymous =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const shared =
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(anonymous, MAP_FAILED);
  ASSERT_NE(shared, MAP_FAILED);
  const std::vector<std::string> names =
      NamesOf(Self(), std::vector<uint64_t>{AddressOf(frame), AddressOf(anonymous),
                                            AddressOf(shared) + 4096 + 8, 0x10});
  ASSERT_EQ(names.size(), 4u);
  EXPECT_THAT(names[0], StartsWith("stack 0x"));
  EXPECT_THAT(names[1], MatchesRegex("anonymous 0x[0-9a-f]+"));
  EXPECT_EQ(names[2], "zero+0x1008") << "the same in each process that shares it";
  EXPECT_EQ(names[3], "0x10") << "nothing is there";
  EXPECT_TRUE(MemoryNames().Name(Self(), std::vector<uint64_t>{AddressOf(shared)})[0].shared);
  munmap(anonymous, 4096);
  munmap(shared, 8192);
}

TEST(MemoryNamesTest, OfAnotherProcessOnlyTheAddressIsKnown) {
  const std::vector<uint64_t> place = {AddressOf(&profd_locks_test_bss[0])};
  ProcessId gone = Self();
  gone.start_ns += 10'000'000;
  EXPECT_THAT(NamesOf(gone, place), ElementsAre(StartsWith("0x")));
  EXPECT_THAT(NamesOf({.pid = getpid()}, place), ElementsAre(StartsWith("0x")))
      << "without its start it could be any";
}

}  // namespace
}  // namespace profd
