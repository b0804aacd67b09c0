#include "daemon/service/idle.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "daemon/service/lock_kind.h"
#include "daemon/symbolize/function_path.h"
#include "daemon/symbolize/inferred_names.h"

namespace profd {
namespace {

constexpr std::string_view kPollGroup = "waiting for work (poll)";
constexpr std::string_view kSleepGroup = "sleeping";
constexpr std::string_view kListeningGroup = "listening socket";
constexpr std::string_view kNoRequestGroup = "connection without a request";
constexpr std::string_view kTerminalGroup = "terminal";
constexpr std::string_view kParkedGroup = "parked thread";
constexpr std::string_view kReceiverGroup = "channel receiver";
constexpr std::string_view kJemallocGroup = "jemalloc background";
constexpr std::string_view kRedisGroup = "redis background";
constexpr std::string_view kLibuvGroup = "libuv worker";
constexpr std::string_view kGoGroup = "Go thread without work";

// What a frame says about the wait inside of it.
enum class Role {
  kDecides,      // ordinary code: it asked for the wait, which therefore matters
  kTransparent,  // carries out a wait for its caller
  kContention,   // wants a lock that another thread holds, wherever it is in the stack
  kContends,     // the same if it asked for the wait: other code may be inlined in it
  kParks,        // parks without work, unless a caller that is named below says otherwise
  kIdle,         // parks a thread without work
  kUvWait,       // libuv's condition wait; idle when its caller is the thread pool
};

// A function whose path contains `path` and whose last segment begins with `segment`.
struct Rule {
  std::string_view path;
  std::string_view segment;
  Role role;
  std::string_view group;  // the kind of idleness; of contention the kind of lock
};

// First match wins.
constexpr Rule kRules[] = {
    {"Mutex", "lock_contended", Role::kContention, kStdMutex},
    {"Mutex", "lock_slow", Role::kContention, kParkingLotMutex},
    {"RwLock", "read_contended", Role::kContention, kStdRwlockRead},
    {"RwLock", "write_contended", Role::kContention, kStdRwlockWrite},
    {"RawRwLock", "lock_", Role::kContention, kParkingLotRwlock},
    {"RawRwLock", "upgrade_slow", Role::kContention, kParkingLotRwlock},
    {"RawRwLock", "wait_for_readers", Role::kContention, kParkingLotRwlock},
    {"RawReentrantMutex", "lock", Role::kContention, kParkingLotMutex},
    {"tokio::", "blocking_lock", Role::kContention, kTokioMutex},
    {"tokio::", "blocking_read", Role::kContention, kTokioRwlock},
    {"tokio::", "blocking_write", Role::kContention, kTokioRwlock},
    {"tokio::", "blocking_send", Role::kContention, kFullChannel},
    {"lll_lock_wait", "", Role::kContention, kLibcLock},
    {"pthread_mutex_", "", Role::kContention, kPthreadMutex},
    {"pthread_rwlock_", "", Role::kContention, kPthreadRwlock},
    {"std::mutex::", "lock", Role::kContention, kPthreadMutex},
    {"absl::", "LockSlow", Role::kContention, kAbslMutex},
    {"LWLockAcquire", "", Role::kContention, kPostgresLock},
    {"runtime.lock2", "runtime.lock2", Role::kContention, kGoRuntimeLock},

    {"tokio::runtime::scheduler::multi_thread", "park", Role::kIdle, "tokio worker"},
    {"tokio::runtime::scheduler::current_thread", "park", Role::kIdle, "tokio worker"},
    {"tokio::runtime::blocking::pool::", "run", Role::kIdle, "tokio blocking pool"},
    {"tokio::runtime::park::", "park", Role::kParks, "block_on"},
    {"tokio::runtime::park::", "block_on", Role::kParks, "block_on"},
    {"tokio::runtime::", "block_on", Role::kParks, "block_on"},
    {"tokio::runtime::time::", "park", Role::kTransparent, {}},
    {"tokio::runtime::io::", "park", Role::kTransparent, {}},
    {"tokio::runtime::driver::", "park", Role::kTransparent, {}},

    {"rayon_core::sleep::", "sleep", Role::kIdle, "rayon worker"},
    {"rayon_core::registry::WorkerThread::", "wait_until", Role::kIdle, "rayon worker"},
    {"rayon_core::registry::", "main_loop", Role::kIdle, "rayon worker"},

    {"crossbeam_channel::", "recv", Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::", "run_select", Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::", "run_ready", Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::", "send", Role::kContention, kFullChannel},
    {"crossbeam_channel::context::", "", Role::kTransparent, {}},
    {"std::sync::mpmc::context::", "", Role::kTransparent, {}},
    {"std::sync::mpmc::", "recv", Role::kIdle, kReceiverGroup},
    {"std::sync::mpmc::", "send", Role::kContention, kFullChannel},
    {"std::sync::mpsc::", "recv", Role::kIdle, kReceiverGroup},
    {"std::sync::mpsc::", "send", Role::kContention, kFullChannel},
    {"flume::", "recv", Role::kIdle, kReceiverGroup},
    {"flume::", "wait_recv", Role::kIdle, kReceiverGroup},
    {"flume::", "send", Role::kContention, kFullChannel},
    {"flume::", "wait_send", Role::kContention, kFullChannel},

    // A scope parks until its threads have ended: that is a join.
    {"std::thread::scoped::", "scope", Role::kDecides, {}},
    {"std::thread::", "park", Role::kParks, kParkedGroup},
    {"crossbeam_utils::sync::parker::", "park", Role::kParks, kParkedGroup},
    {"parking::", "park", Role::kParks, kParkedGroup},

    {"rocksdb::ThreadPoolImpl::Impl::", "BGThread", Role::kIdle, "rocksdb background"},
    {"rocksdb::Timer::", "Run", Role::kIdle, "rocksdb background"},
    {"rocksdb::port::CondVar::", "", Role::kTransparent, {}},
    {"rocksdb::InstrumentedCondVar::", "", Role::kTransparent, {}},
    {"node::TaskQueue", "BlockingPop", Role::kIdle, "node platform worker"},
    {"bioProcessBackgroundJobs", "", Role::kIdle, kRedisGroup},
    {"background_thread_entry", "", Role::kIdle, kJemallocGroup},
    {"background_thread_sleep", "", Role::kIdle, kJemallocGroup},
    {"g_thread_pool_wait_for_new_task", "", Role::kIdle, "glib pool"},
    {"uv_cond_wait", "", Role::kUvWait, {}},
    {"uv_cond_timedwait", "", Role::kTransparent, {}},

    // Threads of Go. Goroutines wait without one.
    {"runtime.stopm", "runtime.stopm", Role::kParks, kGoGroup},
    {"runtime.gcstopm", "runtime.gcstopm", Role::kDecides, {}},
    {"runtime.findRunnable", "runtime.findRunnable", Role::kIdle, kGoGroup},
    {"runtime.findrunnable", "runtime.findrunnable", Role::kIdle, kGoGroup},
    {"runtime.mexit", "runtime.mexit", Role::kIdle, kGoGroup},  // the first one never ends
    {"runtime.stoplockedm", "runtime.stoplockedm", Role::kIdle, "Go thread of a parked goroutine"},
    {"runtime.templateThread", "runtime.templateThread", Role::kIdle, "Go template thread"},
    {"runtime.sysmon", "runtime.sysmon", Role::kIdle, "Go monitor"},
    {"os/signal.signal_recv", "os/signal.signal_recv", Role::kIdle, "Go signal receiver"},
    {"runtime.futex", "runtime.futex", Role::kTransparent, {}},
    {"runtime.note", "runtime.note", Role::kTransparent, {}},
    {"runtime.mPark", "runtime.mPark", Role::kTransparent, {}},

    // The primitives by which the runtimes wait.
    {"std::sys::sync::once::", "", Role::kContends, kStdOnce},
    {"pthread_cond_", "", Role::kTransparent, {}},
    {"tokio::loom::", "", Role::kTransparent, {}},
    {"parking_lot::condvar::", "", Role::kTransparent, {}},
    {"parking_lot_core::", "", Role::kTransparent, {}},
    {"std::sys::", "", Role::kTransparent, {}},
    {"std::sys_common::", "", Role::kTransparent, {}},
    {"std::sync::condvar::", "", Role::kTransparent, {}},
    {"std::sync::poison::condvar::", "", Role::kTransparent, {}},
    {"std::thread::local::", "", Role::kTransparent, {}},
    {"std::condition_variable", "", Role::kTransparent, {}},
    {"std::_V2::condition_variable", "", Role::kTransparent, {}},
    {"std::__condvar", "", Role::kTransparent, {}},
    {"core::", "", Role::kTransparent, {}},
};

// Of names that were inferred, which end with the module. A path that ends in "::" stands for all
// modules in it. Modules whose functions wait for different things are missing here, such as
// crossbeam_channel::flavors::array where its side is not known (receivers, and senders while it is
// full): their waits are not idle as far as anybody can tell.
constexpr Rule kInferredRules[] = {
    {"parking_lot::raw_mutex", {}, Role::kContends, kParkingLotMutex},
    {"parking_lot::raw_rwlock", {}, Role::kContends, kParkingLotRwlock},
    {"parking_lot::remutex", {}, Role::kContends, kParkingLotMutex},
    {"std::sys::sync::mutex::futex", {}, Role::kContends, kStdMutex},
    {"std::sys::sync::rwlock::futex", {}, Role::kContends, kStdRwlockRead},

    {"tokio::runtime::scheduler::multi_thread::park", {}, Role::kIdle, "tokio worker"},
    {"tokio::runtime::scheduler::multi_thread::worker", {}, Role::kIdle, "tokio worker"},
    {"tokio::runtime::scheduler::current_thread", {}, Role::kIdle, "tokio worker"},
    {"tokio::runtime::blocking::pool", {}, Role::kIdle, "tokio blocking pool"},
    {"tokio::runtime::park", {}, Role::kParks, "block_on"},
    {"tokio::runtime::time", {}, Role::kTransparent, {}},
    {"tokio::runtime::io::", {}, Role::kTransparent, {}},
    {"tokio::runtime::driver", {}, Role::kTransparent, {}},
    {"tokio::loom::", {}, Role::kTransparent, {}},

    {"rayon_core::sleep", {}, Role::kIdle, "rayon worker"},
    {"rayon_core::sleep::", {}, Role::kIdle, "rayon worker"},

    // Senders never wait for a channel of this kind: it is not bounded.
    {"crossbeam_channel::flavors::list", {}, Role::kIdle, kReceiverGroup},
    {"std::sync::mpmc::list", {}, Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::flavors::array::recv", {}, Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::flavors::array::send", {}, Role::kContends, kFullChannel},
    {"std::sync::mpmc::array::recv", {}, Role::kIdle, kReceiverGroup},
    {"std::sync::mpmc::array::send", {}, Role::kContends, kFullChannel},
    {"crossbeam_channel::select", {}, Role::kIdle, kReceiverGroup},
    {"crossbeam_channel::context", {}, Role::kTransparent, {}},
    {"std::sync::mpmc::context", {}, Role::kTransparent, {}},

    {"parking_lot::condvar", {}, Role::kTransparent, {}},
    {"std::sys::", {}, Role::kTransparent, {}},
    {"std::sync::poison::condvar", {}, Role::kTransparent, {}},
    {"core::", {}, Role::kTransparent, {}},
};

constexpr Rule kOrdinary = {{}, {}, Role::kDecides, {}};
constexpr Rule kContended = {{}, {}, Role::kContends, kAnyLock};
constexpr Rule kThrough = {{}, {}, Role::kTransparent, {}};

// Numbers of rules: those of kRules, of kInferredRules, and these.
constexpr uint32_t kOrdinaryRule = std::size(kRules) + std::size(kInferredRules);
constexpr uint32_t kThroughRule = kOrdinaryRule + 1;
constexpr uint32_t kContendedRule = kOrdinaryRule + 2;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// `path` of a rule must begin at a segment of the function's path, so that "core::" does not match
// "rayon_core::". Names without "::" (C, types) may lie anywhere.
bool PathMatches(std::string_view function, std::string_view path) {
  if (!Contains(path, "::")) return Contains(function, path);
  for (size_t at = function.find(path); at != std::string_view::npos;
       at = function.find(path, at + 1)) {
    if (at == 0 || (at >= 2 && function.substr(at - 2, 2) == "::")) return true;
  }
  return false;
}

// Number of the rule.
uint32_t MatchRule(std::string_view function) {
  const size_t separator = function.rfind("::");
  const std::string_view segment =
      separator == std::string_view::npos ? function : function.substr(separator + 2);
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) {
    return PathMatches(function, r.path) && segment.starts_with(r.segment);
  });
  return rule == std::end(kRules) ? kOrdinaryRule
                                  : static_cast<uint32_t>(rule - std::begin(kRules));
}

// Of a frame that may be the loop of libuv's thread pool, when uv_cond_wait is inside of it.
constexpr uint32_t kPoolOfLibuv = 1u << 31;
const Rule& RuleOf(uint32_t role) {
  const uint32_t rule = role & ~kPoolOfLibuv;
  if (rule == kOrdinaryRule) return kOrdinary;
  if (rule == kThroughRule) return kThrough;
  if (rule == kContendedRule) return kContended;
  return rule < std::size(kRules) ? kRules[rule] : kInferredRules[rule - std::size(kRules)];
}

// Number of the rule for an inferred name. What the code does counts where its module says nothing;
// only a lock counts more.
uint32_t MatchInferred(const symbolize::InferredParts& name) {
  if (name.word == symbolize::kLockSlowWord) return kContendedRule;
  const auto* rule =
      std::find_if(std::begin(kInferredRules), std::end(kInferredRules), [&](const Rule& r) {
        return r.path.ends_with("::") ? name.module.starts_with(r.path) : name.module == r.path;
      });
  if (rule != std::end(kInferredRules)) {
    return static_cast<uint32_t>(std::size(kRules) +
                                 static_cast<size_t>(rule - std::begin(kInferredRules)));
  }
  return name.word == symbolize::kFutexWaitWord ? kThroughRule : kOrdinaryRule;
}

uint32_t RoleOf(const FrameText& frame, const std::string& path) {
  uint32_t role = MatchRule(path);
  const bool libc = frame.kind == FrameKind::kLibc;
  if (libc && RuleOf(role).role != Role::kContention) role = kThroughRule;
  // Without symbols the pool's loop is known by its library: but for barriers and semaphores,
  // which are exported, nothing else in libuv waits for a condition.
  const bool pool =
      path == "worker" || (frame.module.starts_with("libuv") && !path.starts_with("uv_"));
  return pool ? role | kPoolOfLibuv : role;
}

// Where tokio and rayon wait for work or run what may wait. Workers of tokio run inside its pool
// for calls that block.
constexpr std::string_view kNoTask[] = {
    "tokio::runtime::blocking::", "tokio::runtime::park::", "tokio::runtime::driver::",
    "tokio::runtime::io::",       "tokio::runtime::time::", "rayon_core::"};

IdleRule::Worker WorkerOf(const std::string& path) {
  using Worker = IdleRule::Worker;
  if (PathMatches(path, "rayon_core::job::")) return Worker::kRunsJob;
  if (std::any_of(std::begin(kNoTask), std::end(kNoTask),
                  [&](std::string_view prefix) { return PathMatches(path, prefix); })) {
    return Worker::kIsItself;
  }
  if (!PathMatches(path, "tokio::runtime::scheduler::")) return Worker::kNothing;
  // What block_on runs is in the way of nobody else.
  const std::string_view segment = std::string_view(path).substr(path.rfind(':') + 1);
  return segment.starts_with("park") || segment.starts_with("block_on") ? Worker::kIsItself
                                                                        : Worker::kRunsTask;
}

// The same of a module that was inferred. A crate alone says too little: it may be that of code
// around.
IdleRule::Worker WorkerOfInferred(std::string_view module) {
  using Worker = IdleRule::Worker;
  if (module == "tokio::runtime::scheduler::multi_thread::worker") return Worker::kSleepsInTask;
  if (module.starts_with("tokio::runtime::blocking::")) return Worker::kIsItself;
  return module.starts_with("rayon_core::") ? Worker::kSleepsInJob : Worker::kNothing;
}

}  // namespace

