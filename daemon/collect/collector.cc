#include "daemon/collect/collector.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/collect/decode.h"
#include "daemon/collect/switch_entry.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Shorter than the store's grace for stacks that nothing names: they are sent again in time.
constexpr int64_t kTrimInterval = 120 * kSecond;
// Names of threads at rest can be changed by others.
constexpr int64_t kWholeReadingInterval = 120 * kSecond;
constexpr int64_t kRescanInterval = 30 * kSecond;
constexpr int64_t kPollInterval = kSecond / 10;
constexpr int64_t kRulesAtStart = 20 * kSecond;
constexpr int64_t kMapCallsAtStart = kSecond;
// The kernel is asked about each map.
constexpr int64_t kMapBytesInterval = 5 * kSecond;
// How often the accounts of a drain are read at most, and by how much longer than others a reading
// may take.
constexpr int kMostReadings = 3;
constexpr double kReadingNs = 100'000;
constexpr double kSlowReading = 1.25;
// By how much what counts as quick may grow from one reading to the next, beside that.
constexpr double kSlowerReading = 1.125;
// Work of a reading, in threads that it leaves out: that which is always the same, and a record.
constexpr double kUnitsPerReading = 300;
constexpr double kUnitsPerRecord = 4;
constexpr int kTickNice = -11;
// A fetch drains between seconds; the governor judges by whole ones.
constexpr int64_t kGovernorInterval = kSecond * 9 / 10;
// A load that begins suddenly is answered at once when it costs more than so many seconds' budget.
constexpr double kOverrun = 2;
constexpr int64_t kLeastGoverned = kSecond / 10;
// Share of the counters that new walks may take where drains are rare: a drain comes before.
constexpr uint64_t kWalksShare = 4;
// Share of the bytes whose events are seen, below which it is said; and of how many bytes at least.
constexpr double kCovered = 0.98;
constexpr double kCoverageMatters = 1 << 20;
constexpr char kShedNote[] = "shed by the governor, to keep the budget";
constexpr char kPausedNote[] = "paused; SIGUSR2 to profd resumes";
constexpr absl::Duration kDrainTimeout = absl::Seconds(10);

// Events of an allocator run through code that was not found.
bool IsShort(const AllocatorTotals& totals) {
  const auto seen = static_cast<double>(totals.allocated.seen_bytes) +
                    static_cast<double>(totals.freed.seen_bytes);
  const double unseen = static_cast<double>(totals.allocated.unseen_bytes) +
                        static_cast<double>(totals.freed.unseen_bytes);
  return seen + unseen >= kCoverageMatters && seen < kCovered * (seen + unseen);
}

// For a person, where a part of the bytes has no stacks; empty where nearly all have.
std::string CoverageNote(const AllocatorUse& use) {
  if (use.state.slow_paths) {
    return "some events run through code that was not found, which a linker made: its slow path is "
           "watched as well and tells of them a little later; totals are exact";
  }
  if (!IsShort(use.totals)) return "";
  return "stacks stand for a part of the bytes only: other events run through code that was not "
         "found, "
         "which a linker made; totals are exact; keep the module's symbols, so that its slow path "
         "can "
         "be watched";
}

// For a person, where sampled objects were not counted, or are still counted; else empty.
std::string LiveNote(uint64_t still_counted, uint64_t not_counted) {
  if (still_counted == 0 && not_counted == 0) return "";
  return absl::StrCat("of the sampled objects of all processes, ", not_counted,
                      " were not counted, and ", still_counted, " are counted that are gone");
}

}  // namespace

Collector::Collector(CollectorOptions options, Store* store, MemoryWatch* memory, CpuUse* cpu_use)
    : options_(std::move(options)),
      store_(store),
      memory_(memory),
      cpu_use_(cpu_use),
      visits_(std::random_device{}()),
      // Without the books nothing would tell how long threads ran while the layer is shed.
      switch_source_(options_.per_switch && options_.books),
      tick_source_(options_.tick_interval_ns),
      heap_source_(options_.budgets.target),
      burst_source_(options_.bursts),
      heap_slices_(std::random_device{}()),
      governor_(options_.budgets),
      accounts_(options_.books) {
  governor_.AddSource(&drain_source_, DrainSource::kPart);
  if (options_.tick) governor_.AddSource(&tick_source_);
}

absl::StatusOr<std::unique_ptr<Collector>> Collector::Create(CollectorOptions options, Store* store,
                                                             MemoryWatch* memory, CpuUse* cpu_use) {
  std::unique_ptr<Collector> collector(new Collector(std::move(options), store, memory, cpu_use));
  RETURN_IF_ERROR(collector->Init());
  return collector;
}

