// A real server on a real socket, over a real store; only the collector and the modules are fakes.
#include "daemon/service/service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/service/estimates.h"
#include "daemon/service/listen.h"
#include "daemon/service/memory_answer.h"
#include "daemon/service/text.h"
#include "daemon/store/memory_store.h"
#include "tests/answer.h"
#include "tests/losses_table.h"
#include "tests/observe.h"
#include "tests/unit/fake_proc.h"

namespace profd {

// A function to be found in this very program.
extern "C" __attribute__((noinline)) int profd_service_test_landmark(int x) { return x * 3 + 1; }
// Its name is that of a function of a mutex.
extern "C" __attribute__((noinline)) int profd_test_pthread_mutex_lock(int x) { return x * 5 + 2; }

namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;
// Of a call: a busy machine may starve us for long.
constexpr std::chrono::seconds kPatience(600);
constexpr int64_t kTick = 10'000'000;
constexpr uint64_t kKernelBase = 0xffffffff81000000;
constexpr ModuleId kOwnModule{3};
constexpr ModuleId kGoneModule{4};
constexpr ModuleId kHostileModule{5};

uint64_t UserFrame(ModuleId module, uint64_t offset) {
  return module == ModuleId{} ? offset : PROFD_FRAME(static_cast<uint32_t>(module), offset);
}

// The offset of an address of ours in this program's file.
uint64_t FileOffset(const void* function) {
  struct Search {
    uint64_t address, offset;
  } search = {reinterpret_cast<uint64_t>(function), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; i++) {
          const auto& p = info->dlpi_phdr[i];
          const uint64_t begin = info->dlpi_addr + p.p_vaddr;
          if (p.p_type == PT_LOAD && begin <= s->address && s->address < begin + p.p_memsz) {
            s->offset = s->address - begin + p.p_offset;
          }
        }
        return 0;
      },
      &search);
  return search.offset;
}

class FakeCollector final : public CollectorControl {
 public:
  absl::Status DrainTo(int64_t instant_ns, int64_t /*deadline_ns*/) override {
    drains++;
    drained_to_ns = instant_ns;
    if (block.valid()) block.wait();
    return drain_status;
  }
  absl::Status SetPaused(bool /*paused*/) override { return absl::OkStatus(); }
  CollectorState State() const override { return state; }
  absl::StatusOr<Look> TakeLook(absl::FunctionRef<bool(const ThreadInfo&)> keep) override {
    if (!look_status.ok()) return look_status;
    Look kept = look;
    std::erase_if(kept.threads, [&](const LookedThread& thread) { return !keep(thread.info); });
    return kept;
  }

  std::atomic<int> drains = 0;
  std::atomic<int64_t> drained_to_ns = 0;
  std::shared_future<void> block;
  absl::Status drain_status, look_status;
  Look look;
  CollectorState state;
};

class FakeModules final : public ModuleSource {
 public:
  std::optional<ModuleFile> Find(ModuleId id) const override {
    finds++;
    if (id == kOwnModule) {
      absl::StatusOr<UniqueFd> fd = OpenReadOnly("/proc/self/exe");
      if (!fd.ok()) return std::nullopt;
      return ModuleFile{{"/opt/app/server", ""}, *std::move(fd), nullptr};
    }
    if (id == kGoneModule)
      return ModuleFile{{"/usr/lib/libgone.so.1", "abcd"}, UniqueFd(), nullptr};
    if (id == kHostileModule)
      return ModuleFile{{"/tmp/\xff\x01"
                         "evil",
                         "\xfe"},
                        UniqueFd(),
                        nullptr};
    return std::nullopt;
  }
  mutable std::atomic<int> finds = 0;
};

