#include "daemon/target/modules.h"

#include <fcntl.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/symbolize/vdso.h"
#include "daemon/target/guarded_file.h"
#include "daemon/target/procfs.h"
#include "daemon/unwind/rule_table.h"
#include "daemon/unwind/rules.h"

namespace profd {
namespace {

// A module announced while this many wait is asked for again at its next frame.
constexpr size_t kQueueLimit = 4096;
// Compiling a large file leaves this much free heap or more behind.
constexpr size_t kTrimAbove = 65536;
// Modules that are published together, at most, and as soon as they have this many rules.
constexpr size_t kBatch = 128;
constexpr size_t kBatchRows = 262'144;
// Where the tables are this full, modules that nobody maps are taken out, until they are that full.
constexpr uint64_t kCrowdedShare = 8;  // all but one part in so many
constexpr uint64_t kRoomyShare = 4;

uint64_t AllBut(uint64_t parts, uint64_t all) { return all - all / parts; }

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

Modules::Modules(ModuleKernel* kernel, CpuUse* cpu_use, ModuleLimits limits, SoughtInModules sought)
    : kernel_(kernel),
      cpu_use_(cpu_use),
      limits_(limits),
      sought_(sought),
      table_(limits.retired),
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

bool Modules::WaitIdle(int64_t patience_ns) {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() && !unused_since_ && !busy_;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&idle), absl::Nanoseconds(patience_ns));
}

void Modules::Work() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty() || unused_since_;
  };
  while (true) {
    std::vector<profd_module_record> records;
    std::optional<uint32_t> unused_since;
    {
      absl::MutexLock lock(&mutex_);
      busy_ = false;
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      unused_since = std::exchange(unused_since_, std::nullopt);
      const auto end = queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), kBatch));
      records.assign(queue_.begin(), end);
      queue_.erase(queue_.begin(), end);
      busy_ = true;
    }
    const CpuUse::Scope scope(&cpu_use_->rules);
    if (unused_since) Retire(*unused_since);
    Batch batch;
    for (const profd_module_record& record : records) {
      Compile(record, batch);
      if (batch.rows >= kBatchRows) Publish(std::exchange(batch, {}));
    }
    Publish(std::move(batch));
    if (!sought_.any()) continue;
    // After the rules, which walks wait for.
    for (const profd_module_record& record : records) Search(record.key);
  }
}

absl::StatusOr<Module> Modules::Load(const profd_module_record& record,
                                     std::vector<profd_rule>& rows) {
  Module module;
  module.key = record.key;
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
  module.version = VersionOf(module.fd.get());
  module.state.identity.path = mapped->path;
  if (auto identity = ReadIdentity(module.fd.get(), std::move(mapped->path)); identity.ok()) {
    module.state.identity = *std::move(identity);
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
  // Two walks can announce the same module before it is published.
  if (std::find(batch.ids.begin(), batch.ids.end(), *id) != batch.ids.end()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (table_.Find(*id) != nullptr) return;
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
  const uint64_t bytes = MostRuleBytes(rows);
  uint64_t of_batch = 0;
  for (const ModuleRules& rules : batch.rules) of_batch += MostRuleBytes(rules.rows);
  if (kernel_->RuleBytes() + of_batch + bytes > limits_.rule_bytes) {
    module.left_out_bytes = bytes;
    module.state.note = "left out: the memory limit for unwind rules is reached";
    rows = {};
  }
  module.state.rules = static_cast<uint32_t>(rows.size());
  LogDebug("module ", static_cast<uint32_t>(*id), " ", module.state.identity.path, ": ",
           rows.size(), " rules in ", (MonotonicNs() - begin) / 1'000'000, " ms");
  batch.rows += rows.size();
  batch.ids.push_back(*id);
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
      LogDebug("module ", module.state.identity.path, ": ", module.state.note);
    }
    unreadable_ += module.unreadable ? 1 : 0;
    over_limit_ += module.left_out_bytes != 0 ? 1 : 0;
    wanted_bytes_ += WantedBytes(module);
    table_.Add(batch.ids[i], std::move(module));
  }
}

bool Modules::IsCrowded() const {
  if (kernel_->ModulesInUse() >= AllBut(kCrowdedShare, limits_.modules)) return true;
  absl::MutexLock lock(&mutex_);
  return wanted_bytes_ != 0 || kernel_->RuleBytes() > AllBut(kCrowdedShare, limits_.rule_bytes);
}

void Modules::MakeRoom(uint32_t unused_since) {
  absl::MutexLock lock(&mutex_);
  unused_since_ = unused_since;
}

void Modules::Retire(uint32_t unused_since) {
  const auto listed = kernel_->ListModules();
  if (!listed.ok()) {
    LogError("list modules: ", listed.status().ToString());
    return;
  }
  const std::vector<KnownModule> chosen = ChooseUnused(*listed, unused_since);
  // With none, tables that were removed before are freed.
  kernel_->RemoveModules(chosen);
  const int64_t now = MonotonicNs();
  absl::MutexLock lock(&mutex_);
  for (const KnownModule& known : chosen) {
    const Module* module = table_.Find(known.id);
    if (module != nullptr) wanted_bytes_ -= WantedBytes(*module);
    table_.Retire(known.id, now);
  }
}