absl::Status Collector::Init() {
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.ok()) return ErrnoStatus("eventfd", errno);
  const bool everything = options_.selectors.empty();
  ASSIGN_OR_RETURN(kernel_, Kernel::Create({.switch_layer = options_.per_switch,
                                            .heap_layer = options_.heap,
                                            .fault_layer = options_.faults,
                                            .map_layer = options_.mappings,
                                            .malloc_layer = options_.bursts.interval_ns > 0,
                                            .default_target = everything ? kEveryProcess : 0,
                                            .limits = options_.limits}));
  tick_source_.SetByList(kernel_->ticks_by_list());
  if (options_.heap) governor_.AddSource(&heap_source_);
  if (options_.faults) governor_.AddSource(&fault_source_);
  if (kernel_->has_map_layer()) governor_.AddSource(&map_source_);
  if (options_.bursts.interval_ns > 0) governor_.AddSource(&burst_source_);
  if (kernel_->has_switch_layer()) {
    governor_.AddSource(&switch_source_);
    RETURN_IF_ERROR(MeasureSwitchEntry());
  }
  modules_ =
      std::make_unique<Modules>(kernel_.get(), cpu_use_, options_.limits.rules, options_.heap,
                                kernel_->has_map_layer(), options_.bursts.interval_ns > 0);
  if (options_.bursts.interval_ns > 0) {
    bursts_ = std::make_unique<MallocBursts>(kernel_.get(), modules_.get(), options_.bursts,
                                             std::random_device{}());
  }
  if (options_.heap || kernel_->has_map_layer()) {
    heap_probes_ = std::make_unique<HeapProbes>(kernel_.get(), modules_.get());
  }
  targets_ = std::make_unique<Targets>(kernel_.get(), options_.selectors);
  RETURN_IF_ERROR(targets_->MarkRunning());

  // The first drain opens the accounts; what the targets run is known before the first tick.
  last_drain_ns_ = MonotonicNs();
  ReadAccounts();
  RETURN_IF_ERROR(kernel_->AnnounceMappings());
  PollEvents();
  modules_->WaitIdle(MonotonicNs() + kRulesAtStart);
  FollowProcesses();
  LookIfWanted();
  if (heap_probes_) {
    const int64_t now = MonotonicNs();
    heap_probes_->WaitIdle(now + kRulesAtStart, now + kMapCallsAtStart);
  }
  // Late: from here on the ring is read often.
  if (options_.faults) RETURN_IF_ERROR(StartFaults());

  {
    absl::MutexLock lock(&mutex_);
    state_.started_wall_ns = WallNs();
    state_.missing = options_.missing;
  }
  // What lies before the first tick is a delta of its own, without the tick layer.
  RETURN_IF_ERROR(Drain());
  GovernFromHere();
  if (options_.tick) {
    schedule_ = std::make_unique<TickSchedule>(options_.tick_interval_ns, MonotonicNs(),
                                               std::random_device{}());
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

Collector::~Collector() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
}

absl::Status Collector::DrainNow() {
  uint64_t mine = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the collector is stopping");
    mine = ++drains_asked_;
  }
  return Await(mine);
}

absl::Status Collector::SetPaused(bool paused) {
  uint64_t mine = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the collector is stopping");
    pause_wanted_ = paused;
    mine = ++drains_asked_;
  }
  return Await(mine);
}

absl::Status Collector::Await(uint64_t asked) {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  const auto done = [this, asked]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || drains_done_ >= asked;
  };
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done), kDrainTimeout)) {
    return absl::DeadlineExceededError("the collector did not drain in time");
  }
  if (drains_done_ < asked) return absl::UnavailableError("the collector is stopping");
  return drain_status_;
}

CollectorState Collector::State() const {
  CollectorState state;
  {
    absl::MutexLock lock(&mutex_);
    state = state_;
  }
  state.modules = modules_->States();
  return state;
}

void Collector::Run() {
  // A late tick is late when the machine is busy, which is when the target's state is special.
  if (setpriority(PRIO_PROCESS, 0, kTickNice) != 0) {
    spdlog::warn(
        "ticks may come late on a busy machine: cannot raise priority ({}); needs "
        "CAP_SYS_NICE",
        std::strerror(errno));
  }
  int64_t next_drain = MonotonicNs() + drain_source_.IntervalAt(drain_source_.level());
  while (true) {
    charged_cpu_ns_ = ThreadCpuNs();
    int64_t wake_at = std::min({next_drain, heap_slices_.next_ns(), polled_ns_ + kSecond});
    if (schedule_) wake_at = std::min(wake_at, schedule_->next_ns());
    const int64_t wait = std::max<int64_t>(0, wake_at - MonotonicNs());
    const timespec timeout{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    pollfd waiting{.fd = wake_.get(), .events = POLLIN, .revents = 0};
    uint64_t asked = 0;
    bool pause = false;
    if (ppoll(&waiting, 1, paused_ ? nullptr : &timeout, nullptr) > 0) {
      uint64_t count = 0;
      (void)!read(wake_.get(), &count, sizeof(count));
    }
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      asked = drains_asked_ != drains_done_ ? drains_asked_ : 0;
      pause = pause_wanted_;
    }
    if (!paused_ && schedule_ && MonotonicNs() >= schedule_->next_ns()) Tick();
    // The ring is read once a second at least, however long it is to the next tick or drain; with
    // ticks soon, for probes of new processes to stand soon.
    if (!paused_ && MonotonicNs() >= polled_ns_ + kPollInterval) PollEvents();
    if (!paused_) LookEarly();
    if (!paused_) TurnHeap();
    if (heap_probes_) heap_probes_->JudgePlaces();
    const bool overrun = !paused_ && IsOverrun();
    // Each drain takes one burst: where they are many it comes more often.
    const bool behind = !paused_ && ((bursts_ && bursts_->pending() > 1) || IsFilling());
    if (asked != 0 || overrun || behind || (!paused_ && MonotonicNs() >= next_drain)) {
      absl::Status status = Drain(overrun);
      if (pause != paused_) status.Update(Pause(pause));
      if (!status.ok()) {
        ++drain_failures_;
        spdlog::error("drain failed: {}", status.ToString());
      }
      next_drain = MonotonicNs() + drain_source_.IntervalAt(drain_source_.level());
      absl::MutexLock lock(&mutex_);
      if (asked != 0) {
        drains_done_ = asked;
        drain_status_ = status;
      }
    }
  }
}

// Right after a drain, so that what comes from here on is a delta of its own.
absl::Status Collector::Pause(bool paused) {
  paused_ = paused;
  memory_->SetOn(!paused);
  if (heap_probes_) heap_probes_->SetOn(!paused);
  if (bursts_) bursts_->SetOn(!paused);
  if (paused) RETURN_IF_ERROR(kernel_->SetFaults(0));
  if (paused) RETURN_IF_ERROR(kernel_->SetSwitchLayer(false));
  if (!paused) {
    if (schedule_) schedule_->Resume(MonotonicNs());
    // A pause is no load to judge by.
    GovernFromHere();
    Obey();
  }
  spdlog::info(paused ? "paused" : "resumed");
  Publish(last_);
  return absl::OkStatus();
}

