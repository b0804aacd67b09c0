#include "daemon/service/idle.h"

#include <cstring>

#include "client/answer/view.h"
#include "daemon/symbolize/function_path.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using profd::FunctionPath;
using profd::v1::FRAME_KIND_APPLICATION;
using profd::v1::FRAME_KIND_KERNEL;
using profd::v1::FRAME_KIND_LIBC;
using profd::v1::REASON_LOCK;

// The idle group of one stack of user frames, innermost first, above libc and the kernel.
std::string GroupOf(const std::vector<std::string>& functions,
                    profd::v1::Reason reason = REASON_LOCK, const std::string& module = "prog") {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "p", "t", 100, 0);
  std::vector<AnswerWriter::FrameSpec> frames = {{"schedule", "[kernel]", FRAME_KIND_KERNEL},
                                                 {"syscall", "libc.so.6", FRAME_KIND_LIBC}};
  for (const std::string& function : functions) {
    frames.push_back({function, module, FRAME_KIND_APPLICATION});
  }
  frames.push_back({"start_thread", "libc.so.6", FRAME_KIND_LIBC});
  answer.AddSample(thread, reason, frames, 100, 0);
  const Profile profile = answer.Build();
  return profile.samples[0].idle;
}

TEST(FunctionPathTest, CutsWhatIsNotThePath) {
  EXPECT_EQ(FunctionPath("a::b::c"), "a::b::c");
  EXPECT_EQ(FunctionPath("<a::B<T> as a::C<U>>::run::{{closure}}"), "a::B::run");
  EXPECT_EQ(FunctionPath("<a::B>::run"), "a::B::run");
  EXPECT_EQ(FunctionPath("a::list::Channel<T>::recv::{{closure}}"), "a::list::Channel::recv");
  EXPECT_EQ(FunctionPath("a::b::<alloc::vec::Vec<u8>>::{closure#0}"), "a::b");
  EXPECT_EQ(FunctionPath("a::f::h0123456789abcdef"), "a::f");
  EXPECT_EQ(FunctionPath("ns::Type::Method(unsigned long, std::vector<int>) const"),
            "ns::Type::Method");
  EXPECT_EQ(FunctionPath("(anonymous namespace)::Pool::Run()"), "Pool::Run");
  EXPECT_EQ(FunctionPath("f<fn(u8) -> u8>::g"), "f::g");
  EXPECT_EQ(FunctionPath("main"), "main");
}

