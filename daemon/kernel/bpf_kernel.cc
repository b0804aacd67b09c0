#include "daemon/kernel/bpf_kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "bpf/profd.skel.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/kernel/load.h"
#include "daemon/kernel/tables.h"

namespace profd {
namespace {

constexpr size_t kIteratorBuffer = 64 << 10;
constexpr size_t kRingHeader = 8;  // of a record

// Naps in which the switches of our own thread must be seen; one is enough.
constexpr int kClockAttempts = 50;

template <typename T>
absl::StatusOr<UniqueSharedTable<T>> ShareTable(const bpf_map* map, const char* what) {
  const size_t bytes = size_t{bpf_map__max_entries(map)} * sizeof(T);
  void* table = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
  if (table == MAP_FAILED) return ErrnoStatus(absl::StrCat("map the table of ", what), errno);
  return UniqueSharedTable<T>(static_cast<T*>(table), {bytes});
}

// Reads what an iterator writes. `consume` gets what was not used yet, and returns how many bytes
// of it it used.
absl::Status ReadIterator(const UniqueLink& link, const char* name,
                          absl::FunctionRef<size_t(std::span<const uint8_t>)> consume) {
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
    const size_t used = consume({buffer.data(), held});
    std::copy(buffer.begin() + static_cast<ptrdiff_t>(used),
              buffer.begin() + static_cast<ptrdiff_t>(held), buffer.begin());
    held -= used;
  }
  if (held != 0) return absl::DataLossError(absl::StrCat("iterator ", name, ": partial record"));
  return absl::OkStatus();
}

}  // namespace

void RingDeleter::operator()(ring_buffer* ring) const { ring_buffer__free(ring); }

void SharedTableDeleter::operator()(void* table) const { munmap(table, bytes); }

BpfKernel::BpfKernel(profd_bpf* skeleton) : skeleton_(skeleton) {}
BpfKernel::~BpfKernel() = default;

const std::string& BpfKernel::refusal(KernelLayer layer) const {
  return refusals_[static_cast<size_t>(layer)];
}

absl::StatusOr<std::unique_ptr<Kernel>> Kernel::Create(const KernelOptions& options) {
  TakeLibbpfMessages();
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
        // Stops what would not end while programs are as quick as this.
        if (size + kRingHeader >= self->ring_bytes_left_) return -EAGAIN;
        self->ring_bytes_left_ -= size + kRingHeader;
        return 0;
      },
      this, nullptr));
  if (!ring_) return ErrnoStatus("map the event ring", errno);
  ring_bytes_ = options.limits.ring;
  ASSIGN_OR_RETURN(born_table_, ShareTable<profd_born>(s->maps.born_threads, "new threads"));
  exited_ = ExitedTable({.even = bpf_map__fd(s->maps.exited_even),
                         .odd = bpf_map__fd(s->maps.exited_odd),
                         .rest = bpf_map__fd(s->maps.exited_rest),
                         .entries = bpf_map__max_entries(s->maps.exited_even),
                         .epoch = &s->bss->exited_epoch,
                         .rest_used = &s->bss->exited_rest_used});
  if (bpf_program__fd(s->progs.tick_list) >= 0) {
    ASSIGN_OR_RETURN(visit_table_, ShareTable<profd_visit>(s->maps.visits, "visits"));
  }
  return AttachAll();
}

absl::Status BpfKernel::AttachAll() {
  profd_bpf* s = skeleton_.get();
  // Iterators first: the drain learns our PID namespace before any event names a PID, and marks
  // this thread as the clock. It opens accounts for whoever runs and is a target by default; the
  // iterators over mappings know targets by these.
  struct Iterator {
    bpf_program* program;
    UniqueLink* link;
  };
  for (const Iterator& it :
       {Iterator{s->progs.drain, &drain_link_}, Iterator{s->progs.tick, &tick_link_},
        Iterator{s->progs.find_modules, &find_modules_link_},
        Iterator{s->progs.mapping_processes, &mapping_processes_link_},
        Iterator{s->progs.drain_heap, &heap_link_}, Iterator{s->progs.look, &look_link_}}) {
    if (bpf_program__fd(it.program) < 0) continue;  // left out
    it.link->reset(bpf_program__attach_iter(it.program, nullptr));
    if (!*it.link) RETURN_IF_ERROR(GiveUp(it.program, errno));
  }
  RETURN_IF_ERROR(DrainThreads([](std::span<const uint8_t>) {}, true).status());
  for (bpf_program* program : {s->progs.on_newtask, s->progs.on_heap_exit, s->progs.on_exit,
                               s->progs.on_free, s->progs.on_exec, s->progs.on_heap_exec}) {
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
    LogWarning("no per-switch layer: it needs a kernel with CONFIG_FAIR_GROUP_SCHED");
    has_switch_layer_ = false;
    switch_link_.reset();
    return absl::OkStatus();
  }
  // Another epoch than before: ledgers go on when the next drain has armed them.
  skeleton_->bss->switch_epoch = ++switch_epoch_;
  return absl::OkStatus();
}

void BpfKernel::SetLongWaits(const std::array<int64_t, PROFD_LONG_WAIT_CLASSES>& least_ns) {
  for (size_t i = 0; i < least_ns.size(); ++i) {
    std::atomic_ref(skeleton_->bss->long_wait_ns[i])
        .store(static_cast<uint64_t>(least_ns[i]), std::memory_order_relaxed);
  }
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
  return ReadIterator(link, name, [&](std::span<const uint8_t> bytes) {
    if (record_size == 0) return bytes.size();
    size_t used = 0;
    for (; bytes.size() - used >= record_size; used += record_size) {
      sink(bytes.subspan(used, record_size));
    }
    return used;
  });
}

