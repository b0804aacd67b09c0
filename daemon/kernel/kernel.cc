#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bpf/profd.skel.h"
#include "bpf/profd_plain.skel.h"
#include "daemon/base/clock.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/refused_program.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

constexpr size_t kIteratorBuffer = 64 << 10;
constexpr size_t kLogTail = 4096;
// Kernel memory of a thread's account: value, element header and the task's storage table.
constexpr uint64_t kThreadAccountBytes = sizeof(profd_thread) + 256;

// For threads that count to end it, before their counters are read.
constexpr int kCountingNaps = 100;
constexpr long kCountingNapNs = 50'000;

// Naps in which the switches of our own thread must be seen; one is enough.
constexpr int kClockAttempts = 50;

// The program that the kernel refused last, as libbpf tells: it says so nowhere else.
std::string refused_program;

int LogLibbpf(enum libbpf_print_level level, const char* format, va_list args) {
  // libbpf warns that it cannot raise RLIMIT_MEMLOCK, which no supported kernel charges maps to:
  // its warnings are our debug messages.
  const auto severity = level == LIBBPF_DEBUG ? spdlog::level::trace : spdlog::level::debug;
  if (level != LIBBPF_WARN && !spdlog::should_log(severity)) return 0;
  char* text = nullptr;
  const int size = vasprintf(&text, format, args);
  if (size < 0) return 0;
  if (level == LIBBPF_WARN) {
    const std::string program = RefusedProgram({text, static_cast<size_t>(size)});
    if (!program.empty()) refused_program = program;
  }
  // The end of a verifier log is what counts.
  const std::string_view whole(text, static_cast<size_t>(size));
  const std::string_view end = whole.substr(whole.size() - std::min(whole.size(), kLogTail));
  spdlog::log(severity, "libbpf: {}", std::string(end));
  free(text);
  return 0;
}

absl::Status LoadError(const char* what, int error) {
  const char* advice = "";
  if (error == EPERM || error == EACCES) {
    advice =
        "; needs CAP_BPF and CAP_PERFMON (in a container also a seccomp profile that allows "
        "bpf())";
  } else if (error == ESRCH || error == ENOENT || error == EINVAL) {
    advice =
        "; needs Linux 6.1 or later with BTF in /sys/kernel/btf/vmlinux (--log-level debug shows "
        "why)";
  }
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat(what, ": ", std::strerror(error), advice));
}

template <typename T>
T SumPerCpu(int fd, uint32_t key, void (*add)(T&, const T&)) {
  T total{};
  const int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return total;
  std::vector<T> values(static_cast<size_t>(cpus));
  if (bpf_map_lookup_elem(fd, &key, values.data()) != 0) return total;
  for (const T& value : values) add(total, value);
  return total;
}

profd_heap_cost SumProbeCost(int fd) {
  return SumPerCpu<profd_heap_cost>(fd, 0, [](profd_heap_cost& sum, const profd_heap_cost& v) {
    sum.events += v.events;
    sum.stepped += v.stepped;
    sum.walks += v.walks;
    sum.ns += v.ns;
    sum.walk_ns += v.walk_ns;
    sum.closed += v.closed;
  });
}

// "memlock:" of a map's fdinfo, bytes.
uint64_t MapMemory(int fd) {
  const auto info = ReadWholeFile(absl::StrCat("/proc/self/fdinfo/", fd), 1 << 16);
  if (!info.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*info, '\n')) {
    if (!absl::ConsumePrefix(&line, "memlock:")) continue;
    uint64_t bytes = 0;
    return absl::SimpleAtoi(line, &bytes) ? bytes : 0;
  }
  return 0;
}

using UniqueSkeleton = std::unique_ptr<profd_bpf, SkeletonDeleter>;

// Opens the skeleton, of the object that names no kernel functions if `plain` is set. Both hold the
// same programs, maps and globals, in the same order.
UniqueSkeleton Open(bool plain) {
  if (!plain) return UniqueSkeleton(profd_bpf__open());
  UniqueSkeleton skeleton(static_cast<profd_bpf*>(calloc(1, sizeof(profd_bpf))));
  if (!skeleton || profd_bpf__create_skeleton(skeleton.get()) != 0) return nullptr;
  size_t size = 0;
  skeleton->skeleton->data = profd_plain_bpf__elf_bytes(&size);
  skeleton->skeleton->data_sz = size;
  if (bpf_object__open_skeleton(skeleton->skeleton, nullptr) != 0) return nullptr;
  return skeleton;
}

