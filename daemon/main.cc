// profd: builds the components and waits for signals.
#include <grpc/grpc.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/cpu_use.h"
#include "daemon/base/log.h"
#include "daemon/base/program_pages.h"
#include "daemon/base/spare_threads.h"
#include "daemon/base/status.h"
#include "daemon/collect/collector.h"
#include "daemon/config/options.h"
#include "daemon/config/privileges.h"
#include "daemon/config/time_namespace.h"
#include "daemon/kernel/cpu_clock.h"
#include "daemon/kernel/kernel.h"
#include "daemon/lines/launcher.h"
#include "daemon/lines/line_reader.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/service/listen.h"
#include "daemon/store/memory_store.h"
#include "daemon/symbolize/kernel_image.h"

namespace profd {
namespace {

int Fail(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "profd: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

std::string Count(size_t n, const char* what, const char* plural) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : plural);
}

std::string Describe(const Options& options, const Collector& collector) {
  const CollectorState state = collector.State();
  std::vector<std::string> targets;
  targets.reserve(state.targets.size());
  for (const TargetState& target : state.targets) {
    targets.push_back(absl::StrCat(target.selector, " (",
                                   Count(target.pids.size(), "process", "es"), ", ",
                                   Count(target.threads, "thread", "s"), ")"));
  }
  std::string line = absl::StrCat("attached to ", absl::StrJoin(targets, ", "), "; layers");
  for (const LayerState& layer : state.layers) {
    if (layer.on) absl::StrAppend(&line, " ", layer.name);
  }
  absl::StrAppend(
      &line, state.paused ? "; paused" : "", "; listening on ", options.listen,
      collector.knew_files() ? "" : "; some unwind rules or probes are still to come",
      "; missing: ", state.missing.empty() ? "nothing" : absl::StrJoin(state.missing, "; "));
  return line;
}

// Drops the capabilities that these options do not need.
absl::Status DropUnneeded(const Options& options, bool admin_for_probes) {
  RETURN_IF_ERROR(DropPrivileges(true));
  const bool takes_admin =
      admin_for_probes || (options.cpu_interval_ns > 0 && CpuClockTakesAdmin());
  return takes_admin ? absl::OkStatus() : DropPrivileges(false);
}

// If the kernel refuses gRPC a thread, its timers and connections stop, and its shutdown never
// ends. Where CPUs are overloaded it takes many seconds.
constexpr unsigned kShutdownSeconds = 60;
// gRPC starts a thread now and then, and seldom two at a time.
constexpr size_t kSpareThreads = 8;
constexpr timespec kBeginPoll = {.tv_sec = 0, .tv_nsec = 10'000'000};
// The program takes some 20 MiB after the start, half of which is not used again.
constexpr timespec kProgramPagesInterval = {.tv_sec = 60, .tv_nsec = 0};

void EndNow(int /*signal*/) {
  constexpr char kText[] = "profd: ended without waiting for calls that did not finish\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(1);
}

void KeepProgramSmall() {
  const absl::StatusOr<size_t> bytes = UnmapProgramPages();
  if (!bytes.ok()) LogDebug("program pages: ", bytes.status().ToString());
}

// The next of `signals`. Says what profd attached to, once ticks have begun.
int NextSignal(const sigset_t& signals, const Options& options, const Collector& collector,
               bool* said) {
  int received = 0;
  while (!*said) {
    if (collector.has_begun()) {
      std::fprintf(stderr, "profd: %s\n", Describe(options, collector).c_str());
      *said = true;
      KeepProgramSmall();
    } else if (received = sigtimedwait(&signals, nullptr, &kBeginPoll); received > 0) {
      return received;
    }
  }
  while ((received = sigtimedwait(&signals, nullptr, &kProgramPagesInterval)) < 0) {
    if (errno == EAGAIN) KeepProgramSmall();
  }
  return received;
}

int Main(int argc, char** argv) {
  const auto [options, exit_code] = ParseOptions(argc, argv);
  if (exit_code) return *exit_code;
  StartLog(options.log_level);

  EngineOptions collecting;
  SourceOptions& sources = collecting.sources;
  for (const std::string& text : options.targets) {
    auto selector = Selector::Parse(text);
    if (!selector.ok()) return Fail(selector.status(), 2);
    collecting.selectors.push_back(*std::move(selector));
  }
  if (const auto address = ParseListenAddress(options.listen); !address.ok()) {
    return Fail(address.status(), 2);
  }
  if (const absl::Status status = CheckTimeNamespace(); !status.ok()) return Fail(status, 1);
  sources.limits = options.limits;
  sources.tick_interval_ns = options.tick_ns;
  sources.books = options.books;
  sources.per_switch = options.per_switch;
  sources.tick = options.tick;
  sources.heap = options.heap;
  sources.faults = options.faults;
  sources.mappings = options.mappings;
  sources.wakers = options.wakers;
  sources.switch_stacks = options.switch_stacks;
  sources.cpu = {.interval_ns = options.cpu_interval_ns};
  sources.disk = options.disk;
  sources.bursts = {.length_ns = options.burst_ns, .interval_ns = options.burst_interval_ns};
  sources.budget = options.budget;
  const bool puts_probes = options.heap || options.mappings || options.burst_interval_ns > 0;
  const bool admin_for_probes = puts_probes && !HasMultiProbes();
  collecting.missing = MissingFeatures(admin_for_probes);

  // Blocked before any thread starts, so that only NextSignal sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Distributions build absl with its search for deadlocks on: it costs time at each lock, and a
  // suspicion, also one about gRPC's locks, would end the process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The parent may have ignored it; then we could not wait for our own children.
  signal(SIGCHLD, SIG_DFL);
  RaiseFileLimit();
  // Only two of the dozen threads work at a time. With one arena each, unused memory would be a
  // quarter of the total when thousands of threads are watched.
  mallopt(M_ARENA_MAX, 2);
  // Large tables of a drain or an answer go back to the kernel with their last use. By itself glibc
  // learns from the first of them to keep up to 32 MiB.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  // Before the first thread, because capabilities are per thread.
  if (const absl::Status status = DropUnneeded(options, admin_for_probes); !status.ok()) {
    return Fail(status, 1);
  }

  CpuUse cpu_use;
  // While this process is small and has one thread.
  absl::StatusOr<LineLauncher> line_launcher = LineLauncher::Start(WorkerLimits());
  if (!line_launcher.ok()) LogWarning(line_launcher.status().ToString());
  if (const absl::Status spare = ReserveThreads(kSpareThreads); !spare.ok()) {
    LogWarning(spare.message(),
               "; if the kernel refuses threads to the RPC library, its answers may stop");
  }
  LineReader lines(line_launcher.ok() ? std::optional(*std::move(line_launcher)) : std::nullopt,
                   &cpu_use.lines);
  MemoryStore store({.max_bytes = options.limits.store, .boot = symbolize::ReadBootIdentity()});
  MemoryWatch memory(&cpu_use, {.timeline_bytes = options.limits.timeline});
  auto collector = Collector::Create(std::move(collecting), &store, &memory, &cpu_use);
  if (!collector.ok()) return Fail(collector.status(), 1);
  store.IdentifyModulesBy([modules = &(*collector)->modules()](ModuleId id) {
    const std::optional<ModuleFile> file = modules->Find(id);
    return file ? std::make_shared<const ModuleIdentity>(file->identity) : nullptr;
  });
  // One user more than there is, so that none is the last. Whoever is waits for the library's
  // threads, one of which may sleep for 10 s after a connection was slow. main() ends them.
  grpc_init();
  auto server = StartServer(options.listen, {.store = &store,
                                             .collector = collector->get(),
                                             .modules = &(*collector)->modules(),
                                             .memory = &memory,
                                             .cpu_use = &cpu_use,
                                             .kernel_files = {.lasting = (*collector)->OwnCode()},
                                             .debug_directories = options.debug_directories,
                                             .lines = &lines});
  if (!server.ok()) return Fail(server.status(), 1);

  if (const size_t used = UsedSpareThreads(); used > 0) {
    LogWarning("the kernel refused ", used,
               " of profd's threads, and spare ones run in their place; raise the limit on "
               "processes and threads (ulimit -u, pids.max)");
  }
  std::fprintf(stderr, "profd: ready\n");
  (*server)->Prepare();
  int received = 0;
  bool said = false;
  while (true) {
    received = NextSignal(signals, options, **collector, &said);
    if (received != SIGUSR1 && received != SIGUSR2) break;
    const absl::Status status = (*collector)->SetPaused(received == SIGUSR1);
    if (!status.ok()) LogError("cannot pause or resume: ", status.message());
  }
  LogInfo("stopping on signal ", received);
  signal(SIGALRM, EndNow);
  alarm(kShutdownSeconds);
  (*collector)->BeginNow();  // calls may wait for that
  (*server)->Shutdown();
  alarm(0);
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  int code = 1;
  try {
    code = profd::Main(argc, argv);
  } catch (const std::system_error& error) {
    // profd starts all of its threads at startup.
    std::fprintf(stderr,
                 "profd: cannot start: %s; raise the limit on processes and threads "
                 "(ulimit -u, pids.max)\n",
                 error.what());
  }
  std::cout.flush();
  std::fflush(nullptr);
  // Without the destructors of globals: the RPC library's threads may still use them.
  _exit(code);
}
