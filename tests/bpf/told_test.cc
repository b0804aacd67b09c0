// Objects that a program tells of by USDT probes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/heap/usdt.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/support/any_record.h"

// Stand in for probes: the no-op is the first instruction, arguments are where the function's are.
extern "C" void ProfdTestTellsAlloc(uint64_t, uint64_t, uint64_t, const uint64_t*);
extern "C" void ProfdTestTellsFree(uint64_t);
asm(R"(
  .text
  .globl ProfdTestTellsAlloc, ProfdTestTellsFree
  .type ProfdTestTellsAlloc, @function
  .type ProfdTestTellsFree, @function
ProfdTestTellsAlloc:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestTellsAlloc, .-ProfdTestTellsAlloc
ProfdTestTellsFree:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdTestTellsFree, .-ProfdTestTellsFree
)");
extern "C" {
// Data of the file, not memory without one.
[[gnu::section(".probes")]] volatile uint16_t ProfdTestSemaphore = 0;
}

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class ToldKernelTest : public KernelTest {
 protected:
  static constexpr KernelOptions kTold = WithLayers({&KernelOptions::heap_layer});

  // At both probes, with the arguments of the first as `text` says.
  void Attach(int32_t pid, const std::string& text, bool semaphore = false) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const uint64_t count =
        semaphore ? FileOffset(const_cast<const uint16_t*>(&ProfdTestSemaphore)) : 0;
    const ProbePlace places[] = {
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsAlloc)),
         .cookie = PROFD_USDT_COOKIE(PROFD_USDT_ALLOC, 0, 7, Number(text, 3)),
         .semaphore = count},
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsFree)),
         .cookie = PROFD_USDT_COOKIE(PROFD_USDT_FREE, 0, 7, Number("8@%rdi", 1)),
         .semaphore = count}};
    auto probe = kernel_->AttachToldProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  uint32_t Number(const std::string& text, int count) {
    const auto spec = ParseUsdtArguments(text, count);
    EXPECT_TRUE(spec.ok()) << spec.status();
    const auto number = kernel_->NumberOfArguments(spec.value_or(profd_usdt_spec{}));
    EXPECT_TRUE(number.ok()) << number.status();
    return number.value_or(0);
  }
  // The child does it once, all records of it.
  std::vector<profd_told_record> Told(const Child& child) {
    child.Signal();
    child.Wait();
    std::vector<profd_told_record> told;
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeAny(bytes);
                      ASSERT_TRUE(record.ok());
                      if (const auto* object = std::get_if<profd_told_record>(&*record))
                        told.push_back(*object);
                      if (const auto* stack = std::get_if<StackTrace>(&*record))
                        stacks_.push_back(*stack);
                    })
                    .ok());
    for (const profd_told_record& record : told) {
      EXPECT_EQ(record.pid, child.pid());
      EXPECT_EQ(record.watch_id, 7U);
      EXPECT_NE(record.thread_id, 0U);
      EXPECT_LT(static_cast<int64_t>(record.time), MonotonicNs());
    }
    return told;
  }

  Probe probe_;
};

TEST_F(ToldKernelTest, ObjectsComeAndGo) {
  START_OR_SKIP(kTold);
  const Child child([](Child& me) {
    while (true) {
      me.Wait();
      ProfdTestTellsAlloc(0x5000, 100, 8'000, nullptr);
      ProfdTestTellsFree(0x5000);
      ProfdTestTellsAlloc(0, 100, 8'000, nullptr);
      ProfdTestTellsAlloc(0x6000, 100, 0, nullptr);
      ProfdTestTellsAlloc(0x6000, 1ULL << 47, 8'000, nullptr);
      ProfdTestTellsAlloc(0x6000, 100, 1ULL << 47, nullptr);
      me.Signal();
    }
  });
  Mark(child);
  EXPECT_THAT(Told(child), IsEmpty()) << "nobody watches";
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@%rdi 8@%rsi 8@%rdx"));
  const std::vector<profd_told_record> told = Told(child);
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].gone, 0U);
  EXPECT_EQ(told[0].address, 0x5000U);
  EXPECT_EQ(told[0].size, 100U);
  EXPECT_EQ(told[0].weight, 8'000U);
  EXPECT_EQ(told[1].gone, 1U);
  EXPECT_EQ(told[1].address, 0x5000U);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 4U) << "what no object can be";
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_GONE), 0U);
  const profd_probe_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 6U);
  EXPECT_EQ(cost.walks, 2U);
  // From the place of the probe, by the rules of where it is.
  ASSERT_THAT(stacks_, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(static_cast<uint64_t>(stacks_[i].id), told[i].stack);
    ASSERT_FALSE(stacks_[i].frames.empty());
  }
  EXPECT_EQ(stacks_[0].frames[0] & PROFD_FRAME_OFFSET_MASK,
            FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsAlloc)));
  EXPECT_EQ(stacks_[1].frames[0] & PROFD_FRAME_OFFSET_MASK,
            FileOffset(reinterpret_cast<const void*>(&ProfdTestTellsFree)));
  probe_ = {};
  EXPECT_THAT(Told(child), IsEmpty());
}