void SetLimits(const KernelOptions& options, profd_bpf* s) {
  const Limits& limits = options.limits;
  struct Size {
    bpf_map* map;
    uint64_t entries;
  };
  for (const Size& size :
       {Size{s->maps.counters_even, limits.counters}, Size{s->maps.counters_odd, limits.counters},
        Size{s->maps.known_stacks, limits.known_stacks}, Size{s->maps.events, limits.ring},
        Size{s->maps.heap_even, limits.heap_counters}, Size{s->maps.heap_odd, limits.heap_counters},
        Size{s->maps.malloc_counts, options.malloc_layer ? limits.malloc_stacks : 1},
        Size{s->maps.malloc_threads, options.malloc_layer ? limits.malloc_threads : 1}}) {
    bpf_map__set_max_entries(size.map, static_cast<uint32_t>(size.entries));
  }
  s->rodata->max_modules = static_cast<uint32_t>(limits.modules);
}

// The programs that can be left out, and the layer that each belongs to.
struct LayerProgram {
  bpf_program* program;
  KernelLayer layer;
};

std::vector<LayerProgram> LayerPrograms(const profd_bpf* s) {
  return {{s->progs.on_switch, KernelLayer::kSwitch},
          {s->progs.on_heap_event, KernelLayer::kHeap},
          {s->progs.drain_heap, KernelLayer::kHeap},
          {s->progs.on_heap_exit, KernelLayer::kHeap},
          {s->progs.on_heap_exec, KernelLayer::kHeap},
          {s->progs.on_live_object, KernelLayer::kLive},
          {s->progs.on_told_object, KernelLayer::kTold},
          {s->progs.on_user_fault, KernelLayer::kFault},
          {s->progs.on_kernel_fault, KernelLayer::kFault},
          {s->progs.on_map_call, KernelLayer::kMap},
          {s->progs.on_malloc, KernelLayer::kMalloc}};
}

bool IsWanted(const KernelOptions& options, const LayerRefusals& refusals, KernelLayer layer) {
  if (!refusals[static_cast<size_t>(layer)].empty()) return false;
  switch (layer) {
    case KernelLayer::kSwitch:
      return options.switch_layer;
    case KernelLayer::kHeap:
    case KernelLayer::kLive:
    case KernelLayer::kTold:
      return options.heap_layer && refusals[static_cast<size_t>(KernelLayer::kHeap)].empty();
    case KernelLayer::kFault:
      return options.fault_layer;
    case KernelLayer::kMap:
      return options.map_layer;
    case KernelLayer::kMalloc:
      return options.malloc_layer;
  }
  return false;
}

absl::StatusOr<UniqueSkeleton> Load(const KernelOptions& options, const LayerRefusals& refusals,
                                    bool tick_by_list) {
  UniqueSkeleton skeleton = Open(!tick_by_list);
  if (!skeleton) return LoadError("open kernel programs", errno);
  profd_bpf* s = skeleton.get();
  s->rodata->default_target = options.default_target;
  bpf_program__set_autoload(s->progs.tick_list, tick_by_list);
  for (const auto& [program, layer] : LayerPrograms(s)) {
    bpf_program__set_autoload(program, IsWanted(options, refusals, layer));
  }
  SetLimits(options, s);
  std::random_device random;
  s->rodata->fault_seed = uint64_t{random()} << 32 | random();
  const auto walks =
      static_cast<uint32_t>(std::max(1, libbpf_num_possible_cpus())) * PROFD_OWN_WALKS_PER_CPU;
  bpf_map__set_max_entries(s->maps.own_scratch, options.heap_layer || options.fault_layer ||
                                                        options.map_layer || options.malloc_layer
                                                    ? std::min<uint32_t>(walks, PROFD_MAX_OWN_WALKS)
                                                    : 1);
  if (HasMultiProbes()) {
    for (bpf_program* program :
         {s->progs.on_heap_event, s->progs.on_live_object, s->progs.on_map_call,
          s->progs.on_told_object, s->progs.on_malloc}) {
      bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kUprobeMulti));
    }
  }
  refused_program.clear();
  if (const int error = profd_bpf__load(s)) return LoadError("load kernel programs", -error);
  return skeleton;
}

// Finds the layer of a program by its name.
std::optional<KernelLayer> LayerOf(const std::string& name) {
  const UniqueSkeleton skeleton = Open(true);
  if (!skeleton) return std::nullopt;
  for (const auto& [program, layer] : LayerPrograms(skeleton.get())) {
    if (name == bpf_program__name(program)) return layer;
  }
  return std::nullopt;
}