// Everything that a Fetch gave.
struct FetchResult : test::Answer {
  grpc::Status status;
  size_t largest_part = 0;
};

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/profd-service-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    StartKernelAt(kKernelBase);
    socket_ = folder_ + "/run/profd.sock";
    proc_ = std::make_unique<FakeProc>(folder_ + "/proc");
    memory_ = std::make_unique<MemoryWatch>(&cpu_use_, MemoryWatchOptions{.proc = proc_->path()});
  }
  void TearDown() override {
    server_.reset();
    memory_.reset();
    std::filesystem::remove_all(folder_);
  }

  // As after a boot that put it there.
  void StartKernelAt(uint64_t base) {
    std::ofstream(folder_ + "/kallsyms")
        << absl::StrFormat("%x T _text\n%x T schedule\n%x T futex_wait\n%x T _etext\n", base,
                           base + 0x1000, base + 0x2000, base + 0x3000);
    std::ofstream(folder_ + "/modules") << absl::StrFormat(
        "ext4 4096 1 - Live 0x%x\nhidden 4096 0 - Live 0x0\nshort\n", base + 0x9000);
    // A note of another kind, then the build-id.
    std::ofstream(folder_ + "/notes")
        << std::string("\4\0\0\0\2\0\0\0\1\0\0\0GNU\0xy\0\0", 20)
        << std::string("\4\0\0\0\3\0\0\0\3\0\0\0GNU\0\xca\xfe\1\0", 20);
    const std::string folder = folder_ + "/module/ext4/notes";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/.note.gnu.build-id")
        << std::string("\4\0\0\0\2\0\0\0\3\0\0\0GNU\0\xe4\xff\0\0", 20);
    kernel_files_ = {.symbols = folder_ + "/kallsyms",
                     .modules = folder_ + "/modules",
                     .notes = folder_ + "/notes",
                     .modules_folder = folder_ + "/module"};
  }

  absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address) {
    return StartServer(address, {.store = &store_,
                                 .collector = &collector_,
                                 .modules = &modules_,
                                 .memory = memory_.get(),
                                 .cpu_use = &cpu_use_,
                                 .kernel_files = kernel_files_,
                                 .debug_directories = {},
                                 .proc = folder_ + "/proc"});
  }
  void StartOnSocket() {
    absl::StatusOr<std::unique_ptr<Server>> server = Start("unix://" + socket_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Profiler::NewStub(
        grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials()));
  }

  // Ten seconds up to now, in which threads 1 (of redis) and 2, 3 (of postgres) waited.
  void FillStore() {
    const int64_t now = MonotonicNs();
    for (int64_t n = 0; n < 10; n++) {
      ProfileDelta d;
      d.begin_ns = now - (10 - n) * kSecond;
      d.end_ns = d.begin_ns + kSecond;
      d.books_on = d.switch_on = d.tick_on = true;
      d.tick_interval_ns = kTick;
      d.ticks = 100;
      d.walks = 4;
      if (n == 0) {
        d.threads = {{ThreadId{1}, 11, 11, 0, "redis-server", "redis-server", false},
                     {ThreadId{2}, 20, 20, 1, "postgres", "postgres", false},
                     {ThreadId{3}, 20, 21, 1, "writer\xff", "postgres", true}};
        const uint64_t landmark =
            FileOffset(reinterpret_cast<const void*>(&profd_service_test_landmark));
        d.stacks = {{StackId{100},
                     kWalkComplete,
                     2,
                     {kKernelBase + 0x1010, kKernelBase + 0x2000, UserFrame(kOwnModule, landmark),
                      UserFrame(kGoneModule, 0x1234)}},
                    {StackId{200},
                     WalkResult{PROFD_WALK_NO_RULE},
                     0,
                     {UserFrame(ModuleId{0}, 0x7f0000001000), UserFrame(ModuleId{77}, 0x10),
                      UserFrame(kHostileModule, 0x20)}}};
        d.losses[PROFD_LOSS_COUNTERS_FULL] = 2;
        d.losses[PROFD_LOSS_COUNTERS_FULL_NS] = 55;
        d.lost_weight_ns = 55;
        d.cost = {.daemon_cpu_ns = 70,
                  .tick_cpu_ns = 20,
                  .drain_cpu_ns = 10,
                  .rules_cpu_ns = 5,
                  .answers_cpu_ns = 4,
                  .in_path_ns = 30,
                  .switches = 9,
                  .targets = {{.target = 2,
                               .in_path_ns = 25,
                               .tick_cpu_ns = 15,
                               .drain_cpu_ns = 8,
                               .switches = 7}}};
      }
      for (uint64_t t = 1; t <= 3; t++) {
        LedgerDelta ledger;
        ledger.wall_ns = kSecond;
        ledger.on_cpu_ns = kSecond / 10;
        ledger.off_ns[static_cast<size_t>(Reason::kLock)] = kSecond / 10 * 9;
        ledger.waits[static_cast<size_t>(Reason::kLock)] = 5;
        d.ledgers.push_back({ThreadId{t}, ledger});
        d.samples.push_back(
            {{ThreadId{t}, StackId{100}, 0xabc, 202, Reason::kLock}, 60 * kTick, 60});
      }
      d.samples.push_back({{ThreadId{2}, StackId{200}, 3, 0, Reason::kLock}, 30 * kTick, 30});
      d.samples.push_back({{ThreadId{3}, StackId{300}, 3, 0, Reason::kPipe}, kTick, 1});
      ASSERT_TRUE(store_.Append(std::move(d)).ok());
    }
  }

  FetchResult Fetch(const v1::FetchRequest& request) {
    FetchResult result;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    auto reader = stub_->Fetch(&context, request);
    v1::Profile part;
    absl::Status good;
    while (reader->Read(&part)) {
      result.largest_part = std::max(result.largest_part, part.ByteSizeLong());
      if (good.ok()) good = result.Add(part);
    }
    result.status = reader->Finish();
    if (good.ok() && result.status.ok()) good = result.Finish();
    EXPECT_TRUE(good.ok()) << good;
    return result;
  }

  // A thread that waits for a lock, one that reads a pipe, one that polls and one that runs.
  void FillLook() {
    const int64_t now = MonotonicNs();
    const auto add = [&](int32_t pid, int32_t tid, const char* name, Reason reason, int32_t syscall,
                         std::optional<uint64_t> object) -> LookedThread& {
      LookedThread& thread = collector_.look.threads.emplace_back();
      thread.info = {.id = ThreadId{static_cast<uint64_t>(tid)},
                     .pid = pid,
                     .tid = tid,
                     .name = name,
                     .process = pid == 11 ? "redis-server" : "postgres"};
      thread.reason = reason;
      thread.looked_ns = now;
      thread.since_ns = now - 2 * kSecond;
      thread.stack = StackId{100};
      thread.syscall = syscall;
      thread.object = object;
      return thread;
    };
    add(11, 11, "redis-server", Reason::kLock, 202, 0xabc);
    add(20, 20, "postgres", Reason::kPipe, 0, 3);
    add(20, 21, "writer\xff", Reason::kPoll, 232, 4).since_ns = std::nullopt;
    LookedThread& runs = add(20, 22, "hog", Reason::kOther, -1, std::nullopt);
    runs.running = true;
    runs.stack = StackId{};
    collector_.look.stacks = {std::make_shared<const StackTrace>(
        StackTrace{.id = StackId{100},
                   .walk = kWalkComplete,
                   .kernel_frames = 1,
                   .frames = {kKernelBase + 0x2010, UserFrame(kGoneModule, 0x1234)}})};
    collector_.look.begin_ns = now - 1000;
    collector_.look.end_ns = now;
    collector_.look.visited = 9;
    collector_.look.walks = 8;
    collector_.look.left_out = 2;
    collector_.look.torn = 1;
    std::filesystem::create_directories(folder_ + "/proc/20/fd");
    std::filesystem::create_symlink("pipe:[77]", folder_ + "/proc/20/fd/3");
  }

  // The parts of an answer, put together.
  grpc::Status GetStacks(const v1::GetStacksRequest& request, v1::Profile* answer) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    const auto reader = stub_->GetStacks(&context, request);
    v1::Profile part;
    while (reader->Read(&part)) answer->MergeFrom(part);
    return reader->Finish();
  }

  // The processes of FillStore, in one cgroup, and one that the store knows nothing of.
  void FillMemory() {
    proc_->Set(11, {.name = "redis-server", .rss_kb = 1000, .pss_kb = 900});
    proc_->Set(20, {.name = "postgres", .start = 4300, .rss_kb = 5000, .anon_kb = 4000});
    proc_->Set(30, {.name = "quiet\xff", .rss_kb = 10, .cgroup = "/other"});
    proc_->Write("cgroup/app/memory.current", "8388608\n");
    proc_->Write("cgroup/app/memory.max", "16777216\n");
    memory_->KeepOnly({11, 20, 30});
    memory_->Refresh();
  }

  v1::GetStatusResponse Status() {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    const grpc::Status status = stub_->GetStatus(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  grpc::Status GetMemory(const v1::GetMemoryRequest& request, v1::GetMemoryResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    return stub_->GetMemory(&context, request, response);
  }

  std::string folder_, socket_;
  symbolize::KernelFiles kernel_files_;
  MemoryStore store_;
  FakeCollector collector_;
  FakeModules modules_;
  CpuUse cpu_use_;
  std::unique_ptr<FakeProc> proc_;
  std::unique_ptr<MemoryWatch> memory_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Profiler::Stub> stub_;
};

v1::FetchRequest Since(int64_t seconds) {
  v1::FetchRequest request;
  request.mutable_window()->set_since_ns(seconds * kSecond);
  return request;
}

// Attributes of a look as "key=text" or "key=number".
std::vector<std::string> AttributesOf(const v1::Profile& answer, const v1::ThreadLook& look) {
  std::vector<std::string> texts;
  for (const uint32_t index : look.attributes()) {
    const v1::Attribute& attribute = answer.attributes(static_cast<int>(index));
    const std::string& text = answer.strings(static_cast<int>(attribute.text()));
    texts.push_back(absl::StrCat(answer.strings(static_cast<int>(attribute.key())), "=",
                                 text.empty() ? absl::StrCat(attribute.number()) : text));
  }
  return texts;
}

TEST_F(ServiceTest, TellsWhatThreadsDoNow) {
  FillLook();
  StartOnSocket();
  v1::Profile answer;
  const grpc::Status status = GetStacks({}, &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(collector_.drains, 0) << "neither ticks nor drains are needed";
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(answer.sample_types(0).name(), "offcpu");
  EXPECT_THAT(answer.samples(), IsEmpty());
  ASSERT_THAT(answer.processes(), SizeIs(2));
  ASSERT_THAT(answer.threads(), SizeIs(4));
  EXPECT_EQ(answer.threads(2).name(), "writer?");
  EXPECT_EQ(answer.threads(2).process(), 1u);
  ASSERT_THAT(answer.looks(), SizeIs(4));
  const v1::ThreadLook& lock = answer.looks(0);
  EXPECT_EQ(lock.thread(), 0u);
  EXPECT_EQ(lock.reason(), v1::REASON_LOCK);
  EXPECT_EQ(lock.for_ns(), 2 * kSecond);
  EXPECT_THAT(AttributesOf(answer, lock), ElementsAre("syscall=202", "object=futex 0xabc"));
  const v1::Stack& stack = answer.stacks(static_cast<int>(lock.stack()));
  ASSERT_THAT(stack.locations(), SizeIs(2));
  EXPECT_TRUE(stack.complete());
  EXPECT_THAT(AttributesOf(answer, answer.looks(1)),
              ElementsAre("syscall=0", "object=fd 3", "file=pipe:[77]"));
  const v1::ThreadLook& poll = answer.looks(2);
  EXPECT_FALSE(poll.has_for_ns());
  EXPECT_THAT(AttributesOf(answer, poll),
              ElementsAre("idle=waiting for work (poll)", "syscall=232", "object=fd 4"));
  const v1::ThreadLook& runs = answer.looks(3);
  EXPECT_EQ(runs.reason(), v1::REASON_ON_CPU);
  EXPECT_EQ(runs.stack(), 0u);
  EXPECT_THAT(runs.attributes(), IsEmpty());
  EXPECT_EQ(answer.look().threads(), 6u) << "those that found no place as well";
  EXPECT_EQ(answer.look().left_out(), 2u);
  EXPECT_EQ(answer.look().torn(), 1u);
  EXPECT_EQ(answer.look().visited(), 9u);
  EXPECT_EQ(answer.look().duration_ns(), 1000);
}

TEST_F(ServiceTest, ALookIsOfTheThreadsThatAreAskedFor) {
  FillLook();
  StartOnSocket();
  v1::GetStacksRequest request;
  request.add_targets("postgres");
  request.set_thread_regex("^(hog|redis)");
  v1::Profile answer;
  ASSERT_TRUE(GetStacks(request, &answer).ok());
  ASSERT_THAT(answer.threads(), SizeIs(1));
  EXPECT_EQ(answer.threads(0).name(), "hog");
  request.set_thread_regex("^redis");
  EXPECT_EQ(GetStacks(request, &answer).error_message(),
            "no thread matches \"^redis\"; threads profiled now: hog, postgres, writer?. Ask for "
            "one of them");
  request.set_targets(0, "nobody");
  EXPECT_EQ(GetStacks(request, &answer).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_targets(0, "(");
  EXPECT_EQ(GetStacks(request, &answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.clear_targets();
  request.set_thread_regex(std::string(2000, 'x'));
  EXPECT_EQ(GetStacks(request, &answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  collector_.look_status = absl::UnimplementedError("refused");
  EXPECT_EQ(GetStacks({}, &answer).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// A process that mapped and unmapped: what its calls did is told as it was counted.
TEST_F(ServiceTest, MappingCallsAreAnsweredAsTheyWereCounted) {
  FillStore();
  FillMemory();
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond / 2;
  d.mappings_on = true;
  d.cost = {.in_path_ns = 30, .map_in_path_ns = 20, .map_calls = 6, .targets = {}};
  const auto call = [&](Kind kind, uint64_t thread, uint64_t one_in, int64_t weight,
                        int64_t calls) {
    d.samples.push_back(
        {{ThreadId{thread}, StackId{100}, one_in, -1, Reason::kOther, kind}, weight, calls});
  };
  call(Kind::kMapped, 2, 1, 40'960, 2);
  call(Kind::kMapped, 3, 4, 65'536, 4);
  call(Kind::kUnmapped, 2, 1, 8'192, 1);
  call(Kind::kReturned, 3, 1, 4'096, 1);
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_sample_types("mapped");
  const FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  EXPECT_EQ(r.type().name(), "mapped");
  EXPECT_EQ(r.type().unit(), "bytes");
  EXPECT_EQ(r.type().error_formula(), v1::ERROR_FORMULA_BINOMIAL);
  EXPECT_EQ(r.type().watched_ns(), kSecond / 2);
  EXPECT_FALSE(r.type().has_total());
  EXPECT_EQ(r.cost().mapping_calls(), 6u);
  EXPECT_EQ(r.cost().mapping_in_path_ns(), 20);
  ASSERT_THAT(r.samples, SizeIs(2));
  EXPECT_EQ(r.samples[0].value, 40'960);
  EXPECT_EQ(r.samples[0].error, 0);
  EXPECT_EQ(r.samples[0].count, 2u);
  EXPECT_EQ(r.samples[1].value, 65'536);
  EXPECT_NEAR(static_cast<double>(r.samples[1].error), 65'536 * std::sqrt(0.75 / 4), 1);
  for (const test::Thread& thread : r.threads) EXPECT_FALSE(thread.has_heap);
  for (const auto& [name, bytes] : {std::pair{"unmapped", 8'192}, std::pair{"returned", 4'096}}) {
    request.set_sample_types(0, name);
    const FetchResult other = Fetch(request);
    ASSERT_THAT(other.samples, SizeIs(1));
    EXPECT_EQ(other.samples[0].value, bytes);
  }

  v1::GetMemoryResponse memory;
  ASSERT_TRUE(GetMemory({}, &memory).ok());
  for (const v1::ProcessMemory& process : memory.processes()) {
    EXPECT_EQ(process.has_mapped_bytes(), process.pid() == 20);
    if (process.pid() != 20) continue;
    EXPECT_EQ(process.mapped_bytes(), 40'960 + 65'536);
    EXPECT_EQ(process.unmapped_bytes(), 8'192);
    EXPECT_EQ(process.returned_bytes(), 4'096);
  }
}

TEST_F(ServiceTest, AnswersAFetch) {
  FillStore();
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  EXPECT_EQ(collector_.drains, 1);
  EXPECT_EQ(r.message.host().daemon_version(), PROFD_VERSION);
  EXPECT_EQ(r.coverage().end_ns() - r.coverage().begin_ns(), 10 * kSecond);
  EXPECT_NEAR(static_cast<double>(r.coverage().end_ns()), static_cast<double>(WallNs()),
              60.0 * kSecond);
  EXPECT_GE(r.coverage().requested_end_ns() - r.coverage().requested_begin_ns(), 60 * kSecond);
  EXPECT_EQ(r.coverage().switch_ns(), 10 * kSecond);
  ASSERT_THAT(r.message.processes(), SizeIs(2));
  EXPECT_EQ(r.message.processes(0).name(), "redis-server");
  EXPECT_EQ(r.message.processes(0).pid(), 11);
  EXPECT_EQ(r.message.processes(1).name(), "postgres");

  ASSERT_THAT(r.threads, SizeIs(3));
  const v1::Thread& redis = r.threads[0].ledger;
  EXPECT_EQ(redis.name(), "redis-server");
  EXPECT_EQ(redis.wall_ns(), 10 * kSecond);
  EXPECT_EQ(redis.on_cpu_ns(), kSecond);
  ASSERT_THAT(redis.off(), SizeIs(1));
  EXPECT_EQ(redis.off(0).reason(), v1::REASON_LOCK);
  EXPECT_EQ(redis.off(0).time_ns(), 9 * kSecond);
  EXPECT_EQ(redis.off(0).waits(), 50u);
  EXPECT_EQ(redis.off(0).samples(), 600u);
  EXPECT_EQ(r.threads[2].name, "writer?") << "not UTF-8 as the kernel has it";
  EXPECT_TRUE(r.threads[2].ledger.exited());

  ASSERT_THAT(r.samples, SizeIs(5));
  const test::Sample& sample = r.samples[0];
  EXPECT_EQ(sample.value, 9 * kSecond);
  EXPECT_GT(sample.error, 0);
  EXPECT_EQ(sample.weight, 600 * kTick);
  EXPECT_EQ(sample.count, 600u);
  EXPECT_EQ(sample.syscall, 202);
  EXPECT_EQ(sample.object, "0xabc");
  EXPECT_THAT(
      r.Functions(sample.stack),
      ElementsAre("schedule", "schedule", "profd_service_test_landmark", "libgone.so.1+0x1233"))
      << "the second kernel frame is a return address, which belongs to the function before";
  EXPECT_TRUE(r.IsComplete(sample));
  const std::vector<test::Frame> frames = r.FramesOf(sample);
  EXPECT_EQ(frames[0].kind, v1::FRAME_KIND_KERNEL);
  EXPECT_EQ(frames[0].module, "[kernel]");
  EXPECT_EQ(frames[0].address, 0x1010U) << "the kernel is elsewhere after a reboot";
  EXPECT_EQ(frames[0].build_id, "cafe01");
  EXPECT_EQ(frames[2].module, "server");
  EXPECT_EQ(frames[3].address, 0x1234u);
  EXPECT_EQ(frames[3].build_id, "abcd");
  EXPECT_EQ(frames[0].found_by, v1::NAME_SOURCE_KALLSYMS);
  EXPECT_EQ(frames[2].found_by, v1::NAME_SOURCE_SYMBOLS);
  EXPECT_EQ(frames[3].found_by, v1::NAME_SOURCE_NONE);
  EXPECT_EQ(r.message.stacks(static_cast<int>(sample.stack)).origin(), 2u);

  EXPECT_EQ(r.coverage().ticks(), 1000u);
  EXPECT_EQ(r.coverage().walks(), 40u);
  EXPECT_EQ(r.coverage().tick_interval_ns(), kTick);
  const v1::Cost& cost = r.cost();
  EXPECT_EQ(cost.duration_ns(), 10 * kSecond);
  EXPECT_EQ(cost.daemon_cpu_ns(), 70);
  EXPECT_EQ(cost.in_path_ns(), 30);
  EXPECT_EQ(cost.switches(), 9u);
  EXPECT_EQ(cost.tick_cpu_ns(), 20);
  EXPECT_EQ(cost.drain_cpu_ns(), 10);
  EXPECT_EQ(cost.rules_cpu_ns(), 5);
  EXPECT_EQ(cost.answers_cpu_ns(), 4);
  ASSERT_THAT(cost.targets(), SizeIs(1));
  EXPECT_EQ(cost.targets(0).target(), 2u);
  EXPECT_EQ(cost.targets(0).in_path_ns(), 25);
  EXPECT_EQ(cost.targets(0).switches(), 7u);
  // The handler reports what it took after the answer is out.
  while (cpu_use_.answers == 0) std::this_thread::yield();
  EXPECT_EQ(r.type().count(), 2110u);
  EXPECT_NEAR(r.type().complete_share(), 1800.0 / 2110, 1e-9);
  double shares = 0;
  std::map<v1::NameSource, double> stacks_with;
  for (const v1::NameShare& share : r.message.name_shares()) {
    EXPECT_EQ(share.sample_type(), 0u);
    EXPECT_GE(share.stacks(), share.share());
    shares += share.share();
    stacks_with[share.source()] = share.stacks();
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(stacks_with[v1::NAME_SOURCE_NONE], 1) << "each user stack has a frame of a lost file";
  EXPECT_GT(stacks_with[v1::NAME_SOURCE_SYMBOLS], 0);
  EXPECT_FALSE(stacks_with.contains(v1::NAME_SOURCE_KALLSYMS));
  std::map<std::string, v1::Loss> losses;
  for (const v1::Loss& loss : r.message.losses()) losses[loss.cause()] = loss;
  ASSERT_THAT(losses, SizeIs(2));
  EXPECT_EQ(losses["counters_full"].count(), 2u);
  EXPECT_EQ(losses["counters_full"].weight_ns(), 55);
  EXPECT_EQ(losses["stack_unknown"].count(), 10u);
}

TEST_F(ServiceTest, IncompleteAndUnknownStacksSayWhy) {
  FillStore();
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  std::set<std::vector<std::string>> stacks;
  for (int i = 1; i < r.message.stacks_size(); i++) {
    if (!r.message.stacks(i).complete()) stacks.insert(r.Functions(static_cast<uint32_t>(i)));
  }
  EXPECT_THAT(stacks, Contains(ElementsAre("[unmapped code]", "[unknown module]",
                                           HasSubstr("+0x1f"), "[no unwind rule]")));
  EXPECT_THAT(stacks, Contains(ElementsAre("[stack lost]")));
  for (int i = 1; i < r.message.stacks_size(); i++) {
    for (const test::Frame& frame : r.FramesOf(static_cast<uint32_t>(i))) {
      if (frame.function == "[no unwind rule]") {
        EXPECT_EQ(frame.kind, v1::FRAME_KIND_SYNTHETIC);
        EXPECT_EQ(frame.found_by, v1::NAME_SOURCE_PROFD);
      }
      if (frame.function == "[unmapped code]") {
        EXPECT_EQ(frame.address, 0x7f0000001000u);
      }
    }
  }
}

TEST_F(ServiceTest, FiltersByTargetThreadAndReason) {
  FillStore();
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_targets("postg");
  FetchResult r = Fetch(request);
  EXPECT_EQ(r.threads.size(), 2u);
  ASSERT_THAT(r.message.processes(), SizeIs(1));
  EXPECT_EQ(r.message.processes(0).name(), "postgres");

  request.set_thread_regex("^writer");
  request.add_reasons(v1::REASON_LOCK);
  r = Fetch(request);
  ASSERT_THAT(r.threads, SizeIs(1));
  EXPECT_THAT(r.threads[0].ledger.off(), SizeIs(2)) << "the ledger is not filtered by reason";
  ASSERT_THAT(r.samples, SizeIs(1));
  EXPECT_EQ(r.samples[0].reason, v1::REASON_LOCK);
  EXPECT_EQ(r.samples[0].value, 9 * kSecond);
  EXPECT_EQ(r.message.stacks_size(), 2) << "the first one is none";

  request = Since(60);
  request.add_targets("11");
  request.add_targets("nobody");
  r = Fetch(request);
  EXPECT_THAT(r.threads, SizeIs(1));

  request = Since(60);
  request.set_thread_regex("no such thread");
  r = Fetch(request);
  EXPECT_EQ(r.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(r.status.error_message(),
            "no thread matches \"no such thread\"; threads profiled in this window: postgres, "
            "redis-server, writer?. Ask for one of them");
  // In a difference it is an answer: it may be there in one window alone.
  request.mutable_baseline()->set_since_ns(60 * kSecond);
  grpc::ClientContext context;
  auto reader = stub_->Fetch(&context, request);
  for (v1::Profile part; reader->Read(&part);) EXPECT_EQ(part.threads_size(), 0);
  EXPECT_TRUE(reader->Finish().ok());
}

// A second in which threads 2 and 3, of postgres, and thread 1, of redis, allocated.
ProfileDelta HeapDeltaNow() {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - 1;
  d.heap_on = true;
  for (const auto& [thread, bytes] : {std::pair{1, 100}, std::pair{2, 1000}, std::pair{3, 300}}) {
    LedgerDelta ledger;
    ledger.allocated = {.bytes = bytes, .events = 1};
    ledger.freed = {.bytes = bytes / 2};
    d.ledgers.push_back({ThreadId{static_cast<uint64_t>(thread)}, ledger});
  }
  return d;
}

// Sums of the values of a sample type by the labels of the groups.
std::map<std::vector<std::string>, int64_t> ByGroup(const test::Answer& answer) {
  std::map<std::vector<std::string>, int64_t> sums;
  for (const test::Sample& sample : answer.samples) sums[sample.group] += sample.value;
  return sums;
}

TEST_F(ServiceTest, GroupsOnTheServer) {
  FillStore();
  StartOnSocket();
  const FetchResult raw = Fetch(Since(60));
  int64_t all = 0;
  for (const test::Sample& sample : raw.samples) {
    all += sample.value;
    EXPECT_THAT(sample.threads, SizeIs(1));
    EXPECT_THAT(sample.group, IsEmpty());
  }
  const std::map<v1::GroupKey, std::vector<std::string>> labels = {
      {v1::GROUP_KEY_PROCESS, {"postgres (20)", "redis-server (11)"}},
      {v1::GROUP_KEY_PROCESS_NAME, {"postgres", "redis-server"}},
      {v1::GROUP_KEY_THREAD, {"postgres (20)", "redis-server (11)", "writer? (21)"}},
      {v1::GROUP_KEY_THREAD_NAME, {"postgres", "redis-server", "writer?"}},
      {v1::GROUP_KEY_REASON, {"lock", "pipe"}},
      {v1::GROUP_KEY_OBJECT, {"0x3", "0xabc"}},
  };
  for (const auto& [key, expected] : labels) {
    v1::FetchRequest request = Since(60);
    request.add_group_by(key);
    const FetchResult r = Fetch(request);
    ASSERT_TRUE(r.status.ok()) << r.status.error_message();
    std::vector<std::string> found;
    int64_t sum = 0;
    for (const auto& [group, value] : ByGroup(r)) {
      ASSERT_THAT(group, SizeIs(1));
      found.push_back(group[0]);
      sum += value;
    }
    EXPECT_EQ(found, expected) << v1::GroupKey_Name(key);
    EXPECT_EQ(sum, all) << v1::GroupKey_Name(key);
  }
  v1::FetchRequest request = Since(60);
  request.add_group_by(v1::GROUP_KEY_PROCESS_NAME);
  request.add_group_by(v1::GROUP_KEY_FUNCTION);
  const FetchResult r = Fetch(request);
  const auto by_function = ByGroup(r);
  EXPECT_TRUE(by_function.contains({"redis-server", "profd_service_test_landmark"}));
  // Two threads of postgres waited in the same stack: one sample, whose variances add up.
  double variance = 0;
  for (const test::Sample& sample : raw.samples) {
    const bool same = raw.threads[sample.thread].process == "postgres" &&
                      raw.Functions(sample.stack)[0] == "schedule";
    if (same) variance += static_cast<double>(sample.error) * static_cast<double>(sample.error);
  }
  int merged = 0;
  for (const test::Sample& sample : r.samples) {
    if (sample.group[0] != "postgres" || sample.group[1] != "profd_service_test_landmark") continue;
    merged++;
    EXPECT_THAT(sample.threads, ElementsAre(1, 2));
    EXPECT_NEAR(static_cast<double>(sample.error), std::sqrt(variance), 1);
    EXPECT_EQ(sample.object, "") << "a group does not name it";
  }
  EXPECT_EQ(merged, 1);
}

TEST_F(ServiceTest, SeveralSampleTypesInOneAnswer) {
  FillStore();
  ASSERT_TRUE(store_.Append(HeapDeltaNow()).ok());
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  const std::vector<std::string> names = {"offcpu", "alloc", "free", "rss"};
  for (const std::string& name : names) request.add_sample_types(name);
  FetchResult all = Fetch(request);
  ASSERT_TRUE(all.status.ok()) << all.status.error_message();
  ASSERT_EQ(all.message.sample_types_size(), 4);
  for (int i = 0; i < 4; i++) {
    v1::FetchRequest one = Since(60);
    one.add_sample_types(names[static_cast<size_t>(i)]);
    const FetchResult alone = Fetch(one);
    int64_t expected = 0, found = 0;
    for (const test::Sample& sample : alone.samples) expected += sample.value;
    for (const v1::Sample& sample : all.message.samples()) found += sample.values(i);
    EXPECT_EQ(found, expected) << one.sample_types(0);
    EXPECT_EQ(all.type(i).unit(), alone.type().unit());
    EXPECT_EQ(all.type(i).count(), alone.type().count());
  }
}

TEST_F(ServiceTest, WaitsSayWhetherTheyAreIdle) {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  d.threads = {{ThreadId{1}, 11, 11, 0, "redis-server", "redis-server", false}};
  d.stacks = {{StackId{100}, kWalkComplete, 1, {kKernelBase + 0x1010}}};
  LedgerDelta ledger;
  ledger.wall_ns = kSecond;
  ledger.off_ns[static_cast<size_t>(Reason::kPoll)] = kSecond / 2;
  ledger.off_ns[static_cast<size_t>(Reason::kDisk)] = kSecond / 2;
  d.ledgers.push_back({ThreadId{1}, ledger});
  for (const Reason reason : {Reason::kPoll, Reason::kDisk}) {
    d.samples.push_back({{ThreadId{1}, StackId{100}, 3, 7, reason}, kSecond / 2, 50});
  }
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  ASSERT_THAT(r.samples, SizeIs(2));
  for (const test::Sample& sample : r.samples) {
    EXPECT_EQ(sample.idle.empty(), sample.reason != v1::REASON_POLL);
  }
  EXPECT_EQ(r.threads[0].ledger.idle_ns(), kSecond / 2);
  v1::FetchRequest disk = Since(60);
  disk.add_reasons(v1::REASON_DISK);
  EXPECT_EQ(Fetch(disk).threads[0].ledger.idle_ns(), kSecond / 2) << "whatever was asked for";
}

// Threads wait for two locks by one stack and for one by another; one has nothing to do.
TEST_F(ServiceTest, LocksAreThoseThatOthersHold) {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = d.wakers_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  d.threads = {{ThreadId{1}, 11, 11, 0, "redis-server", "redis-server", false},
               {ThreadId{2}, 11, 12, 0, "bio", "redis-server", false}};
  const uint64_t landmark = UserFrame(
      kOwnModule, FileOffset(reinterpret_cast<const void*>(&profd_service_test_landmark)));
  const uint64_t mutex = UserFrame(
      kOwnModule, FileOffset(reinterpret_cast<const void*>(&profd_test_pthread_mutex_lock)));
  constexpr StackId kContended{101}, kWaiting{103}, kReleaser{105};
  d.stacks = {{kContended, kWalkComplete, 1, {kKernelBase + 0x2000, mutex, landmark + 1}},
              {kWaiting, kWalkComplete, 1, {kKernelBase + 0x2000, landmark}},
              // Its name comes first: "rbio", "bio".
              {kReleaser, kWalkComplete, 4, {0x6f696272, 0, 0x6f6962, 0, landmark}}};
  LedgerDelta ledger;
  ledger.wall_ns = kSecond;
  ledger.off_ns[static_cast<size_t>(Reason::kLock)] = kSecond;
  d.ledgers = {{ThreadId{1}, ledger}, {ThreadId{2}, ledger}};
  const auto wait = [&](uint64_t thread, StackId stack, uint64_t lock, int64_t ticks) {
    d.samples.push_back(
        {{ThreadId{thread}, stack, lock, 202, Reason::kLock}, ticks * kTick, ticks});
  };
  wait(1, kContended, 0x1000, 60);
  wait(1, kContended, 0x2000, 20);
  wait(1, kWaiting, 0x3000, 20);
  wait(2, kContended, 0x1000, 50);
  wait(2, kWaiting, 0x3000, 50);
  d.samples.push_back(
      {{ThreadId{1}, kReleaser, static_cast<uint64_t>(kContended), -1, Reason::kLock, Kind::kWaker},
       80 * kTick,
       80});
  // Waits of 15 ms for the first lock, of 5 ms for the second: as many as their ticks stand for.
  const auto ended = [&](uint64_t thread, uint64_t lock, uint64_t ns, uint32_t end, int64_t waits) {
    const int32_t how = PROFD_ENDED(202, profd_duration_bucket(ns), end);
    d.samples.push_back({{ThreadId{thread}, kContended, lock, how, Reason::kLock, Kind::kEnded},
                         waits * PROFD_ENDED_ONE,
                         2 * waits * PROFD_ENDED_ONE});
  };
  ended(1, 0x1000, 15'000'000, PROFD_END_WOKEN, 30);
  ended(1, 0x1000, 15'000'000, PROFD_END_TIMEOUT, 10);
  ended(2, 0x1000, 15'000'000, PROFD_END_WOKEN, 33);
  ended(1, 0x2000, 5'000'000, PROFD_END_UNKNOWN, 40);
  ended(2, 0x4000, 5'000'000, PROFD_END_WOKEN, 7);
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_sample_types("locks");
  const FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  ASSERT_EQ(r.message.locks_size(), 3);
  const v1::LockUse& first = r.message.locks(0);
  EXPECT_EQ(first.name(), "0x1000") << "the process is not known";
  EXPECT_EQ(first.kind(), "pthread mutex");
  EXPECT_EQ(first.address(), 0x1000u);
  EXPECT_EQ(first.idle(), "");
  EXPECT_EQ(first.time_ns(), kSecond / 10 * 11);
  EXPECT_GT(first.error_ns(), 0);
  EXPECT_EQ(first.samples(), 110u);
  EXPECT_EQ(first.threads(), 2u);
  ASSERT_EQ(first.waiters_size(), 1);
  EXPECT_EQ(first.waiters(0).function(), "profd_service_test_landmark");
  EXPECT_EQ(first.waiters(0).time_ns(), first.time_ns());
  // The wakers of the stack of thread 1 are divided between its two locks; those of thread 2 are
  // not known.
  ASSERT_EQ(first.releasers_size(), 1);
  EXPECT_EQ(first.releasers(0).function(), "profd_service_test_landmark");
  EXPECT_EQ(first.releasers(0).waker(), "rbio/bio");
  EXPECT_EQ(first.releasers(0).time_ns(), kSecond / 10 * 6);
  EXPECT_EQ(first.release_unknown_ns(), kSecond / 2);
  EXPECT_TRUE(first.shared_releasers());
  EXPECT_EQ(first.waits().waits(), 73u);
  EXPECT_GT(first.waits().waits_error(), 0u);
  EXPECT_EQ(first.waits().timeouts(), 10u);
  EXPECT_EQ(first.waits().interrupted(), 0u);
  EXPECT_NEAR(static_cast<double>(first.waits().p50_ns()), 15e6, 3e6);
  EXPECT_EQ(first.waiters(0).waits().waits(), 73u);
  EXPECT_EQ(r.message.locks(1).waits().waits(), 40u);
  EXPECT_FALSE(r.message.locks(1).waits().has_timeouts()) << "how they ended is not known";
  EXPECT_NEAR(static_cast<double>(r.message.locks(1).waits().p99_ns()), 5e6, 1e6);
  EXPECT_EQ(r.message.locks(2).waits().waits(), 0u) << "none ended";
  EXPECT_EQ(r.message.locks(1).name(), "0x2000");
  EXPECT_EQ(r.message.locks(1).releasers(0).time_ns(), kSecond / 10 * 2);
  // What is no contention comes last and is marked.
  EXPECT_EQ(r.message.locks(2).idle(), "other futex wait");
  EXPECT_FALSE(r.message.locks(2).shared_releasers());

  // Samples name the lock, and are those of "offcpu".
  int64_t sum = 0;
  for (const test::Sample& sample : r.samples) sum += sample.value;
  EXPECT_EQ(sum, 2 * kSecond);
  request.set_sample_types(0, "offcpu");
  const FetchResult waits = Fetch(request);
  ASSERT_EQ(waits.samples.size(), r.samples.size());
  for (size_t i = 0; i < r.samples.size(); i++) {
    EXPECT_EQ(waits.samples[i].value, r.samples[i].value);
    EXPECT_EQ(waits.samples[i].error, r.samples[i].error);
  }
  EXPECT_EQ(waits.message.locks_size(), 0);
  request.set_sample_types(0, "locks");
  request.add_group_by(v1::GROUP_KEY_OBJECT);
  std::set<std::string> objects;
  for (const test::Sample& sample : Fetch(request).samples) objects.insert(sample.group[0]);
  EXPECT_THAT(objects, ElementsAre("0x1000", "0x2000", "0x3000"));
}

TEST_F(ServiceTest, WaitsForACpuSayWhoHadIt) {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  d.threads = {{ThreadId{1}, 11, 11, 0, "late", "late", false}};
  constexpr StackId kPreempted{101}, kHog{PROFD_OBJECT_BIT | 3}, kNobody{PROFD_OBJECT_BIT | 5};
  const auto described = [](StackId id, profd_object_kind kind, const char* name, uint32_t number) {
    profd_object object{};
    object.kind = static_cast<uint8_t>(kind);
    object.number = number;
    std::memcpy(object.name, name, strlen(name));
    StackTrace words;
    words.id = id;
    words.kernel_frames = PROFD_OBJECT_WORDS;
    words.frames.resize(PROFD_OBJECT_WORDS);
    std::memcpy(words.frames.data(), &object, sizeof(object));
    return words;
  };
  d.stacks = {{kPreempted, kWalkComplete, 1, {kKernelBase + 0x2000}},
              described(kHog, PROFD_OBJECT_OCCUPANT, "hog", 812),
              described(kNobody, PROFD_OBJECT_IDLE_CPU, "", 0)};
  LedgerDelta ledger;
  ledger.wall_ns = kSecond;
  ledger.off_ns[static_cast<size_t>(Reason::kRunQueue)] = kSecond / 2;
  ledger.off_ns[static_cast<size_t>(Reason::kStopped)] = kSecond / 2;
  d.ledgers = {{ThreadId{1}, ledger}};
  const auto wait = [&](StackId occupant, Reason reason, int64_t ticks) {
    d.samples.push_back({{ThreadId{1}, kPreempted, static_cast<uint64_t>(occupant), -1, reason},
                         ticks * kTick,
                         ticks});
  };
  wait(kHog, Reason::kRunQueue, 40);
  wait(kNobody, Reason::kRunQueue, 10);
  wait(StackId{}, Reason::kStopped, 50);
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_sample_types("runqueue");
  request.add_group_by(v1::GROUP_KEY_THREAD_NAME);
  const FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  ASSERT_EQ(r.message.occupants_size(), 2);
  EXPECT_EQ(r.message.occupants(0).name(), "hog");
  EXPECT_EQ(r.message.occupants(0).pid(), 812);
  EXPECT_EQ(r.message.occupants(0).time_ns(), kSecond / 10 * 4);
  EXPECT_GT(r.message.occupants(0).error_ns(), 0);
  EXPECT_EQ(r.message.occupants(1).kind(), v1::OCCUPANT_KIND_IDLE);
  EXPECT_EQ(r.message.occupants(1).time_ns(), kSecond / 10);
  // Whatever they are grouped by, samples tell the occupants apart; other waits are none of them.
  ASSERT_EQ(r.samples.size(), 2u);
  for (const test::Sample& sample : r.samples) EXPECT_EQ(sample.reason, v1::REASON_RUNQUEUE);
  EXPECT_EQ(r.samples[0].value + r.samples[1].value, kSecond / 2);
  // Any answer with waits says who had the CPUs.
  request.set_sample_types(0, "offcpu");
  request.add_reasons(v1::REASON_STOPPED);
  const FetchResult stopped = Fetch(request);
  EXPECT_EQ(stopped.message.occupants_size(), 2);
  ASSERT_EQ(stopped.samples.size(), 1u);
  EXPECT_EQ(stopped.samples[0].reason, v1::REASON_STOPPED);
  EXPECT_EQ(stopped.samples[0].value, kSecond / 2);
}

// Also where samples are grouped by something else: profctl needs it to judge the wait anew.
TEST_F(ServiceTest, WaitsSayWhoseTurnItIs) {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  d.threads = {{ThreadId{1}, 11, 11, 0, "client", "client", false}};
  profd_object object{};
  object.kind = PROFD_OBJECT_EPOLL;
  object.flags = PROFD_OBJECT_IN_FLIGHT;
  constexpr StackId kSet{PROFD_OBJECT_BIT | 3}, kPolls{101};
  StackTrace words;
  words.id = kSet;
  words.kernel_frames = PROFD_OBJECT_WORDS;
  words.frames.resize(PROFD_OBJECT_WORDS);
  std::memcpy(words.frames.data(), &object, sizeof(object));
  d.stacks = {{kPolls, kWalkComplete, 1, {kKernelBase + 0x2000}}, words};
  LedgerDelta ledger;
  ledger.wall_ns = kSecond;
  ledger.off_ns[static_cast<size_t>(Reason::kPoll)] = kSecond;
  d.ledgers = {{ThreadId{1}, ledger}};
  d.samples = {
      {{ThreadId{1}, kPolls, static_cast<uint64_t>(kSet), 232, Reason::kPoll}, 100 * kTick, 100}};
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  for (const v1::GroupKey by : {v1::GROUP_KEY_THREAD_NAME, v1::GROUP_KEY_OBJECT}) {
    v1::FetchRequest request = Since(60);
    request.add_group_by(by);
    const FetchResult r = Fetch(request);
    ASSERT_TRUE(r.status.ok()) << r.status.error_message();
    ASSERT_EQ(r.message.samples_size(), 1);
    std::map<std::string, std::string> said;
    for (const uint32_t index : r.message.samples(0).attributes()) {
      const v1::Attribute& attribute = r.message.attributes(static_cast<int>(index));
      said[r.message.strings(static_cast<int>(attribute.key()))] =
          r.message.strings(static_cast<int>(attribute.text()));
    }
    EXPECT_EQ(said["turn"], "peer");
    EXPECT_FALSE(said.contains("idle"));
  }
}

// Two readers and two writers of a pipe: the object stays one group.
TEST_F(ServiceTest, AnObjectSaysWhoHasItsOtherEnd) {
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  d.threads = {{ThreadId{1}, 11, 11, 0, "client", "client", false},
               {ThreadId{2}, 12, 12, 0, "client", "client", false}};
  profd_object object{};
  object.kind = PROFD_OBJECT_PIPE;
  object.action = PROFD_ACTION_READ;
  object.inode = 4711;
  constexpr StackId kPipe{PROFD_OBJECT_BIT | 3}, kReads{101};
  StackTrace words;
  words.id = kPipe;
  words.kernel_frames = PROFD_OBJECT_WORDS;
  words.frames.resize(PROFD_OBJECT_WORDS);
  std::memcpy(words.frames.data(), &object, sizeof(object));
  d.stacks = {{kReads, kWalkComplete, 1, {kKernelBase + 0x2000}}, words};
  LedgerDelta ledger;
  ledger.wall_ns = kSecond;
  ledger.off_ns[static_cast<size_t>(Reason::kPipe)] = kSecond;
  d.ledgers = {{ThreadId{1}, ledger}, {ThreadId{2}, ledger}};
  for (const ThreadId thread : {ThreadId{1}, ThreadId{2}}) {
    d.samples.push_back(
        {{thread, kReads, static_cast<uint64_t>(kPipe), 0, Reason::kPipe}, 100 * kTick, 100});
  }
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  for (const int pid : {11, 12, 20, 21}) {
    proc_->Set(pid, {.name = pid < 20 ? "client" : "make"});
    const std::string directory = proc_->path() + "/" + std::to_string(pid) + "/fd";
    std::filesystem::create_directories(directory);
    std::filesystem::create_symlink("pipe:[4711]", directory + "/1");
    proc_->Write(std::to_string(pid) + "/fdinfo/1", pid < 20 ? "flags:\t00\n" : "flags:\t01\n");
  }
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_group_by(v1::GROUP_KEY_OBJECT);
  const FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  ASSERT_EQ(r.message.samples_size(), 1);
  ASSERT_EQ(r.message.groups_size(), 2);
  const std::string& group = r.message.strings(static_cast<int>(r.message.groups(1).labels(0)));
  EXPECT_THAT(group, AnyOf("pipe 4711 from make (20) and 1 more, reading",
                           "pipe 4711 from make (21) and 1 more, reading"));
}

TEST_F(ServiceTest, ABaselineIsASecondProfile) {
  FillStore();
  StartOnSocket();
  v1::FetchRequest request = Since(3);
  request.mutable_baseline()->set_end_ns(WallNs() - 5 * kSecond);
  request.mutable_baseline()->set_since_ns(2 * kSecond);
  grpc::ClientContext context;
  auto reader = stub_->Fetch(&context, request);
  v1::Profile part;
  test::Answer answers[2];
  uint32_t last = 0;
  while (reader->Read(&part)) {
    ASSERT_LE(last, part.window());
    last = part.window();
    ASSERT_LT(last, 2u);
    ASSERT_TRUE(answers[last].Add(part).ok());
  }
  EXPECT_TRUE(reader->Finish().ok());
  for (test::Answer& answer : answers) ASSERT_TRUE(answer.Finish().ok());
  EXPECT_EQ(collector_.drains, 1);
  EXPECT_EQ(answers[1].coverage().end_ns() - answers[1].coverage().begin_ns(), 2 * kSecond);
  EXPECT_LE(answers[1].coverage().end_ns(), answers[0].coverage().begin_ns());
  EXPECT_THAT(answers[1].threads, SizeIs(3));
}

TEST_F(ServiceTest, ADrainThatIsLateIsNotWaitedFor) {
  FillStore();
  collector_.drain_status = absl::DeadlineExceededError("the collector did not drain in time");
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  EXPECT_TRUE(r.status.ok()) << "what is there is an answer: " << r.status.error_message();
  EXPECT_THAT(r.samples, Not(IsEmpty()));
}

TEST_F(ServiceTest, TakesTheWindowThatWasAskedFor) {
  FillStore();
  StartOnSocket();
  EXPECT_LE(Fetch(Since(3)).coverage().switch_ns(), 4 * kSecond);
  v1::FetchRequest request;
  const int64_t end = WallNs() - 5 * kSecond;
  request.mutable_window()->set_begin_ns(end - 2 * kSecond);
  request.mutable_window()->set_end_ns(end);
  const FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  EXPECT_NEAR(static_cast<double>(r.coverage().requested_end_ns()), static_cast<double>(end), 1e7);
  EXPECT_EQ(r.coverage().end_ns() - r.coverage().begin_ns(), 2 * kSecond);
  EXPECT_NEAR(static_cast<double>(collector_.drained_to_ns + WallOffsetNs()),
              static_cast<double>(end), 1e7)
      << "no more than the window is drained";
}

TEST_F(ServiceTest, NotFoundNamesWhatThereIs) {
  FillStore();
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_targets("mysqld");
  request.add_targets("4711");
  const FetchResult r = Fetch(request);
  EXPECT_EQ(r.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(
      r.status.error_message(),
      "no process matches \"mysqld\", \"4711\"; "
      "profiled in this window: postgres (20), redis-server (11). Ask for one of them, or start "
      "profd with --target for another");
  EXPECT_EQ(r.parts, 0);
}

TEST_F(ServiceTest, SaysWhereNoAllocatorIsKnown) {
  FillMemory();
  AllocatorUse use;
  use.state.pids = {20};
  collector_.state.allocators = {use};
  StartOnSocket();
  EXPECT_THAT(Status().unknown_allocators(), IsEmpty()) << "some kind is not looked for";
  collector_.state.seeks_all_allocators = true;
  const v1::GetStatusResponse r = Status();
  ASSERT_THAT(r.unknown_allocators(), SizeIs(2));
  EXPECT_EQ(r.unknown_allocators(0).pid(), 11);
  EXPECT_EQ(r.unknown_allocators(0).name(), "redis-server");
  EXPECT_EQ(r.unknown_allocators(1).name(), "quiet?");
  // One that has just begun may still be found to have one.
  proc_->Set(40, {.start = BootNs() / 10'000'000});
  memory_->KeepOnly({20, 40});
  memory_->Refresh();
  EXPECT_THAT(Status().unknown_allocators(), IsEmpty());
}

TEST_F(ServiceTest, AnswersWithTheMemoryOfProcesses) {
  FillStore();
  ASSERT_TRUE(store_.Append(HeapDeltaNow()).ok());
  memory_->AddHeap(20, {.allocated = 9000, .freed = 2000});
  FillMemory();
  AllocatorUse use;
  use.state.allocator = "jemalloc";
  use.state.version = "5.3.0";
  use.state.pids = {20};
  collector_.state.allocators = {use};
  StartOnSocket();
  v1::GetMemoryRequest request;
  request.mutable_window()->set_since_ns(60 * kSecond);
  v1::GetMemoryResponse r;
  const grpc::Status status = GetMemory(request, &r);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(collector_.drains, 1);
  EXPECT_GE(r.end_ns() - r.begin_ns(), 60 * kSecond);
  EXPECT_NEAR(static_cast<double>(r.end_ns()), static_cast<double>(WallNs()), 60.0 * kSecond);
  EXPECT_EQ(r.heap_ns(), 1);
  EXPECT_THAT(r.notes(), IsEmpty());
  EXPECT_THAT(r.losses(), IsEmpty());
  ASSERT_THAT(r.processes(), SizeIs(3));
  const v1::ProcessMemory& postgres = r.processes(0);
  EXPECT_EQ(postgres.pid(), 20) << "the largest first";
  EXPECT_EQ(postgres.name(), "postgres");
  EXPECT_FALSE(postgres.ended());
  EXPECT_EQ(postgres.peak_rss_bytes(), 5000 << 10);
  EXPECT_EQ(postgres.cgroup().path(), "/app");
  EXPECT_EQ(postgres.cgroup().version(), 2u);
  EXPECT_EQ(postgres.allocated_bytes(), 1300);
  EXPECT_EQ(postgres.freed_bytes(), 650);
  EXPECT_EQ(postgres.allocator(), "jemalloc 5.3.0");
  EXPECT_EQ(postgres.net_allocated_bytes(), 7000);
  EXPECT_FALSE(postgres.has_live_bytes());
  // Since boot, which began before now.
  EXPECT_NEAR(static_cast<double>(postgres.started_ns()),
              static_cast<double>(WallNs() - BootNs() + 43 * kSecond), 1e9);
  ASSERT_FALSE(postgres.points().empty());
  const v1::MemoryPoint& point = *postgres.points().rbegin();
  EXPECT_NEAR(static_cast<double>(point.time_ns()), static_cast<double>(WallNs()), 60.0 * kSecond);
  EXPECT_EQ(point.rss_bytes(), 5000 << 10);
  EXPECT_EQ(point.anon_bytes(), 4000 << 10);
  EXPECT_EQ(point.file_bytes(), 300 << 10);
  EXPECT_EQ(point.shmem_bytes(), 100 << 10);
  EXPECT_TRUE(point.has_swap_bytes());
  EXPECT_EQ(point.swap_bytes(), 0);
  EXPECT_EQ(point.page_table_bytes(), 20 << 10);
  EXPECT_EQ(point.threads(), 3);
  EXPECT_EQ(point.minor_faults(), 10);
  EXPECT_EQ(point.major_faults(), 2);
  EXPECT_EQ(point.pss_bytes(), 800 << 10);
  EXPECT_LE(point.pss_time_ns(), WallNs());
  EXPECT_EQ(point.cgroup_current_bytes(), 8 << 20);
  EXPECT_EQ(point.cgroup_limit_bytes(), 16 << 20);
  EXPECT_FALSE(point.has_cgroup_oom_kills());
  EXPECT_EQ(point.allocated_bytes(), 9000);
  EXPECT_EQ(point.freed_bytes(), 2000);
  const v1::ProcessMemory& redis = r.processes(1);
  EXPECT_EQ(redis.pid(), 11);
  EXPECT_EQ(redis.allocated_bytes(), 100);
  EXPECT_FALSE(redis.has_net_allocated_bytes());
  EXPECT_EQ(redis.allocator(), "");
  const v1::ProcessMemory& quiet = r.processes(2);
  EXPECT_EQ(quiet.name(), "quiet?") << "not UTF-8 as the kernel has it";
  EXPECT_FALSE(quiet.has_allocated_bytes());
  EXPECT_FALSE(quiet.has_cgroup()) << "its files are not there";
  EXPECT_FALSE(quiet.points(0).has_cgroup_current_bytes());
}

TEST_F(ServiceTest, MemoryIsFilteredAndMissingNamesAreTold) {
  FillStore();
  FillMemory();
  StartOnSocket();
  v1::GetMemoryRequest request;
  v1::GetMemoryResponse r;
  request.add_targets("^redis");
  request.add_targets("30");
  ASSERT_TRUE(GetMemory(request, &r).ok());
  ASSERT_THAT(r.processes(), SizeIs(2));
  EXPECT_EQ(r.processes(0).pid(), 11);
  EXPECT_EQ(r.processes(1).pid(), 30);
  // Known to the timeline, not to the store.
  request.clear_targets();
  request.add_targets("quiet");
  r.Clear();
  ASSERT_TRUE(GetMemory(request, &r).ok());
  EXPECT_THAT(r.processes(), SizeIs(1));

  request.clear_targets();
  request.add_targets("mysqld");
  const grpc::Status status = GetMemory(request, &r);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(
      status.error_message(),
      "no process matches \"mysqld\"; "
      "profiled in this window: postgres (20), redis-server (11). Ask for one of them, or start "
      "profd with --target for another");
}

TEST_F(ServiceTest, HostileMemoryRequestsAreRefused) {
  FillMemory();
  StartOnSocket();
  const auto refuse = [&](const std::function<void(v1::GetMemoryRequest*)>& make) {
    v1::GetMemoryRequest request;
    v1::GetMemoryResponse r;
    make(&request);
    const grpc::Status status = GetMemory(request, &r);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), Not(HasSubstr("\n")));
    EXPECT_THAT(status.error_message(), Not(IsEmpty()));
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  refuse([](auto* r) { r->mutable_window()->set_since_ns(-1); });
  refuse([](auto* r) { r->mutable_window()->set_begin_ns(kMax); });
  refuse([](auto* r) {
    r->mutable_window()->set_begin_ns(20);
    r->mutable_window()->set_end_ns(10);
  });
  refuse([](auto* r) { r->add_targets(""); });
  refuse([](auto* r) { r->add_targets("("); });
  refuse([](auto* r) {
    for (int i = 0; i < 65; i++) r->add_targets("a");
  });
  EXPECT_EQ(collector_.drains, 0) << "a bad request costs nothing";

  v1::GetMemoryResponse r;
  v1::GetMemoryRequest wide;
  wide.mutable_window()->set_since_ns(kMax);
  wide.set_max_points(std::numeric_limits<uint32_t>::max());
  ASSERT_TRUE(GetMemory(wide, &r).ok());
  EXPECT_THAT(r.processes(), SizeIs(3));
  wide.mutable_window()->set_begin_ns(1);
  wide.mutable_window()->set_end_ns(kMax);
  ASSERT_TRUE(GetMemory(wide, &r).ok());
  EXPECT_THAT(r.processes(), SizeIs(3));
  v1::GetMemoryRequest early;
  early.mutable_window()->set_end_ns(1);
  ASSERT_TRUE(GetMemory(early, &r).ok());
  EXPECT_THAT(r.processes(), IsEmpty());
}

TEST_F(ServiceTest, MemoryErrorsAndNotes) {
  FillMemory();
  collector_.state.paused = true;
  StartOnSocket();
  v1::GetMemoryResponse r;
  ASSERT_TRUE(GetMemory({}, &r).ok());
  ASSERT_THAT(r.notes(), SizeIs(1));
  EXPECT_EQ(r.notes(0), "profd is paused: nothing is read until it gets SIGUSR2");
  collector_.drain_status = absl::UnavailableError("the collector is stopping");
  EXPECT_EQ(GetMemory({}, &r).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, AFetchHasALineOfMemory) {
  FillStore();
  ASSERT_TRUE(store_.Append(HeapDeltaNow()).ok());
  FillMemory();
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_targets("redis|postgres");
  FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok());
  const v1::MemoryLine both = r.message.memory();
  EXPECT_EQ(both.processes(), 2u);
  EXPECT_EQ(both.rss_bytes(), 6000 << 10);
  EXPECT_EQ(both.anon_bytes(), 4600 << 10);
  EXPECT_EQ(both.cgroup_current_bytes(), 8 << 20);
  EXPECT_EQ(both.cgroup_limit_bytes(), 16 << 20);
  EXPECT_EQ(both.allocated_bytes(), 1400);
  EXPECT_EQ(both.freed_bytes(), 700);
  r = Fetch(Since(60));
  EXPECT_EQ(r.message.memory().processes(), 3u);
  EXPECT_FALSE(r.message.memory().has_cgroup_current_bytes()) << "they are in several";
  request.set_thread_regex("writer");
  r = Fetch(request);
  EXPECT_EQ(r.message.memory().rss_bytes(), 6000 << 10);
  EXPECT_FALSE(r.message.memory().has_allocated_bytes()) << "not all threads are in the answer";
}

TEST_F(ServiceTest, AFetchWithoutMemoryHasNoLine) {
  FillStore();
  StartOnSocket();
  EXPECT_FALSE(Fetch(Since(60)).message.has_memory());
}

TEST(MemoryGrowthTest, GrowthIsOfWhatRuns) {
  const auto history = [](int32_t pid, int64_t begin_rss, int64_t end_rss, bool ended) {
    ProcessHistory h;
    h.process.pid = pid;
    h.process.ended = ended;
    h.points.resize(2);
    h.points[0].rss = begin_rss;
    h.points[1].time_ns = pid * kSecond;
    h.points[1].rss = end_rss;
    return h;
  };
  const v1::MemoryLine line = MemoryLineOf(
      {history(5, 100, 150, false), history(9, 100, 70, false), history(20, 100, 1000, true)}, {},
      true);
  EXPECT_EQ(line.processes(), 2u);
  EXPECT_EQ(line.rss_bytes(), 220);
  EXPECT_EQ(line.rss_growth_bytes(), 20);
  EXPECT_EQ(line.growth_ns(), 9 * kSecond);
  EXPECT_FALSE(line.has_anon_bytes());
  EXPECT_FALSE(line.has_allocated_bytes());
  EXPECT_EQ(MemoryLineOf({history(1, 1, 1, true)}, {}, true).processes(), 0u);
}

MemoryPoint QuotaPoint(int64_t time_ns, std::optional<int64_t> millicpus, int64_t periods,
                       int64_t level = 0) {
  MemoryPoint point;
  point.time_ns = time_ns;
  point.quota = {.millicpus = millicpus,
                 .level = level,
                 .periods = periods,
                 .throttled_periods = periods / 2,
                 .throttled_ns = periods * 7};
  point.quota_moves = 0;
  return point;
}

v1::CpuQuota QuotaOf(const ProcessHistory& history) {
  v1::Process process;
  FillQuota(history, 100, &process);
  return process.cpu_quota();
}

TEST(CpuQuotaTest, RanOutBetweenTheLastReadingBeforeTheWindowAndItsEnd) {
  ProcessHistory history;
  history.points = {QuotaPoint(20, 500, 14), QuotaPoint(30, 500, 30)};
  EXPECT_EQ(QuotaOf(history).periods(), 16) << "profd has just begun to watch it";
  history.before = QuotaPoint(10, std::nullopt, 10);
  const v1::CpuQuota quota = QuotaOf(history);
  EXPECT_EQ(quota.millicpus(), 500);
  EXPECT_EQ(quota.begin_ns(), 110);
  EXPECT_EQ(quota.end_ns(), 130);
  EXPECT_EQ(quota.periods(), 20);
  EXPECT_EQ(quota.throttled_periods(), 10);
  EXPECT_EQ(quota.throttled_ns(), 140);
}

TEST(CpuQuotaTest, OneThatWasLiftedIsTold) {
  ProcessHistory history;
  history.points = {QuotaPoint(10, 500, 10), QuotaPoint(30, std::nullopt, 30)};
  EXPECT_EQ(QuotaOf(history).millicpus(), 500);
  EXPECT_EQ(QuotaOf(history).periods(), 20);
}

TEST(CpuQuotaTest, NumbersOfTwoCgroupsAreNotCompared) {
  ProcessHistory history;
  history.points = {QuotaPoint(10, 500, 10, 1), QuotaPoint(30, 500, 30)};
  EXPECT_EQ(QuotaOf(history).millicpus(), 500);
  EXPECT_EQ(QuotaOf(history).begin_ns(), 130);
  EXPECT_EQ(QuotaOf(history).periods(), 0);
  history.points[0] = QuotaPoint(10, 500, 10);
  history.points[0].quota_moves = 1;
  EXPECT_EQ(QuotaOf(history).periods(), 0) << "the process has moved";
  history.points[0] = QuotaPoint(10, 500, 31);
  EXPECT_EQ(QuotaOf(history).periods(), 0) << "the cgroup was made again";
}

TEST(CpuQuotaTest, WithoutAQuotaThereIsNothing) {
  ProcessHistory history;
  EXPECT_EQ(QuotaOf(history).millicpus(), 0);
  history.points = {QuotaPoint(10, std::nullopt, 10)};
  v1::Process process;
  FillQuota(history, 0, &process);
  EXPECT_FALSE(process.has_cpu_quota());
}

// What threads allocated belongs to the process that they were of, and to the younger one if that
// is not known.
TEST(MemoryAnswerTest, AReusedPidIsTwoProcesses) {
  const auto history = [](int64_t start_ns, int64_t rss, bool ended) {
    ProcessHistory h;
    h.process.pid = 20;
    h.process.start_ns = start_ns;
    h.process.ended = ended;
    h.points.resize(1);
    h.points[0].rss = rss;
    return h;
  };
  MergedProfile profile;
  int64_t bytes = 1;
  for (const int64_t start_ns : {40'003'000'000, 60'004'000'000, int64_t{0}, 50'000'000'000}) {
    MergedThread& thread = profile.threads.emplace_back();
    thread.info = std::make_shared<const ThreadInfo>(
        ThreadInfo{.pid = 20, .tid = 21, .process_start_ns = start_ns});
    LedgerDelta did;
    did.allocated = {.bytes = bytes, .events = 1};
    thread.ledger = MergedLedger(did);
    bytes *= 10;
  }
  v1::GetMemoryResponse answer;
  const std::vector<ProcessId> listed =
      FillProcesses({history(40'000'000'000, 5, true), history(60'000'000'000, 9, false)}, profile,
                    {}, 0, &answer);
  EXPECT_EQ(listed, (std::vector<ProcessId>{{20, 60'000'000'000}, {20, 40'000'000'000}}));
  ASSERT_EQ(answer.processes_size(), 2);
  EXPECT_EQ(answer.processes(0).allocated_bytes(), 1110);
  EXPECT_EQ(answer.processes(0).threads_size(), 3);
  EXPECT_EQ(answer.processes(1).allocated_bytes(), 1);
  EXPECT_EQ(answer.processes(1).threads_size(), 1);
}

// Everything is there that an answer may have, and large: most threads and points of most
// processes.
TEST(MemoryAnswerTest, TheLargestOneIsAMessageThatClientsTake) {
  constexpr int32_t kProcesses = 1024, kThreads = 32, kFirstPid = 1'000'000;
  // Sites are of five processes, 100 each. Clients take no more, unless they set a limit.
  constexpr size_t kSiteBytes = 5 * 100 * 600, kClientBytes = 4 << 20;
  constexpr int64_t kPoints = 21, kStep = 150 * kSecond, kBegin = 1'000'000 * kSecond;
  constexpr int64_t kGiB = int64_t{1} << 30;
  const auto start_ns = [](int32_t pid) { return kBegin - int64_t{pid} * kSecond / 100; };
  MemoryTimeline timeline;
  AllocatorUse use;
  use.state.allocator = "jemalloc";
  use.state.version = "5.3.0-1-ge13ca993e8ccb9ba9";
  use.live_since_wall_ns = WallNs();
  MergedProfile profile;
  for (int32_t pid = kFirstPid; pid < kFirstPid + kProcesses; ++pid) {
    use.state.pids.push_back(pid);
    const WatchedProcess process = {
        .pid = pid,
        .start_ns = start_ns(pid),
        .name = "long-name-of-it",
        .cgroup = {.version = 2,
                   .path = absl::StrCat("/kubepods.slice/kubepods-burstable.slice/pod",
                                        std::string(36, 'p'), "/cri-containerd-",
                                        std::string(64, 'c'), ".scope")},
        .note = "PSS unknown: reading /proc/1000000/smaps_rollup needs CAP_SYS_PTRACE"};
    for (int64_t n = 0; n < kPoints; ++n) {
      MemoryPoint point;
      point.time_ns = kBegin + n * kStep;
      for (auto* figure : {&point.rss, &point.anon, &point.file, &point.shmem, &point.swap,
                           &point.page_tables, &point.pss, &point.pss_error, &point.allocated,
                           &point.freed, &point.live, &point.cgroup.current, &point.cgroup.limit}) {
        *figure = 64 * kGiB + n * (pid % 100) * 4096;
      }
      for (auto* number :
           {&point.threads, &point.minor_faults, &point.major_faults, &point.cgroup.oom_kills,
            &point.cgroup.limit_hits, &point.cgroup.high_hits}) {
        *number = 10'000 + n;
      }
      point.pss_time_ns = point.time_ns;
      timeline.Add(process, point);
    }
    for (int32_t tid = 0; tid < kThreads; ++tid) {
      MergedThread& thread = profile.threads.emplace_back();
      thread.info = std::make_shared<const ThreadInfo>(
          ThreadInfo{.pid = pid,
                     .tid = (pid - kFirstPid) * kThreads + tid + kFirstPid,
                     .name = "tokio-runtime-w",
                     .process_start_ns = start_ns(pid)});
      LedgerDelta did;
      did.allocated = {.bytes = 64 * kGiB + tid, .events = 1};
      did.freed = {.bytes = 64 * kGiB, .events = 1};
      thread.ledger = MergedLedger(did);
      if (tid != 0) continue;
      thread.samples = {{.key = {.kind = Kind::kMapped}, .weight = kGiB, .ticks = 1},
                        {.key = {.kind = Kind::kUnmapped}, .weight = kGiB, .ticks = 1},
                        {.key = {.kind = Kind::kReturned}, .weight = kGiB, .ticks = 1}};
    }
  }
  v1::GetMemoryResponse answer;
  const std::vector<ProcessId> listed =
      FillProcesses(timeline.Select({.begin_ns = kBegin,
                                     .end_ns = kBegin + kPoints * kStep,
                                     .matches = [](const WatchedProcess&) { return true; }}),
                    profile, {use}, WallOffsetNs(), &answer);
  EXPECT_LT(answer.ByteSizeLong() + kSiteBytes, kClientBytes);
  // It says how many found no room.
  EXPECT_GT(answer.processes_left_out(), 0u);
  EXPECT_EQ(static_cast<uint32_t>(answer.processes_size()) + answer.processes_left_out(),
            uint32_t{kProcesses});
  EXPECT_THAT(listed, SizeIs(answer.processes_size()));
}

// Two processes had one PID in turn. /proc has start times in steps of 10 ms.
TEST_F(ServiceTest, AReusedPidIsTwoProcesses) {
  const std::string container(64, 'c');
  proc_->Set(20, {.name = "second", .start = 6000, .cgroup = "/docker/" + container});
  proc_->Write("20/cmdline", std::string("/bin/second\0--fast\0", 19));
  memory_->KeepOnly({20});
  memory_->Refresh();
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.books_on = d.tick_on = true;
  // The same name too: only their start tells them apart. Of the last one it is not known.
  for (const auto& [id, start_ns] :
       {std::pair<uint64_t, int64_t>{1, 40'003'000'000}, {2, 60'004'000'000}, {3, 0}}) {
    d.threads.push_back({.id = ThreadId{id},
                         .pid = 20,
                         .tid = 20 + static_cast<int32_t>(id),
                         .name = "main",
                         .process = "server",
                         .process_start_ns = start_ns});
    LedgerDelta ledger;
    ledger.wall_ns = ledger.on_cpu_ns = kSecond;
    d.ledgers.push_back({ThreadId{id}, ledger});
  }
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  const v1::Profile& answer = r.message;
  ASSERT_EQ(answer.processes_size(), 2);
  const v1::Process& first = answer.processes(0);
  const v1::Process& second = answer.processes(1);
  EXPECT_EQ(first.pid(), 20);
  EXPECT_EQ(second.pid(), 20);
  EXPECT_EQ(second.started_ns() - first.started_ns(), 20 * kSecond);
  EXPECT_EQ(first.command_line(), "") << "it was gone before it was looked at";
  EXPECT_EQ(first.container_id(), "");
  EXPECT_EQ(second.command_line(), "/bin/second --fast");
  EXPECT_EQ(second.container_id(), container);
  EXPECT_EQ(second.cgroup(), "/docker/" + container);
  ASSERT_EQ(answer.threads_size(), 3);
  EXPECT_EQ(answer.threads(0).process(), 0U);
  EXPECT_EQ(answer.threads(1).process(), 1U);
  EXPECT_EQ(answer.threads(2).process(), 1U) << "not known: the younger one";
  EXPECT_FALSE(answer.host().boot_id().empty());
}

TEST_F(ServiceTest, NotFoundInAnEmptyStore) {
  StartOnSocket();
  v1::FetchRequest request = Since(60);
  request.add_targets("x");
  EXPECT_EQ(Fetch(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, HostileRequestsAreRefused) {
  FillStore();
  StartOnSocket();
  const auto refuse = [&](const std::function<void(v1::FetchRequest*)>& make) {
    v1::FetchRequest request;
    make(&request);
    const FetchResult r = Fetch(request);
    EXPECT_EQ(r.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << r.status.error_message();
    EXPECT_THAT(r.status.error_message(), Not(HasSubstr("\n")));
    EXPECT_THAT(r.status.error_message(), Not(IsEmpty()));
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  refuse([](auto* r) { r->mutable_window()->set_since_ns(-1); });
  refuse([](auto* r) { r->mutable_window()->set_begin_ns(kMin); });
  refuse([](auto* r) { r->mutable_window()->set_end_ns(kMin); });
  refuse([](auto* r) { r->mutable_window()->set_begin_ns(kMax); });
  refuse([](auto* r) {
    r->mutable_window()->set_begin_ns(20);
    r->mutable_window()->set_end_ns(10);
  });
  refuse([](auto* r) {
    r->mutable_window()->set_begin_ns(10);
    r->mutable_window()->set_end_ns(10);
  });
  refuse([](auto* r) { r->set_thread_regex("("); });
  refuse([](auto* r) { r->set_thread_regex("a\n("); });
  refuse([](auto* r) { r->set_thread_regex(std::string(1025, 'a')); });
  refuse([](auto* r) { r->set_thread_regex("((a{100}){100}){100}"); });
  refuse([](auto* r) { r->add_targets(""); });
  refuse([](auto* r) { r->add_targets("0"); });
  refuse([](auto* r) { r->add_targets("99999999999999999999"); });
  refuse([](auto* r) { r->add_targets("[z-a]"); });
  refuse([](auto* r) {
    for (int i = 0; i < 65; i++) r->add_targets("a");
  });
  refuse([](auto* r) { r->add_sample_types("moonlight"); });
  refuse([](auto* r) { r->add_sample_types(""); });
  refuse([](auto* r) { r->add_sample_types("alloc"), r->add_sample_types("alloc"); });
  refuse([](auto* r) {
    for (int i = 0; i < 100; i++) r->add_sample_types("alloc");
  });
  refuse([](auto* r) { r->add_sample_types("alloc"), r->add_reasons(v1::REASON_LOCK); });
  refuse([](auto* r) {
    for (int i = 0; i < 100; i++) r->add_reasons(v1::REASON_LOCK);
  });
  refuse([](auto* r) { r->add_group_by(v1::GROUP_KEY_UNSPECIFIED); });
  refuse([](auto* r) { r->add_group_by(static_cast<v1::GroupKey>(99)); });
  refuse([](auto* r) {
    for (int i = 0; i < 100; i++) r->add_group_by(v1::GROUP_KEY_REASON);
  });
  refuse([](auto* r) { r->mutable_baseline()->set_begin_ns(kMax); });
  refuse([](auto* r) { r->add_reasons(v1::REASON_UNSPECIFIED); });
  refuse([](auto* r) { r->add_reasons(static_cast<v1::Reason>(999)); });
  refuse([](auto* r) { r->add_reasons(static_cast<v1::Reason>(-1)); });
  EXPECT_EQ(collector_.drains, 0) << "a bad request costs nothing";

  // Any window that can be expressed is fine, if there is anything in it.
  v1::FetchRequest wide;
  wide.mutable_window()->set_since_ns(kMax);
  EXPECT_TRUE(Fetch(wide).status.ok());
  // It begins in the future, as far as that can be expressed.
  wide.mutable_window()->set_end_ns(kMax);
  EXPECT_EQ(Fetch(wide).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::FetchRequest early;
  early.mutable_window()->set_end_ns(1);
  early.mutable_window()->set_since_ns(kMax);
  EXPECT_EQ(Fetch(early).status.error_code(), grpc::StatusCode::NOT_FOUND);

  v1::FetchRequest large;
  for (int i = 0; i < 70; i++) large.add_targets(std::string(1024, 'a'));
  EXPECT_EQ(Fetch(large).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << "requests are limited to 64 KiB";
}

TEST_F(ServiceTest, PassesOnWhatTheCollectorSays) {
  StartOnSocket();
  collector_.drain_status = absl::UnavailableError("the collector is stopping");
  const FetchResult r = Fetch(Since(60));
  EXPECT_EQ(r.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(r.status.error_message(), "the collector is stopping");
}

TEST_F(ServiceTest, LargeAnswersComeInParts) {
  constexpr uint64_t kStacks = 2'000;
  ProfileDelta d;
  d.end_ns = MonotonicNs();
  d.begin_ns = d.end_ns - kSecond;
  d.switch_on = d.tick_on = true;
  d.tick_interval_ns = kTick;
  d.ticks = 100;
  for (uint64_t i = 1; i <= kStacks; i++) {
    const ThreadId thread{i};
    d.threads.push_back({thread, static_cast<int32_t>(i), static_cast<int32_t>(i), 0,
                         std::string(15, 'n'), "process", false});
    LedgerDelta ledger;
    ledger.off_ns[static_cast<size_t>(Reason::kPoll)] = kSecond;
    d.ledgers.push_back({thread, ledger});
    StackTrace stack{.id = StackId{i}, .frames = {}};
    for (uint64_t k = 0; k < 20; k++) {
      stack.frames.push_back(UserFrame(kGoneModule, (i % 2000) * 100 + k));
    }
    stack.frames.push_back(UserFrame(kGoneModule, 1'000'000 + i));
    d.stacks.push_back(std::move(stack));
    d.samples.push_back({{thread, StackId{i}, i, 7, Reason::kPoll}, kTick, 1});
  }
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  EXPECT_GT(r.parts, 3);
  EXPECT_LT(r.largest_part, 1u << 20);
  EXPECT_EQ(r.threads.size(), kStacks);
  EXPECT_EQ(r.message.stacks_size(), static_cast<int>(kStacks) + 1);
  EXPECT_EQ(r.samples.size(), kStacks);
  EXPECT_EQ(r.message.processes_size(), static_cast<int>(kStacks));
}

TEST_F(ServiceTest, AtMostFourFetchesAtOnce) {
  FillStore();
  StartOnSocket();
  std::promise<void> go;
  collector_.block = go.get_future().share();
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; i++) {
    clients.emplace_back([&] { good += Fetch(Since(60)).status.ok() ? 1 : 0; });
  }
  while (collector_.drains < 4) std::this_thread::yield();
  EXPECT_EQ(Fetch(Since(60)).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  go.set_value();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 4);
  EXPECT_TRUE(Fetch(Since(60)).status.ok());
}

TEST(FetchSlotsTest, WhoDoesNotReadLosesThePlace) {
  FetchSlots slots(1, 100);
  grpc::ServerContext first, second;
  EXPECT_TRUE(slots.Enter(&first, 0));
  EXPECT_FALSE(slots.Enter(&second, 50));
  slots.Leave(&second);
  slots.Leave(&first);
  EXPECT_TRUE(slots.Enter(&second, 60));
}

TEST_F(ServiceTest, AClientThatLeavesDoesNoHarm) {
  FillStore();
  StartOnSocket();
  for (int i = 0; i < 10; i++) {
    grpc::ClientContext context;
    auto reader = stub_->Fetch(&context, Since(60));
    v1::Profile part;
    // Refused while the handlers of those before have not noticed yet; answered, it is cut short,
    // or had been sent whole already.
    reader->Read(&part);
    context.TryCancel();
    EXPECT_THAT(reader->Finish().error_code(),
                AnyOf(grpc::StatusCode::CANCELLED, grpc::StatusCode::RESOURCE_EXHAUSTED,
                      grpc::StatusCode::OK));
  }
  // All four places are given back as the handlers notice, and then all can be had at once.
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; i++) {
    clients.emplace_back([&] {
      grpc::Status status;
      do {
        status = Fetch(Since(60)).status;
      } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
      good += status.ok() ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 4);
}

TEST_F(ServiceTest, Status) {
  FillStore();
  collector_.state.started_wall_ns = 5;
  collector_.state.tick_interval_ns = kTick;
  collector_.state.layers = {{"books", true, ""}, {"switch", false, "no BTF"}};
  collector_.state.targets = {
      {"postgres",
       {20},
       2,
       {.target = 1, .in_path_ns = 11, .tick_cpu_ns = 12, .drain_cpu_ns = 13, .switches = 14}}};
  collector_.state.governor = {
      .budget = {.share = 0.02},
      .allowance = {.rate = 0.05, .saved = 1.5, .fixed = 0.001},
      .changes = 3,
      .sources = {{"switch", true, 1, "exact time", 0, 0.25}, {"tick", false, 0, "", 0.5, 0.5}}};
  collector_.state.missing = {"kernel symbols: no CAP_SYSLOG"};
  collector_.state.losses[PROFD_LOSS_TORN_WALK] = 3;
  collector_.state.kernel_map_bytes = 123;
  collector_.state.threads = 3;
  collector_.state.modules = {{{"/opt/\xff", "ab"}, 7, ""}};
  collector_.state.module_use = {.in_use = 3, .limit = 8, .retired = 2};
  collector_.state.programs = {{"tick", 1}};
  StartOnSocket();
  grpc::ClientContext context;
  v1::GetStatusResponse r;
  const grpc::Status status = stub_->GetStatus(&context, {}, &r);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(r.daemon_version(), PROFD_VERSION);
  EXPECT_EQ(r.started_ns(), 5);
  EXPECT_NEAR(static_cast<double>(r.oldest_ns()), static_cast<double>(WallNs() - 10 * kSecond),
              60.0 * kSecond);
  ASSERT_THAT(r.layers(), SizeIs(2));
  EXPECT_EQ(r.layers(1).note(), "no BTF");
  EXPECT_THAT(r.targets(0).pids(), ElementsAre(20));
  EXPECT_EQ(r.targets(0).cost().target(), 1u);
  EXPECT_EQ(r.targets(0).cost().in_path_ns(), 11);
  EXPECT_EQ(r.targets(0).cost().tick_cpu_ns(), 12);
  EXPECT_EQ(r.targets(0).cost().drain_cpu_ns(), 13);
  EXPECT_EQ(r.targets(0).cost().switches(), 14u);
  EXPECT_GT(r.cost().duration_ns(), kSecond) << "since the start";
  const v1::Governor& governor = r.governor();
  EXPECT_EQ(governor.budget(), 0.05);
  EXPECT_EQ(governor.share(), 0.02);
  EXPECT_TRUE(governor.of_targets());
  EXPECT_EQ(governor.saved_s(), 1.5);
  EXPECT_EQ(governor.fixed_cost(), 0.001);
  EXPECT_EQ(governor.changes(), 3u);
  ASSERT_THAT(governor.sources(), SizeIs(2));
  EXPECT_EQ(governor.sources(0).name(), "switch");
  EXPECT_TRUE(governor.sources(0).in_path());
  EXPECT_EQ(governor.sources(0).level(), 1u);
  EXPECT_EQ(governor.sources(0).given_up(), "exact time");
  EXPECT_EQ(governor.sources(0).cost(), 0);
  EXPECT_EQ(governor.sources(0).whole_cost(), 0.25);
  EXPECT_FALSE(governor.sources(1).in_path());
  EXPECT_EQ(governor.sources(1).cost(), 0.5);
  EXPECT_THAT(r.missing(), ElementsAre("kernel symbols: no CAP_SYSLOG"));
  ASSERT_THAT(r.losses(), SizeIs(2));
  EXPECT_EQ(r.losses(0).cause(), "torn_walk");
  EXPECT_EQ(r.losses(1).cause(), "stack_unknown") << "the store's own";
  EXPECT_GT(r.memory().daemon_rss_bytes(), 1u << 20);
  EXPECT_EQ(r.memory().kernel_map_bytes(), 123u);
  EXPECT_EQ(r.memory().store_bytes(), store_.Bytes());
  EXPECT_EQ(r.modules(), 1u);
  EXPECT_EQ(r.module_slots_in_use(), 3u);
  EXPECT_EQ(r.module_slots(), 8u);
  EXPECT_EQ(r.retired_modules(), 2u);
  EXPECT_EQ(r.module_list(0).path(), "/opt/?");
  EXPECT_EQ(r.programs(0).recursion_misses(), 1u);
}

TEST_F(ServiceTest, SymbolsAreLookedUpOnce) {
  FillStore();
  StartOnSocket();
  Fetch(Since(60));
  std::filesystem::remove(folder_ + "/kallsyms");
  const FetchResult r = Fetch(Since(60));
  EXPECT_EQ(r.Functions(1)[0], "schedule") << "from the cache";
}

// Code of the kernel is known again after a reboot, wherever it lies then.
TEST_F(ServiceTest, KernelFramesAreTheSameAfterAReboot) {
  const FakeModules modules;
  std::vector<std::vector<NamedFrame>> named;
  for (const uint64_t base : {kKernelBase, kKernelBase + 0x2c000000}) {
    StartKernelAt(base);
    FrameNames names(&modules, kernel_files_);
    const std::vector<FrameAddress> addresses = {{base + 0x1010, true},
                                                 {base + 0x2000, false},
                                                 {base + 0x9010, false},
                                                 {base + 0xa000, true},
                                                 {base + 0x2ff0, true}};
    // The second time from the cache.
    for (int i = 0; i < 2; ++i) named.push_back(names.Name(addresses));
  }
  for (const std::vector<NamedFrame>& boot : named) {
    EXPECT_EQ(boot[0].module, "[kernel]");
    EXPECT_EQ(boot[0].build_id, "cafe01");
    EXPECT_EQ(boot[0].offset, 0x1010U);
    EXPECT_EQ(boot[1].offset, 0x2000U) << "a return address stays as it is";
    EXPECT_EQ(boot[1].function, "schedule");
    EXPECT_EQ(boot[2].module, "[ext4]");
    EXPECT_EQ(boot[2].build_id, "e4ff");
    EXPECT_EQ(boot[2].offset, 0x10U);
    // In no image.
    EXPECT_EQ(boot[3].module, "[kernel]");
    EXPECT_EQ(boot[3].build_id, "");
    EXPECT_EQ(boot[3].offset, 0U);
    EXPECT_EQ(boot[4].function, "futex_wait");
  }
}

// profd has forgotten the module; the recording has not.
TEST_F(ServiceTest, ForgottenModulesAreNamedByTheRecording) {
  const FakeModules modules;
  FrameNames names(&modules);
  const std::vector<FrameAddress> addresses = {{UserFrame(ModuleId{4711}, 0x1234), true},
                                               {UserFrame(ModuleId{4712}, 0x1234), true}};
  const ModuleIdentities recorded = {
      {ModuleId{4711}, std::make_shared<const ModuleIdentity>(ModuleIdentity{
                           .path = "/opt/old/lib\xff.so", .build_id = "ab", .headers_id = "h"})}};
  const std::vector<NamedFrame> named = names.Name(addresses, recorded);
  EXPECT_EQ(named[0].function, "lib?.so+0x1234");
  EXPECT_EQ(named[0].module, "lib?.so");
  EXPECT_EQ(named[0].build_id, "ab");
  EXPECT_EQ(named[0].headers_id, "h");
  EXPECT_EQ(named[0].offset, 0x1234U);
  EXPECT_EQ(named[0].found_by, NameSource::kNone);
  EXPECT_EQ(named[1].function, "[unknown module]");
}

// Before profd began, nothing is known: that is no answer of "no waits".
TEST_F(ServiceTest, AWindowWithoutAnyRecordIsAnError) {
  StartOnSocket();
  FetchResult r = Fetch(Since(60));
  EXPECT_EQ(r.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(r.status.error_message(), "nothing was recorded yet; try again in a few seconds");
  FillStore();
  v1::FetchRequest early;
  early.mutable_window()->set_begin_ns(WallNs() - 600 * kSecond);
  early.mutable_window()->set_end_ns(WallNs() - 300 * kSecond);
  r = Fetch(early);
  EXPECT_EQ(r.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(r.status.error_message(),
              MatchesRegex("nothing was recorded between (10m|9m59s) and (5m|4m59s) ago; what "
                           "profd has begins [0-9]+s ago"));
  EXPECT_TRUE(Fetch(Since(60)).status.ok());
}

TEST_F(ServiceTest, KernelNamesMayBeMissing) {
  std::filesystem::remove(folder_ + "/kallsyms");
  FillStore();
  StartOnSocket();
  const FetchResult r = Fetch(Since(60));
  EXPECT_TRUE(r.status.ok());
  EXPECT_EQ(r.Functions(1)[0], "[kernel]+0xffffffff81001010");
}

TEST_F(ServiceTest, SocketIsForOwnerAndGroup) {
  const mode_t mask = umask(0);
  StartOnSocket();
  umask(mask);
  struct stat st{};
  ASSERT_EQ(stat(socket_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0660u);
  ASSERT_EQ(stat((folder_ + "/run").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0750u);
  EXPECT_EQ(server_->address(), "unix://" + socket_);
  server_->Shutdown();
  EXPECT_NE(stat(socket_.c_str(), &st), 0) << "removed at the end";
}

TEST_F(ServiceTest, RefusesASocketInUseAndReplacesAStaleOne) {
  StartOnSocket();
  const auto second = Start("unix://" + socket_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  FillStore();
  EXPECT_TRUE(Fetch(Since(60)).status.ok()) << "the first still serves";
  server_->Shutdown();

  const int stale = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(stale);
  StartOnSocket();
  EXPECT_TRUE(Fetch(Since(60)).status.ok());
}

TEST_F(ServiceTest, NeverRemovesAFile) {
  const std::string file = folder_ + "/precious";
  std::ofstream(file) << "x";
  EXPECT_EQ(Start("unix://" + file).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_FALSE(Start("unix://" + file + "/below").ok());
}

TEST_F(ServiceTest, ServesOnLoopback) {
  FillStore();
  const auto server = Start("localhost:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), ::testing::StartsWith("127.0.0.1:"));
  stub_ = v1::Profiler::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  EXPECT_TRUE(Fetch(Since(60)).status.ok());
  EXPECT_FALSE(Start((*server)->address()).ok()) << "the port is taken";
}

TEST(ListenAddressTest, Parses) {
  EXPECT_EQ(ParseListenAddress("unix:///run/profd/profd.sock")->socket_path,
            "/run/profd/profd.sock");
  EXPECT_EQ(ParseListenAddress("127.1.2.3:80")->host, "127.1.2.3");
  EXPECT_EQ(ParseListenAddress("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseListenAddress("localhost:65535")->port, 65535);
  for (const char* bad : {"",
                          ":",
                          "unix:",
                          "unix://",
                          "unix://relative",
                          "unix:/one",
                          "unix:///dir/",
                          "127.0.0.1",
                          "127.0.0.1:",
                          "127.0.0.1:x",
                          "127.0.0.1:-1",
                          "127.0.0.1:65536",
                          "0.0.0.0:80",
                          "[::]:80",
                          ":80",
                          "10.0.0.1:80",
                          "example.org:80",
                          "[::1:80",
                          "128.0.0.1:1",
                          "127.0.0.1.evil:1"}) {
    EXPECT_EQ(ParseListenAddress(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(ParseListenAddress("unix:///" + std::string(200, 'x')).ok());
  EXPECT_EQ(
      ParseListenAddress("0.0.0.0:80").status().message(),
      "--listen 0.0.0.0:80: only loopback addresses are served, as there is no encryption yet; "
      "use unix:///PATH or 127.0.0.1:PORT");
}

TEST(ServiceTextTest, IsValidUtf8AndShort) {
  EXPECT_EQ(CleanText("naïve ✓ 𝄞"), "naïve ✓ 𝄞");
  EXPECT_EQ(CleanText("a\xff\n\x7f\xc3"), "a????");
  EXPECT_EQ(CleanText("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(CleanText("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80"), "????") << "beyond Unicode";
  EXPECT_EQ(CleanText("aéb", 2), "a…");
  EXPECT_EQ(CleanText(std::string("a\0b", 3)), "a?b");
}

// Without gRPC, so that the thread sanitizer sees all of it.
TEST(FrameNamesTest, SharedByThreads) {
  const FakeModules modules;
  FrameNames names(&modules, {.symbols = "/nonexistent"});
  const uint64_t landmark = FileOffset(reinterpret_cast<const void*>(&profd_service_test_landmark));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; t++) {
    threads.emplace_back([&names, landmark, t] {
      for (uint64_t i = 0; i < 20; i++) {
        const std::vector<NamedFrame> named =
            names.Name(std::vector<FrameAddress>{{UserFrame(kOwnModule, landmark), true},
                                                 {UserFrame(kGoneModule, 100 * t + i), false},
                                                 {kKernelBase + i, false}});
        EXPECT_EQ(named[0].function, "profd_service_test_landmark");
        EXPECT_THAT(named[1].function, HasSubstr("libgone.so.1+0x"));
        EXPECT_THAT(named[2].function, HasSubstr("[kernel]+0x"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FetchSlotsTest, SharedByThreads) {
  FetchSlots slots(2, kSecond);
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      grpc::ServerContext context;
      for (int i = 0; i < 500; i++) {
        if (!slots.Enter(&context, 0)) continue;
        EXPECT_LE(++inside, 2);
        --inside;
        slots.Leave(&context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SymbolCacheTest, StaysWithinItsBounds) {
  SymbolCache cache(100, 1 << 20);
  for (uint64_t i = 0; i < 1000; i++) cache.Put({kOwnModule, 1, i}, {"f", FrameKind::kLibc});
  EXPECT_EQ(cache.entries(), 100u);
  EXPECT_EQ(cache.Get({kOwnModule, 1, 899}), nullptr);
  ASSERT_NE(cache.Get({kOwnModule, 1, 900}), nullptr);
  EXPECT_EQ(cache.Get({kOwnModule, 2, 900}), nullptr);
  cache.Put({kOwnModule, 1, 2000}, {"f", FrameKind::kLibc});
  EXPECT_NE(cache.Get({kOwnModule, 1, 900}), nullptr) << "used lately";
  EXPECT_EQ(cache.Get({kOwnModule, 1, 901}), nullptr);
  cache.Put({kOwnModule, 1, 3000}, {std::string(2 << 20, 'x'), FrameKind::kLibc});
  EXPECT_LE(cache.bytes(), 1u << 20);
}

TEST(ScaleBurstsTest, BurstsStandForTheWindow) {
  MergedProfile profile;
  profile.bursts = 3;
  profile.burst_span_ns = 15 * kSecond;
  profile.bursts_on_ns = 12 * kSecond;  // one more than fits
  MergedThread& thread = profile.threads.emplace_back();
  LedgerDelta did;
  did.allocated = {.bytes = 77, .burst_bytes = 1500, .burst_doubt = 500};
  did.freed = {.burst_bytes = 150};
  thread.ledger = MergedLedger(did);
  const auto sample = [&](Kind kind, uint64_t argument, int64_t weight, double squares) {
    return Sample{
        .key = {.argument = argument, .kind = kind}, .weight = weight, .squares = squares};
  };
  thread.samples = {sample(Kind::kAlloc, PROFD_BURST_ARGUMENT, 1000, 1e6),
                    sample(Kind::kAlloc, PROFD_BURST_ARGUMENT, 500, 0),
                    sample(Kind::kAlloc, 0, 60, 0),
                    sample(Kind::kFree, PROFD_BURST_ARGUMENT, 150, 0)};
  ScaleBursts(&profile);
  const std::vector<Sample> scaled(thread.samples.begin(), thread.samples.end());
  ASSERT_THAT(scaled, SizeIs(4));
  EXPECT_EQ(scaled[0].weight, 800);
  EXPECT_DOUBLE_EQ(scaled[0].squares, 0.64e6);
  EXPECT_EQ(scaled[1].weight, 400);
  EXPECT_EQ(scaled[2].weight, 60) << "of an allocator's own event";
  EXPECT_EQ(scaled[3].weight, 120);
  EXPECT_EQ(thread.ledger.allocated().bytes, 77);
  EXPECT_EQ(thread.ledger.allocated().burst_bytes, 1200);
  EXPECT_EQ(thread.ledger.allocated().burst_doubt, 400);
  EXPECT_EQ(thread.ledger.freed().burst_bytes, 120);
}

TEST(LossesTest, TestsKnowEveryLossInItsOrder) {
  ASSERT_EQ(std::size(kLossClaims), kLossCount);
  for (size_t i = 0; i < kLossCount; i++) {
    EXPECT_EQ(kLossClaims[i].name, DescribeLoss(i).cause);
    EXPECT_GT(std::string(DescribeLoss(i).help).size(), 20u);
  }
}

// What a drain counted is in the answer for its window and in no other, whatever the loss. Of
// `recursion_misses` that is all that can be tested: the kernel skips a program that is called
// within itself on a CPU, and what interrupts one of ours reaches no tracepoint of the same one. It
// does where a program reads memory that is not there, which is left out (Kernel::Misses).
TEST_F(ServiceTest, EveryLossIsInTheAnswerOfItsWindow) {
  const int64_t now = MonotonicNs();
  for (size_t i = 0; i < kLossCount; i++) {
    ProfileDelta d;
    d.end_ns = now - static_cast<int64_t>(kLossCount - 1 - i) * kSecond;
    d.begin_ns = d.end_ns - kSecond;
    d.losses[i] = 100 + i;
    ASSERT_TRUE(store_.Append(std::move(d)).ok());
  }
  StartOnSocket();
  const FetchResult whole = Fetch(Since(static_cast<int64_t>(kLossCount) + 5));
  ASSERT_TRUE(whole.status.ok());
  std::map<std::string, v1::Loss> losses;
  for (const v1::Loss& loss : whole.message.losses()) losses[loss.cause()] = loss;
  for (size_t i = 0; i < kLossCount; i++) {
    const std::string cause = DescribeLoss(i).cause;
    SCOPED_TRACE(cause);
    if (i == PROFD_LOSS_COUNTERS_FULL_NS) {
      EXPECT_EQ(losses["counters_full"].weight_ns(), static_cast<int64_t>(100 + i));
      EXPECT_FALSE(losses.contains(cause));
    } else if (i == PROFD_LOSS_CPU_LOST_NS || i == PROFD_LOSS_WAKER_LOST_NS) {
      EXPECT_FALSE(losses.contains(cause)) << "it is the weight of another";
    } else if (i == PROFD_LOSS_HEAP_FULL_BYTES) {
      EXPECT_EQ(losses["heap_counters_full"].weight_bytes(), static_cast<int64_t>(100 + i));
      EXPECT_FALSE(losses.contains(cause));
    } else {
      ASSERT_TRUE(losses.contains(cause));
      EXPECT_EQ(losses[cause].count(), 100 + i);
      EXPECT_EQ(losses[cause].help(), DescribeLoss(i).help);
    }
  }
  EXPECT_EQ(losses.size(), kLossCount - 4) << "four are the weights of others";
  Observe("loss", "recursion_misses", losses["recursion_misses"].count());
}

// The longest first, without idle ones, with who ended them.
TEST_F(ServiceTest, ListsTheLongestWaits) {
  FillStore();
  const int64_t now = MonotonicNs();
  ProfileDelta d;
  d.begin_ns = now - 1;
  d.end_ns = now;
  d.switch_on = d.tick_on = true;
  d.long_work_ns = 20'000'000;
  d.long_rest_ns = 100'000'000;
  const auto wait = [&](uint64_t thread, uint64_t stack, Reason reason, int64_t ms) {
    d.long_waits.push_back({.key = {.thread = ThreadId{thread},
                                    .stack = StackId{stack},
                                    .argument = 0xabc,
                                    .syscall = stack == 0 ? -1 : 202,
                                    .reason = reason},
                            .begin_ns = now - 2 * kSecond,
                            .duration_ns = ms * 1'000'000});
    return &d.long_waits.back();
  };
  d.long_waits.reserve(5);
  wait(1, 100, Reason::kLock, 800)->waker = StackId{555};
  wait(2, 0, Reason::kDisk, 900);
  wait(3, 100, Reason::kPoll, 1'500);
  wait(2, 200, Reason::kLock, 50)->lasts = true;
  d.long_waits.back().begin_ns += kSecond;
  wait(1, 100, Reason::kLock, 30)->begin_ns -= kSecond;
  StackTrace waker{
      .id = StackId{555}, .kernel_frames = 5, .frames = {0, 0, 0, 0, kKernelBase + 0x1010}};
  std::memcpy(&waker.frames[0], "redis-server", 12);
  std::memcpy(&waker.frames[2], "flusher", 7);
  d.stacks = {waker};
  for (uint64_t t = 1; t <= 3; t++) d.ledgers.push_back({ThreadId{t}, {.wall_ns = 1}});
  ASSERT_TRUE(store_.Append(std::move(d)).ok());
  StartOnSocket();

  v1::FetchRequest request = Since(60);
  request.mutable_longest()->set_limit(3);
  FetchResult r = Fetch(request);
  ASSERT_TRUE(r.status.ok()) << r.status.error_message();
  EXPECT_EQ(r.message.samples_size(), 0);
  const v1::LongestWaits& longest = r.message.longest();
  ASSERT_EQ(longest.waits_size(), 3);
  EXPECT_EQ(longest.least_ns(), 20'000'000);
  EXPECT_EQ(longest.least_rest_ns(), 100'000'000);
  EXPECT_EQ(longest.idle_left_out(), 1U);
  EXPECT_EQ(longest.left_out(), 1U);
  const v1::LongWait& first = longest.waits(0);
  EXPECT_EQ(first.duration_ns(), 900'000'000);
  EXPECT_EQ(first.reason(), v1::REASON_DISK);
  EXPECT_EQ(first.stack(), 0U) << "no tick saw it";
  EXPECT_EQ(first.attributes_size(), 0);
  const v1::LongWait& second = longest.waits(1);
  EXPECT_EQ(second.duration_ns(), 800'000'000);
  EXPECT_EQ(r.message.strings(static_cast<int>(second.waker())), "redis-server/flusher");
  EXPECT_NE(second.stack(), 0U);
  EXPECT_NE(second.woken_stack(), second.stack());
  EXPECT_EQ(second.attributes_size(), 2) << "system call and its argument";
  EXPECT_NEAR(static_cast<double>(second.begin_ns()),
              static_cast<double>(WallNs() - (MonotonicNs() - now) - 2 * kSecond), 5e8);
  EXPECT_TRUE(longest.waits(2).lasts());
  EXPECT_EQ(r.message.threads_size(), 2) << "those of the waits";
  EXPECT_EQ(r.message.threads(static_cast<int>(second.thread())).name(), "redis-server");

  request.mutable_longest()->set_idle(true);
  r = Fetch(request);
  ASSERT_EQ(r.message.longest().waits_size(), 3);
  EXPECT_EQ(r.message.longest().waits(0).duration_ns(), 1'500'000'000);
  request.add_reasons(v1::REASON_DISK);
  r = Fetch(request);
  ASSERT_EQ(r.message.longest().waits_size(), 1);
  EXPECT_EQ(r.message.longest().left_out(), 0U);

  request.mutable_longest()->set_limit(1'001);
  EXPECT_EQ(Fetch(request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request = Since(60);
  request.mutable_longest();
  request.add_sample_types("alloc");
  EXPECT_EQ(Fetch(request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace profd