IdleRule::IdleRule(std::span<const FrameText> frames) {
  roles_.reserve(frames.size());
  workers_.reserve(frames.size());
  sleeps_.reserve(frames.size());
  for (const FrameText& frame : frames) {
    Worker worker = Worker::kNothing;
    sleeps_.push_back(frame.kind == FrameKind::kKernel && Contains(frame.function, "nanosleep"));
    if (frame.kind == FrameKind::kKernel) {
      roles_.push_back(kThroughRule);
    } else if (const auto inferred = symbolize::ParseInferred(frame.function)) {
      // In a libc it is the name of a function that jumps there, as good as its own.
      const bool libc = frame.kind == FrameKind::kLibc;
      roles_.push_back(libc ? RoleOf(frame, std::string(inferred->module))
                            : MatchInferred(*inferred));
      worker = WorkerOfInferred(inferred->module);
    } else {
      const std::string path = FunctionPath(frame.function);
      roles_.push_back(RoleOf(frame, path));
      if (frame.kind != FrameKind::kLibc) worker = WorkerOf(path);
    }
    workers_.push_back(worker);
  }
}

std::string_view IdleRule::TaskOf(std::span<const uint32_t> stack) const {
  const auto worker = std::find_if(stack.begin(), stack.end(), [&](uint32_t frame) {
    return workers_[frame] != Worker::kNothing;
  });
  if (worker == stack.end()) return {};
  const bool sleeps =
      std::any_of(stack.begin(), worker, [&](uint32_t frame) { return sleeps_[frame]; });
  switch (workers_[*worker]) {
    case Worker::kRunsTask:
      return kAsyncTask;
    case Worker::kRunsJob:
      return kPoolJob;
    case Worker::kSleepsInTask:
      return sleeps ? kAsyncTask : std::string_view();
    case Worker::kSleepsInJob:
      return sleeps ? kPoolJob : std::string_view();
    case Worker::kNothing:
    case Worker::kIsItself:
      break;
  }
  return {};
}