// Loads all that is asked for but what this kernel refuses, which goes into `refusals`.
absl::StatusOr<UniqueSkeleton> LoadWhatGoes(const KernelOptions& options, LayerRefusals* refusals) {
  bool tick_by_list = true;
  while (true) {
    auto skeleton = Load(options, *refusals, tick_by_list);
    if (skeleton.ok()) return skeleton;
    // Without the capabilities nothing can be loaded, whatever is left out.
    const bool permitted = !absl::IsPermissionDenied(skeleton.status());
    const std::optional<KernelLayer> layer = permitted ? LayerOf(refused_program) : std::nullopt;
    if (layer) {
      spdlog::debug("without {}: {}", refused_program, skeleton.status().ToString());
      (*refusals)[static_cast<size_t>(*layer)] =
          absl::StrCat("this kernel does not take its program ", refused_program,
                       " (--log-level debug shows why)");
    } else if (tick_by_list) {
      spdlog::debug("no tick by list: {}", skeleton.status().ToString());
      tick_by_list = false;
    } else {
      return skeleton.status();
    }
  }
}

// Takes everything out of a table.
template <typename Key, typename Value>
absl::StatusOr<std::vector<std::pair<Key, Value>>> EmptyTable(int table) {
  constexpr uint32_t kBatch = 1024;
  static thread_local std::vector<Key> keys(kBatch);
  static thread_local std::vector<Value> values(kBatch);
  std::vector<std::pair<Key, Value>> entries;
  uint32_t cursor = 0;
  bool first = true;
  while (true) {
    uint32_t count = kBatch;
    const int error = bpf_map_lookup_and_delete_batch(table, first ? nullptr : &cursor, &cursor,
                                                      keys.data(), values.data(), &count, nullptr);
    const int reason = errno;
    if (error != 0 && reason != ENOENT) {
      // What is still in the map comes with the next drain of this epoch.
      if (entries.empty()) return ErrnoStatus("drain the counters", reason);
      spdlog::warn("counters drained in part: {}", std::strerror(reason));
      return entries;
    }
    for (uint32_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
    if (error != 0) return entries;
    first = false;
  }
}

absl::StatusOr<std::vector<CounterEntry>> EmptyCounters(int table) {
  return EmptyTable<profd_sample_key, profd_sample_value>(table);
}

// A table with these rows; an empty fd for none.
absl::StatusOr<UniqueFd> MakeRuleTable(std::span<const profd_rule> rows) {
  if (rows.empty()) return UniqueFd();
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
  UniqueFd table(bpf_map_create(BPF_MAP_TYPE_ARRAY, "profd_rules", sizeof(uint32_t),
                                sizeof(profd_rule), static_cast<uint32_t>(rows.size()), &options));
  if (!table.ok()) return ErrnoStatus("create a rule table", errno);
  void* memory =
      mmap(nullptr, rows.size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, table.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map a rule table", errno);
  std::memcpy(memory, rows.data(), rows.size_bytes());
  munmap(memory, rows.size_bytes());
  return table;
}

}  // namespace

bool HasMultiProbes() {
  // Once: it reads some megabytes.
  static const bool has = [] {
    libbpf_set_print(LogLibbpf);
    const std::unique_ptr<btf, void (*)(btf*)> types(btf__load_vmlinux_btf(), btf__free);
    return types &&
           btf__find_by_name_kind(types.get(), "bpf_uprobe_multi_link", BTF_KIND_STRUCT) > 0;
  }();
  return has;
}

void RingDeleter::operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
void VisitTableDeleter::operator()(profd_visit* table) const {
  munmap(table, PROFD_MAX_VISITS * sizeof(profd_visit));
}
void SkeletonDeleter::operator()(profd_bpf* skeleton) const { profd_bpf__destroy(skeleton); }

BpfKernel::BpfKernel(profd_bpf* skeleton) : skeleton_(skeleton) {}
BpfKernel::~BpfKernel() = default;

const std::string& BpfKernel::refusal(KernelLayer layer) const {
  return refusals_[static_cast<size_t>(layer)];
}

absl::StatusOr<std::unique_ptr<Kernel>> Kernel::Create(const KernelOptions& options) {
  libbpf_set_print(LogLibbpf);
  LayerRefusals refusals;
  auto skeleton = LoadWhatGoes(options, &refusals);
  RETURN_IF_ERROR(skeleton.status());
  auto kernel = std::make_unique<BpfKernel>(skeleton->release());
  RETURN_IF_ERROR(kernel->Init(options, std::move(refusals)));
  return kernel;
}

absl::Status BpfKernel::Init(const KernelOptions& options, LayerRefusals refusals) {
  profd_bpf* s = skeleton_.get();
  refusals_ = std::move(refusals);
  has_switch_layer_ = bpf_program__fd(s->progs.on_switch) >= 0;
  // Early, so that the map does not fill within a second.
  known_stacks_trim_ = options.limits.known_stacks * 3 / 4;
  fault_seed_ = s->rodata->fault_seed;
  ring_.reset(ring_buffer__new(
      bpf_map__fd(s->maps.events),
      [](void* context, void* data, size_t size) {
        auto* self = static_cast<BpfKernel*>(context);
        (*self->ring_sink_)({static_cast<const uint8_t*>(data), size});
        return 0;
      },
      this, nullptr));
  if (!ring_) return ErrnoStatus("map the event ring", errno);
  if (bpf_program__fd(s->progs.tick_list) >= 0) {
    void* table = mmap(nullptr, PROFD_MAX_VISITS * sizeof(profd_visit), PROT_READ | PROT_WRITE,
                       MAP_SHARED, bpf_map__fd(s->maps.visits), 0);
    if (table == MAP_FAILED) return ErrnoStatus("map the table of visits", errno);
    visit_table_.reset(static_cast<profd_visit*>(table));
  }
  return AttachAll();
}

absl::Status BpfKernel::AttachAll() {
  profd_bpf* s = skeleton_.get();
  // Iterators first: the drain learns our PID namespace before any event names a PID, and marks
  // this thread as the clock.
  struct Iterator {
    bpf_program* program;
    UniqueLink* link;
  };
  for (const Iterator& it :
       {Iterator{s->progs.drain, &drain_link_}, Iterator{s->progs.tick, &tick_link_},
        Iterator{s->progs.mappings, &mappings_link_}, Iterator{s->progs.drain_heap, &heap_link_}}) {
    if (bpf_program__fd(it.program) < 0) continue;  // left out
    it.link->reset(bpf_program__attach_iter(it.program, nullptr));
    if (!*it.link) RETURN_IF_ERROR(GiveUp(it.program, errno));
  }
  RETURN_IF_ERROR(DrainThreads([](std::span<const uint8_t>) {}, true).status());
  for (bpf_program* program : {s->progs.on_newtask, s->progs.on_exit, s->progs.on_exec,
                               s->progs.on_heap_exit, s->progs.on_heap_exec}) {
    if (bpf_program__fd(program) < 0) continue;
    UniqueLink link(bpf_program__attach(program));
    if (link) {
      links_.push_back(std::move(link));
    } else {
      RETURN_IF_ERROR(GiveUp(program, errno));
    }
  }
  if (const absl::Status status = SetSwitchLayer(true); !status.ok()) {
    has_switch_layer_ = false;
    refusals_[static_cast<size_t>(KernelLayer::kSwitch)] = std::string(status.message());
  }
  return absl::OkStatus();
}

absl::Status BpfKernel::GiveUp(const bpf_program* program, int error) {
  const std::string name = bpf_program__name(program);
  const absl::Status status = LoadError(absl::StrCat("attach ", name).c_str(), error);
  const std::optional<KernelLayer> layer = LayerOf(name);
  if (!layer) return status;
  refusals_[static_cast<size_t>(*layer)] = std::string(status.message());
  return absl::OkStatus();
}

absl::Status BpfKernel::SetSwitchLayer(bool on) {
  if (!has_switch_layer_ || on == switch_on()) return absl::OkStatus();
  if (!on) {
    // First, so that what still runs touches no ledger.
    skeleton_->bss->switch_epoch = 0;
    switch_link_.reset();
    return absl::OkStatus();
  }
  UniqueLink link(bpf_program__attach(skeleton_->progs.on_switch));
  if (!link) return LoadError("attach on_switch", errno);
  switch_link_ = std::move(link);
  if (!LearnClock()) {
    spdlog::warn("no per-switch layer: it needs a kernel with CONFIG_FAIR_GROUP_SCHED");
    has_switch_layer_ = false;
    switch_link_.reset();
    return absl::OkStatus();
  }
  // Another epoch than before: ledgers go on when the next drain has armed them.
  skeleton_->bss->switch_epoch = ++switch_epoch_;
  return absl::OkStatus();
}

bool BpfKernel::LearnClock() {
  const auto distance = [this] {
    return *static_cast<volatile uint64_t*>(&skeleton_->bss->clock_distance);
  };
  // What was known before a time without the layer is old.
  const uint64_t before = distance();
  for (int attempt = 0; attempt < kClockAttempts && distance() == before; ++attempt) {
    const timespec nap{.tv_sec = 0, .tv_nsec = 100'000};
    nanosleep(&nap, nullptr);
  }
  return distance() != 0;
}

absl::StatusOr<bool> BpfKernel::Mark(int pidfd, uint32_t target) {
  profd_thread thread{};
  thread.target_id = target;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.threads), &pidfd, &thread, BPF_NOEXIST) ==
      0) {
    return true;
  }
  if (errno == EEXIST) return false;
  if (errno == ENOENT || errno == ESRCH) return absl::NotFoundError("the process has exited");
  return ErrnoStatus("mark a target", errno);
}

