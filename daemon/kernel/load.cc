#include "daemon/kernel/load.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/profd.skel.h"
#include "bpf/profd_plain.skel.h"
#include "daemon/base/log.h"
#include "daemon/base/start_thread.h"
#include "daemon/kernel/kernel_code.h"
#include "daemon/kernel/kernel_trials.h"
#include "daemon/kernel/probe_link.h"
#include "daemon/kernel/refused_program.h"

namespace profd {
namespace {

constexpr size_t kLogTail = 4096;
// Entries for requests and file syncs under way at one instant, at least, if the limit on counters
// is not less.
constexpr uint64_t kUnderWay = 8192;

// The program that the kernel rejected last. Only libbpf's messages name it.
std::string refused_program;

int LogLibbpf(enum libbpf_print_level level, const char* format, va_list args) {
  // libbpf's warnings are debug messages here. It warns if it cannot raise RLIMIT_MEMLOCK, to which
  // no supported kernel charges maps.
  const auto severity = level == LIBBPF_DEBUG ? LogLevel::kTrace : LogLevel::kDebug;
  if (level != LIBBPF_WARN && !ShouldLog(severity)) return 0;
  char* text = nullptr;
  const int size = vasprintf(&text, format, args);
  if (size < 0) return 0;
  if (level == LIBBPF_WARN) {
    const std::string program = RefusedProgram({text, static_cast<size_t>(size)});
    if (!program.empty()) refused_program = program;
  }
  // The relevant part of a verifier log is its end.
  const std::string_view whole(text, static_cast<size_t>(size));
  const std::string_view end = whole.substr(whole.size() - std::min(whole.size(), kLogTail));
  Log(severity, "libbpf: ", std::string(end));
  free(text);
  return 0;
}

// Opens the skeleton; with `plain`, of the object that names no kernel functions. Both objects have
// the same programs, maps and globals in the same order.
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
  const uint64_t under_way = std::max(limits.counters / 4, std::min(limits.counters, kUnderWay));
  struct Size {
    bpf_map* map;
    uint64_t entries;
  };
  for (const Size& size :
       {Size{s->maps.known_stacks, limits.known_stacks},
        Size{s->maps.events, limits.ring},
        Size{s->maps.heap_even, limits.heap_counters},
        Size{s->maps.heap_odd, limits.heap_counters},
        Size{s->maps.cpu_even, limits.counters},
        Size{s->maps.cpu_odd, limits.counters},
        Size{s->maps.disk_even, limits.counters},
        Size{s->maps.disk_odd, limits.counters},
        Size{s->maps.disk_requests, under_way},
        Size{s->maps.open_syncs, under_way},
        Size{s->maps.synced_files, under_way},
        Size{s->maps.waker_even, limits.counters},
        Size{s->maps.waker_odd, limits.counters},
        Size{s->maps.switch_stack_even, limits.counters},
        Size{s->maps.switch_stack_odd, limits.counters},
        Size{s->maps.malloc_counts, options.malloc_layer ? limits.malloc_stacks : 1},
        Size{s->maps.last_records, limits.exits},
        Size{s->maps.modules, limits.modules},
        Size{s->maps.rule_tables, limits.modules},
        Size{s->maps.malloc_threads, options.malloc_layer ? limits.malloc_threads : 1}}) {
    bpf_map__set_max_entries(size.map, static_cast<uint32_t>(size.entries));
  }
  s->rodata->news_burst = static_cast<uint32_t>(limits.news);
  s->rodata->max_modules = static_cast<uint32_t>(limits.modules);
}

struct KernelFacts {
  bool multi_probes = false;
  bool sync_calls = false;  // programs may run at the system calls that sync files
};

const KernelFacts& ThisKernel() {
  // Only once, because it reads several megabytes.
  static const KernelFacts facts = [] {
    TakeLibbpfMessages();
    const std::unique_ptr<btf, void (*)(btf*)> types(btf__load_vmlinux_btf(), btf__free);
    if (!types) return KernelFacts();
    constexpr std::array<std::string_view, 5> kCalls = {
        "__x64_sys_fsync", "__x64_sys_fdatasync", "__x64_sys_msync", "__x64_sys_sync_file_range",
        "__x64_sys_syncfs"};
    KernelFacts found;
    size_t calls = 0;
    int fsync = 0;
    for (uint32_t id = 1; id < btf__type_cnt(types.get()); ++id) {
      const btf_type* type = btf__type_by_id(types.get(), id);
      if (!btf_is_func(type) && !btf_is_struct(type)) continue;
      const std::string_view name = btf__name_by_offset(types.get(), type->name_off);
      if (btf_is_struct(type)) {
        found.multi_probes = found.multi_probes || name == "bpf_uprobe_multi_link";
      } else if (std::find(kCalls.begin(), kCalls.end(), name) != kCalls.end()) {
        ++calls;
        if (name == kCalls[0]) fsync = static_cast<int>(id);
      }
    }
    found.multi_probes = found.multi_probes && ProbesSeeAllThreads();
    found.sync_calls = calls >= kCalls.size() && MayEnterFunction(fsync);
    return found;
  }();
  return facts;
}

// The optional programs and their layers.
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
          {s->progs.on_fault, KernelLayer::kFault},
          {s->progs.on_map_call, KernelLayer::kMap},
          {s->progs.on_malloc, KernelLayer::kMalloc},
          {s->progs.on_cpu_clock, KernelLayer::kCpu},
          {s->progs.on_disk_request, KernelLayer::kDisk},
          {s->progs.on_disk_issue, KernelLayer::kDisk},
          {s->progs.on_disk_merge, KernelLayer::kDisk},
          {s->progs.on_disk_completion, KernelLayer::kDisk},
          {s->progs.on_disk_growth, KernelLayer::kDisk},
          {s->progs.on_fsync, KernelLayer::kSync},
          {s->progs.on_fsync_end, KernelLayer::kSync},
          {s->progs.on_fdatasync, KernelLayer::kSync},
          {s->progs.on_fdatasync_end, KernelLayer::kSync},
          {s->progs.on_sync_file_range, KernelLayer::kSync},
          {s->progs.on_sync_file_range_end, KernelLayer::kSync},
          {s->progs.on_syncfs, KernelLayer::kSync},
          {s->progs.on_syncfs_end, KernelLayer::kSync},
          {s->progs.on_msync, KernelLayer::kSync},
          {s->progs.on_msync_end, KernelLayer::kSync},
          {s->progs.on_ext4_sync, KernelLayer::kSync},
          {s->progs.on_ext4_sync_end, KernelLayer::kSync},
          {s->progs.on_waking, KernelLayer::kWaker},
          {s->progs.on_switch_stack, KernelLayer::kSwitchStack},
          {s->progs.look, KernelLayer::kLook}};
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
    case KernelLayer::kCpu:
      return options.cpu_layer;
    case KernelLayer::kDisk:
      return options.disk_layer;
    case KernelLayer::kSync:
      return options.disk_layer && refusals[static_cast<size_t>(KernelLayer::kDisk)].empty();
    case KernelLayer::kWaker:
      return options.waker_layer;
    case KernelLayer::kSwitchStack:
      return options.switch_stack_layer;
    case KernelLayer::kLook:
      return true;
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
  // The verifier takes longest for these two.
  bpf_program__set_autoload(s->progs.tick, !tick_by_list || options.visits_all);
  for (const auto& [program, layer] : LayerPrograms(s)) {
    bpf_program__set_autoload(program, IsWanted(options, refusals, layer));
  }
  if (!HasSyncCalls()) {
    for (bpf_program* program : SyncCallPrograms(s)) bpf_program__set_autoload(program, false);
  }
  SizeMaps(options, static_cast<uint32_t>(std::max(1, libbpf_num_possible_cpus())), s);
  std::random_device random;
  s->rodata->fault_seed = uint64_t{random()} << 32 | random();
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