void Collector::ChargeCpu(int64_t* sum) {
  const int64_t cpu = ThreadCpuNs();
  *sum += cpu - charged_cpu_ns_;
  charged_cpu_ns_ = cpu;
}

void Collector::Tick() {
  const absl::Status status = kernel_->ticks_by_list()
                                  ? VisitThreads()
                                  : kernel_->Tick(schedule_->interval_ns(), schedule_->next_ns());
  if (!status.ok()) spdlog::error("tick failed: {}", status.ToString());
  ++ticks_;
  PollEvents();
  schedule_->Advance(MonotonicNs());
  ChargeCpu(&tick_cpu_ns_);
}

absl::Status Collector::VisitThreads() {
  // Threads that were born since the last tick are visited by this one.
  PollEvents();
  const std::span<profd_visit> visits = visits_.Next(schedule_->interval_ns());
  const absl::Status status = kernel_->TickListed(visits, schedule_->next_ns());
  visits_.Learn();
  return status;
}

void Collector::PollEvents() {
  polled_ns_ = MonotonicNs();
  const absl::Status status =
      kernel_->PollEvents([this](std::span<const uint8_t> bytes) { OnRecord(bytes); });
  if (!status.ok()) spdlog::error("{}", status.ToString());
}

void Collector::OnRecord(std::span<const uint8_t> bytes) {
  absl::StatusOr<Record> record = DecodeRecord(bytes);
  if (!record.ok()) {
    if (bad_records_++ == 0) spdlog::error("bad record: {}", record.status().ToString());
    return;
  }
  if (auto* stack = std::get_if<StackTrace>(&*record)) {
    stacks_.push_back(std::move(*stack));
  } else if (const auto* thread = std::get_if<profd_thread_record>(&*record)) {
    accounts_.Apply(*thread);
  } else if (const auto* born = std::get_if<profd_born_record>(&*record)) {
    visits_.Add(ThreadId{born->thread_id}, born->kernel_tid);
  } else if (const auto* heap = std::get_if<profd_heap_record>(&*record)) {
    OnHeap(*heap);
  } else if (const auto* told = std::get_if<profd_told_record>(&*record)) {
    if (!heap_probes_) return;
    const auto source =
        heap_probes_->OnTold({told->pid, ModuleId{static_cast<uint16_t>(told->module_id)}});
    if (source) told_heap_.Apply(*told, *source);
  } else if (const auto* live = std::get_if<profd_live_heap_record>(&*record)) {
    OnLiveObject(*live);
  } else if (const auto* watched = std::get_if<profd_watched_record>(&*record)) {
    const ModuleId id{static_cast<uint16_t>(watched->module_id)};
    if (heap_probes_) heap_probes_->OnMapped(watched->pid, id);
    if (bursts_ && modules_->GlibcIn(id)) bursts_->OnMapped(watched->pid, id);
  } else if (const auto* page = std::get_if<profd_page_record>(&*record)) {
    if (resident_pages_) resident_pages_->OnTouched(*page);
  } else if (const auto* module = std::get_if<profd_module_record>(&*record)) {
    modules_->OnAnnounced(*module);
  } else if (const auto* exec = std::get_if<profd_exec_record>(&*record)) {
    if (heap_probes_) heap_probes_->OnExec(exec->pid);
    execed_.insert(exec->pid);
    if (bursts_) bursts_->OnExec(exec->pid);
    if (resident_pages_) resident_pages_->OnExec(exec->pid);
    live_heap_.OnExec(exec->pid, MonotonicNs());
    told_heap_.OnExec(exec->pid, MonotonicNs());
    if (exec->target_id != 0 || (!targets_->everything() && targets_->OnExec(exec->pid))) {
      looks_.OnExec(MonotonicNs());
    }
  }
}

void Collector::OnLiveObject(const profd_live_heap_record& record) {
  if (!heap_probes_) return;
  const auto source =
      heap_probes_->LiveSourceOf({record.pid, ModuleId{static_cast<uint16_t>(record.module_id)}});
  if (source) live_heap_.Apply(record, *source, WallOffsetNs());
}

// What is told of by the process itself is not counted from the allocator's books as well.
void Collector::OnHeap(const profd_heap_record& record) {
  const int32_t pid = accounts_.ProcessOf(ThreadId{record.thread_id});
  heap_accounts_.Apply(record, !heap_probes_ || !heap_probes_->HasTold(pid));
  heap_growth_[pid].all_known |= record.none_ended != 0;
}

int64_t Collector::ReadAccounts() {
  int64_t end = 0;
  // Accounts are totals: read once more they are those of a later instant. What is read in one go
  // is of one instant, and one that this thread, or its CPU, was kept from is not.
  for (int reading = 0; reading < kMostReadings; ++reading) {
    int64_t begin = MonotonicNs();
    double units = ReadAccountsOnce();
    if (units > 0 && read_all_) {
      // Someone who was thought to wait is gone.
      PollEvents();
      begin = MonotonicNs();
      units = ReadAccountsOnce();
    }
    end = MonotonicNs();
    if (units == 0) break;
    const auto took = static_cast<double>(end - begin);
    const double slower = quick_unit_ns_ * kSlowerReading + kReadingNs / units;
    quick_unit_ns_ = quick_unit_ns_ == 0 ? took / units : std::min(took / units, slower);
    if (took <= quick_unit_ns_ * units * kSlowReading + kReadingNs) break;
  }
  return end;
}