absl::Status BpfKernel::RunIterator(const UniqueLink& link, const char* name, size_t record_size,
                                    const RecordSink& sink) {
  UniqueFd iterator(bpf_iter_create(bpf_link__fd(link.get())));
  if (!iterator.ok()) return ErrnoStatus(absl::StrCat("start iterator ", name), errno);
  static thread_local std::vector<uint8_t> buffer(kIteratorBuffer);
  size_t held = 0;
  while (true) {
    const ssize_t n = read(iterator.get(), buffer.data() + held, buffer.size() - held);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return ErrnoStatus(absl::StrCat("read iterator ", name), errno);
    if (n == 0) break;
    held += static_cast<size_t>(n);
    if (record_size == 0) continue;
    size_t used = 0;
    for (; held - used >= record_size; used += record_size) {
      sink({buffer.data() + used, record_size});
    }
    std::copy(buffer.begin() + static_cast<ptrdiff_t>(used),
              buffer.begin() + static_cast<ptrdiff_t>(held), buffer.begin());
    held -= used;
  }
  if (held != 0) return absl::DataLossError(absl::StrCat("iterator ", name, ": partial record"));
  return absl::OkStatus();
}

absl::Status BpfKernel::Tick(int64_t weight_ns, int64_t instant_ns) {
  skeleton_->bss->tick_instant_ns = static_cast<uint64_t>(instant_ns);
  skeleton_->bss->tick_weight_ns = static_cast<uint64_t>(weight_ns);
  return RunIterator(tick_link_, "tick", 0, {});
}

