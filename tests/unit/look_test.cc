// Looks: what is taken from the kernel, and what waits are for.
#include "daemon/source/look.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "daemon/service/wait_object.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;

bool All(const ThreadInfo&) { return true; }

class LookTest : public ::testing::Test {
 protected:
  LookTest() {
    clock_.MoveTo(kSecond);
    for (const uint64_t id : {1, 2, 3}) kernel_.Start(id, 10);
    kernel_.Start(4, 20);
    clock_.MoveTo(3 * kSecond);
  }

  FakeClock clock_;
  FakeKernel kernel_{&clock_};
};

TEST_F(LookTest, TellsOfEachThreadWhatItDoesAndSinceWhen) {
  kernel_.running = {2};
  const absl::StatusOr<Look> look = TakeLook(&kernel_, &clock_, All);
  ASSERT_TRUE(look.ok()) << look.status();
  ASSERT_THAT(look->threads, SizeIs(4));
  const LookedThread& waits = look->threads[0];
  EXPECT_EQ(waits.info.pid, 10);
  EXPECT_EQ(waits.info.tid, 1);
  EXPECT_EQ(waits.info.name, "worker");
  EXPECT_EQ(waits.info.process, "server");
  EXPECT_FALSE(waits.running);
  EXPECT_EQ(waits.reason, Reason::kLock);
  EXPECT_EQ(waits.looked_ns - waits.since_ns.value_or(0), 2 * kSecond);
  EXPECT_EQ(waits.syscall, 202);
  EXPECT_EQ(waits.object, 0x1000U);
  EXPECT_EQ(waits.stack, StackId{1});
  const LookedThread& runs = look->threads[1];
  EXPECT_TRUE(runs.running);
  EXPECT_EQ(runs.stack, StackId{});
  EXPECT_EQ(runs.object, std::nullopt);
  EXPECT_THAT(look->stacks, SizeIs(3));
  EXPECT_EQ(look->visited, 4U);
  EXPECT_EQ(look->walks, 3U);
  EXPECT_EQ(look->torn, 0U);
  EXPECT_EQ(look->left_out, 0U);
}

TEST_F(LookTest, KeepsWhatIsAskedForAndNoMoreThanItMay) {
  const auto of_ten = [](const ThreadInfo& info) { return info.pid == 10; };
  absl::StatusOr<Look> look = TakeLook(&kernel_, &clock_, of_ten);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_THAT(look->threads, SizeIs(3));
  EXPECT_THAT(look->stacks, SizeIs(3)) << "stacks of others are not kept";
  EXPECT_EQ(look->visited, 4U);
  look = TakeLook(&kernel_, &clock_, of_ten, 2);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_THAT(look->threads, SizeIs(2));
  EXPECT_EQ(look->left_out, 1U);
}

TEST_F(LookTest, AThreadThatIsNotVisibleHereIsNoneOfOurs) {
  kernel_.Start(5, 0);
  const absl::StatusOr<Look> look = TakeLook(&kernel_, &clock_, All);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_THAT(look->threads, SizeIs(4));
}

TEST_F(LookTest, TornStacksAreCounted) {
  kernel_.torn = {1, 4};
  const absl::StatusOr<Look> look = TakeLook(&kernel_, &clock_, All);
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->torn, 2U);
  EXPECT_THAT(look->threads, SizeIs(4)) << "the thread is there all the same";
}

TEST_F(LookTest, AFailureIsTold) {
  kernel_.look = {1, absl::UnimplementedError("refused")};
  EXPECT_TRUE(absl::IsUnimplemented(TakeLook(&kernel_, &clock_, All).status()));
  EXPECT_TRUE(TakeLook(&kernel_, &clock_, All).ok());
}

// Hands over what is no record of a thread.
class BrokenKernel final : public LookKernel {
 public:
  absl::Status Look(const RecordSink& sink) override {
    sink(bytes);
    return absl::OkStatus();
  }
  std::vector<uint8_t> bytes;
};

TEST(BrokenLookTest, RecordsThatMakeNoSenseAreRefused) {
  FakeClock clock;
  BrokenKernel kernel;
  kernel.bytes.assign(10, 0);
  EXPECT_FALSE(TakeLook(&kernel, &clock, All).ok()) << "too short";
  profd_look look{};
  look.pid = look.tid = 1;
  look.visit.outcome = PROFD_VISIT_NEW;
  const auto set = [&] {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&look);
    kernel.bytes.assign(bytes, bytes + sizeof(look));
  };
  set();
  EXPECT_FALSE(TakeLook(&kernel, &clock, All).ok()) << "a wait without a stack record";
  profd_stack_record stack{};
  const auto append_stack = [&] {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&stack);
    kernel.bytes.insert(kernel.bytes.end(), bytes, bytes + PROFD_STACK_HEADER_SIZE);
  };
  look.object = stack.hash = PROFD_OBJECT_BIT | 5;
  set();
  append_stack();
  EXPECT_FALSE(TakeLook(&kernel, &clock, All).ok()) << "an object without its words";
  append_stack();
  const auto taken = TakeLook(&kernel, &clock, All);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->threads[0].described, StackId{PROFD_OBJECT_BIT | 5});
  look.object = 0;
  look.visit.reason = PROFD_REASON_COUNT;
  set();
  EXPECT_FALSE(TakeLook(&kernel, &clock, All).ok()) << "a reason that is none";
  look.visit.outcome = PROFD_VISIT_RUNNING;
  set();
  EXPECT_TRUE(TakeLook(&kernel, &clock, All).ok()) << "who runs has neither";
}

TEST(WaitObjectTest, NamesWhatTheArgumentIs) {
  EXPECT_EQ(ObjectText(202, 0x7f12a0), "futex 0x7f12a0");
  EXPECT_EQ(ObjectText(455, 0x10), "futex 0x10");
  EXPECT_EQ(ObjectText(220, 3), "semaphores 3");
  EXPECT_EQ(ObjectText(0, 7), "fd 7");
  EXPECT_EQ(ObjectText(73, 0xffffffffffffffff), "fd -1") << "flock";
  EXPECT_TRUE(IsDescriptor(0));
  EXPECT_FALSE(IsDescriptor(202));
  EXPECT_FALSE(IsDescriptor(65));
}

TEST(OpenFilesTest, FindsWhatDescriptorsReferToOnceEach) {
  char name[] = "/tmp/profd-open-files-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string proc = name;
  std::filesystem::create_directories(proc + "/12/fd");
  ASSERT_EQ(symlink("socket:[4711]", (proc + "/12/fd/3").c_str()), 0);
  ASSERT_EQ(symlink("/data/\xff\x01x", (proc + "/12/fd/4").c_str()), 0);
  OpenFiles files(proc, 3);
  EXPECT_EQ(files.Find(12, 3), "socket:[4711]");
  EXPECT_EQ(files.Find(12, 4), "/data/??x") << "clean text";
  EXPECT_THAT(files.Find(13, 3), IsEmpty());
  EXPECT_THAT(files.Find(12, 0xffffffffffffffff), IsEmpty()) << "no descriptor is that large";
  ASSERT_EQ(symlink("late", (proc + "/12/fd/5").c_str()), 0);
  EXPECT_THAT(files.Find(12, 5), IsEmpty()) << "no more are looked up than may be";
  EXPECT_EQ(files.Find(12, 3), "socket:[4711]") << "those that were are known";
  std::filesystem::remove_all(proc);
}

}  // namespace
}  // namespace profd