double Collector::ReadAccountsOnce() {
  const int64_t now = MonotonicNs();
  const bool due = now >= next_whole_reading_ns_;
  const bool all = std::exchange(read_all_, false) || due;
  if (all) next_whole_reading_ns_ = now + kWholeReadingInterval;
  drained_.whole |= due;
  int64_t written = 0;
  accounts_.BeginReading();
  const absl::StatusOr<LeftOut> left_out = kernel_->DrainThreads(
      [&](std::span<const uint8_t> bytes) {
        if (auto record = DecodeRecord(bytes); record.ok()) {
          if (const auto* thread = std::get_if<profd_thread_record>(&*record)) {
            accounts_.Apply(*thread);
            visits_.Add(ThreadId{thread->thread_id}, thread->kernel_tid);
            ++written;
          }
        }
      },
      all);
  if (!Expect(left_out.status())) {
    read_all_ = true;
    return 0;
  }
  read_all_ = !accounts_.EndReading(*left_out, all) && !all;
  return kUnitsPerReading + kUnitsPerRecord * static_cast<double>(written) +
         static_cast<double>(left_out->threads);
}

void Collector::ReadHeap() {
  // Nobody has had an event before the first probe stands.
  if (!heap_probes_ || (looks_.found().allocators == 0 && heap_accounts_.events() == 0)) return;
  const absl::Status status = kernel_->DrainHeap(
      [&](std::span<const uint8_t> bytes) {
        if (auto record = DecodeRecord(bytes); record.ok()) {
          if (const auto* heap = std::get_if<profd_heap_record>(&*record)) OnHeap(*heap);
        }
      },
      read_whole_heap_);
  read_whole_heap_ = !Expect(status);
}

void Collector::AddSamples(const absl::StatusOr<std::vector<CounterEntry>>& counters,
                           ProfileDelta& delta) {
  if (!Expect(counters.status())) return;
  delta.samples.reserve(delta.samples.size() + counters->size());
  for (const auto& [key, value] : *counters) {
    const Reason reason = key.reason < kReasonCount ? Reason{key.reason} : Reason::kOther;
    const Kind kind = key.kind < kKindCount ? Kind{key.kind} : Kind::kWait;
    delta.samples.push_back({.key = {.thread = ThreadId{key.thread_id},
                                     .stack = StackId{key.stack},
                                     .argument = key.arg0,
                                     .syscall = key.sysno,
                                     .reason = reason,
                                     .kind = kind},
                             .weight = static_cast<int64_t>(value.weight),
                             .ticks = static_cast<int64_t>(value.count)});
  }
}

void Collector::SumHeap(const std::vector<ThreadLedger>& ledgers) {
  for (const ThreadLedger& ledger : ledgers) {
    HeapGrowth& sum = heap_growth_[accounts_.ProcessOf(ledger.thread)];
    sum.allocated = WrappingAdd(sum.allocated, ledger.delta.allocated.bytes);
    sum.freed = WrappingAdd(sum.freed, ledger.delta.freed.bytes);
  }
  const HeapAccounts::Unseen unseen = heap_accounts_.TakeUnseen();
  for (const auto& [thread, bytes] : unseen.before) {
    HeapGrowth& sum = heap_growth_[accounts_.ProcessOf(thread)];
    sum.before = WrappingAdd(sum.before, bytes);
  }
  for (const ThreadId thread : unseen.quiet) ++heap_growth_[accounts_.ProcessOf(thread)].quiet;
  for (const ThreadId thread : unseen.lost) heap_growth_[accounts_.ProcessOf(thread)].lost = true;
  std::set<int32_t> unread;
  for (const ThreadId thread : heap_accounts_.unread()) unread.insert(accounts_.ProcessOf(thread));
  for (const auto& [pid, growth] : std::exchange(heap_growth_, {})) {
    if (pid > 0) memory_->AddHeap(pid, growth);  // else not visible in our PID namespace
  }
  memory_->SetUnread(std::move(unread));
  // What was told in this drain is of the program before.
  for (const int32_t pid : std::exchange(execed_, {})) memory_->OnExec(pid);
}

void Collector::FollowProcesses() {
  std::set<int32_t> processes;
  for (const Accounts::TargetThreads& entry : accounts_.ByTarget()) {
    if (entry.pid > 0) processes.insert(entry.pid);
  }
  memory_->KeepOnly(processes);
  if (!heap_probes_ && !bursts_) return;
  const bool more =
      !std::includes(processes_.begin(), processes_.end(), processes.begin(), processes.end());
  looks_.OnDrain(FindModules(), more, last_drain_ns_);
  processes_ = std::move(processes);
  if (heap_probes_) {
    heap_probes_->KeepOnly(processes_);
    live_heap_.KeepOnly(heap_probes_->LiveSources());
    told_heap_.KeepOnly(heap_probes_->ToldSources());
  }
  if (resident_pages_) resident_pages_->KeepOnly(processes_);
  if (bursts_) bursts_->KeepOnly(processes_);
}

FoundModules Collector::FindModules() const {
  return {.allocators = modules_->allocators(),
          .libcs = modules_->libcs(),
          .glibcs = modules_->glibcs()};
}

void Collector::LookEarly() {
  const int64_t now = MonotonicNs();
  if (!heap_probes_ && !bursts_) return;
  if (!looks_.IsEarlyDue(FindModules(), modules_->IsReading(), now)) return;
  charged_cpu_ns_ = ThreadCpuNs();
  const int64_t before = look_cpu_ns_;
  const bool ok = Expect(kernel_->AnnounceMappings());
  // Here probes come to stand.
  PollEvents();
  ChargeCpu(&look_cpu_ns_);
  // The memory maps that are looked at may be locked.
  looks_.LookedEarly(ok, now, std::max(look_cpu_ns_ - before, MonotonicNs() - now));
}

void Collector::LookIfWanted() {
  if (!looks_.wanted()) return;
  looks_.Looked(Expect(kernel_->AnnounceMappings()), last_drain_ns_);
  PollEvents();
}

bool Collector::Expect(const absl::Status& status) {
  if (status.ok()) return true;
  ++drain_failures_;
  spdlog::error("drain: {}", status.ToString());
  return false;
}