absl::Status BpfKernel::TickListed(std::span<profd_visit> visits, int64_t instant_ns) {
  skeleton_->bss->tick_instant_ns = static_cast<uint64_t>(instant_ns);
  const int program = bpf_program__fd(skeleton_->progs.tick_list);
  while (!visits.empty()) {
    const auto batch = visits.first(std::min<size_t>(visits.size(), PROFD_MAX_VISITS));
    std::copy(batch.begin(), batch.end(), visit_table_.get());
    skeleton_->bss->visit_count = static_cast<uint32_t>(batch.size());
    LIBBPF_OPTS(bpf_test_run_opts, run);
    if (bpf_prog_test_run_opts(program, &run) != 0) return ErrnoStatus("run the tick", errno);
    std::copy_n(visit_table_.get(), batch.size(), batch.begin());
    visits = visits.subspan(batch.size());
  }
  return absl::OkStatus();
}

absl::Status BpfKernel::AnnounceMappings() {
  return RunIterator(mappings_link_, "mappings", 0, {});
}

absl::StatusOr<LeftOut> BpfKernel::DrainThreads(const RecordSink& sink, bool all) {
  skeleton_->bss->drain_all = all;
  skeleton_->bss->drain_left_out = 0;
  RETURN_IF_ERROR(RunIterator(drain_link_, "drain", sizeof(profd_thread_record), sink));
  const int64_t now = MonotonicNs();
  return LeftOut{.threads = skeleton_->bss->drain_left_out,
                 .now_ns = now,
                 .clock_ns = now - static_cast<int64_t>(skeleton_->bss->clock_distance)};
}

