#include "daemon/target/modules.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/symbolize/vdso.h"
#include "daemon/target/guarded_file.h"
#include "daemon/target/procfs.h"
#include "daemon/unwind/rules.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

// A module announced while this many wait is asked for again at its next frame.
constexpr size_t kQueueLimit = 4096;
// Compiling a large file leaves this much free heap or more behind.
constexpr size_t kTrimAbove = 65536;
// Modules that are published together, at most, and as soon as they have this many rules.
constexpr size_t kBatch = 128;
constexpr size_t kBatchRows = 262'144;

// When a file was last written; -1 when that is not known.
int64_t WrittenNs(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return -1;
  return int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
}

bool IsVdso(const profd_module_key& key) {
  return key.ino == PROFD_VDSO_INO && key.dev == PROFD_VDSO_DEV;
}

absl::StatusOr<MappedModule> OpenModule(const profd_module_record& record) {
  if (!IsVdso(record.key)) return OpenMapping(record.pid, record.start, record.end);
  MappedModule vdso;
  vdso.path = std::string(kVdsoPath);
  ASSIGN_OR_RETURN(vdso.fd, CopyVdso());
  return vdso;
}

}  // namespace

Modules::Modules(Kernel* kernel, CpuUse* cpu_use, uint64_t rule_limit, bool allocators,
                 bool map_calls, bool glibc)
    : kernel_(kernel),
      cpu_use_(cpu_use),
      rule_limit_(rule_limit),
      search_allocators_(allocators),
      search_map_calls_(map_calls),
      search_glibc_(glibc),
      worker_([this] { Work(); }) {}

Modules::~Modules() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  worker_.join();
}

void Modules::OnAnnounced(const profd_module_record& record) {
  absl::MutexLock lock(&mutex_);
  if (queue_.size() < kQueueLimit) queue_.push_back(record);
}

bool Modules::IsReading() const {
  absl::MutexLock lock(&mutex_);
  return busy_ || !queue_.empty();
}

void Modules::WaitIdle(int64_t deadline_ns) {
  const auto idle = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return queue_.empty() && !busy_; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&idle),
                          absl::Nanoseconds(std::max<int64_t>(0, deadline_ns - MonotonicNs())));
}

void Modules::Work() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  while (true) {
    std::vector<profd_module_record> records;
    {
      absl::MutexLock lock(&mutex_);
      busy_ = false;
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      const auto end = queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), kBatch));
      records.assign(queue_.begin(), end);
      queue_.erase(queue_.begin(), end);
      busy_ = true;
    }
    const CpuUse::Scope scope(&cpu_use_->rules);
    Batch batch;
    for (const profd_module_record& record : records) {
      Compile(record, batch);
      if (batch.rows >= kBatchRows) Publish(std::exchange(batch, {}));
    }
    Publish(std::move(batch));
    if (!search_allocators_ && !search_map_calls_ && !search_glibc_) continue;
    // After the rules, which walks wait for.
    for (const profd_module_record& record : records) Search(record.key);
  }
}

void Modules::Search(const profd_module_key& key) {
  const auto id = kernel_->ModuleIdOf(key);
  if (!id.ok()) return;
  const ModuleId module_id{static_cast<uint16_t>(*id)};
  {
    absl::MutexLock lock(&mutex_);
    const auto it = modules_.find(module_id);
    if (it == modules_.end() || it->second.allocator || it->second.otel_memory ||
        !it->second.map_calls.empty() || it->second.glibc) {
      return;
    }
  }
  const std::optional<ModuleFile> file = Find(module_id);
  if (!file || !file->fd.ok()) return;
  const bool allocator = search_allocators_ && SearchAllocator(module_id, *file);
  const bool tells = search_allocators_ && SearchOtelMemory(module_id, *file);
  const bool libc = search_map_calls_ && SearchMapCalls(module_id, *file);
  const bool glibc = search_glibc_ && SearchGlibc(module_id, *file);
  if (!allocator && !tells && !libc && !glibc) return;
  const absl::Status watched = kernel_->WatchModule(key);
  if (!watched.ok()) spdlog::warn("{}: {}", file->identity.path, watched.ToString());
  absl::MutexLock lock(&mutex_);
  // Last: whoever sees it asks for the processes.
  allocators_ += allocator || tells ? 1 : 0;
  libcs_ += libc ? 1 : 0;
  glibcs_ += glibc ? 1 : 0;
}