TEST_F(ToldKernelTest, ArgumentsOfEveryForm) {
  START_OR_SKIP(kTold);
  // rdi = 3, rsi = 0xffffff80, rdx = the fourth value, rcx = the values.
  const Child child([](Child& me) {
    while (true) {
      me.Wait();
      const uint64_t values[4] = {11, 22, 0xfffffffffffffff6, 44};
      ProfdTestTellsAlloc(3, 0xffffff80, 44, values);
      me.Signal();
    }
  });
  Mark(child);
  struct Case {
    const char* text;
    uint64_t address, size, weight;
  };
  for (const Case& test : {Case{"8@%rdi 4@%esi 8@%rdx", 3, 0xffffff80, 44},
                           Case{"8@$4096 1@%sil -8@$7", 4096, 0x80, 7},
                           Case{"8@(%rcx) 8@8(%rcx) 8@24(%rcx)", 11, 22, 44},
                           Case{"8@-16(%rcx,%rdi,8) 8@(%rcx,%rdi,8) 2@16(%rcx)", 22, 44, 0xfff6},
                           // Address 0 - 10 is as good as any; of a byte its sign.
                           Case{"-1@16(%rcx) 4@%esi 4@24(%rcx)", ~uint64_t{9}, 0xffffff80, 44},
                           Case{"-1@%sil 1@%dil 1@%dl", ~uint64_t{127}, 3, 44}}) {
    SCOPED_TRACE(test.text);
    ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), test.text));
    const std::vector<profd_told_record> told = Told(child);
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].address, test.address);
    EXPECT_EQ(told[0].size, test.size);
    EXPECT_EQ(told[0].weight, test.weight);
    probe_ = {};
  }
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 0U);
  // Memory that nobody has.
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@(%rdi) 8@%rdi 8@%rdx"));
  EXPECT_THAT(Told(child), IsEmpty());
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 1U);
}

TEST_F(ToldKernelTest, ArgumentsAreNumberedOnce) {
  START_OR_SKIP(kTold);
  const uint32_t first = Number("8@%rdi 8@%rsi 8@%rdx", 3);
  EXPECT_EQ(Number("8@%rsi", 1), first + 1);
  EXPECT_EQ(Number("8@%rdi 8@%rsi 8@%rdx", 3), first);
  for (uint32_t i = first + 2; i < PROFD_MAX_USDT_SPECS; ++i) {
    EXPECT_EQ(Number(absl::StrCat("8@$", i), 1), i);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      kernel_->NumberOfArguments(*ParseUsdtArguments("8@$999999", 1)).status()));
  EXPECT_EQ(Number("8@%rsi", 1), first + 1) << "what is known stays";
}

TEST_F(ToldKernelTest, SemaphoreCountsTheProbesOfThatProcess) {
  START_OR_SKIP(kTold);
  auto* seen = static_cast<volatile uint16_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(const_cast<uint16_t*>(seen), MAP_FAILED);
  const auto tell = [seen](int place) {
    return [seen, place](Child& me) {
      while (true) {
        me.Wait();
        seen[place] = ProfdTestSemaphore;
        me.Signal();
      }
    };
  };
  const Child child(tell(0)), other(tell(1));
  Mark(child);
  Mark(other);
  const auto look = [&] {
    for (const Child* process : {&child, &other}) {
      process->Signal();
      process->Wait();
    }
    EXPECT_EQ(seen[1], 0) << "no probe stands there";
    EXPECT_EQ(ProfdTestSemaphore, 0) << "nor here";
    return seen[0];
  };
  EXPECT_EQ(look(), 0);
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), "8@%rdi 8@%rsi 8@%rdx", true));
    EXPECT_EQ(look(), 2) << "one for each place";
    probe_ = {};
    EXPECT_EQ(look(), 0);
  }
  munmap(const_cast<uint16_t*>(seen), 4096);
}

}  // namespace
}  // namespace profd