absl::Status BpfKernel::PollEvents(const RecordSink& sink) {
  const RecordSink counting = [&](std::span<const uint8_t> record) {
    uint32_t type = 0;
    if (record.size() >= sizeof(type)) std::memcpy(&type, record.data(), sizeof(type));
    if (type == PROFD_RECORD_STACK) ++stacks_seen_;
    sink(record);
  };
  ring_sink_ = &counting;
  const int n = ring_buffer__consume(ring_.get());
  ring_sink_ = nullptr;
  if (n < 0) return ErrnoStatus("read the event ring", -n);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainCounters() {
  const int maps[2] = {bpf_map__fd(skeleton_->maps.counters_even),
                       bpf_map__fd(skeleton_->maps.counters_odd)};
  // The tick, which alone counts, runs on this thread: nobody counts now.
  const int idle = maps[skeleton_->bss->live_epoch];
  skeleton_->bss->live_epoch = 1 - skeleton_->bss->live_epoch;
  return EmptyCounters(idle);
}

absl::Status BpfKernel::DrainHeap(const RecordSink& sink, bool all) {
  if (!heap_link_) return absl::OkStatus();
  skeleton_->bss->drain_all = all;
  return RunIterator(heap_link_, "drain_heap", sizeof(profd_heap_record), sink);
}

absl::StatusOr<std::vector<CounterEntry>> BpfKernel::DrainHeapCounters() {
  const int maps[2] = {bpf_map__fd(skeleton_->maps.heap_even),
                       bpf_map__fd(skeleton_->maps.heap_odd)};
  // Whoever takes memory for a walk after this counts in the other epoch; who had it may still be
  // in this one.
  const uint32_t before = skeleton_->bss->heap_epoch;
  const int idle = maps[before];
  std::atomic_ref(skeleton_->bss->heap_epoch).exchange(1 - before);
  const uint32_t walks = bpf_map__max_entries(skeleton_->maps.own_scratch);
  int naps = 0;
  for (uint32_t i = 0; i < walks; ++i) {
    const auto& walking = *static_cast<volatile uint32_t*>(&skeleton_->bss->own_walking[i]);
    while (walking != 0) {
      if (++naps > kCountingNaps) return std::vector<CounterEntry>();
      const timespec nap{.tv_sec = 0, .tv_nsec = kCountingNapNs};
      nanosleep(&nap, nullptr);
    }
  }
  return EmptyCounters(idle);
}

void BpfKernel::SetHeapSampling(uint32_t one_in) { skeleton_->bss->heap_skip_mask = one_in - 1; }

void BpfKernel::SetHeapSettled(int32_t pid, ModuleId module, bool settled) {
  const profd_heap_round_key key = {.pid = static_cast<uint32_t>(pid),
                                    .module_id = static_cast<uint32_t>(module)};
  uint32_t round = 0;
  while (settled && round == 0) round = ++heap_rounds_;
  // Without room for it gaps are not told of.
  (void)bpf_map_update_elem(bpf_map__fd(skeleton_->maps.heap_rounds), &key, &round, BPF_ANY);
}

void BpfKernel::ForgetHeapSettled(int32_t pid, ModuleId module) {
  const profd_heap_round_key key = {.pid = static_cast<uint32_t>(pid),
                                    .module_id = static_cast<uint32_t>(module)};
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.heap_rounds), &key);
}

uint64_t BpfKernel::HeapRefusals() const {
  return std::atomic_ref(skeleton_->bss->heap_refusals).load(std::memory_order_relaxed);
}

std::vector<HeapTally> BpfKernel::HeapTallies() const {
  std::vector<HeapTally> tallies;
  const int table = bpf_map__fd(skeleton_->maps.heap_tallies);
  uint32_t key = 0;
  const uint32_t* last = nullptr;
  while (tallies.size() < PROFD_MAX_HEAP_TALLIES && bpf_map_get_next_key(table, last, &key) == 0) {
    last = &key;
    profd_heap_tally tally{};
    if (bpf_map_lookup_elem(table, &key, &tally) != 0) continue;
    tallies.push_back({.module = ModuleId{static_cast<uint16_t>(key / PROFD_HEAP_NUMBERS)},
                       .number = key % PROFD_HEAP_NUMBERS,
                       .held = tally.held,
                       .refused = tally.refused});
  }
  return tallies;
}

absl::StatusOr<Probe> BpfKernel::AttachHeapProbe(int file, int32_t pid,
                                                 std::span<const HeapPlace> places) {
  return probes_.Put(skeleton_->progs.on_heap_event, file, pid, places);
}

absl::StatusOr<Probe> BpfKernel::AttachLiveProbe(int file, int32_t pid,
                                                 std::span<const HeapPlace> places) {
  return probes_.Put(skeleton_->progs.on_live_object, file, pid, places);
}

absl::StatusOr<Probe> BpfKernel::AttachMapProbe(int file, int32_t pid,
                                                std::span<const HeapPlace> places) {
  return probes_.Put(skeleton_->progs.on_map_call, file, pid, places);
}

void BpfKernel::SetMapSampling(uint32_t one_in) { skeleton_->bss->map_skip_mask = one_in - 1; }

bool BpfKernel::has_map_layer() const { return bpf_program__fd(skeleton_->progs.on_map_call) >= 0; }

absl::StatusOr<Probe> BpfKernel::AttachToldProbe(int file, int32_t pid,
                                                 std::span<const HeapPlace> places) {
  return probes_.Put(skeleton_->progs.on_told_object, file, pid, places);
}

absl::StatusOr<uint32_t> BpfKernel::NumberOfArguments(const profd_usdt_spec& spec) {
  const auto known = std::find_if(
      usdt_specs_.begin(), usdt_specs_.end(),
      [&](const profd_usdt_spec& other) { return std::memcmp(&other, &spec, sizeof(spec)) == 0; });
  const auto number = static_cast<uint32_t>(known - usdt_specs_.begin());
  if (known != usdt_specs_.end()) return number;
  if (number == PROFD_MAX_USDT_SPECS) {
    return absl::ResourceExhaustedError("too many forms of arguments of USDT probes");
  }
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.usdt_specs), &number, &spec, BPF_ANY) != 0) {
    return ErrnoStatus("tell the arguments of a USDT probe", errno);
  }
  usdt_specs_.push_back(spec);
  return number;
}