absl::Status Collector::MeasureSwitchEntry() {
  constexpr int kTurns = 4;  // few: each patches the code of the scheduler
  std::vector<double> with, without;
  for (int turn = 0; turn < kTurns; ++turn) {
    RETURN_IF_ERROR(kernel_->SetSwitchLayer(false));
    MeasureSwitches(&without);
    RETURN_IF_ERROR(kernel_->SetSwitchLayer(true));
    MeasureSwitches(&with);
  }
  // What comes in between makes rounds slow: a fast one tells, but not the very fastest.
  const auto quartile = [](std::vector<double>& rounds) {
    if (rounds.empty()) return 0.0;
    const auto place = rounds.begin() + static_cast<ptrdiff_t>(rounds.size() / 4);
    std::nth_element(rounds.begin(), place, rounds.end());
    return *place;
  };
  switch_source_.SetEntry(std::max(0.0, quartile(with) - quartile(without)));
  return absl::OkStatus();
}

absl::Status Collector::StartFaults() {
  auto pages = std::make_unique<ResidentPages>(kernel_->fault_seed(), cpu_use_);
  const double without = ResidentPages::MeasureTouch();
  if (const absl::Status status = kernel_->SetFaults(fault_source_.OneInAt(0)); !status.ok()) {
    if (!absl::IsPermissionDenied(status)) return status;
    about_faults_ = std::string(status.message());
    return absl::OkStatus();
  }
  fault_trap_ns_ = std::max(0.0, ResidentPages::MeasureTouch() - without);
  pages->SetOneIn(fault_source_.OneInAt(0));
  resident_pages_ = std::move(pages);
  return absl::OkStatus();
}

int64_t Collector::InPathNs() const {
  double ns = switch_source_.InPathNs(kernel_->SwitchCost());
  if (heap_probes_) ns += HeapSource::InPathNs(kernel_->HeapCost(), heap_probes_->traps());
  if (heap_probes_) ns += HeapSource::InPathNs(kernel_->MapCost(), heap_probes_->traps());
  if (resident_pages_) ns += FaultSource::InPathNs(kernel_->FaultCost(), fault_trap_ns_);
  return static_cast<int64_t>(ns);
}

bool Collector::IsOverrun() {
  if (options_.budgets.target == kNoBudget) return false;  // reading the costs takes system calls
  const int64_t now = MonotonicNs();
  if (now < next_overrun_look_ns_) return false;
  next_overrun_look_ns_ = now + kLeastGoverned;
  // Bursts are short, and no load that begins: they are not in it.
  const int64_t before = governed_.cost.in_path_ns - governed_.cost.burst_in_path_ns;
  const double spent = static_cast<double>(InPathNs() - before) / kSecond;
  // Where drains are rare, what is within the budget over all of that time is no overrun.
  const double seconds = std::max(1.0, static_cast<double>(now - governed_ns_) / kSecond);
  return spent > options_.budgets.target * (kOverrun - 1 + seconds);
}

bool Collector::IsFilling() {
  return drain_source_.level() > 0 &&
         kernel_->TickStats().walks - last_.tick.walks > options_.limits.counters / kWalksShare;
}

void Collector::TurnHeap() {
  if (heap_probes_) heap_probes_->SetEventsOn(heap_slices_.IsOnAt(MonotonicNs()));
}

absl::Status Collector::Drain(bool govern) {
  charged_cpu_ns_ = ThreadCpuNs();
  const int64_t now = MonotonicNs();
  ProfileDelta delta;
  delta.begin_ns = last_drain_ns_;
  delta.books_on = options_.books;
  delta.switch_on = kernel_->switch_on();
  delta.tick_on = schedule_ != nullptr && !paused_;
  delta.tick_interval_ns = delta.tick_on ? schedule_->interval_ns() : 0;
  delta.heap_on =
      heap_probes_ && !paused_ && heap_probes_->watching() &&
      (heap_source_.ToldAt(heap_source_.level()) || heap_probes_->ToldSources().empty());
  delta.faults_on = kernel_->faults_on();
  delta.mappings_on = MappingsLayer().on;
  delta.bursts_on = bursts_ && !paused_ && bursts_->watching();
  PollEvents();
  delta.end_ns = ReadAccounts();
  last_drain_ns_ = delta.end_ns;
  ReadHeap();
  heap_accounts_.Finish(delta);
  told_heap_.Finish(delta);
  SumHeap(delta.ledgers);
  // From here on threads that ended are not known any more.
  accounts_.Finish(delta);
  // From here on nothing returns early: what was taken out of the kernel goes to the store.
  for (const ThreadLedger& ledger : delta.ledgers) {
    faults_ += ledger.delta.minor_faults + ledger.delta.major_faults;
  }
  if (resident_pages_) resident_pages_->Finish(delta);
  AddSamples(kernel_->DrainCounters(), delta);
  if (heap_probes_ && looks_.found().allocators + looks_.found().libcs != 0) {
    AddSamples(kernel_->DrainHeapCounters(), delta);
  }
  AddBurst(delta);
  // Those of the stacks that were just counted.
  PollEvents();
  delta.stacks = std::move(stacks_);
  stacks_.clear();
  live_heap_.Finish(delta);
  ++drained_.drains;
  drained_.threads += static_cast<int64_t>(delta.ledgers.size());
  drained_.resting += static_cast<int64_t>(delta.resting.size());
  drained_.counters += static_cast<int64_t>(delta.samples.size());
  drained_.stacks += static_cast<int64_t>(delta.stacks.size());

  if (now >= next_rescan_ns_) {
    if (targets_->Rescan() || looks_.found().all() != 0) looks_.Want();
    next_rescan_ns_ = now + kRescanInterval;
    if (heap_probes_) heap_probes_->Refresh();
  }
  FollowProcesses();
  LookIfWanted();
  Expect(kernel_->TrimKnownStacks(now >= next_trim_ns_));
  if (now >= next_trim_ns_) next_trim_ns_ = now + kTrimInterval;

  ChargeCpu(&drain_cpu_ns_);
  const Baseline measured = Measure();
  delta.ticks = measured.ticks - last_.ticks;
  delta.ticks_missed = measured.missed - last_.missed;
  delta.walks = static_cast<int64_t>(measured.tick.walks - last_.tick.walks);
  delta.torn_walks = static_cast<int64_t>(measured.tick.torn - last_.tick.torn);
  delta.cost = CostSince(measured.cost, last_.cost);
  delta.cost.targets = DivideCost(delta.cost, Activity(delta.samples));
  AddCost(delta.cost, &cost_);
  for (size_t i = 0; i < kLossCount; ++i) delta.losses[i] = measured.losses[i] - last_.losses[i];
  if (delta.losses[PROFD_LOSS_RING_FULL_EXIT] + delta.losses[PROFD_LOSS_HEAP_STORAGE] != 0) {
    memory_->DoubtHeaps();
  }
  delta.lost_weight_ns = static_cast<int64_t>(delta.losses[PROFD_LOSS_COUNTERS_FULL_NS]);
  last_ = measured;
  if (!paused_ && (govern || delta.end_ns - governed_ns_ >= kGovernorInterval)) {
    Govern(measured);
    governed_ = measured;
    governed_ns_ = delta.end_ns;
    next_overrun_look_ns_ = delta.end_ns + kLeastGoverned;
  }
  Publish(measured);
  const absl::Status stored = store_->Append(std::move(delta));
  ChargeCpu(&drain_cpu_ns_);
  return stored;
}