bool Modules::SearchAllocator(ModuleId id, const ModuleFile& file) {
  auto allocator = FindJemalloc(file.fd.get(), file.identity.path);
  if (!allocator.ok()) {
    spdlog::debug("no allocator sought in {}: {}", file.identity.path,
                  allocator.status().ToString());
    return false;
  }
  if (!*allocator) return false;
  absl::MutexLock lock(&mutex_);
  modules_[id].allocator = **std::move(allocator);
  return true;
}

bool Modules::SearchOtelMemory(ModuleId id, const ModuleFile& file) {
  auto otel_memory = FindOtelMemory(file.fd.get());
  if (!otel_memory.ok()) {
    spdlog::debug("no USDT probes sought in {}: {}", file.identity.path,
                  otel_memory.status().ToString());
    return false;
  }
  if (!*otel_memory) return false;
  absl::MutexLock lock(&mutex_);
  modules_[id].otel_memory = **std::move(otel_memory);
  return true;
}

bool Modules::SearchMapCalls(ModuleId id, const ModuleFile& file) {
  auto calls = FindMapCalls(file.fd.get());
  if (!calls.ok()) {
    spdlog::debug("no libc sought in {}: {}", file.identity.path, calls.status().ToString());
    return false;
  }
  if (calls->empty()) return false;
  absl::MutexLock lock(&mutex_);
  modules_[id].map_calls = *std::move(calls);
  return true;
}

bool Modules::SearchGlibc(ModuleId id, const ModuleFile& file) {
  auto glibc = FindGlibc(file.fd.get());
  if (!glibc.ok()) {
    spdlog::debug("no malloc sought in {}: {}", file.identity.path, glibc.status().ToString());
    return false;
  }
  if (!*glibc) return false;
  absl::MutexLock lock(&mutex_);
  modules_[id].glibc = **std::move(glibc);
  return true;
}

absl::StatusOr<Modules::Module> Modules::Load(const profd_module_record& record,
                                              std::vector<profd_rule>& rows) {
  Module module;
  auto mapped = OpenModule(record);
  if (absl::IsNotFound(mapped.status())) return mapped.status();
  const auto refuse = [&](absl::string_view why) {
    module.state.note = std::string(why);
    module.unreadable = true;
    return std::move(module);
  };
  if (!mapped.ok()) return refuse(mapped.status().message());
  module.fd = std::move(mapped->fd);
  if (!IsVdso(record.key)) module.root = roots_.Of(record.pid);
  module.written_ns = WrittenNs(module.fd.get());
  module.state.identity.path = std::move(mapped->path);
  if (auto build_id = ReadBuildId(module.fd.get()); build_id.ok()) {
    module.state.identity.build_id = *std::move(build_id);
  }
  auto file = GuardedFile::Map(module.fd.get());
  if (!file.ok()) return refuse(file.status().message());
  auto table = CompileRules((*file)->bytes());
  if (!table.ok()) return refuse(table.status().message());
  if ((*file)->torn()) return refuse("the file was cut short while it was read");
  if (table->rows.empty()) module.state.note = "no .eh_frame: frames are found by frame pointer";
  rows = std::move(table->rows);
  return module;
}

void Modules::Compile(const profd_module_record& record, Batch& batch) {
  const auto id = kernel_->ModuleIdOf(record.key);
  if (!id.ok()) return;
  const ModuleId module_id{static_cast<uint16_t>(*id)};
  // Two walks can announce the same module before it is published.
  if (std::find(batch.ids.begin(), batch.ids.end(), module_id) != batch.ids.end()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (modules_.contains(module_id)) return;
  }
  const int64_t begin = MonotonicNs();
  std::vector<profd_rule> rows;
  absl::StatusOr<Module> loaded = Load(record, rows);
  if (!loaded.ok()) {
    // The process ended first; the next one that runs this file asks again.
    (void)kernel_->ForgetModule(record.key);
    return;
  }
  Module& module = *loaded;
  if (kernel_->RuleBytes() + (batch.rows + rows.size()) * sizeof(profd_rule) > rule_limit_) {
    module.over_limit = true;
    module.state.note = "left out: the memory limit for unwind rules is reached";
    rows = {};
  }
  module.state.rules = static_cast<uint32_t>(rows.size());
  spdlog::debug("module {} {}: {} rules in {} ms", *id, module.state.identity.path, rows.size(),
                (MonotonicNs() - begin) / 1'000'000);
  batch.rows += rows.size();
  batch.ids.push_back(module_id);
  batch.rules.push_back({.key = record.key, .rows = std::move(rows)});
  batch.modules.push_back(std::move(module));
}