absl::Status BpfKernel::RunSizedIterator(const UniqueLink& link, const char* name,
                                         RecordSize size_of, const RecordSink& sink) {
  return ReadIterator(link, name, [&](std::span<const uint8_t> bytes) {
    size_t used = 0;
    while (true) {
      const size_t size = size_of(bytes.subspan(used));
      if (size == 0 || size > bytes.size() - used) return used;
      sink(bytes.subspan(used, size));
      used += size;
    }
  });
}

absl::Status BpfKernel::AnnounceMappings() {
  return RunIterator(find_modules_link_, "find_modules", 0, {});
}

absl::StatusOr<std::vector<profd_mapping_process>> BpfKernel::MappingProcesses() {
  std::vector<profd_mapping_process> processes;
  RETURN_IF_ERROR(RunIterator(mapping_processes_link_, "mapping_processes",
                              sizeof(profd_mapping_process), [&](std::span<const uint8_t> bytes) {
                                std::memcpy(&processes.emplace_back(), bytes.data(), bytes.size());
                              }));
  return processes;
}

absl::Status BpfKernel::AnnounceMappings(std::span<const int32_t> pids) {
  absl::Status status;
  for (const int32_t pid : pids) {
    bpf_iter_link_info only{};
    only.task.tid = static_cast<uint32_t>(pid);
    DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &only,
                        .link_info_len = sizeof(only));
    const UniqueLink link(bpf_program__attach_iter(skeleton_->progs.find_modules, &options));
    if (!link) {
      // ESRCH: it has ended.
      if (errno != ESRCH) status.Update(ErrnoStatus("start iterator find_modules", errno));
      continue;
    }
    status.Update(RunIterator(link, "find_modules", 0, {}));
  }
  return status;
}

absl::StatusOr<LeftOut> BpfKernel::DrainThreads(const RecordSink& sink, bool all) {
  skeleton_->bss->drain_all = all;
  skeleton_->bss->drain_left_out = 0;
  ++skeleton_->bss->duration_drain;
  RETURN_IF_ERROR(RunIterator(drain_link_, "drain", sizeof(profd_thread_record), sink));
  const int64_t now = MonotonicNs();
  return LeftOut{.threads = skeleton_->bss->drain_left_out,
                 .now_ns = now,
                 .clock_ns = now - static_cast<int64_t>(skeleton_->bss->clock_distance)};
}

absl::Status BpfKernel::PollEvents(const RecordSink& sink) {
  // First: what comes meanwhile is news again.
  std::atomic_ref(skeleton_->bss->ring_has_news).exchange(0);
  skeleton_->bss->ring_held = 0;
  const RecordSink counting = [&](std::span<const uint8_t> record) {
    uint32_t type = 0;
    if (record.size() >= sizeof(type)) std::memcpy(&type, record.data(), sizeof(type));
    if (type == PROFD_RECORD_STACK) ++stacks_seen_;
    sink(record);
  };
  ring_sink_ = &counting;
  ring_bytes_left_ = bpf_map__max_entries(skeleton_->maps.events);
  const int n = ring_buffer__consume(ring_.get());
  ring_sink_ = nullptr;
  if (n < 0 && n != -EAGAIN) return ErrnoStatus("read the event ring", -n);
  return PollLate(sink);
}

absl::Status BpfKernel::PollLate(const RecordSink& sink) {
  const auto hand_over = [&](const auto& entries) {
    for (const auto& [key, record] : entries) {
      sink({reinterpret_cast<const uint8_t*>(&record), sizeof(record)});
    }
  };
  // Read before the table: what comes after that is for the next call.
  const uint64_t last = *static_cast<volatile uint64_t*>(&skeleton_->bss->last_records_kept);
  if (std::exchange(last_records_seen_, last) != last) {
    ASSIGN_OR_RETURN(
        const auto records,
        (EmptyTable<uint64_t, profd_thread_record>(bpf_map__fd(skeleton_->maps.last_records))));
    hand_over(records);
  }
  const uint64_t execs = *static_cast<volatile uint64_t*>(&skeleton_->bss->late_execs_kept);
  if (std::exchange(late_execs_seen_, execs) != execs) {
    ASSIGN_OR_RETURN(
        const auto records,
        (EmptyTable<int32_t, profd_exec_record>(bpf_map__fd(skeleton_->maps.late_execs))));
    hand_over(records);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExitedEntry>> BpfKernel::DrainExited() {
  return exited_.Drain(MonotonicNs());
}

bool BpfKernel::TakeUntoldExecs() {
  return std::atomic_ref(skeleton_->bss->exec_untold).exchange(0) != 0;
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
  for (const char* tracepoint : {"page_fault_user", "page_fault_kernel"}) {
    UniqueLink link(bpf_program__attach_raw_tracepoint(skeleton_->progs.on_fault, tracepoint));
    if (!link) return LoadError(absl::StrCat("attach to ", tracepoint).c_str(), errno);
    links.push_back(std::move(link));
  }
  fault_links_ = std::move(links);
  return absl::OkStatus();
}

absl::Status BpfKernel::TrimKnownStacks(bool all) {
  if (!all && stacks_seen_ < known_stacks_trim_) return absl::OkStatus();
  stacks_seen_ = 0;
  return EmptyTable<uint64_t, uint8_t>(bpf_map__fd(skeleton_->maps.known_stacks)).status();
}

}  // namespace profd