Collector::Baseline Collector::Measure() {
  Baseline now;
  const std::vector<uint64_t> losses = kernel_->Losses();
  std::copy(losses.begin(), losses.end(), now.losses.begin());
  const auto set = [&](Loss loss, uint64_t value) {
    now.losses[static_cast<size_t>(loss)] = value;
  };
  uint64_t misses = 0;
  now.misses = kernel_->Misses();
  for (const ProgramMisses& program : now.misses) misses += program.recursion_misses;
  set(Loss::kRecursionMisses, misses);
  now.losses[PROFD_LOSS_SWITCH_UNSEEN] = accounts_.switches_unseen();
  set(Loss::kThreadVanished, accounts_.vanished());
  set(Loss::kModuleUnreadable, modules_->unreadable());
  set(Loss::kRulesFull, modules_->over_limit());
  set(Loss::kDrainFailed, drain_failures_);
  now.tick = kernel_->TickStats();
  now.ticks = ticks_;
  now.missed = schedule_ ? schedule_->missed() : 0;
  now.idle_ticks =
      kernel_->ticks_by_list() ? visits_.idle_ticks() : static_cast<int64_t>(now.tick.repeats);
  now.look_cpu_ns = look_cpu_ns_;
  now.switch_cost = kernel_->SwitchCost();
  if (heap_probes_) now.heap_cost = kernel_->HeapCost();
  if (heap_probes_) now.map_cost = kernel_->MapCost();
  now.heap_events = heap_accounts_.events();
  now.heap_seen_bytes = heap_accounts_.seen_bytes();
  now.heap_bytes = heap_accounts_.bytes();
  now.told = told_heap_.records();
  if (resident_pages_) now.fault_cost = kernel_->FaultCost();
  now.faults = faults_;
  const auto fault_ns = static_cast<int64_t>(FaultSource::InPathNs(now.fault_cost, fault_trap_ns_));
  const Traps traps = heap_traps();
  const auto heap_ns = static_cast<int64_t>(HeapSource::InPathNs(now.heap_cost, traps));
  const auto map_ns = static_cast<int64_t>(HeapSource::InPathNs(now.map_cost, traps));
  const profd_malloc_cost malloc_cost = bursts_ ? kernel_->MallocCost() : profd_malloc_cost{};
  const auto burst_ns = static_cast<int64_t>(BurstSource::InPathNs(malloc_cost, burst_traps()));
  for (const TargetActivity& target : accounts_.activity()) switches_ += target.switches;
  now.cost = {.daemon_cpu_ns = ProcessCpuNs(),
              .tick_cpu_ns = tick_cpu_ns_,
              .drain_cpu_ns = drain_cpu_ns_ + look_cpu_ns_,
              .rules_cpu_ns = cpu_use_->rules,
              .answers_cpu_ns = cpu_use_->answers,
              .in_path_ns = static_cast<int64_t>(switch_source_.InPathNs(now.switch_cost)) +
                            heap_ns + fault_ns + map_ns + burst_ns,
              .switches = switches_,
              .heap_in_path_ns = heap_ns,
              .heap_events = static_cast<int64_t>(now.heap_cost.events),
              .fault_in_path_ns = fault_ns,
              .faults = static_cast<int64_t>(now.fault_cost.faults),
              .map_in_path_ns = map_ns,
              .map_calls = static_cast<int64_t>(now.map_cost.events),
              .memory_cpu_ns = cpu_use_->memory,
              .burst_in_path_ns = burst_ns,
              .burst_calls = static_cast<int64_t>(malloc_cost.calls),
              .targets = {}};
  return now;
}

std::vector<TargetActivity> Collector::Activity(const std::vector<Sample>& samples) const {
  std::vector<TargetActivity> activity = accounts_.activity();
  for (const Sample& sample : samples) {
    if (IsLevel(sample.key.kind) || IsFromBursts(sample.key)) continue;
    const uint32_t target = accounts_.TargetOf(sample.key.thread);
    for (TargetActivity& a : activity) a.ticks += a.target == target ? sample.ticks : 0;
  }
  return activity;
}

void Collector::GovernFromHere() {
  governed_ = last_;
  governed_ns_ = last_drain_ns_;
  drained_ = {};
}