bool IdleRule::IsContended(std::span<const uint32_t> stack) const {
  return std::any_of(stack.begin(), stack.end(), [&](uint32_t frame) {
    return RuleOf(roles_[frame]).role == Role::kContention;
  });
}

std::string_view IdleRule::LockOf(std::span<const uint32_t> stack) const {
  bool decided = false;
  std::string_view inner;
  for (const uint32_t frame : stack) {
    const Rule& rule = RuleOf(roles_[frame]);
    const bool contention = rule.role == Role::kContention;
    if (contention || (rule.role == Role::kContends && !decided)) {
      // Whose lock it is, its caller says.
      if (rule.group != kLibcLock) return rule.group;
      inner = rule.group;
      continue;
    }
    if (!inner.empty()) return inner;
    decided = decided || rule.role != Role::kTransparent;
  }
  return inner;
}

std::string_view IdleRule::OfStack(std::span<const uint32_t> stack) const {
  if (IsContended(stack)) return {};
  std::string_view parked;
  bool uv_wait = false;
  for (const uint32_t frame : stack) {
    const uint32_t role = roles_[frame];
    if (uv_wait && (role & kPoolOfLibuv) != 0) return kLibuvGroup;
    const Rule& rule = RuleOf(role);
    switch (rule.role) {
      case Role::kTransparent:
      case Role::kContention:
        break;
      case Role::kUvWait:
        uv_wait = true;
        break;
      case Role::kParks:
        if (parked.empty()) parked = rule.group;
        break;
      case Role::kIdle:
        return rule.group;
      case Role::kContends:
        return {};
      case Role::kDecides:
        return &rule == &kOrdinary ? parked : std::string_view();
    }
  }
  return parked;
}