TEST(FunctionPathTest, SurvivesUnbalancedNames) {
  for (const char* name : {"<", ">", "<<<<", "<>", "{", "a::<", "<a as ", ")(", "->", "", "::"}) {
    EXPECT_LE(FunctionPath(name).size(), std::strlen(name)) << name;
  }
  for (const std::string& name :
       {std::string(100'000, '<'), std::string(100'000, '<') + std::string(100'000, '>')}) {
    EXPECT_LE(FunctionPath(name).size(), name.size());
  }
}

TEST(IdleTest, PollAndSleepAreIdleWhateverTheStack) {
  EXPECT_NE(GroupOf({"main"}, profd::v1::REASON_POLL), "");
  EXPECT_NE(GroupOf({"main"}, profd::v1::REASON_SLEEP), "");
  EXPECT_EQ(GroupOf({"main"}, profd::v1::REASON_DISK), "");
}

TEST(IdleTest, WithoutAStackOnlyTheReasonTells) {
  AnswerWriter answer;
  const uint32_t thread = answer.AddThread(1, 1, "p", "t", 100, 0);
  answer.AddSample(thread, profd::v1::REASON_LOCK, {}, 100, 0);
  answer.AddSample(thread, profd::v1::REASON_RUNQUEUE, {}, 100, 0);
  answer.AddSample(thread, profd::v1::REASON_SLEEP, {}, 100, 0);
  const Profile profile = answer.Build();
  EXPECT_EQ(profile.samples[0].idle, "");
  EXPECT_EQ(profile.samples[1].idle, "");
  EXPECT_EQ(profile.samples[2].idle, "sleeping");
}

TEST(IdleTest, RunQueueIsNeverIdle) {
  EXPECT_EQ(GroupOf({"tokio::runtime::scheduler::multi_thread::park::Parker::park"},
                    profd::v1::REASON_RUNQUEUE),
            "");
}

TEST(IdleTest, ParkedWorkers) {
  EXPECT_EQ(GroupOf({"parking_lot::condvar::Condvar::wait_until_internal",
                     "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
                     "tokio::runtime::scheduler::multi_thread::park::Parker::park"}),
            "tokio worker");
  EXPECT_EQ(GroupOf({"<parking_lot::condvar::Condvar>::wait_until_internal",
                     "<tokio::runtime::scheduler::multi_thread::park::Inner>::park_condvar"}),
            "tokio worker");
  EXPECT_EQ(GroupOf({"parking_lot::condvar::Condvar::wait_until_internal",
                     "tokio::runtime::blocking::pool::Inner::run"}),
            "tokio blocking pool");
  EXPECT_EQ(
      GroupOf({"std::sys::pal::unix::futex::futex_wait",
               "std::sys::sync::condvar::futex::Condvar::wait", "rayon_core::sleep::Sleep::sleep",
               "rayon_core::registry::WorkerThread::wait_until_cold"}),
      "rayon worker");
  EXPECT_EQ(GroupOf({"pthread_cond_wait",
                     "std::condition_variable::wait(std::unique_lock<"
                     "std::mutex>&)",
                     "rocksdb::ThreadPoolImpl::Impl::BGThread(unsigned long)"}),
            "rocksdb background");
  EXPECT_EQ(GroupOf({"parking_lot::condvar::Condvar::wait_until_internal",
                     "tokio::runtime::park::Inner::park",
                     "tokio::runtime::runtime::Runtime::block_on", "app::main"}),
            "block_on");
}

TEST(IdleTest, ReceiversAreIdleAndSendersAreNot) {
  const std::string wait = "std::sys::pal::unix::futex::futex_wait";
  EXPECT_EQ(GroupOf({wait, "std::thread::park", "crossbeam_channel::context::Context::wait_until",
                     "crossbeam_channel::context::Context::with::{{closure}}",
                     "crossbeam_channel::flavors::list::Channel<T>::recv", "app::run"}),
            "channel receiver");
  EXPECT_EQ(
      GroupOf({wait, "std::thread::park", "crossbeam_channel::context::Context::wait_until",
               "crossbeam_channel::flavors::array::Channel<T>::send::{{closure}}", "app::run"}),
      "");
  EXPECT_EQ(GroupOf({wait, "std::thread::park", "std::sync::mpmc::list::Channel<T>::recv"}),
            "channel receiver");
  EXPECT_EQ(GroupOf({wait, "std::thread::park_timeout", "app::idle_loop"}), "parked thread");
}

TEST(IdleTest, JoinsAreNotIdle) {
  EXPECT_EQ(GroupOf({"std::sys::pal::unix::futex::futex_wait", "std::thread::park",
                     "std::thread::scoped::scope", "app::run"}),
            "");
  EXPECT_EQ(GroupOf({"std::sys::pal::unix::thread::Thread::join", "std::thread::JoinInner<T>::join",
                     "app::run"}),
            "");
}

TEST(IdleTest, ContentionWins) {
  const std::string worker = "tokio::runtime::scheduler::multi_thread::worker::run";
  for (const std::string contended :
       {"std::sys::sync::mutex::futex::Mutex::lock_contended",
        "parking_lot::raw_mutex::RawMutex::lock_slow",
        "<parking_lot::raw_rwlock::RawRwLock>::lock_shared_slow",
        "std::sys::sync::rwlock::futex::RwLock::read_contended", "__pthread_mutex_lock",
        "___pthread_mutex_lock", "tokio::sync::mutex::Mutex<T>::blocking_lock"}) {
    EXPECT_EQ(GroupOf({contended, "app::f", worker}), "") << contended;
    EXPECT_EQ(GroupOf({contended, "tokio::runtime::scheduler::multi_thread::park::Inner::park"}),
              "")
        << contended;
  }
}

TEST(IdleTest, AWaitInsideATaskOfAWorkerIsNotIdle) {
  EXPECT_EQ(
      GroupOf({"parking_lot::condvar::Condvar::wait_until_internal", "app::wait_for_commit",
               "tokio::runtime::task::raw::poll", "tokio::runtime::blocking::pool::Inner::run"}),
      "");
}

TEST(IdleTest, AConditionVariableAloneIsNotIdle) {
  EXPECT_EQ(GroupOf({"pthread_cond_wait", "worker_loop", "main"}), "");
  EXPECT_EQ(GroupOf({"std::condition_variable::wait(std::unique_lock<std::mutex>&)", "Pop"}), "");
}

TEST(IdleTest, LibuvWorkers) {
  EXPECT_EQ(GroupOf({"uv_cond_wait", "worker"}), "libuv worker");
  EXPECT_EQ(GroupOf({"uv_cond_wait", "libuv.so.1+0xd1c9"}, REASON_LOCK, "libuv.so.1"),
            "libuv worker");
  EXPECT_EQ(GroupOf({"uv_cond_wait", "uv_barrier_wait", "main"}, REASON_LOCK, "libuv.so.1"), "");
  EXPECT_EQ(GroupOf({"uv_cond_wait", "node::TaskQueue<v8::Task>::BlockingPop()"}),
            "node platform worker");
  EXPECT_EQ(GroupOf({"uv_cond_wait", "app_wait"}), "");
  EXPECT_EQ(GroupOf({"pthread_cond_wait", "worker"}), "");
}

TEST(ViewTest, FoldsIdleAwayAndSaysHowMuch) {
  const Profile profile = IdleAnswer().Build();
  const View folded = MakeView(profile, false);
  EXPECT_TRUE(folded.shown.empty());
  EXPECT_EQ(folded.idle_ns, 58'000'000'000);
  ASSERT_EQ(folded.idle.size(), 1u);
  EXPECT_EQ(folded.idle[0].threads, 1u);
  const View shown = MakeView(profile, true);
  EXPECT_EQ(shown.shown_value, folded.idle_ns);
  EXPECT_EQ(shown.idle_ns, folded.idle_ns);
}

// Stacks of tests/targets/standin without symbols.
TEST(IdleInferredTest, RuntimesAreKnownByTheirModules) {
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~tokio::runtime::scheduler::multi_thread::park (fn_2)",
                     "~tokio::runtime::scheduler::multi_thread::worker (fn_3)"}),
            "tokio worker");
  EXPECT_EQ(GroupOf({"~tokio::runtime::scheduler::multi_thread::park::futex_wait (fn_2)"}),
            "tokio worker");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~std::sync::mpmc::list (fn_2)", "prog:fn_3"}),
            "channel receiver");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~tokio::runtime::park (fn_2)", "~tokio (fn_3)"}),
            "block_on");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~rayon_core::sleep (fn_2)"}), "rayon worker");
}