void Collector::Govern(const Baseline& now) {
  const double seconds = static_cast<double>(last_drain_ns_ - governed_ns_) / kSecond;
  const CollectorCost cost = CostSince(now.cost, governed_.cost);
  switch_source_.Learn(seconds, cost.switches, now.switch_cost);
  heap_source_.Learn({.seconds = seconds,
                      .events = now.heap_events - governed_.heap_events,
                      .seen_bytes = now.heap_seen_bytes - governed_.heap_seen_bytes,
                      .bytes = now.heap_bytes - governed_.heap_bytes,
                      .cost = now.heap_cost,
                      .traps = heap_traps(),
                      .told = now.told - governed_.told});
  fault_source_.Learn({.seconds = seconds,
                       .faults = now.faults - governed_.faults,
                       .cost = now.fault_cost,
                       .trap_ns = fault_trap_ns_});
  map_source_.Learn({.seconds = seconds,
                     .on = map_source_.OneInAt(map_source_.level()) != 0,
                     .cost = now.map_cost,
                     .traps = heap_traps()});
  if (burst_source_.PlanAt(burst_source_.level()).interval_ns == 0) {
    burst_source_.PassWithout(seconds);
  }
  // Looks between drains come whether those are rare or not.
  drained_.cpu_ns = cost.drain_cpu_ns - (now.look_cpu_ns - governed_.look_cpu_ns);
  const int64_t of_ticks_ns = drain_source_.Learn(std::exchange(drained_, {}));
  tick_source_.Learn({.seconds = seconds,
                      .tick_cpu_ns = cost.tick_cpu_ns,
                      .drain_cpu_ns = of_ticks_ns,
                      .ticks = now.ticks - governed_.ticks,
                      .walks = static_cast<int64_t>(now.tick.walks - governed_.tick.walks),
                      .repeats = static_cast<int64_t>(now.tick.repeats - governed_.tick.repeats),
                      .idle_ticks = now.idle_ticks - governed_.idle_ticks});
  for (const GovernedSource* source : governor_.Step(seconds)) {
    const std::string given_up = source->GivenUpAt(source->level());
    if (given_up.empty()) {
      spdlog::info("governor: {}: gives everything again", source->name());
    } else {
      spdlog::info("governor: {}: given up: {}", source->name(), given_up);
    }
  }
  WatchSlowPaths();
  Obey();
}

void Collector::WatchSlowPaths() {
  if (!heap_probes_) return;
  for (const auto& [module, totals] : heap_accounts_.allocators()) {
    if (IsShort(totals)) heap_probes_->WatchSlowPaths(module);
  }
}

void Collector::Obey() {
  if (schedule_) {
    schedule_->SetInterval(tick_source_.IntervalAt(tick_source_.level()));
    visits_.SetLongestStride(tick_source_.StrideAt(tick_source_.level()));
  }
  if (heap_probes_) {
    kernel_->SetHeapSampling(heap_source_.one_in());
    heap_slices_.SetShare(heap_source_.ShareAt(heap_source_.level()), MonotonicNs());
    heap_probes_->SetToldOn(heap_source_.ToldAt(heap_source_.level()));
    heap_probes_->SetSlowPathsOn(heap_source_.SlowPathsAt(heap_source_.level()));
    TurnHeap();
    const uint32_t map_one_in = map_source_.OneInAt(map_source_.level());
    // At once, what the probes take their time for.
    kernel_->SetMapSampling(map_one_in);
    heap_probes_->SetMapCallsOn(map_one_in != 0);
  }
  if (resident_pages_) {
    uint32_t one_in = fault_source_.OneInAt(fault_source_.level());
    if (one_in != 0) one_in = std::max(one_in, resident_pages_->LeastOneIn());
    if (one_in != 0) resident_pages_->SetOneIn(one_in);
    Expect(kernel_->SetFaults(one_in));
  }
  if (bursts_) bursts_->SetPlan(burst_source_.PlanAt(burst_source_.level()));
  const bool switch_on = kernel_->has_switch_layer() && switch_source_.level() == 0;
  if (switch_on == kernel_->switch_on()) return;
  Expect(kernel_->SetSwitchLayer(switch_on));
  // Ledgers go on from here, not from the next second.
  if (kernel_->switch_on()) ReadAccounts();
}

void Collector::PublishLive(const LossCounts& losses, AllocatorUse& use) const {
  if (use.state.live_since_ns == 0) return;
  const std::map<ModuleId, LiveTotals> totals =
      use.state.told ? told_heap_.Live() : live_heap_.Totals();
  LiveTotals live;
  if (const auto found = totals.find(use.state.module); found != totals.end()) live = found->second;
  use.live_since_wall_ns = std::max(use.state.live_since_ns, live.since_ns) + WallOffsetNs();
  use.live_bytes = RoundedSum(live.bytes);
  use.live_objects = RoundedSum(live.objects);
  if (use.state.live_note.empty()) {
    use.state.live_note =
        LiveNote(losses[PROFD_LOSS_LIVE_GONE],
                 losses[PROFD_LOSS_LIVE_BORN] + live_heap_.dropped() + told_heap_.dropped());
  }
}

GovernorState Collector::GovernorNow() const {
  GovernorState state;
  state.target_budget = governor_.budgets().target;
  state.daemon_budget = governor_.budgets().daemon;
  state.changes = governor_.changes();
  for (const GovernedSource* source : governor_.sources()) {
    state.sources.push_back({.name = source->name(),
                             .in_path = source->payer() == Payer::kTarget,
                             .level = static_cast<uint32_t>(source->level()),
                             .given_up = source->GivenUpAt(source->level()),
                             .cost = source->CostAt(source->level()),
                             .whole_cost = source->CostAt(0)});
  }
  return state;
}

std::string Collector::AboutFaults() const {
  if (!options_.faults) return "disabled by --disable";
  if (!resident_pages_) return about_faults_;
  if (paused_) return kPausedNote;
  if (!kernel_->faults_on()) return kShedNote;
  return resident_pages_->note();
}