std::string_view IdleOfThread(std::string_view process, std::string_view thread) {
  if (thread == "jemalloc_bg_thd") return kJemallocGroup;
  const bool redis = process.starts_with("redis-") || process.starts_with("valkey-");
  return redis && thread.starts_with("bio_") ? kRedisGroup : std::string_view();
}

std::string_view IdleKind(Reason reason, std::string_view of_stack) {
  switch (reason) {
    case Reason::kPoll:
      return kPollGroup;
    case Reason::kSleep:
      return kSleepGroup;
    case Reason::kLock:
    case Reason::kOther:
      return of_stack;
    case Reason::kRunQueue:
    case Reason::kReclaim:
    case Reason::kFault:
    case Reason::kFsync:
    case Reason::kDisk:
    case Reason::kNet:
    case Reason::kPipe:
    case Reason::kChild:
    case Reason::kSignal:
    case Reason::kStopped:
    case Reason::kTraced:
    case Reason::kFrozen:
      break;
  }
  return {};
}

std::string_view IdleOfWait(Reason reason, const StackIdleness& of_stack, std::string_view process,
                            std::string_view thread, ObjectTurn turn) {
  if (of_stack.contended) return {};
  if (!of_stack.task.empty() && (reason == Reason::kSleep || reason == Reason::kPoll)) return {};
  if (reason != Reason::kRunQueue && of_stack.task.empty()) {
    switch (turn) {
      case ObjectTurn::kUnknown:
        break;
      case ObjectTurn::kOfPeer:
        return {};
      case ObjectTurn::kListens:
        return kListeningGroup;
      case ObjectTurn::kNoRequest:
        return kNoRequestGroup;
      case ObjectTurn::kTimer:
        return kSleepGroup;
      case ObjectTurn::kEvents:
        return kPollGroup;
      case ObjectTurn::kTerminal:
        return kTerminalGroup;
    }
  }
  return IdleKind(reason, of_stack.kind.empty() ? IdleOfThread(process, thread) : of_stack.kind);
}

}  // namespace profd