TEST(IdleInferredTest, OfABoundedChannelOnlyReceiversAreIdle) {
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~crossbeam_channel::flavors::array::recv (fn_2)"}),
            "channel receiver");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~std::sync::mpmc::array::recv (fn_2)"}),
            "channel receiver");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~crossbeam_channel::flavors::array::send (fn_2)",
                     "~crossbeam_channel::flavors::list (fn_3)"}),
            "");
}

TEST(IdleInferredTest, ALockIsNeverIdle) {
  EXPECT_EQ(
      GroupOf({"~lock_slow (fn_1)", "~tokio::runtime::scheduler::multi_thread::worker (fn_2)"}),
      "");
  EXPECT_EQ(GroupOf({"~parking_lot_core::parking_lot::lock_slow (fn_1)",
                     "~crossbeam_channel::flavors::list (fn_2)"}),
            "");
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~parking_lot::raw_mutex (fn_2)",
                     "~std::sync::mpmc::list (fn_3)"}),
            "");
}

// With optimisation of the whole program, locks are inlined in functions that wait elsewhere.
TEST(IdleInferredTest, ALockFurtherOutDoesNotMatter) {
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~crossbeam_channel::flavors::list (fn_2)",
                     "~lock_slow (fn_3)"}),
            "channel receiver");
}

TEST(IdleInferredTest, WhatIsAmbiguousIsNotIdle) {
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "prog:fn_2", "~std::sync::mpmc::list (fn_3)"}), "")
      << "a function that nothing is known of asked for the wait";
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~crossbeam_channel::flavors::array (fn_2)"}), "")
      << "it may be a sender";
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~tokio (fn_2)"}), "") << "only the crate is known";
  EXPECT_EQ(GroupOf({"~futex_wait (fn_1)", "~app::tokio::runtime::park (fn_2)"}), "");
}

TEST(IdleOfThreadTest, BackgroundThreadsAreKnownByName) {
  EXPECT_EQ(profd::IdleOfThread("op-reth", "jemalloc_bg_thd"), "jemalloc background");
  EXPECT_EQ(profd::IdleOfThread("redis-server", "bio_lazy_free"), "redis background");
  EXPECT_EQ(profd::IdleOfThread("valkey-server", "bio_aof"), "redis background");
  EXPECT_EQ(profd::IdleOfThread("redis-server", "redis-server"), "");
  EXPECT_EQ(profd::IdleOfThread("op-reth", "bio_aof"), "");
}

TEST(IdleOfWaitTest, AWaitIsJudgedByReasonStackAndThread) {
  const auto idle = [](profd::Reason reason, std::string_view stack, bool contended,
                       std::string_view task = "") {
    return profd::IdleOfWait(reason, {stack, contended, task}, "redis-server", "bio_aof",
                             profd::ObjectTurn::kUnknown);
  };
  EXPECT_EQ(idle(profd::Reason::kPoll, "", false), "waiting for work (poll)");
  EXPECT_EQ(idle(profd::Reason::kLock, "tokio worker", false), "tokio worker");
  EXPECT_EQ(idle(profd::Reason::kLock, "", false), "redis background") << "by the thread's name";
  EXPECT_EQ(idle(profd::Reason::kLock, "", true), "") << "it waits for a lock";
  EXPECT_EQ(idle(profd::Reason::kDisk, "tokio worker", false), "");
  EXPECT_EQ(idle(profd::Reason::kSleep, "", false), "sleeping");
  EXPECT_EQ(idle(profd::Reason::kSleep, "", true), "") << "between attempts to take a lock";
  EXPECT_EQ(idle(profd::Reason::kSleep, "", false, "pool job"), "") << "in the way of other tasks";
  EXPECT_EQ(idle(profd::Reason::kPoll, "", false, "async task"), "");
  EXPECT_EQ(idle(profd::Reason::kLock, "channel receiver", false, "pool job"), "channel receiver");
}