LayerState Collector::MappingsLayer() const {
  LayerState layer = {.name = "mappings", .on = false, .note = {}};
  if (!options_.mappings) {
    layer.note = "disabled by --disable";
  } else if (!kernel_->has_map_layer()) {
    layer.note = "this kernel does not take its program (--log-level debug shows why)";
  } else if (paused_) {
    layer.note = kPausedNote;
  } else if (map_source_.OneInAt(map_source_.level()) == 0) {
    layer.note = kShedNote;
  } else {
    const MapCallState calls = heap_probes_->MapCalls();
    layer.on = calls.watched > 0;
    if (calls.processes == 0) {
      layer.note = "no process runs a libc whose calls can be watched";
    } else if (calls.watched < calls.processes) {
      layer.note = absl::StrCat("probes stand in ", calls.watched, " of ", calls.processes,
                                " processes", calls.failed.empty() ? "" : ": ", calls.failed);
    }
  }
  return layer;
}

void Collector::AddBurst(ProfileDelta& delta) {
  if (!bursts_ || looks_.found().glibcs == 0) return;
  const std::optional<BurstResult> burst = bursts_->Take();
  if (!burst) return;
  EstimateBurst(*burst, delta, burst_totals_);
  burst_source_.Learn(*burst, kernel_->MallocCost(), bursts_->traps());
}

std::string Collector::AboutBursts() const {
  if (!bursts_) return "disabled by --disable";
  if (paused_) return kPausedNote;
  return bursts_->plan().interval_ns > 0 ? "" : kShedNote;
}

void Collector::PublishBursts(std::vector<AllocatorUse>& allocators) const {
  if (!bursts_) return;
  const BurstPlan plan = bursts_->plan();
  for (AllocatorState& allocator : bursts_->States()) {
    AllocatorUse& use = allocators.emplace_back();
    const auto totals = burst_totals_.find(allocator.module);
    if (totals != burst_totals_.end()) use.totals = totals->second;
    use.state = std::move(allocator);
    if (!use.state.note.empty()) continue;
    use.state.note = AboutBursts();
    if (!use.state.note.empty()) continue;
    use.state.note = absl::StrFormat(
        "it keeps no count: estimated from %d bursts of tracing, one of %g ms in %g s",
        bursts_->bursts(), static_cast<double>(plan.length_ns) / 1e6,
        static_cast<double>(plan.interval_ns) / kSecond);
  }
}

void Collector::Publish(const Baseline& now) {
  CollectorState state;
  state.tick_interval_ns = options_.tick ? tick_source_.IntervalAt(tick_source_.level()) : 0;
  state.paused = paused_;
  const auto note = [](bool on) { return std::string(on ? "" : "disabled by --disable"); };
  const auto active_note = [&](bool on) {
    return on && paused_ ? std::string(kPausedNote) : note(on);
  };
  std::string about_switch = active_note(options_.per_switch);
  if (switch_source_.level() > 0 && !paused_) about_switch = kShedNote;
  if (options_.per_switch && !kernel_->has_switch_layer()) {
    about_switch = "needs a kernel with CONFIG_FAIR_GROUP_SCHED";
  }
  state.layers = {{"books", options_.books, note(options_.books)},
                  {"switch", kernel_->switch_on(), about_switch},
                  {"tick", options_.tick && !paused_, active_note(options_.tick)},
                  {"heap", options_.heap && !paused_, active_note(options_.heap)},
                  {"faults", kernel_->faults_on(), AboutFaults()},
                  MappingsLayer(),
                  {"bursts", AboutBursts().empty(), AboutBursts()}};
  if (targets_->everything()) {
    state.targets.push_back({.selector = "every process", .pids = {}, .threads = 0, .cost = {}});
  }
  for (const Selector& selector : targets_->selectors()) {
    state.targets.push_back({.selector = selector.text(), .pids = {}, .threads = 0, .cost = {}});
  }
  for (const Accounts::TargetThreads& entry : accounts_.ByTarget()) {
    if (entry.target == 0 || entry.target > state.targets.size()) continue;
    TargetState& target = state.targets[entry.target - 1];
    target.pids.push_back(entry.pid);
    target.threads += entry.threads;
  }
  for (const TargetCost& cost : cost_.targets) {
    if (cost.target != 0 && cost.target <= state.targets.size()) {
      state.targets[cost.target - 1].cost = cost;
    }
  }
  if (heap_probes_) {
    for (AllocatorState& allocator : heap_probes_->States()) {
      AllocatorUse& use = state.allocators.emplace_back();
      const auto totals = heap_accounts_.allocators().find(allocator.module);
      const auto told = told_heap_.totals().find(allocator.module);
      if (!allocator.told && totals != heap_accounts_.allocators().end()) {
        use.totals = totals->second;
      }
      use.state = std::move(allocator);
      if (use.state.told && told != told_heap_.totals().end()) {
        use.totals = told->second.totals;
        use.state.sample_bytes = told->second.sample_bytes;
      }
      const bool shed = use.state.told && !heap_source_.ToldAt(heap_source_.level());
      if (shed || paused_) use.state.watched = false;
      if (shed && !paused_) use.state.note = kShedNote;
      if (use.state.note.empty()) use.state.note = CoverageNote(use);
      PublishLive(now.losses, use);
    }
  }
  PublishBursts(state.allocators);
  state.seeks_all_allocators = options_.heap && bursts_ != nullptr;
  state.switch_entry_ns = switch_source_.entry_ns();
  state.governor = GovernorNow();
  state.losses = now.losses;
  state.cost = cost_;
  state.threads = static_cast<uint32_t>(accounts_.live_threads());
  if (last_drain_ns_ >= next_map_bytes_ns_) {
    map_bytes_ = kernel_->MapBytes(state.threads);
    next_map_bytes_ns_ = last_drain_ns_ + kMapBytesInterval;
  }
  state.kernel_map_bytes = map_bytes_;
  for (const ProgramMisses& program : now.misses) {
    state.programs.push_back({program.name, program.recursion_misses});
  }
  absl::MutexLock lock(&mutex_);
  state.started_wall_ns = state_.started_wall_ns;
  state.missing = state_.missing;
  state_ = std::move(state);
}

}  // namespace profd