void Modules::Publish(Batch batch) {
  if (batch.modules.empty()) return;
  const std::vector<absl::Status> results = kernel_->PublishRules(batch.rules);
  const bool trim = batch.rows > kTrimAbove;
  batch.rules = {};
  if (trim) malloc_trim(0);
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < batch.modules.size(); ++i) {
    Module& module = batch.modules[i];
    if (!results[i].ok()) module.state.note = std::string(results[i].message());
    if (!module.state.note.empty()) {
      spdlog::debug("module {}: {}", module.state.identity.path, module.state.note);
    }
    unreadable_ += module.unreadable ? 1 : 0;
    over_limit_ += module.over_limit ? 1 : 0;
    modules_.emplace(batch.ids[i], std::move(module));
  }
}

std::optional<ModuleFile> Modules::Find(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  if (it == modules_.end()) return std::nullopt;
  ModuleFile file;
  file.identity = it->second.state.identity;
  file.root = it->second.root;
  if (it->second.fd.ok()) file.fd.reset(fcntl(it->second.fd.get(), F_DUPFD_CLOEXEC, 3));
  return file;
}

absl::StatusOr<UniqueFd> Modules::FileToProbe(ModuleId id) const {
  UniqueFd fd;
  int64_t written_ns = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = modules_.find(id);
    if (it == modules_.end() || !it->second.fd.ok()) {
      return absl::NotFoundError("the module's file is not open");
    }
    fd.reset(fcntl(it->second.fd.get(), F_DUPFD_CLOEXEC, 3));
    written_ns = it->second.written_ns;
  }
  if (!fd.ok()) return ErrnoStatus("fcntl", errno);
  if (WrittenNs(fd.get()) != written_ns) {
    return absl::FailedPreconditionError(
        "the file was written since profd read it; restart profd to watch it");
  }
  return fd;
}

std::optional<ModuleIdentity> Modules::IdentityOf(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  if (it == modules_.end()) return std::nullopt;
  return it->second.state.identity;
}

std::optional<JemallocInfo> Modules::AllocatorIn(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  if (it == modules_.end()) return std::nullopt;
  return it->second.allocator;
}

std::optional<OtelMemory> Modules::OtelMemoryIn(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  if (it == modules_.end()) return std::nullopt;
  return it->second.otel_memory;
}

size_t Modules::allocators() const {
  absl::MutexLock lock(&mutex_);
  return allocators_;
}

std::vector<MapCall> Modules::MapCallsIn(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  return it == modules_.end() ? std::vector<MapCall>() : it->second.map_calls;
}

size_t Modules::libcs() const {
  absl::MutexLock lock(&mutex_);
  return libcs_;
}

std::optional<GlibcInfo> Modules::GlibcIn(ModuleId id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = modules_.find(id);
  if (it == modules_.end()) return std::nullopt;
  return it->second.glibc;
}

size_t Modules::glibcs() const {
  absl::MutexLock lock(&mutex_);
  return glibcs_;
}

std::vector<ModuleState> Modules::States() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModuleState> states;
  states.reserve(modules_.size());
  for (const auto& [id, module] : modules_) states.push_back(module.state);
  std::sort(states.begin(), states.end(), [](const ModuleState& a, const ModuleState& b) {
    return a.identity.path < b.identity.path;
  });
  return states;
}

size_t Modules::Count() const {
  absl::MutexLock lock(&mutex_);
  return modules_.size();
}

uint64_t Modules::unreadable() const {
  absl::MutexLock lock(&mutex_);
  return unreadable_;
}

uint64_t Modules::over_limit() const {
  absl::MutexLock lock(&mutex_);
  return over_limit_;
}

}  // namespace profd