std::vector<KnownModule> Modules::ChooseUnused(const std::vector<KnownModule>& listed,
                                               uint32_t unused_since) const {
  // The clock may pass its end.
  const auto age = [&](const KnownModule& m) {
    return static_cast<int32_t>(unused_since - m.used);
  };
  std::vector<KnownModule> unused;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(unused),
               [&](const KnownModule& m) { return age(m) > 0; });
  std::sort(unused.begin(), unused.end(),
            [&](const KnownModule& a, const KnownModule& b) { return age(a) > age(b); });
  size_t in_use = listed.size();
  uint64_t bytes = kernel_->RuleBytes();
  std::vector<KnownModule> chosen;
  absl::MutexLock lock(&mutex_);
  for (const KnownModule& known : unused) {
    if (in_use <= AllBut(kRoomyShare, limits_.modules) &&
        bytes + wanted_bytes_ <= AllBut(kRoomyShare, limits_.rule_bytes)) {
      break;
    }
    chosen.push_back(known);
    --in_use;
    const Module* module = table_.Find(known.id);
    if (module != nullptr) bytes -= module->state.rules * kRuleRowBytes;
  }
  // Those without rules for want of room are read again where they fit in now.
  for (const KnownModule& known : listed) {
    const Module* module = age(known) > 0 ? nullptr : table_.Find(known.id);
    const uint64_t wanted = module == nullptr ? 0 : WantedBytes(*module);
    if (wanted == 0 || bytes + wanted > limits_.rule_bytes) continue;
    bytes += wanted;
    chosen.push_back(known);
  }
  return chosen;
}

void Modules::KeepOnly(const absl::flat_hash_set<ModuleId>& named) {
  absl::MutexLock lock(&mutex_);
  table_.KeepOnly(named, MonotonicNs());
}

std::optional<ModuleFile> Modules::Find(ModuleId id) const {
  ModuleFile file;
  std::optional<FileVersion> version;
  {
    absl::MutexLock lock(&mutex_);
    const Module* module = table_.Find(id);
    if (module == nullptr) return std::nullopt;
    file.identity = module->state.identity;
    file.root = module->root;
    version = module->version;
    if (module->fd.ok()) file.fd.reset(fcntl(module->fd.get(), F_DUPFD_CLOEXEC, 3));
  }
  if (!file.fd.ok() && version) {
    file.fd = ReopenFile(file.root ? file.root->get() : -1, file.identity.path, *version);
  }
  return file;
}

absl::StatusOr<UniqueFd> Modules::FileToProbe(WatchId id) const {
  UniqueFd fd;
  std::optional<FileVersion> version;
  {
    absl::MutexLock lock(&mutex_);
    const Module* module = table_.Find(id);
    if (module == nullptr || !module->fd.ok()) {
      return absl::NotFoundError("the module's file is not open");
    }
    fd.reset(fcntl(module->fd.get(), F_DUPFD_CLOEXEC, 3));
    version = module->version;
  }
  if (!fd.ok()) return ErrnoStatus("fcntl", errno);
  if (VersionOf(fd.get()) != version) {
    return absl::FailedPreconditionError(
        "the file was written since profd read it; processes that start now are watched");
  }
  return fd;
}

bool Modules::Knows(WatchId id) const {
  return Get(id, [](const Module& /*module*/) { return true; });
}

std::optional<ModuleIdentity> Modules::IdentityOf(WatchId id) const {
  return Get(id, [](const Module& module) { return std::optional(module.state.identity); });
}

std::optional<JemallocInfo> Modules::AllocatorIn(WatchId id) const {
  return Get(id, [](const Module& module) { return module.allocator; });
}

std::optional<OtelMemory> Modules::OtelMemoryIn(WatchId id) const {
  return Get(id, [](const Module& module) { return module.otel_memory; });
}

std::vector<MapCall> Modules::MapCallsIn(WatchId id) const {
  return Get(id, [](const Module& module) { return module.map_calls; });
}

std::optional<GlibcInfo> Modules::GlibcIn(WatchId id) const {
  return Get(id, [](const Module& module) { return module.glibc; });
}

FoundModules Modules::found() const {
  absl::MutexLock lock(&mutex_);
  return found_;
}

std::vector<ModuleState> Modules::States() const {
  std::vector<ModuleState> states;
  {
    absl::MutexLock lock(&mutex_);
    states = table_.States();
  }
  std::sort(states.begin(), states.end(), [](const ModuleState& a, const ModuleState& b) {
    return a.identity.path < b.identity.path;
  });
  return states;
}

ModuleUse Modules::Use() const {
  const size_t in_use = kernel_->ModulesInUse();
  absl::MutexLock lock(&mutex_);
  return {.in_use = in_use, .limit = limits_.modules, .retired = table_.retired()};
}

uint64_t Modules::unreadable() const {
  absl::MutexLock lock(&mutex_);
  return unreadable_;
}

uint64_t Modules::over_limit() const {
  absl::MutexLock lock(&mutex_);
  return over_limit_;
}

uint64_t Modules::forgotten() const {
  absl::MutexLock lock(&mutex_);
  return table_.forgotten();
}

}  // namespace profd
