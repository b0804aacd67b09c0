#include "daemon/heap/probe_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::Bytes;
using test::Join;

TEST(EmulatedTest, FirstInstructions) {
  const auto emulated = [](std::initializer_list<uint8_t> code) {
    return IsEmulated(std::vector<uint8_t>(code));
  };
  EXPECT_TRUE(emulated({0x55}));            // push rbp
  EXPECT_TRUE(emulated({0x41, 0x54}));      // push r12
  EXPECT_TRUE(emulated({0x90}));            // nop
  EXPECT_TRUE(emulated({0xe9, 0}));         // jmp
  EXPECT_TRUE(emulated({0x0f, 0x84}));      // je
  EXPECT_FALSE(emulated({0xe8, 0}));        // call: not by kernels that leave out the shadow stack
  EXPECT_FALSE(emulated({0x0f, 0x1f, 0}));  // a nop of several bytes: not by old ones
  EXPECT_FALSE(emulated({0x48, 0x85, 0xff}));  // test rdi, rdi
  EXPECT_FALSE(emulated({0xf3, 0x0f}));        // endbr64
  EXPECT_FALSE(emulated({0x80, 0x3d}));        // cmp byte [rip], 0
  EXPECT_FALSE(emulated({0x41}));
  EXPECT_FALSE(emulated({}));
}

const Bytes kTest = {0x48, 0x85, 0xff};                          // test rdi, rdi
const Bytes kJumpIfZero = {0x0f, 0x84, 0xbf, 0x00, 0x00, 0x00};  // je
const Bytes kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};                   // endbr64
const Bytes kPush = {0x55};                                      // push rbp
const Bytes kCompare = {0x80, 0x3d, 0x46, 0x1b, 0x14, 0, 0};     // cmp byte [rip + x], 0
const Bytes kNumber = {0xb8, 0x1c, 0x00, 0x00, 0x00};            // mov eax, 28
const Bytes kSyscall = {0x0f, 0x05};

constexpr ProbePoint At(uint64_t skip) { return {.skip = skip, .stepped = false}; }

TEST(ProbePointTest, FirstInstructionThatIsEmulated) {
  EXPECT_EQ(ChooseProbePoint(kPush), At(0));
  EXPECT_EQ(ChooseProbePoint(Join({kTest, kJumpIfZero, kPush})), At(3)) << "free of glibc 2.36";
  EXPECT_EQ(ChooseProbePoint(Join({kEndbr, kPush})), At(4));
  EXPECT_EQ(ChooseProbePoint(Join({kEndbr, kCompare, kTest, kPush})), At(14));
  EXPECT_EQ(ChooseProbePoint(Join({{0x41, 0x89, 0xca}, kTest, {0x75, 0x14}})), At(6))
      << "r10d, ecx";
}

TEST(ProbePointTest, NothingIsPassedThatMatters) {
  const std::vector<Bytes> changes = {{0x48, 0x89, 0xc7},              // mov rdi, rax
                                      {0x31, 0xf6},                    // xor esi, esi
                                      {0x40, 0xb6, 0x01},              // mov sil, 1
                                      {0x48, 0x8d, 0x51, 0x08},        // lea rdx, [rcx + 8]
                                      {0x48, 0x83, 0xec, 0x18},        // sub rsp, 24
                                      {0x48, 0x89, 0x5c, 0x24, 0xf0},  // mov [rsp - 16], rbx
                                      {0xc3},                          // ret
                                      {0xff, 0xe0},                    // jmp rax
                                      {0x5b},                          // pop rbx
                                      {0x06},                          // none
                                      {0x31, 0xed},                    // xor ebp, ebp
                                      {0xe8, 0x00, 0x00, 0x00, 0x00},  // call
                                      kSyscall};
  for (const Bytes& change : changes) {
    EXPECT_EQ(ChooseProbePoint(Join({change, kPush})), ProbePoint{});
    EXPECT_EQ(ChooseProbePoint(Join({kTest, change, kPush})), ProbePoint{});
  }
  EXPECT_EQ(ChooseProbePoint(Join({kTest, kTest, kTest, kTest, kPush})), ProbePoint{}) << "far";
  EXPECT_EQ(ChooseProbePoint(Join({kEndbr, kTest, kTest, kTest, kPush})), At(13));
  EXPECT_EQ(ChooseProbePoint({}), ProbePoint{});
  EXPECT_EQ(ChooseProbePoint(kTest), ProbePoint{}) << "cut off";
}

// A loop at the begin of a function: it would be counted each time round.
TEST(ProbePointTest, NothingLeadsBackThere) {
  const Bytes kZero = {0x31, 0xc0};              // xor eax, eax
  const Bytes kEnds = {0x80, 0x3c, 0x07, 0x00};  // cmp byte [rdi + rax], 0
  const Bytes kLeave = {0x74, 0x04};             // je: out of the loop
  const Bytes kNext = {0xff, 0xc0};              // inc eax
  const auto loop = [&](uint8_t distance) {
    return ChooseProbePoint(
        Join({kZero, kEnds, kLeave, kNext, {0xeb, static_cast<uint8_t>(-distance)}}));
  };
  EXPECT_EQ(loop(6), ProbePoint{}) << "to the jump";
  EXPECT_EQ(loop(10), ProbePoint{}) << "to the comparison";
  EXPECT_EQ(loop(12), At(6)) << "to the begin of the function, as one who calls it";
  EXPECT_EQ(loop(4), At(6)) << "behind the jump";
}

TEST(ProbePointTest, BehindASystemCallWhereThatDoesNotMatter) {
  const Bytes function =
      Join({kNumber, kSyscall, {0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff}, {0x73, 0x01}});
  EXPECT_EQ(ChooseProbePoint(function), ProbePoint{});
  EXPECT_EQ(ChooseProbePoint(function, Reach::kAfterSystemCall), At(13));
  EXPECT_EQ(ChooseProbePoint(Join({{0x31, 0xff}, function}), Reach::kAfterSystemCall),
            ProbePoint{});
}

TEST(ProbePointTest, AnyBytes) {
  std::mt19937 random(5);
  for (int round = 0; round < 100'000; ++round) {
    Bytes code(random() % 40);
    for (uint8_t& byte : code) byte = static_cast<uint8_t>(random());
    const ProbePoint point = ChooseProbePoint(code, Reach::kAfterSystemCall);
    if (point.stepped) {
      EXPECT_EQ(point.skip, 0U);
    } else {
      ASSERT_LT(point.skip, code.size());
      EXPECT_TRUE(IsEmulated({code.data() + point.skip, code.size() - point.skip}));
    }
  }
}

}  // namespace
}  // namespace profd