absl::StatusOr<Probe> BpfKernel::AttachMallocProbe(int file, int32_t pid,
                                                   std::span<const HeapPlace> places) {
  return probes_.Put(skeleton_->progs.on_malloc, file, pid, places);
}

void BpfKernel::SetMallocBurst(int64_t begin_ns, int64_t length_ns) {
  // No burst in between: a length is always that of the begin before it, or none.
  std::atomic_ref(skeleton_->bss->malloc_length_ns).store(0);
  std::atomic_ref(skeleton_->bss->malloc_begin_ns).store(static_cast<uint64_t>(begin_ns));
  std::atomic_ref(skeleton_->bss->malloc_length_ns).store(static_cast<uint64_t>(length_ns));
}

absl::StatusOr<MallocCounts> BpfKernel::DrainMalloc() {
  MallocCounts counts;
  ASSIGN_OR_RETURN(counts.samples, EmptyCounters(bpf_map__fd(skeleton_->maps.malloc_counts)));
  auto threads =
      EmptyTable<uint64_t, profd_malloc_thread>(bpf_map__fd(skeleton_->maps.malloc_threads));
  RETURN_IF_ERROR(threads.status());
  counts.threads = *std::move(threads);
  return counts;
}

absl::Status BpfKernel::SetFaults(uint32_t one_in) {
  if (one_in == 0) {
    fault_links_.clear();
    return absl::OkStatus();
  }
  skeleton_->bss->fault_one_in = one_in;
  skeleton_->bss->fault_threshold = profd_page_threshold(one_in);
  if (faults_on()) return absl::OkStatus();
  std::vector<UniqueLink> links;
  for (const bpf_program* program :
       {skeleton_->progs.on_user_fault, skeleton_->progs.on_kernel_fault}) {
    UniqueLink link(bpf_program__attach(program));
    if (!link) return LoadError(absl::StrCat("attach ", bpf_program__name(program)).c_str(), errno);
    links.push_back(std::move(link));
  }
  fault_links_ = std::move(links);
  return absl::OkStatus();
}

absl::Status BpfKernel::TrimKnownStacks(bool all) {
  if (!all && stacks_seen_ < known_stacks_trim_) return absl::OkStatus();
  const int fd = bpf_map__fd(skeleton_->maps.known_stacks);
  std::vector<uint64_t> keys;
  uint64_t key = 0;
  bool first = true;
  while (bpf_map_get_next_key(fd, first ? nullptr : &key, &key) == 0) {
    keys.push_back(key);
    first = false;
  }
  for (const uint64_t k : keys) bpf_map_delete_elem(fd, &k);
  stacks_seen_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> BpfKernel::ModuleIdOf(const profd_module_key& key) const {
  profd_module module{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.modules), &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  return module.module_id;
}

std::vector<absl::Status> BpfKernel::PublishRules(std::span<const ModuleRules> modules) {
  std::vector<absl::Status> results(modules.size());
  std::vector<profd_module> states(modules.size());
  std::vector<UniqueFd> tables(modules.size());
  std::vector<uint32_t> ids;
  std::vector<int> fds;
  const int by_file = bpf_map__fd(skeleton_->maps.modules);
  for (size_t i = 0; i < modules.size(); ++i) {
    if (bpf_map_lookup_elem(by_file, &modules[i].key, &states[i]) != 0) {
      results[i] = ErrnoStatus("look up a module", errno);
      continue;
    }
    auto table = MakeRuleTable(modules[i].rows);
    results[i] = table.status();
    if (!table.ok() || !table->ok()) continue;
    tables[i] = *std::move(table);
    ids.push_back(states[i].module_id);
    fds.push_back(tables[i].get());
  }
  auto count = static_cast<uint32_t>(ids.size());
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  if (count != 0 && bpf_map_update_batch(bpf_map__fd(skeleton_->maps.rule_tables), ids.data(),
                                         fds.data(), &count, &options) != 0) {
    const absl::Status failed = ErrnoStatus("publish rule tables", errno);
    for (size_t i = 0; i < modules.size(); ++i) {
      if (tables[i].ok()) results[i] = failed;
    }
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!results[i].ok()) continue;
    const bool has_rows = tables[i].ok();
    states[i].announced = 1;
    states[i].state = has_rows ? PROFD_MODULE_READY : PROFD_MODULE_NO_RULES;
    states[i].rows = static_cast<uint32_t>(modules[i].rows.size());
    if (has_rows) {
      rule_bytes_ += modules[i].rows.size() * sizeof(profd_rule);
      rule_tables_.push_back(std::move(tables[i]));
    }
    // Last: the state makes the rows visible.
    if (bpf_map_update_elem(by_file, &modules[i].key, &states[i], BPF_EXIST) != 0) {
      results[i] = ErrnoStatus("publish a module", errno);
    }
  }
  return results;
}