// Of user frames, innermost first.
// The functions of one stack, innermost first; those without "::" are the kernel's.
std::string_view TaskOf(const std::vector<std::string>& functions) {
  std::vector<profd::FrameText> texts;
  std::vector<uint32_t> stack;
  for (const std::string& function : functions) {
    stack.push_back(static_cast<uint32_t>(texts.size()));
    const bool kernel = function.find("::") == std::string::npos;
    texts.push_back({.function = function,
                     .module = "prog",
                     .kind = kernel ? profd::FrameKind::kKernel : profd::FrameKind::kApplication});
  }
  return profd::IdleRule(texts).TaskOf(stack);
}

TEST(IdleRuleTest, TasksAreInsideOfSchedulers) {
  const std::string worker = "tokio::runtime::scheduler::multi_thread::worker::";
  EXPECT_EQ(TaskOf({"std::thread::sleep", "node::answer::{{closure}}",
                    "tokio::runtime::task::raw::poll", worker + "Context::run_task", worker + "run",
                    "tokio::runtime::blocking::pool::Inner::run"}),
            profd::kAsyncTask);
  EXPECT_EQ(
      TaskOf({"std::thread::sleep", "node::answer::{{closure}}", "tokio::runtime::task::raw::poll",
              "tokio::runtime::scheduler::current_thread::Context::run_task"}),
      profd::kAsyncTask);
  EXPECT_EQ(TaskOf({"std::thread::sleep", "node::scan", "rayon_core::job::HeapJob<F>::execute",
                    "rayon_core::registry::WorkerThread::wait_until_cold"}),
            profd::kPoolJob);
}

TEST(IdleRuleTest, WorkersWithoutATaskAreInNone) {
  const std::string scheduler = "tokio::runtime::scheduler::multi_thread::";
  EXPECT_EQ(TaskOf({"mio::poll::Poll::poll", "tokio::runtime::io::driver::Driver::turn",
                    scheduler + "worker::Context::run"}),
            "");
  EXPECT_EQ(TaskOf({scheduler + "park::Parker::park", scheduler + "worker::Context::run"}), "");
  EXPECT_EQ(TaskOf({"node::compact", "tokio::runtime::task::raw::poll",
                    "tokio::runtime::blocking::pool::Inner::run"}),
            "")
      << "that pool is for calls that block";
  EXPECT_EQ(TaskOf({"node::main::{{closure}}", "tokio::runtime::park::CachedParkThread::block_on",
                    scheduler + "MultiThread::block_on"}),
            "");
  EXPECT_EQ(TaskOf({"rayon_core::sleep::Sleep::sleep", "rayon_core::registry::main_loop"}), "");
  EXPECT_EQ(TaskOf({"std::thread::sleep", "main"}), "");
}

TEST(IdleRuleTest, AWorkerWithoutSymbolsThatSleepsIsInATask) {
  const std::string worker = "~tokio::runtime::scheduler::multi_thread::worker (fn_4)";
  const std::string registry = "~rayon_core::registry (fn_5)";
  EXPECT_EQ(TaskOf({"hrtimer_nanosleep", "~std::sys::thread::unix (fn_1)", "~node (fn_2)", worker}),
            profd::kAsyncTask);
  EXPECT_EQ(TaskOf({"hrtimer_nanosleep", "~node (fn_2)", registry}), profd::kPoolJob);
  EXPECT_EQ(TaskOf({"ep_poll", "~tokio::runtime::io::driver (fn_3)", worker}), "");
  EXPECT_EQ(TaskOf({"futex_wait", "~rayon_core::sleep (fn_3)", registry}), "");
  EXPECT_EQ(TaskOf({"hrtimer_nanosleep", "~node (fn_2)", "~tokio::runtime::blocking::task (fn_3)",
                    worker}),
            "")
      << "that pool is for calls that block";
  EXPECT_EQ(TaskOf({"hrtimer_nanosleep", "~node (fn_2)", "~rayon_core (fn_3)"}), "")
      << "only the crate is known";
}

}  // namespace
}  // namespace profctl
