#include "tests/unit/fixture_profile.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "client/answer/json.h"
#include "client/answer/view.h"
#include "client/render/findings.h"
#include "daemon/service/grouping.h"
#include "daemon/service/idle.h"
#include "daemon/service/origin.h"
#include "daemon/service/waker_frames.h"
#include "gtest/gtest.h"

namespace profctl {
namespace {

// Times are written in the local zone: here it is the same everywhere.
const bool kLocalZoneIsUtc = setenv("TZ", "UTC", 1) == 0;

using profd::v1::FRAME_KIND_APPLICATION;
using profd::v1::FRAME_KIND_KERNEL;
using profd::v1::FRAME_KIND_LIBC;
using profd::v1::FRAME_KIND_RUNTIME;
using profd::v1::FRAME_KIND_SYNTHETIC;
using FrameSpec = AnswerWriter::FrameSpec;
using Frames = std::vector<FrameSpec>;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kBegin = 1'769'864'700 * kSecond;  // 2026-01-31T13:05:00Z

FrameSpec Kernel(const std::string& name) { return {name, "[kernel]", FRAME_KIND_KERNEL}; }
FrameSpec Libc(const std::string& name) { return {name, "libc.so.6", FRAME_KIND_LIBC}; }
FrameSpec Runtime(const std::string& name) { return {name, "reth", FRAME_KIND_RUNTIME}; }
FrameSpec App(const std::string& name) { return {name, "reth", FRAME_KIND_APPLICATION}; }

Frames Join(std::initializer_list<Frames> parts) {
  Frames all;
  for (const Frames& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Frames FutexWait() {
  return {Kernel("__schedule"),
          Kernel("schedule"),
          Kernel("futex_wait_queue"),
          Kernel("futex_wait"),
          Kernel("do_futex"),
          Kernel("__x64_sys_futex"),
          Kernel("do_syscall_64"),
          Kernel("entry_SYSCALL_64_after_hwframe"),
          Libc("syscall")};
}

Frames FsyncWait() {
  return {Kernel("__schedule"),
          Kernel("schedule"),
          Kernel("io_schedule"),
          Kernel("folio_wait_bit_common"),
          Kernel("file_write_and_wait_range"),
          Kernel("ext4_sync_file"),
          Kernel("__x64_sys_fdatasync"),
          Kernel("do_syscall_64"),
          Kernel("entry_SYSCALL_64_after_hwframe"),
          Libc("fdatasync")};
}

Frames ThreadRoot() {
  return {Runtime("std::sys::thread::unix::Thread::new::thread_start"), Libc("start_thread"),
          Libc("clone3")};
}

Frames MainRoot() {
  return {App("reth::main"), Runtime("std::rt::lang_start_internal"), Libc("main"),
          Libc("__libc_start_main"), App("_start")};
}

}  // namespace

const std::vector<profd::v1::GroupKey> AnswerWriter::kByName = {profd::v1::GROUP_KEY_PROCESS_NAME,
                                                                profd::v1::GROUP_KEY_THREAD_NAME};
const std::vector<profd::v1::GroupKey> AnswerWriter::kByThread = {profd::v1::GROUP_KEY_PROCESS,
                                                                  profd::v1::GROUP_KEY_THREAD};

AnswerWriter::AnswerWriter(profd::Kind kind) : kind_(kind) {
  const SampleTypeInfo& info = profd::DescribeSampleType(kind);
  profd::v1::Host& host = *message_.mutable_host();
  host.set_daemon_version("0.1.0");
  host.set_hostname("node-7");
  host.set_kernel_release("6.12.0");
  coverage().set_begin_ns(kBegin);
  coverage().set_end_ns(kBegin + 60 * kSecond);
  coverage().set_requested_begin_ns(kBegin);
  coverage().set_requested_end_ns(kBegin + 60 * kSecond);
  coverage().set_books_ns(60 * kSecond);
  coverage().set_switch_ns(60 * kSecond);
  coverage().set_tick_ns(60 * kSecond);
  coverage().set_ticks(5980);
  coverage().set_ticks_missed(2);
  coverage().set_tick_interval_ns(10 * kMs);
  coverage().set_walks(2310);
  coverage().set_torn_walks(4);
  message_.add_sample_types();
  type().set_name(std::string(info.name));
  type().set_unit(std::string(profd::UnitName(info.unit)));
  type().set_level(info.level);
  type().set_count_unit(std::string(info.count_unit));
  type().set_watched_ns(60 * kSecond);
  type().set_complete_share(0.998);
  type().set_period(info.unit == Unit::kBytes ? 64 * kKiB : 10 * kMs);
  if (info.HasTotals()) type().mutable_total();
  String("");
  message_.add_mappings();
  message_.add_stacks();
  message_.add_groups();
  profd::v1::Cost& cost = *message_.mutable_cost();
  cost.set_daemon_cpu_ns(600 * kMs);
  cost.set_tick_cpu_ns(400 * kMs);
  cost.set_drain_cpu_ns(90 * kMs);
  cost.set_rules_cpu_ns(12 * kMs);
  cost.set_answers_cpu_ns(30 * kMs);
  cost.set_in_path_ns(64 * kMs);
  cost.set_switches(160'000);
  cost.set_duration_ns(60 * kSecond);
  profd::v1::TargetCost& target = *cost.add_targets();
  target.set_target(1);
  target.set_in_path_ns(64 * kMs);
  target.set_tick_cpu_ns(400 * kMs);
  target.set_drain_cpu_ns(90 * kMs);
  target.set_switches(160'000);
}

uint32_t AnswerWriter::String(const std::string& text) {
  for (int i = 0; i < message_.strings_size(); i++) {
    if (message_.strings(i) == text) return static_cast<uint32_t>(i);
  }
  message_.add_strings(text);
  return static_cast<uint32_t>(message_.strings_size() - 1);
}

uint32_t AnswerWriter::AddThread(int pid, int tid, const std::string& process,
                                 const std::string& name, int64_t wall_ns, int64_t on_cpu_ns) {
  int index = 0;
  while (index < message_.processes_size() &&
         (message_.processes(index).pid() != pid || message_.processes(index).name() != process)) {
    index++;
  }
  if (index == message_.processes_size()) {
    message_.add_processes()->set_pid(pid);
    message_.mutable_processes(index)->set_name(process);
  }
  profd::v1::Thread& thread = *message_.add_threads();
  thread.set_process(static_cast<uint32_t>(index));
  thread.set_tid(tid);
  thread.set_name(name);
  thread.set_wall_ns(wall_ns);
  thread.set_on_cpu_ns(on_cpu_ns);
  thread.set_books_on_cpu_ns(on_cpu_ns);
  return static_cast<uint32_t>(message_.threads_size() - 1);
}

void AnswerWriter::SetEstimated(uint32_t thread, int64_t time_ns) {
  message_.mutable_threads(static_cast<int>(thread))->set_estimated_ns(time_ns);
}

uint32_t AnswerWriter::AddFrame(const FrameSpec& spec) {
  for (size_t i = 0; i < specs_.size(); i++) {
    if (specs_[i].function == spec.function && specs_[i].module == spec.module) {
      return static_cast<uint32_t>(i);
    }
  }
  const uint32_t file = String(spec.module);
  int mapping = 0;
  while (mapping < message_.mappings_size() && message_.mappings(mapping).file() != file) mapping++;
  if (mapping == message_.mappings_size()) message_.add_mappings()->set_file(file);
  const auto index = static_cast<uint32_t>(specs_.size());
  specs_.push_back(spec);
  const auto kind = static_cast<profd::FrameKind>(static_cast<int>(spec.kind) - 1);
  profd::v1::Function& function = *message_.add_functions();
  function.set_name(String(spec.function));
  function.set_kind(spec.kind);
  function.set_common(profd::IsCommon({spec.function, spec.module, kind}));
  profd::v1::Location& location = *message_.add_locations();
  location.set_mapping(static_cast<uint32_t>(mapping));
  location.set_address(0x1000 * (index + 1));
  location.add_lines()->set_function(index);
  return index;
}

uint32_t AnswerWriter::AddStack(const std::vector<FrameSpec>& frames, bool complete) {
  profd::v1::Stack& stack = *message_.add_stacks();
  stack.set_complete(complete);
  std::vector<profd::FrameText> texts;
  std::vector<uint32_t> indexes;
  for (const FrameSpec& spec : frames) {
    stack.add_locations(AddFrame(spec));
    indexes.push_back(static_cast<uint32_t>(texts.size()));
    texts.push_back({spec.function, spec.module,
                     static_cast<profd::FrameKind>(static_cast<int>(spec.kind) - 1)});
  }
  // A waker's frames come before its waiter's.
  const auto waiter = std::find_if(frames.begin(), frames.end(), [](const FrameSpec& spec) {
    return spec.function == profd::kWakerSeparator;
  });
  const auto first = waiter == frames.end() ? 0 : waiter - frames.begin() + 1;
  const std::span<const uint32_t> own(indexes.begin() + first, indexes.end());
  stack.set_origin(static_cast<uint32_t>(first) +
                   static_cast<uint32_t>(profd::OriginRule(texts).Of(own)));
  idle_.push_back(profd::IdleRule(texts).OfStack(indexes));
  return static_cast<uint32_t>(message_.stacks_size() - 1);
}

void AnswerWriter::AddLabel(const std::string& key, const std::string& text) {
  const uint32_t attribute = AddAttribute(key, text, 0);
  message_.mutable_samples(message_.samples_size() - 1)->add_attributes(attribute);
}

uint32_t AnswerWriter::AddAttribute(const std::string& key, const std::string& text,
                                    int64_t number) {
  profd::v1::Attribute attribute;
  attribute.set_key(String(key));
  attribute.set_text(String(text));
  attribute.set_number(number);
  for (int i = 0; i < message_.attributes_size(); i++) {
    if (message_.attributes(i).SerializeAsString() == attribute.SerializeAsString()) {
      return static_cast<uint32_t>(i);
    }
  }
  *message_.add_attributes() = attribute;
  return static_cast<uint32_t>(message_.attributes_size() - 1);
}

profd::v1::HeapTotal& AnswerWriter::Heap(uint32_t thread) {
  profd::v1::Thread& account = *message_.mutable_threads(static_cast<int>(thread));
  return kind_ == profd::Kind::kFree ? *account.mutable_freed() : *account.mutable_allocated();
}

profd::v1::Sample& AnswerWriter::AddValues(uint32_t thread, uint32_t stack, int64_t value,
                                           int64_t error, int64_t weight, uint64_t count) {
  profd::v1::Sample& sample = *message_.add_samples();
  sample.add_threads(thread);
  sample.set_stack(stack);
  sample.add_values(value);
  sample.add_errors(error);
  sample.add_weights(weight);
  sample.add_counts(count);
  type().set_count(type().count() + count);
  return sample;
}

void AnswerWriter::AddBytes(uint32_t thread, const std::vector<FrameSpec>& frames, int64_t bytes,
                            int64_t error_bytes, uint64_t events, bool complete) {
  profd::v1::HeapTotal seen;
  seen.set_bytes(bytes);
  seen.set_events(events);
  seen.set_weight_bytes(static_cast<int64_t>(events) * 64 * kKiB);
  AddValues(thread, frames.empty() ? 0 : AddStack(frames, complete), bytes, error_bytes,
            seen.weight_bytes(), events);
  AddHeap(seen, Heap(thread));
  AddHeap(seen, *type().mutable_total());
  profd::v1::Cost& cost = *message_.mutable_cost();
  cost.set_heap_events(type().total().events());
  cost.set_heap_in_path_ns(static_cast<int64_t>(type().total().events()) * 800);
}

void AnswerWriter::AddLevel(uint32_t thread, const std::vector<FrameSpec>& frames, int64_t bytes,
                            int64_t error_bytes, uint64_t count, int64_t growth_bytes,
                            bool complete) {
  AddValues(thread, AddStack(frames, complete), bytes, error_bytes, bytes, count)
      .add_growth(growth_bytes);
}

void AnswerWriter::SetEstimatedBytes(uint32_t thread, int64_t bytes) {
  Heap(thread).set_estimated_bytes(bytes);
}

void AnswerWriter::AddUnseen(uint32_t thread, uint64_t gaps, int64_t bytes) {
  profd::v1::HeapTotal unseen;
  unseen.set_gaps(gaps);
  unseen.set_unseen_bytes(bytes);
  AddHeap(unseen, Heap(thread));
  AddHeap(unseen, *type().mutable_total());
}

void AnswerWriter::AddSample(uint32_t thread, profd::v1::Reason reason,
                             const std::vector<FrameSpec>& frames, int64_t time_ns,
                             int64_t error_ns, bool complete) {
  const uint32_t stack = frames.empty() ? 0 : AddStack(frames, complete);
  const auto ticks = static_cast<uint64_t>(std::max<int64_t>(time_ns, 0) / (10 * kMs));
  profd::v1::Sample& sample =
      AddValues(thread, stack, time_ns, error_ns, stack == 0 ? 0 : time_ns, stack == 0 ? 0 : ticks);
  sample.set_reason(reason);
  profd::v1::Thread& account = *message_.mutable_threads(static_cast<int>(thread));
  if (reason >= profd::v1::REASON_RUNQUEUE && reason <= profd::v1::REASON_OTHER) {
    const std::string_view idle =
        profd::IdleKind(static_cast<profd::Reason>(reason - 1), idle_[stack]);
    if (!idle.empty()) {
      sample.add_attributes(AddAttribute("idle", std::string(idle), 0));
      account.set_idle_ns(account.idle_ns() + time_ns);
    }
  }
  if (reason == profd::v1::REASON_LOCK) {
    sample.add_attributes(AddAttribute("syscall", "", 202));
    sample.add_attributes(AddAttribute("object", "0x7f0012345678", 0));
  }
  // Time on a CPU is no part of the waits.
  if (reason == profd::v1::REASON_ON_CPU || reason == profd::v1::REASON_UNSPECIFIED) return;
  if (reason == profd::v1::REASON_RUNQUEUE) {
    account.set_books_runqueue_ns(account.books_runqueue_ns() + time_ns);
  }
  for (profd::v1::ReasonTotal& total : *account.mutable_off()) {
    if (total.reason() != reason) continue;
    total.set_time_ns(total.time_ns() + time_ns);
    total.set_waits(total.waits() + 100);
    return;
  }
  profd::v1::ReasonTotal& total = *account.add_off();
  total.set_reason(reason);
  total.set_time_ns(time_ns);
  total.set_waits(100);
  total.set_samples(sample.counts(0));
}

profd::v1::Profile AnswerWriter::Message(const std::vector<profd::v1::GroupKey>& keys) const {
  AnswerWriter grouped = *this;
  profd::v1::Profile& message = grouped.message_;
  profd::MergedProfile threads;
  for (const profd::v1::Thread& thread : message_.threads()) {
    const profd::v1::Process& process = message_.processes(static_cast<int>(thread.process()));
    threads.threads.emplace_back().info =
        std::make_shared<const profd::ThreadInfo>(profd::ThreadInfo{.pid = process.pid(),
                                                                    .tid = thread.tid(),
                                                                    .name = thread.name(),
                                                                    .process = process.name()});
  }
  profd::NamedStacks no_stacks({});
  profd::FrameNames names(nullptr);
  no_stacks.Name(&names);
  const profd::Grouping grouping(keys, threads, no_stacks);
  for (int i = 0; i < message.threads_size(); i++) {
    message.mutable_threads(i)->set_group(grouping.ThreadName(static_cast<uint32_t>(i)));
  }
  for (const profd::v1::GroupKey key : keys) message.add_group_by(key);
  for (profd::v1::Sample& sample : *message.mutable_samples()) {
    if (keys.empty()) break;
    profd::v1::Group group;
    for (const std::string& label : grouping.Labels({.thread = sample.threads(0), .object = {}})) {
      group.add_labels(grouped.String(label));
    }
    int index = 0;
    while (index < message.groups_size() &&
           message.groups(index).SerializeAsString() != group.SerializeAsString()) {
      index++;
    }
    if (index == message.groups_size()) *message.add_groups() = group;
    sample.set_group(static_cast<uint32_t>(index));
  }
  message.set_complete(true);
  return message;
}

std::vector<profd::v1::Profile> AnswerWriter::Parts(
    const std::vector<profd::v1::GroupKey>& keys) const {
  const profd::v1::Profile whole = Message(keys);
  std::vector<profd::v1::Profile> parts(5);
  *parts[0].mutable_host() = whole.host();
  *parts[0].mutable_coverage() = whole.coverage();
  *parts[0].mutable_sample_types() = whole.sample_types();
  *parts[0].mutable_group_by() = whole.group_by();
  *parts[1].mutable_strings() = whole.strings();
  *parts[1].mutable_mappings() = whole.mappings();
  *parts[1].mutable_functions() = whole.functions();
  *parts[1].mutable_locations() = whole.locations();
  *parts[1].mutable_stacks() = whole.stacks();
  *parts[1].mutable_attributes() = whole.attributes();
  *parts[1].mutable_groups() = whole.groups();
  *parts[2].mutable_processes() = whole.processes();
  *parts[2].mutable_threads() = whole.threads();
  *parts[3].mutable_samples() = whole.samples();
  *parts[4].mutable_losses() = whole.losses();
  *parts[4].mutable_cost() = whole.cost();
  *parts[4].mutable_name_shares() = whole.name_shares();
  *parts[4].mutable_syncs() = whole.syncs();
  *parts[4].mutable_occupants() = whole.occupants();
  if (whole.has_source_lines()) *parts[4].mutable_source_lines() = whole.source_lines();
  if (whole.has_memory()) *parts[4].mutable_memory() = whole.memory();
  parts[4].set_complete(true);
  return parts;
}

Profile AnswerWriter::Build(const std::vector<profd::v1::GroupKey>& keys) const {
  ProfileBuilder builder({message_.sample_types(0).name()});
  for (const profd::v1::Profile& part : Parts(keys)) {
    const absl::Status status = builder.Add(part);
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::StatusOr<Answer> answer = builder.Finish();
  EXPECT_TRUE(answer.ok()) << answer.status();
  return std::move(answer->profiles.front());
}

std::string WrittenJson(const AnswerWriter& answer) {
  const Answer one = {.profiles = {answer.Build({})}};
  return RenderJson(WithFindings(one, {MakeView(one.profiles[0], false)}));
}

AnswerWriter ServerAnswer() {
  AnswerWriter answer;
  const Frames tokio_idle =
      Join({FutexWait(),
            {Runtime("parking_lot::condvar::Condvar::wait_until_internal"),
             Runtime("tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar"),
             Runtime("tokio::runtime::scheduler::multi_thread::park::Parker::park"),
             Runtime("tokio::runtime::scheduler::multi_thread::worker::Context::park_timeout"),
             Runtime("tokio::runtime::scheduler::multi_thread::worker::run")},
            ThreadRoot()});
  const Frames contended =
      Join({FutexWait(),
            {Runtime("parking_lot::raw_mutex::RawMutex::lock_slow"),
             App("reth_transaction_pool::pool::TxPool<V,T,S>::add_transactions"),
             App("<reth_rpc::eth::EthApi<P> as EthApiServer>::send_raw_transaction::{{closure}}"),
             Runtime("tokio::runtime::task::raw::poll"),
             Runtime("tokio::runtime::scheduler::multi_thread::worker::run")},
            ThreadRoot()});
  for (int i = 0; i < 4; ++i) {
    const uint32_t worker =
        answer.AddThread(4242, 4250 + i, "reth", absl::StrCat("tokio-rt-worker-", i), 60 * kSecond,
                         4 * kSecond + i * 10 * kMs);
    answer.AddSample(worker, profd::v1::REASON_LOCK, tokio_idle, 43 * kSecond - i * 10 * kMs,
                     310 * kMs);
    answer.AddSample(worker, profd::v1::REASON_LOCK, contended, 12 * kSecond, 250 * kMs);
    answer.AddSample(worker, profd::v1::REASON_RUNQUEUE, {}, 900 * kMs, 0);
    answer.AddSample(
        worker, profd::v1::REASON_NET,
        Join({{Kernel("__schedule"), Kernel("schedule"), Kernel("sk_wait_data"),
               Kernel("tcp_recvmsg"), Kernel("__x64_sys_recvfrom"), Kernel("do_syscall_64"),
               Kernel("entry_SYSCALL_64_after_hwframe"), Libc("recv")},
              {App("reth_network::session::active::ActiveSession::poll")},
              ThreadRoot()}),
        100 * kMs, 30 * kMs);
  }
  for (int i = 0; i < 3; ++i) {
    const uint32_t storage = answer.AddThread(4242, 4300 + i, "reth", absl::StrCat("storage-0", i),
                                              60 * kSecond, 2 * kSecond);
    answer.AddSample(storage, profd::v1::REASON_LOCK,
                     Join({FutexWait(),
                           {Runtime("std::sys::sync::condvar::futex::Condvar::wait"),
                            Runtime("rayon_core::sleep::Sleep::sleep"),
                            Runtime("rayon_core::registry::WorkerThread::wait_until_cold"),
                            Runtime("rayon_core::registry::ThreadBuilder::run")},
                           ThreadRoot()}),
                     50 * kSecond, 200 * kMs);
    answer.AddSample(
        storage, profd::v1::REASON_FAULT,
        Join({{Kernel("__schedule"), Kernel("schedule"), Kernel("io_schedule"),
               Kernel("folio_wait_bit_common"), Kernel("filemap_fault"), Kernel("handle_mm_fault"),
               Kernel("exc_page_fault"), Kernel("asm_exc_page_fault")},
              {App("mdbx_page_get"), App("mdbx_cursor_seek"),
               App("reth_db::implementation::mdbx::cursor::Cursor<K,T>::seek_exact"),
               App("reth_trie::trie_cursor::database::DatabaseStorageTrieCursor::seek"),
               App("reth_trie_parallel::proof::ParallelProof::storage_proof"),
               Runtime("rayon_core::registry::ThreadBuilder::run")},
              ThreadRoot()}),
        8 * kSecond, 180 * kMs);
  }
  const uint32_t persistence =
      answer.AddThread(4242, 4310, "reth", "persistence", 60 * kSecond, 5 * kSecond);
  answer.AddSample(persistence, profd::v1::REASON_FSYNC,
                   Join({FsyncWait(),
                         {App("mdbx_env_sync"), App("mdbx_txn_commit"),
                          App("reth_db::implementation::mdbx::tx::Tx<K>::commit"),
                          App("reth_engine_tree::persistence::PersistenceService::on_save_blocks"),
                          App("reth_engine_tree::persistence::PersistenceService::run")},
                         ThreadRoot()}),
                   38 * kSecond, 420 * kMs);
  answer.AddSample(
      persistence, profd::v1::REASON_LOCK,
      Join({FutexWait(),
            {Runtime("std::sys::pal::unix::futex::futex_wait"), Runtime("std::thread::park"),
             Runtime("std::sync::mpmc::list::Channel<T>::recv::{{closure}}"),
             App("reth_engine_tree::persistence::PersistenceService::run")},
            ThreadRoot()}),
      15 * kSecond, 300 * kMs);
  answer.AddSample(persistence, profd::v1::REASON_DISK,
                   {{"[no unwind rule]", "", FRAME_KIND_SYNTHETIC}}, 2 * kSecond, 140 * kMs, false);
  const uint32_t rocks =
      answer.AddThread(4242, 4320, "reth", "rocksdb:low", 60 * kSecond, 10 * kMs);
  answer.AddSample(
      rocks, profd::v1::REASON_LOCK,
      {Kernel("__schedule"), Kernel("schedule"), Kernel("futex_wait"),
       Libc("__futex_abstimed_wait_common"), Libc("pthread_cond_wait"),
       App("rocksdb::ThreadPoolImpl::Impl::BGThread(unsigned long)"), Libc("start_thread")},
      59'990 * kMs, 0);
  const uint32_t main = answer.AddThread(4242, 4242, "reth", "reth", 60 * kSecond, 20 * kMs);
  answer.AddSample(main, profd::v1::REASON_LOCK,
                   Join({FutexWait(),
                         {Runtime("tokio::runtime::park::Inner::park"),
                          Runtime("tokio::runtime::runtime::Runtime::block_on")},
                         MainRoot()}),
                   59'970 * kMs, 0);
  answer.AddSample(
      main, profd::v1::REASON_CHILD,
      Join({{Kernel("do_wait"), Libc("wait4"), App("evil<\"&'>;\x1b[31m\nname \xe2\x80\xae")},
            MainRoot()}),
      10 * kMs, 10 * kMs);
  const uint32_t timer = answer.AddThread(4242, 4330, "reth", "timer", 60 * kSecond, 30 * kMs);
  answer.AddSample(timer, profd::v1::REASON_SLEEP,
                   Join({{Kernel("do_nanosleep"), Libc("clock_nanosleep"),
                          Runtime("std::thread::sleep"), App("reth_metrics::report")},
                         ThreadRoot()}),
                   59'970 * kMs, 20 * kMs);
  profd::v1::Loss& loss = *answer.message().add_losses();
  loss.set_cause("torn_walk");
  loss.set_count(4);
  loss.set_weight_ns(40 * kMs);
  loss.set_help(
      "Stacks thrown away because the thread ran during the walk; their time is shown as "
      "[torn walk].");
  return answer;
}

AnswerWriter IdleAnswer() {
  AnswerWriter answer;
  const uint32_t thread =
      answer.AddThread(77, 77, "redis-server", "redis-server", 60 * kSecond, 2 * kSecond);
  answer.AddSample(thread, profd::v1::REASON_POLL,
                   {Kernel("do_epoll_wait"),
                    Libc("epoll_wait"),
                    {"aeMain", "redis-server", FRAME_KIND_APPLICATION},
                    {"main", "redis-server", FRAME_KIND_APPLICATION}},
                   58 * kSecond, 40 * kMs);
  return answer;
}

AnswerWriter ShedAnswer() {
  AnswerWriter answer;
  answer.coverage().set_switch_ns(48 * kSecond);
  answer.coverage().set_ticks(1120);
  answer.coverage().set_tick_interval_ns(53 * kMs);
  const uint32_t thread =
      answer.AddThread(77, 77, "redis-server", "redis-server", 60 * kSecond, 2 * kSecond);
  answer.AddSample(thread, profd::v1::REASON_FSYNC,
                   Join({FsyncWait(),
                         {{"flushAppendOnlyFile", "redis-server", FRAME_KIND_APPLICATION},
                          {"main", "redis-server", FRAME_KIND_APPLICATION}}}),
                   58 * kSecond, 400 * kMs);
  answer.SetEstimated(thread, 11 * kSecond);
  answer.type().set_count(1090);
  return answer;
}

AnswerWriter ProcessesAnswer() {
  AnswerWriter answer;
  const Frames lock = {Kernel("schedule"),
                       Libc("sem_wait"),
                       {"PGSemaphoreLock", "postgres", FRAME_KIND_APPLICATION},
                       {"LWLockAcquire", "postgres", FRAME_KIND_APPLICATION}};
  for (int i = 0; i < 2; ++i) {
    const uint32_t backend =
        answer.AddThread(100 + i, 100 + i, "postgres", "postgres", 60 * kSecond, 20 * kSecond);
    answer.AddSample(backend, profd::v1::REASON_LOCK, lock, 30 * kSecond, 100 * kMs);
    answer.AddSample(backend, profd::v1::REASON_RUNQUEUE, {}, 10 * kSecond, 0);
  }
  const uint32_t bench =
      answer.AddThread(200, 200, "pgbench", "pgbench", 60 * kSecond, 50 * kSecond);
  answer.AddSample(bench, profd::v1::REASON_NET,
                   {Libc("recv"), {"main", "pgbench", FRAME_KIND_APPLICATION}}, 10 * kSecond,
                   60 * kMs);
  return answer;
}

profd::v1::Profile WakersAndCpu(const AnswerWriter& answer) {
  profd::v1::Profile message = answer.Message(AnswerWriter::kByThread);
  *message.add_sample_types() = message.sample_types(0);
  const auto name = [&](int type, profd::Kind kind) {
    const SampleTypeInfo& info = profd::DescribeSampleType(kind);
    message.mutable_sample_types(type)->set_name(std::string(info.name));
    message.mutable_sample_types(type)->set_count_unit(std::string(info.count_unit));
  };
  name(0, profd::Kind::kWaker);
  name(1, profd::Kind::kCpu);
  for (profd::v1::Sample& sample : *message.mutable_samples()) {
    const bool ran = sample.reason() == profd::v1::REASON_ON_CPU;
    if (ran) sample.set_reason(profd::v1::REASON_UNSPECIFIED);
    for (auto* column :
         {sample.mutable_values(), sample.mutable_errors(), sample.mutable_weights()}) {
      column->Add(column->at(0));
      column->Set(ran ? 0 : 1, 0);
    }
    sample.add_counts(sample.counts(0));
    sample.set_counts(ran ? 0 : 1, 0);
  }
  return message;
}

AnswerWriter AllocAnswer() {
  AnswerWriter answer(profd::Kind::kAlloc);
  const Frames allocate = {App("_rjem_je_te_event_trigger"), App("_rjem_je_malloc_default"),
                           App("_rjem_malloc"), Runtime("alloc::alloc::alloc")};
  const Frames grow = Join({allocate, {Runtime("alloc::raw_vec::RawVecInner<A>::finish_grow")}});
  const Frames worker_root =
      Join({{Runtime("tokio::runtime::task::raw::poll"),
             Runtime("tokio::runtime::scheduler::multi_thread::worker::run")},
            ThreadRoot()});
  for (int i = 0; i < 4; ++i) {
    const uint32_t worker = answer.AddThread(
        4242, 4250 + i, "reth", absl::StrCat("tokio-rt-worker-", i), 60 * kSecond, 4 * kSecond);
    answer.AddBytes(worker,
                    Join({grow,
                          {App("alloy_rlp::encode::Encodable::encode"),
                           App("reth_rpc::eth::EthApi<P>::block_receipts")},
                          worker_root}),
                    128 * kMiB + i * kMiB, 5 * kMiB, 2048);
    answer.AddBytes(worker,
                    Join({allocate,
                          {App("bytes::bytes_mut::BytesMut::reserve_inner"),
                           App("reth_network::session::active::ActiveSession::poll")},
                          worker_root}),
                    32 * kMiB, 3 * kMiB, 512);
  }
  for (int i = 0; i < 3; ++i) {
    const uint32_t storage = answer.AddThread(4242, 4300 + i, "reth", absl::StrCat("storage-0", i),
                                              60 * kSecond, 2 * kSecond);
    answer.AddBytes(storage,
                    Join({grow,
                          {App("alloy_trie::nodes::branch::BranchNodeRef::rlp"),
                           App("alloy_trie::hash_builder::HashBuilder::push_branch_node"),
                           App("reth_trie_parallel::proof::ParallelProof::storage_proof"),
                           Runtime("rayon_core::registry::ThreadBuilder::run")},
                          ThreadRoot()}),
                    200 * kMiB, 4 * kMiB, 3200);
  }
  const uint32_t persistence =
      answer.AddThread(4242, 4310, "reth", "persistence", 60 * kSecond, 5 * kSecond);
  answer.AddBytes(persistence,
                  Join({{App("_rjem_je_te_event_trigger"), App("_rjem_calloc")},
                        {App("mdbx_txn_begin"), App("mdbx_env_sync"),
                         App("reth_engine_tree::persistence::PersistenceService::run")},
                        ThreadRoot()}),
                  20 * kMiB, 2 * kMiB, 320);
  answer.AddBytes(persistence,
                  {App("_rjem_je_te_event_trigger"),
                   App("_rjem_malloc"),
                   {"[no unwind rule]", "", FRAME_KIND_SYNTHETIC}},
                  5 * kMiB, 600 * kKiB, 80, false);
  const uint32_t rocks =
      answer.AddThread(4242, 4320, "reth", "rocksdb:low", 60 * kSecond, 10 * kMs);
  answer.AddBytes(rocks,
                  {{"libjemalloc.so.2+0x5e1f0", "libjemalloc.so.2", FRAME_KIND_APPLICATION},
                   {"malloc", "libjemalloc.so.2", FRAME_KIND_APPLICATION},
                   {"operator new(unsigned long)", "libstdc++.so.6", FRAME_KIND_RUNTIME},
                   App("rocksdb::Arena::AllocateNewBlock(unsigned long)"),
                   Libc("start_thread")},
                  3 * kMiB, 400 * kKiB, 48);
  const uint32_t main = answer.AddThread(4242, 4242, "reth", "reth", 60 * kSecond, 20 * kMs);
  answer.AddBytes(main,
                  Join({allocate, {App("evil<\"&'>;\x1b[31m\nname \xe2\x80\xae")}, MainRoot()}),
                  64 * kKiB, 64 * kKiB, 1);
  answer.AddBytes(main, {}, 40 * kKiB, 0, 0);
  answer.AddUnseen(main, 2, 128 * kKiB);
  answer.AddThread(4242, 4330, "reth", "timer", 60 * kSecond, 30 * kMs);
  answer.type().set_complete_share(0.996);
  return answer;
}

AnswerWriter ResidentAnswer() {
  AnswerWriter answer(profd::Kind::kResident);
  const Frames root = Join({{Runtime("tokio::runtime::task::raw::poll")}, ThreadRoot()});
  const uint32_t worker =
      answer.AddThread(4242, 4250, "reth", "tokio-rt-worker-0", 60 * kSecond, 4 * kSecond);
  answer.AddLevel(worker,
                  Join({{Libc("__memset_avx2_unaligned_erms"), App("_rjem_calloc"),
                         App("reth_trie::cache::TrieCache::grow")},
                        root}),
                  800 * kMiB, 7 * kMiB, 12'047, 96 * kMiB);
  answer.AddLevel(worker,
                  Join({{App("bytes::bytes_mut::BytesMut::extend_from_slice"),
                         App("reth_network::session::active::ActiveSession::poll")},
                        root}),
                  40 * kMiB, 2 * kMiB, 602, -24 * kMiB);
  answer.AddLevel(worker, Join({{App("reth_rpc::eth::EthApi<P>::block_receipts")}, root}), 0, 0, 0,
                  -10 * kMiB);
  answer.AddLevel(worker,
                  {App("evm_interpreter_loop"), {"[no unwind rule]", "", FRAME_KIND_SYNTHETIC}},
                  8 * kMiB, kMiB, 120, 0, false);
  answer.type().set_complete_share(840.0 / 848);
  answer.message().mutable_cost()->set_faults(378'000);
  answer.message().mutable_cost()->set_fault_in_path_ns(151 * kMs);
  return answer;
}

AnswerWriter MappedAnswer() {
  AnswerWriter answer(profd::Kind::kMapped);
  answer.type().set_watched_ns(45 * kSecond);
  const uint32_t main = answer.AddThread(4242, 4242, "reth", "reth", 60 * kSecond, 20 * kMs);
  answer.AddLevel(
      main, Join({{Libc("mmap"), App("mdbx_env_set_geometry"), App("reth_db::open")}, MainRoot()}),
      512 * kMiB, 0, 2, 0);
  const uint32_t worker =
      answer.AddThread(4242, 4250, "reth", "tokio-rt-worker-0", 60 * kSecond, 4 * kSecond);
  answer.AddLevel(
      worker,
      Join({{Libc("brk"), Libc("sbrk"), Libc("malloc"), App("reth_trie::grow")}, ThreadRoot()}),
      96 * kMiB, 12 * kMiB, 48, 0);
  answer.message().mutable_cost()->set_mapping_calls(400);
  answer.message().mutable_cost()->set_mapping_in_path_ns(2 * kMs);
  return answer;
}

AnswerWriter FreeAnswer() {
  AnswerWriter answer(profd::Kind::kFree);
  const uint32_t thread =
      answer.AddThread(77, 77, "redis-server", "redis-server", 60 * kSecond, 2 * kSecond);
  answer.AddBytes(thread,
                  {{"libjemalloc.so.2+0x5e1f0", "libjemalloc.so.2", FRAME_KIND_APPLICATION},
                   {"free", "libjemalloc.so.2", FRAME_KIND_APPLICATION},
                   {"zfree", "redis-server", FRAME_KIND_APPLICATION},
                   {"decrRefCount", "redis-server", FRAME_KIND_APPLICATION},
                   {"main", "redis-server", FRAME_KIND_APPLICATION}},
                  768 * kMiB, 6 * kMiB, 12'288);
  return answer;
}

AnswerWriter UncoveredAnswer() {
  AnswerWriter answer(profd::Kind::kAlloc);
  answer.type().set_watched_ns(48 * kSecond);
  const uint32_t thread = answer.AddThread(9, 9, "rustc", "rustc", 60 * kSecond, 50 * kSecond);
  answer.AddBytes(thread,
                  {{"malloc_default", "rustc", FRAME_KIND_APPLICATION},
                   {"rustc_ast::mut_visit::walk_expr", "rustc", FRAME_KIND_APPLICATION},
                   {"main", "rustc", FRAME_KIND_APPLICATION}},
                  144 * kMiB, 3 * kMiB, 1152);
  answer.AddUnseen(thread, 1152, 78 * kMiB);
  return answer;
}

AnswerWriter UnwatchedAnswer() {
  AnswerWriter answer(profd::Kind::kAlloc);
  answer.type().set_watched_ns(0);
  answer.AddThread(77, 77, "redis-server", "redis-server", 60 * kSecond, 2 * kSecond);
  return answer;
}

}  // namespace profctl