absl::Status BpfKernel::WatchModule(const profd_module_key& key) {
  const int modules = bpf_map__fd(skeleton_->maps.modules);
  profd_module module{};
  if (bpf_map_lookup_elem(modules, &key, &module) != 0) {
    return ErrnoStatus("look up a module", errno);
  }
  module.watched = 1;
  if (bpf_map_update_elem(modules, &key, &module, BPF_EXIST) != 0) {
    return ErrnoStatus("watch a module", errno);
  }
  return absl::OkStatus();
}

absl::Status BpfKernel::ForgetModule(const profd_module_key& key) {
  const int modules = bpf_map__fd(skeleton_->maps.modules);
  profd_module module{};
  if (bpf_map_lookup_elem(modules, &key, &module) != 0) return absl::OkStatus();
  module.announced = 0;
  if (bpf_map_update_elem(modules, &key, &module, BPF_EXIST) != 0) {
    return ErrnoStatus("forget a module", errno);
  }
  return absl::OkStatus();
}

std::vector<uint64_t> BpfKernel::Losses() const {
  std::vector<uint64_t> totals(PROFD_LOSS_COUNT);
  for (uint32_t i = 0; i < PROFD_LOSS_COUNT; ++i) {
    totals[i] = SumPerCpu<uint64_t>(bpf_map__fd(skeleton_->maps.losses), i,
                                    [](uint64_t& sum, const uint64_t& v) { sum += v; });
  }
  return totals;
}

profd_tick_stats BpfKernel::TickStats() const {
  profd_tick_stats stats{};
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.tick_stats), &zero, &stats) != 0) return {};
  return stats;
}

profd_heap_cost BpfKernel::HeapCost() const {
  return SumProbeCost(bpf_map__fd(skeleton_->maps.heap_cost));
}

profd_heap_cost BpfKernel::MapCost() const {
  return SumProbeCost(bpf_map__fd(skeleton_->maps.map_cost));
}

profd_fault_cost BpfKernel::FaultCost() const {
  return SumPerCpu<profd_fault_cost>(bpf_map__fd(skeleton_->maps.fault_cost), 0,
                                     [](profd_fault_cost& sum, const profd_fault_cost& v) {
                                       sum.faults += v.faults;
                                       sum.timed += v.timed;
                                       sum.timed_ns += v.timed_ns;
                                       sum.walks += v.walks;
                                       sum.walk_ns += v.walk_ns;
                                     });
}

profd_malloc_cost BpfKernel::MallocCost() const {
  return SumPerCpu<profd_malloc_cost>(bpf_map__fd(skeleton_->maps.malloc_cost), 0,
                                      [](profd_malloc_cost& sum, const profd_malloc_cost& v) {
                                        sum.calls += v.calls;
                                        sum.stepped += v.stepped;
                                        sum.ns += v.ns;
                                      });
}

profd_switch_cost BpfKernel::SwitchCost() const {
  return SumPerCpu<profd_switch_cost>(bpf_map__fd(skeleton_->maps.switch_cost), 0,
                                      [](profd_switch_cost& sum, const profd_switch_cost& v) {
                                        sum.timed += v.timed;
                                        sum.timed_ns += v.timed_ns;
                                      });
}

std::vector<ProgramMisses> BpfKernel::Misses() const {
  std::vector<ProgramMisses> misses;
  bpf_program* program = nullptr;
  while ((program = bpf_object__next_program(skeleton_->obj, program)) != nullptr) {
    const int fd = bpf_program__fd(program);
    // A read of memory that is not there faults within a page fault's program, too: nothing is
    // missed.
    if (fd < 0 || program == skeleton_->progs.on_kernel_fault) continue;
    bpf_prog_info info{};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) continue;
    misses.push_back({bpf_program__name(program), info.recursion_misses});
  }
  return misses;
}

uint64_t BpfKernel::MapBytes(uint64_t threads) const {
  uint64_t bytes = threads * kThreadAccountBytes + rule_bytes_;
  bpf_map* map = nullptr;
  while ((map = bpf_object__next_map(skeleton_->obj, map)) != nullptr) {
    if (const int fd = bpf_map__fd(map); fd >= 0) bytes += MapMemory(fd);
  }
  return bytes;
}

}  // namespace profd