// Leaves out what this kernel refuses.
absl::StatusOr<UniqueSkeleton> LoadPrograms(const KernelOptions& options, LayerRefusals* refusals) {
  bool tick_by_list = true;
  while (true) {
    auto skeleton = Load(options, *refusals, tick_by_list);
    if (skeleton.ok()) return skeleton;
    // Without the capabilities nothing can be loaded, so leaving programs out does not help.
    const bool permitted = !absl::IsPermissionDenied(skeleton.status());
    const std::optional<KernelLayer> layer = permitted ? LayerOf(refused_program) : std::nullopt;
    if (layer) {
      LogDebug("without ", refused_program, ": ", skeleton.status().ToString());
      (*refusals)[static_cast<size_t>(*layer)] = absl::StrCat(
          "this kernel rejects program ", refused_program, " (--log-level debug shows why)");
    } else if (tick_by_list) {
      LogDebug("cannot visit threads by list: ", skeleton.status().ToString());
      tick_by_list = false;
    } else {
      return skeleton.status();
    }
  }
}

}  // namespace

void TakeLibbpfMessages() { libbpf_set_print(LogLibbpf); }

void SizeMaps(const KernelOptions& options, uint32_t cpus, profd_bpf* s) {
  SetLimits(options, s);
  for (bpf_map* by_cpu : {s->maps.cpu_scratch, s->maps.cpu_periods}) {
    bpf_map__set_max_entries(by_cpu,
                             options.cpu_layer ? std::min<uint32_t>(cpus, PROFD_MAX_CPUS) : 1);
  }
  bpf_map__set_max_entries(s->maps.scheduler_scratch,
                           options.waker_layer || options.switch_stack_layer
                               ? std::min<uint32_t>(cpus, PROFD_MAX_CPUS)
                               : 1);
  if (options.heap_layer) {
    bpf_map__set_max_entries(s->maps.thread_data_places,
                             PROFD_THREAD_DATA_PLACES + cpus * PROFD_THREAD_DATA_PLACES_PER_CPU);
  }
  const uint32_t walks = cpus * PROFD_OWN_WALKS_PER_CPU;
  bpf_map__set_max_entries(s->maps.own_scratch, options.heap_layer || options.fault_layer ||
                                                        options.map_layer || options.malloc_layer ||
                                                        options.disk_layer
                                                    ? std::min<uint32_t>(walks, PROFD_MAX_OWN_WALKS)
                                                    : 1);
  bpf_map__set_max_entries(s->maps.sync_scratch,
                           options.disk_layer ? std::min<uint32_t>(walks, PROFD_MAX_OWN_WALKS) : 1);
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

std::optional<KernelLayer> LayerOf(const std::string& name) {
  const UniqueSkeleton skeleton = Open(true);
  if (!skeleton) return std::nullopt;
  for (const auto& [program, layer] : LayerPrograms(skeleton.get())) {
    if (name == bpf_program__name(program)) return layer;
  }
  return std::nullopt;
}

absl::StatusOr<UniqueSkeleton> LoadWhatGoes(const KernelOptions& options, LayerRefusals* refusals) {
  // Meanwhile, as it takes a tenth of a second, too.
  KernelCode code;
  const auto read = [&code] {
    std::ifstream symbols("/proc/kallsyms");
    code = FindKernelCode(symbols);
  };
  std::optional<std::thread> reader;
  if (options.waker_layer || options.switch_stack_layer) {
    reader = StartThread(read);
    if (!reader) read();
  }
  auto skeleton = LoadPrograms(options, refusals);
  if (reader) reader->join();
  RETURN_IF_ERROR(skeleton.status());
  // Its program is loaded in vain then.
  std::string& waker_refusal = (*refusals)[static_cast<size_t>(KernelLayer::kWaker)];
  if (options.waker_layer && code.interrupts.end == 0 && waker_refusal.empty()) {
    waker_refusal =
        "cannot tell interrupts: /proc/kallsyms shows no addresses; needs CAP_SYSLOG and "
        "kernel.kptr_restrict below 2";
  }
  auto* told = (*skeleton)->data_code;
  told->entry_begin = code.interrupts.begin;
  told->entry_end = code.interrupts.end;
  told->timeout_begin = code.timeout.begin;
  told->timeout_end = code.timeout.end;
  told->signal_begin = code.signal.begin;
  told->signal_end = code.signal.end;
  told->scheduler_begin = code.scheduler.begin;
  told->scheduler_end = code.scheduler.end;
  return skeleton;
}

bool HasMultiProbes() { return ThisKernel().multi_probes; }

bool HasSyncCalls() { return ThisKernel().sync_calls; }

std::array<bpf_program*, kSyncCallPrograms> SyncCallPrograms(const profd_bpf* skeleton) {
  const auto& p = skeleton->progs;
  return {p.on_fsync_end, p.on_fdatasync_end, p.on_sync_file_range_end, p.on_syncfs_end,
          p.on_msync_end, p.on_fsync,         p.on_fdatasync,           p.on_sync_file_range,
          p.on_syncfs,    p.on_msync};
}

void SkeletonDeleter::operator()(profd_bpf* skeleton) const { profd_bpf__destroy(skeleton); }

}  // namespace profd
