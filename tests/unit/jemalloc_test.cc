#include "daemon/heap/jemalloc.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/heap/event_shape.h"
#include "daemon/heap/functions.h"
#include "daemon/heap/inlined_events.h"
#include "daemon/heap/object_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/machine.h"
#include "tests/support/places.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::Bytes;
using test::Join;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// The five steps of the shape: p in rax, q in rcx, v in rax.
const Bytes kLoadP = {0x48, 0x8b, 0x46, 0x08};  // mov rax, [rsi + 8]
const Bytes kLoadQ = {0x48, 0x8b, 0x4e, 0x10};  // mov rcx, [rsi + 16]
const Bytes kLoadV = {0x48, 0x8b, 0x00};        // mov rax, [rax]
const Bytes kSubW = {0x4c, 0x2b, 0x21};         // sub r12, [rcx]
const Bytes kStoreV = {0x48, 0x89, 0x01};       // mov [rcx], rax
const Bytes kShape = Join({kLoadP, kLoadQ, kLoadV, kSubW, kStoreV});

const Bytes kReturn = {0xc3};
const Bytes kNop = {0x90};
const Bytes kPlain = Join({kLoadP, kReturn});  // a function of another shape

Bytes Nops(size_t count) { return Bytes(count, 0x90); }

TEST(EventShapeTest, AsCompilersMakeIt) {
  EXPECT_TRUE(HasEventShape(kShape));
  // gcc 12: ctx moves to another register, w is loaded.
  EXPECT_TRUE(HasEventShape({{0x41, 0x57,                  // push r15
                              0x49, 0x89, 0xf7,            // mov r15, rsi
                              0x31, 0xc9,                  // xor ecx, ecx
                              0x48, 0x89, 0xfb,            // mov rbx, rdi
                              0x48, 0x83, 0xec, 0x28,      // sub rsp, 40
                              0x48, 0x8b, 0x46, 0x08,      // mov rax, [rsi + 8]
                              0x4d, 0x8b, 0x6f, 0x10,      // mov r13, [r15 + 16]
                              0x48, 0x8b, 0x30,            // mov rsi, [rax]
                              0x4d, 0x8b, 0x5d, 0x00,      // mov r11, [r13]
                              0x49, 0x89, 0xf6,            // mov r14, rsi
                              0x49, 0x89, 0x75, 0x00}}));  // mov [r13], rsi
  // The order of independent loads is free.
  EXPECT_TRUE(HasEventShape(Join({kLoadQ, kSubW, kLoadP, kLoadV, kStoreV})));
}

TEST(EventShapeTest, EachStepIsNeeded) {
  const std::vector<Bytes> steps = {kLoadP, kLoadQ, kLoadV, kSubW, kStoreV};
  for (size_t left_out = 0; left_out < steps.size(); ++left_out) {
    Bytes code;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i != left_out) test::Put(code, steps[i]);
    }
    EXPECT_FALSE(HasEventShape(code)) << left_out;
  }
  EXPECT_FALSE(HasEventShape(Join({kLoadP, kLoadQ, kLoadV, kStoreV, kSubW}))) << "w is overwritten";
}

TEST(EventShapeTest, EveryShorterTextIsRefused) {
  for (size_t size = 0; size < kShape.size(); ++size) {
    EXPECT_FALSE(HasEventShape(std::span(kShape).first(size))) << size;
  }
}

TEST(EventShapeTest, OtherPlacesAndSizes) {
  const Bytes kOtherField = {0x48, 0x8b, 0x46, 0x18};         // mov rax, [rsi + 24]
  const Bytes kIndexed = {0x48, 0x8b, 0x44, 0x16, 0x08};      // mov rax, [rsi + rdx + 8]
  const Bytes kThreadLocal = {0x64, 0x48, 0x8b, 0x46, 0x08};  // mov rax, fs:[rsi + 8]
  const Bytes kNarrowBase = {0x67, 0x48, 0x8b, 0x46, 0x08};   // mov rax, [esi + 8]
  const Bytes kAddress = {0x48, 0x8d, 0x46, 0x08};            // lea rax, [rsi + 8]
  for (const Bytes& load : {kOtherField, kIndexed, kThreadLocal, kNarrowBase, kAddress}) {
    EXPECT_FALSE(HasEventShape(Join({load, kLoadQ, kLoadV, kSubW, kStoreV})));
  }
  const Bytes kOtherValue = {0x48, 0x89, 0x11};        // mov [rcx], rdx
  const Bytes kOtherPlace = {0x48, 0x89, 0x41, 0x08};  // mov [rcx + 8], rax
  const Bytes kNarrow = {0x89, 0x01};                  // mov [rcx], eax
  const Bytes kAdd = {0x48, 0x01, 0x01};               // add [rcx], rax
  const Bytes head = Join({kLoadP, kLoadQ, kLoadV, kSubW});
  for (const Bytes& store : {kOtherValue, kOtherPlace, kNarrow, kAdd}) {
    EXPECT_FALSE(HasEventShape(Join({head, store})));
  }
  // What stands in q first decides.
  EXPECT_FALSE(HasEventShape(Join({head, kOtherValue, kStoreV})));
}

TEST(EventShapeTest, AnyOtherWriteForgets) {
  const Bytes head = Join({kLoadP, kLoadQ, kLoadV, kSubW});
  const std::vector<Bytes> writes = {
      {0x89, 0xc0},              // mov eax, eax
      {0xb0, 0x01},              // mov al, 1
      {0x31, 0xc9},              // xor ecx, ecx
      {0x48, 0x0f, 0x44, 0xc2},  // cmove rax, rdx
      {0x48, 0x92},              // xchg rax, rdx
      {0x48, 0xff, 0xc0},        // inc rax
      {0x58},                    // pop rax
      {0x48, 0xf7, 0xe2},        // mul rdx: writes rax without naming it
      {0xe8, 0, 0, 0, 0},        // call
  };
  for (const Bytes& write : writes) EXPECT_FALSE(HasEventShape(Join({head, write, kStoreV})));
  const Bytes kElsewhere = {0x31, 0xd2};  // xor edx, edx
  EXPECT_TRUE(HasEventShape(Join({head, kElsewhere, kStoreV})));
}

TEST(EventShapeTest, CallsKeepWhatTheirCallerMayKeep) {
  const Bytes kCall = {0xe8, 0, 0, 0, 0};
  const Bytes kKeep = {0x48, 0x89, 0xf3};             // mov rbx, rsi
  const Bytes kLoadPKept = {0x48, 0x8b, 0x43, 0x08};  // mov rax, [rbx + 8]
  const Bytes kLoadQKept = {0x48, 0x8b, 0x4b, 0x10};  // mov rcx, [rbx + 16]
  const Bytes tail = Join({kLoadV, kSubW, kStoreV});
  EXPECT_TRUE(HasEventShape(Join({kKeep, kCall, kLoadPKept, kLoadQKept, tail})));
  EXPECT_FALSE(HasEventShape(Join({kKeep, kCall, kLoadP, kLoadQ, tail})));
}

TEST(EventShapeTest, TheStraightLineIsFollowed) {
  const Bytes head = Join({kLoadP, kLoadQ, kLoadV, kSubW});
  EXPECT_TRUE(HasEventShape(Join({head, {0x74, 0x05}, kStoreV}))) << "je";
  EXPECT_TRUE(HasEventShape(Join({{0xf3, 0x0f, 0x1e, 0xfa}, head, kStoreV}))) << "endbr64";
  const std::vector<Bytes> ends = {{0xc3}, {0xeb, 0x00}, {0xff, 0xe2},
                                   {0xcc}, {0x0f, 0x0b}, {0xf4}};
  for (const Bytes& end : ends) EXPECT_FALSE(HasEventShape(Join({head, end, kStoreV})));
  EXPECT_FALSE(HasEventShape(Join({head, {0x06}, kStoreV}))) << "no instruction";
}

TEST(EventShapeTest, OnlyTheFirstInstructionsCount) {
  EXPECT_TRUE(HasEventShape(Join({Nops(19), kShape})));
  EXPECT_FALSE(HasEventShape(Join({Nops(20), kShape})));
}

// The copy of the event in malloc of a rustc, and that in free of it.
const Bytes kSubLast = {0x4d, 0x2b, 0x65, 0x08};                               // sub r12, [r13+8]
const Bytes kStoreLast = {0x49, 0x89, 0x4d, 0x08};                             // mov [r13+8], rcx
const Bytes kCompareState = {0x41, 0x80, 0xbd, 0x30, 0x03, 0x00, 0x00, 0x02};  // cmp [r13+0x330], 2
const Bytes kJump = {0x0f, 0x87, 0x00, 0x00, 0x00, 0x00};                      // ja
const Bytes kCompareReentrancy = {0x41, 0x80, 0x7d, 0x01, 0x00};               // cmp [r13+1], 0
const Bytes kInlined = Join({kSubLast, kStoreLast, kCompareState, kJump, kCompareReentrancy});

TEST(InlinedEventsTest, AsLinkersMakeThem) {
  EXPECT_THAT(FindInlinedEvents(Join({kNop, kInlined, kReturn})),
              ElementsAre(InlinedEvent{
                  .offset = 5, .value_register = 1, .thread_register = 13, .last_event = 8}));
  // The state goes through a register.
  const Bytes freeing = {0x48, 0x2b, 0x73, 0x18,                    // sub rsi, [rbx + 0x18]
                         0x48, 0x89, 0x4b, 0x18,                    // mov [rbx + 0x18], rcx
                         0x0f, 0xb6, 0x93, 0x30, 0x03, 0x00, 0x00,  // movzx edx, byte [rbx + 0x330]
                         0x80, 0xfa, 0x02,                          // cmp dl, 2
                         0x80, 0x7b, 0x01, 0x00};                   // cmp byte [rbx + 1], 0
  EXPECT_THAT(
      FindInlinedEvents(Join({kInlined, Nops(20), freeing})),
      ElementsAre(
          InlinedEvent{.offset = 4, .value_register = 1, .thread_register = 13, .last_event = 8},
          InlinedEvent{.offset = kInlined.size() + 24,
                       .value_register = 1,
                       .thread_register = 3,
                       .last_event = 0x18}));
  // r12 as the base takes a byte more.
  EXPECT_THAT(FindInlinedEvents({{0x4d, 0x2b, 0x6c, 0x24, 0x08,  // sub r13, [r12 + 8]
                                  0x49, 0x89, 0x44, 0x24, 0x08,  // mov [r12 + 8], rax
                                  0x41, 0x80, 0xbc, 0x24, 0x30, 0x03, 0,   0,
                                  2,    0x41, 0x80, 0x7c, 0x24, 0x01, 0x00}}),
              ElementsAre(InlinedEvent{
                  .offset = 5, .value_register = 0, .thread_register = 12, .last_event = 8}));
}

// Where the registers hold all that counts, the probe stands on the jump, which the kernel
// emulates.
TEST(InlinedEventsTest, TheJumpBehindIsCheaper) {
  const Bytes kCopy = {0x49, 0x89, 0xcc};  // mov r12, rcx
  const auto only = [](const Bytes& code) {
    const std::vector<InlinedEvent> found = FindInlinedEvents(code);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? InlinedEvent{} : found.front();
  };
  const InlinedEvent at_jump = {.offset = 1 + 3 + 4 + 4 + 8,
                                .value_register = 1,
                                .growth_register = 12,
                                .thread_register = 13,
                                .last_event = 8};
  EXPECT_EQ(only(Join({kNop, kCopy, kInlined, kReturn})), at_jump);
  // A loop that begins with the copy, or ends at what follows the jump.
  EXPECT_EQ(only(Join({kNop, kCopy, kInlined, {0xeb, 0xe0}})), at_jump);
  EXPECT_EQ(only(Join({kNop, kCopy, kInlined, {0xeb, 0xf9}})), at_jump);

  const auto on_store = [&](const Bytes& code, uint64_t offset) {
    const InlinedEvent event = only(code);
    EXPECT_EQ(event.growth_register, std::nullopt);
    EXPECT_EQ(event.offset, offset);
  };
  on_store(Join({{0x49, 0x89, 0xd4}, kInlined}), 3 + 4);  // mov r12, rdx
  on_store(Join({{0x41, 0x89, 0xcc}, kInlined}), 3 + 4);  // mov r12d, ecx
  const Bytes kOtherCount = {0x48, 0x89, 0xd1};           // mov rcx, rdx
  on_store(Join({kCopy, kOtherCount, kInlined}), 3 + 3 + 4);
  const Bytes kOtherGrowth = {0x49, 0xff, 0xc4};  // inc r12
  on_store(Join({kCopy, kOtherGrowth, kInlined}), 3 + 3 + 4);
  on_store(
      Join({kCopy, kSubLast, kStoreLast, kOtherGrowth, kCompareState, kJump, kCompareReentrancy}),
      3 + 4);
  on_store(
      Join({kCopy, kSubLast, kStoreLast, kCompareState, kOtherCount, kJump, kCompareReentrancy}),
      3 + 4);
  // No jump in sight, one that the kernel does not emulate, a way past the copy.
  on_store(Join({kCopy, kSubLast, kStoreLast, kCompareState, kCompareReentrancy, kReturn}), 3 + 4);
  on_store(Join({kCopy, kSubLast, kStoreLast, kCompareState, {0xff, 0xe0}, kCompareReentrancy}),
           3 + 4);
  on_store(Join({{0xeb, 0x07}, kCopy, kInlined}), 2 + 3 + 4);
  on_store(Join({{0xeb, 0x13}, kCopy, kInlined}), 2 + 3 + 4);
  // Nobody knows where these lead, or what lies behind them.
  on_store(Join({kCopy, kInlined, {0xff, 0xe0}}), 3 + 4);
  on_store(Join({kCopy, kInlined, {0x06}}), 3 + 4);
}

TEST(InlinedEventsTest, EachStepIsNeeded) {
  const std::vector<Bytes> steps = {kSubLast, kStoreLast, kCompareState, kCompareReentrancy};
  for (size_t left_out = 0; left_out < steps.size(); ++left_out) {
    Bytes code;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i != left_out) code.insert(code.end(), steps[i].begin(), steps[i].end());
    }
    EXPECT_THAT(FindInlinedEvents(code), IsEmpty()) << left_out;
  }
  // Far apart, of another field, of another thread, of the wrong state.
  EXPECT_THAT(
      FindInlinedEvents(Join({kSubLast, Nops(4), kStoreLast, kCompareState, kCompareReentrancy})),
      IsEmpty());
  EXPECT_THAT(
      FindInlinedEvents(Join({kSubLast, kStoreLast, Nops(8), kCompareState, kCompareReentrancy})),
      IsEmpty());
  for (const size_t byte : {3, 7, 6, 15, 18 + 2}) {
    Bytes code = Join({kSubLast, kStoreLast, kCompareState, kCompareReentrancy});
    code.at(byte) ^= 1;
    EXPECT_THAT(FindInlinedEvents(code), IsEmpty()) << byte;
  }
}

TEST(InlinedEventsTest, AnyBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    Bytes code = kInlined;
    code.resize(random() % 60);
    for (int i = 0; i < 3 && !code.empty(); ++i) {
      code[random() % code.size()] = static_cast<uint8_t>(random());
    }
    for (const InlinedEvent& event : FindInlinedEvents(code)) {
      EXPECT_LT(event.offset, code.size());
      EXPECT_LT(event.value_register, 16);
      EXPECT_LT(event.thread_register, 16);
      EXPECT_LT(event.growth_register.value_or(0), 16);
      EXPECT_GT(event.last_event, 0);
    }
  }
}

TEST(EventShapeTest, AnyBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes code(random() % 64);
    for (uint8_t& byte : code) byte = static_cast<uint8_t>(random());
    // The shape in front decides, whatever follows.
    EXPECT_TRUE(HasEventShape(Join({kShape, code})));
    (void)HasEventShape(code);
  }
}

// The steps of the functions of sampled objects: the context in rbx.
const Bytes kContext = {0x4c, 0x89, 0xc3};                           // mov rbx, r8
const Bytes kInfoContext = {0x48, 0x8b, 0x5a, 0x08};                 // mov rbx, [rdx + 8]
const Bytes kThread = {0x48, 0x8b, 0x03};                            // mov rax, [rbx]
const Bytes kLock = {0x4c, 0x8b, 0x38};                              // mov r15, [rax]
const Bytes kCount0 = {0x48, 0x83, 0x43, 0x20, 0x01};                // add [rbx + 0x20], 1
const Bytes kCount1 = {0x48, 0x01, 0x4b, 0x28};                      // add [rbx + 0x28], rcx
const Bytes kCount2 = {0x48, 0x01, 0x53, 0x30};                      // add [rbx + 0x30], rdx
const Bytes kCount3 = {0x48, 0x01, 0x73, 0x38};                      // add [rbx + 0x38], rsi
const Bytes kPrepared = {0xc6, 0x83, 0x80, 0x00, 0x00, 0x00, 0x00};  // mov byte [rbx + 0x80], 0
const Bytes kCounts = Join({kThread, kLock, kCount0, kCount1, kCount2, kCount3});
const Bytes kBorn = Join({kContext, kCounts, kPrepared, kReturn});
const Bytes kGone = Join({kInfoContext, kCounts, kReturn});

TEST(ObjectShapeTest, AsCompilersMakeThem) {
  EXPECT_EQ(ShapeOfObjectFunction(kBorn), ObjectShape::kBorn);
  EXPECT_EQ(ShapeOfObjectFunction(kGone), ObjectShape::kGone);
  const Bytes kThroughFourth = {0x48, 0x8b, 0x59, 0x08};  // mov rbx, [rcx + 8]
  EXPECT_EQ(ShapeOfObjectFunction(Join({kThroughFourth, kCounts})), ObjectShape::kGone);
  // gcc 12: two counts at a time.
  const Bytes vectors = {0xf3, 0x0f, 0x6f, 0x4b, 0x30,  // movdqu xmm1, [rbx + 0x30]
                         0xf3, 0x0f, 0x6f, 0x53, 0x20,  // movdqu xmm2, [rbx + 0x20]
                         0x66, 0x0f, 0xd4, 0xd0,        // paddq xmm2, xmm0
                         0x66, 0x0f, 0xd4, 0xcb,        // paddq xmm1, xmm3
                         0x0f, 0x11, 0x53, 0x20,        // movups [rbx + 0x20], xmm2
                         0x0f, 0x11, 0x4b, 0x30};       // movups [rbx + 0x30], xmm1
  EXPECT_EQ(ShapeOfObjectFunction(Join({kContext, kThread, kLock, vectors, kPrepared})),
            ObjectShape::kBorn);
  // Calls, a way out in the middle, the info kept in a register.
  const Bytes kCall = {0xe8, 0, 0, 0, 0};
  const Bytes kOut = {0x5b, 0xc3};               // pop rbx; ret
  const Bytes kKeep = {0x49, 0x89, 0xd6};        // mov r14, rdx
  const Bytes kKept = {0x49, 0x8b, 0x5e, 0x08};  // mov rbx, [r14 + 8]
  EXPECT_EQ(ShapeOfObjectFunction(Join({kKeep, kCall, kKept, kCall, kOut, kCounts})),
            ObjectShape::kGone);
}

TEST(ObjectShapeTest, EachStepIsNeeded) {
  const std::vector<Bytes> steps = {kContext, kThread, kLock,   kCount0,
                                    kCount1,  kCount2, kCount3, kPrepared};
  for (size_t left_out = 0; left_out < steps.size(); ++left_out) {
    Bytes born, gone = left_out == 0 ? Bytes() : kInfoContext;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i == left_out) continue;
      test::Put(born, steps[i]);
      if (i != 0 && i != 7) test::Put(gone, steps[i]);
    }
    EXPECT_EQ(ShapeOfObjectFunction(born), ObjectShape::kNone) << left_out;
    EXPECT_EQ(ShapeOfObjectFunction(gone), left_out == 7 ? ObjectShape::kGone : ObjectShape::kNone)
        << left_out;
  }
  // What is only read or only written is no count.
  const Bytes kRead = {0x48, 0x8b, 0x4b, 0x30};   // mov rcx, [rbx + 0x30]
  const Bytes kWrite = {0x48, 0x89, 0x4b, 0x30};  // mov [rbx + 0x30], rcx
  const Bytes rest = Join({kThread, kLock, kCount0, kCount1, kCount3});
  EXPECT_EQ(ShapeOfObjectFunction(Join({kInfoContext, rest, kRead})), ObjectShape::kNone);
  EXPECT_EQ(ShapeOfObjectFunction(Join({kInfoContext, rest, kWrite})), ObjectShape::kNone);
  EXPECT_EQ(ShapeOfObjectFunction(Join({kInfoContext, rest, kRead, kWrite})), ObjectShape::kGone);
  // Of another argument, another field, in a register that a call does not keep.
  EXPECT_EQ(ShapeOfObjectFunction(Join({{0x48, 0x8b, 0x5e, 0x08}, kCounts})), ObjectShape::kNone);
  EXPECT_EQ(ShapeOfObjectFunction(Join({{0x48, 0x8b, 0x5a, 0x10}, kCounts})), ObjectShape::kNone);
  EXPECT_EQ(ShapeOfObjectFunction(Join({{0xe8, 0, 0, 0, 0}, kInfoContext, kCounts})),
            ObjectShape::kNone);
}

TEST(ObjectShapeTest, AnyBytes) {
  std::mt19937 random(4);
  for (int round = 0; round < 20'000; ++round) {
    Bytes code = random() % 2 == 0 ? kBorn : kGone;
    for (int i = 0; i < 2; ++i) code[random() % code.size()] = static_cast<uint8_t>(random());
    code.resize(random() % (code.size() + 20));
    const ObjectShape shape = ShapeOfObjectFunction(code);
    // As much as it takes to tell.
    if (code.size() < kCounts.size()) {
      EXPECT_EQ(shape, ObjectShape::kNone);
    }
  }
}

UniqueFd FileOf(const Bytes& bytes) {
  UniqueFd fd(memfd_create("module", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

const std::string kNoDebugFiles = "/nonexistent";
const std::string kMessage = '\0' + std::string("<jemalloc>: Error in munmap(): %s\n");
const std::string kHash = "54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";

std::string VersionText(const std::string& head) { return absl::StrCat(head, "-g", kHash) + '\0'; }

// A small module: functions 256 bytes apart, constants in a segment of their own.
struct Module {
  std::vector<Bytes> functions;
  std::vector<test::ElfOptions::Symbol> symbols = {};
  std::string constants = kMessage + '\0' + VersionText("5.3.0-0");
  bool sections = true;

  static constexpr uint64_t kSpacing = 0x100;
  static constexpr size_t kConstants = 0xa00;
  static uint64_t Address(size_t index) { return test::kText + index * kSpacing; }
  static uint64_t Offset(size_t index) { return test::kTextOffset + index * kSpacing; }

  Bytes Build() const {
    test::FrameBuilder frames;
    const uint32_t common = frames.AddCommon();
    test::ElfOptions options;
    for (size_t i = 0; i < functions.size(); ++i) {
      options.code.resize(i * kSpacing, 0xcc);
      test::Put(options.code, functions[i]);
      frames.AddFunction(common, Address(i), static_cast<uint32_t>(functions[i].size()), {});
    }
    frames.AddRaw(Bytes(4));  // the terminator
    options.symbols = symbols;
    options.sections = sections;
    options.frame_segment = true;
    Bytes file = test::BuildElf(frames.bytes(), options);
    std::copy(constants.begin(), constants.end(), file.begin() + kConstants);
    return file;
  }

  static test::ElfOptions::Symbol Named(const std::string& name, size_t index) {
    return {name, Address(index), 0x20};
  }
  static test::ElfOptions::Symbol Variable(const std::string& name, uint64_t address) {
    return {name, address, 8, STT_OBJECT};
  }
};

std::optional<JemallocInfo> Find(const Bytes& bytes) {
  const UniqueFd fd = FileOf(bytes);
  auto info = FindJemalloc(fd.get(), "/opt/module.so", kNoDebugFiles);
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? *std::move(info) : std::nullopt;
}

JemallocInfo Found(const Module& module) {
  const std::optional<JemallocInfo> info = Find(module.Build());
  EXPECT_TRUE(info.has_value());
  return info.value_or(JemallocInfo());
}

std::vector<uint64_t> EventsOf(const JemallocInfo& info) {
  std::vector<uint64_t> offsets;
  for (const EventFunction& event : info.events) offsets.push_back(event.offset);
  return offsets;
}

// Of a module with one.
uint64_t EventOf(const JemallocInfo& info) {
  return info.events.size() == 1 ? info.events.front().offset : 0;
}

void ExpectFound(const JemallocInfo& info, const std::string& found_by, uint64_t offset) {
  EXPECT_EQ(info.found_by, found_by);
  EXPECT_THAT(EventsOf(info), ElementsAre(offset));
  EXPECT_EQ(info.note, "");
}

const std::string kKeepSymbols = "; keep the module's symbols or install its debug file";
const std::string kNoneMatches = "no function matches" + kKeepSymbols;

void ExpectNotFound(const JemallocInfo& info, const std::string& why) {
  EXPECT_EQ(info.found_by, "");
  EXPECT_THAT(info.events, IsEmpty());
  EXPECT_EQ(info.note, "jemalloc's event function was not found: " + why);
}

TEST(FindJemallocTest, ByShapeWithAndWithoutSections) {
  for (const bool sections : {true, false}) {
    const Module module{.functions = {kPlain, kShape, kPlain}, .sections = sections};
    const JemallocInfo info = Found(module);
    ExpectFound(info, "shape", Module::Offset(1));
    EXPECT_EQ(info.version, "5.3.0");
  }
}

TEST(FindJemallocTest, OnlyWhereItsMessagesAre) {
  EXPECT_EQ(Find(Module{.functions = {kShape}, .constants = ""}.Build()), std::nullopt);
  EXPECT_EQ(Find(Module{.functions = {kShape}, .constants = "jemalloc>: "}.Build()), std::nullopt);
  EXPECT_EQ(Find(Module{.functions = {kShape}, .constants = "<jemalloc>"}.Build()), std::nullopt);
  const Module later{.functions = {kShape}, .constants = "jemalloc>: ejemalloc>: " + kMessage};
  ExpectFound(Found(later), "shape", Module::Offset(0));
}

TEST(FindJemallocTest, AllOfAFewThatHaveTheShape) {
  const JemallocInfo info = Found({.functions = {kShape, kPlain, kShape, kShape}});
  EXPECT_EQ(info.found_by, "shape");
  EXPECT_EQ(info.note, "");
  EXPECT_THAT(EventsOf(info), ElementsAre(Module::Offset(0), Module::Offset(2), Module::Offset(3)));
  ExpectNotFound(Found({.functions = std::vector<Bytes>(kMaxEvents + 1, kShape)}),
                 "9 functions match" + kKeepSymbols);
  ExpectNotFound(Found({.functions = {kPlain}}), kNoneMatches);
  ExpectNotFound(Found({.functions = {}}), kNoneMatches);
  ExpectNotFound(
      Found({.functions = {kPlain}, .constants = kMessage + '\0' + VersionText("5.2.1-0")}),
      "version 5.2.1 has none; build with jemalloc 5.3.0 or 5.3.1");
}

TEST(FindJemallocTest, SymbolWithAnyPrefix) {
  for (const std::string prefix : {"", "je_", "_rjem_je_", "myprefix_je_"}) {
    const Module module{
        .functions = {kShape, kPlain, kShape},
        .symbols = {Module::Named("malloc", 1), Module::Named(prefix + "te_event_trigger", 2)}};
    ExpectFound(Found(module), "symbol", Module::Offset(2));
  }
}

TEST(FindJemallocTest, OtherNamesSayNothing) {
  for (const std::string name : {"late_event_trigger", "te_event_trigger2", "te_event_trigge",
                                 "te_event_trigger_slow", "_ZN16te_event_triggerE"}) {
    const Module module{.functions = {kShape, kPlain}, .symbols = {Module::Named(name, 1)}};
    ExpectFound(Found(module), "shape", Module::Offset(0));
  }
}

TEST(FindJemallocTest, SymbolMustHaveTheShape) {
  const std::string kOtherCode =
      "the code of te_event_trigger (by symbol) is not that of an optimised jemalloc 5.3.0 or "
      "5.3.1; link such a build";
  const Module module{.functions = {kPlain, kShape},
                      .symbols = {Module::Named("je_te_event_trigger", 0)}};
  ExpectNotFound(Found(module), kOtherCode);
  const Module outside{.functions = {kShape}, .symbols = {{"je_te_event_trigger", 0x10, 0x20}}};
  ExpectNotFound(Found(outside), kOtherCode);
  // As much of the function as its symbol covers.
  const Module cut{.functions = {kShape},
                   .symbols = {{"te_event_trigger", Module::Address(0), kShape.size() - 1}}};
  ExpectNotFound(Found(cut), kOtherCode);
  const Module unsized{.functions = {kShape},
                       .symbols = {{"te_event_trigger", Module::Address(0), 0}}};
  ExpectFound(Found(unsized), "symbol", Module::Offset(0));
}

TEST(FindJemallocTest, PartsCountOnlyByTheirShape) {
  const Module cold{.functions = {kPlain, kShape},
                    .symbols = {Module::Named("je_te_event_trigger.cold", 0)}};
  ExpectFound(Found(cold), "shape", Module::Offset(1));
  const Module whole{.functions = {kPlain, kShape},
                     .symbols = {Module::Named("je_te_event_trigger.cold", 0),
                                 Module::Named("je_te_event_trigger", 1)}};
  ExpectFound(Found(whole), "symbol", Module::Offset(1));
  const Module clone{.functions = {kShape, kShape},
                     .symbols = {Module::Named("je_te_event_trigger.constprop.0", 1)}};
  ExpectFound(Found(clone), "symbol", Module::Offset(1));
}

TEST(FindJemallocTest, OneFunctionMayHaveManyNamesAndOneNameManyFunctions) {
  const Module aliases{
      .functions = {kShape},
      .symbols = {Module::Named("te_event_trigger", 0), Module::Named("je_te_event_trigger", 0)}};
  ExpectFound(Found(aliases), "symbol", Module::Offset(0));
  const Module copies{.functions = {kShape, kShape},
                      .symbols = {Module::Named("_rjem_je_te_event_trigger", 0),
                                  Module::Named("je_te_event_trigger", 1)}};
  EXPECT_EQ(Found(copies).found_by, "symbol");
  EXPECT_THAT(EventsOf(Found(copies)), ElementsAre(Module::Offset(0), Module::Offset(1)));
  // One that is not as expected does not take the others with it.
  const Module mixed{.functions = {kPlain, kShape}, .symbols = copies.symbols};
  ExpectFound(Found(mixed), "symbol", Module::Offset(1));
}

TEST(FindJemallocTest, Version) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {VersionText("5.3.0-0"), "5.3.0"},
      {VersionText("5.3.0-1"), "5.3.0"},
      {VersionText("12.34.567-890123"), "12.34.567"},
      {VersionText("0.0.0-0"), ""},
      {std::string("0.0.0-0-g000000missing_version_try_git_fetch_tags") + '\0', ""},
      {VersionText("v5.3.0-0"), ""},
      {VersionText("x_5.3.0-0"), ""},
      {VersionText("5.3-0"), ""},
      {VersionText("5.3.0.1-0"), ""},
      {VersionText("5..0-0"), ""},
      {VersionText("5.3.0"), ""},
      {VersionText("5.3.0-"), ""},
      {VersionText("1234.3.0-0"), ""},
      {VersionText("5.3.0-1234567"), ""},
      {VersionText("1111111111111111111111115.3.0-0"), ""},
      {absl::StrCat("5.3.0-0-g", kHash.substr(1)) + '\0', ""},
      {absl::StrCat("5.3.0-0-g", kHash, "0") + '\0', ""},
      {"5.3.0-0-g", ""},
      {VersionText("v1.2.3-4") + "-g-g" + '\0' + VersionText("5.3.1-0"), "5.3.1"},
  };
  for (const auto& [text, version] : cases) {
    const Module module{.functions = {kShape}, .constants = kMessage + '\0' + text};
    EXPECT_EQ(Found(module).version, version) << text;
  }
}

// The functions and variables of a jemalloc with profiling.
Module Profiling(const std::string& prefix) {
  return {.functions = {kShape, kPlain, kPlain},
          .symbols = {Module::Named(prefix + "prof_malloc_sample_object", 1),
                      Module::Named(prefix + "prof_free_sampled_object", 2),
                      Module::Named(prefix + "prof_malloc_sample_object.cold", 0),
                      Module::Variable(prefix + "opt_prof", 0x7000),
                      Module::Variable(prefix + "opt_prof_active", 0x7010),
                      Module::Variable(prefix + "prof_active_state", 0x7020),
                      Module::Variable(prefix + "prof_active", 0x7030),
                      Module::Variable(prefix + "opt_lg_prof_sample", 0x7040),
                      Module::Variable(prefix + "lg_prof_sample", 0x7050),
                      Module::Variable("lg_prof_sample_of_others", 0x7060)}};
}

TEST(FindSampledObjectsTest, SymbolsWithAnyPrefix) {
  for (const std::string prefix : {"", "je_", "_rjem_je_", "myprefix_je_"}) {
    const SampledObjects objects = Found(Profiling(prefix)).objects;
    EXPECT_EQ(objects.found_by, "symbol");
    EXPECT_EQ(objects.note, "");
    EXPECT_FALSE(objects.is_5_2);
    EXPECT_EQ(objects.born, Module::Offset(1));
    EXPECT_EQ(objects.gone, Module::Offset(2));
    EXPECT_EQ(objects.born_address, Module::Address(1));
    EXPECT_EQ(objects.opt_prof, 0x7000u);
    EXPECT_EQ(objects.prof_active, 0x7020u);
    EXPECT_EQ(objects.lg_prof_sample, 0x7050u);
  }
}

const std::string kHeapUnknown = "the live heap is unknown: ";
const std::string kBuildProfiling =
    "; build jemalloc with profiling, and keep the module's symbols or install its debug file";

TEST(FindSampledObjectsTest, Versions) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"5.2.0-0", ""},
      {"5.2.1-0", ""},
      {"5.3.0-1", ""},
      {"5.3.1-0", ""},
      {"5.1.0-0", "it needs jemalloc 5.2 or 5.3, this is 5.1.0"},
      {"5.4.0-0", "it needs jemalloc 5.2 or 5.3, this is 5.4.0"},
      {"15.3.0-0", "it needs jemalloc 5.2 or 5.3, this is 15.3.0"},
      {"0.0.0-0", "the file does not say which jemalloc it holds"}};
  for (const auto& [version, note] : cases) {
    Module module = Profiling("je_");
    module.constants = kMessage + '\0' + VersionText(version);
    const SampledObjects objects = Found(module).objects;
    SCOPED_TRACE(version);
    EXPECT_EQ(objects.note, note.empty() ? "" : kHeapUnknown + note);
    EXPECT_EQ(objects.born != 0, note.empty());
    EXPECT_EQ(objects.is_5_2, version[2] == '2' && note.empty());
    if (objects.is_5_2) {
      EXPECT_EQ(objects.prof_active, 0x7030u);
    }
  }
}

TEST(FindSampledObjectsTest, BothFunctionsAndOneOfEach) {
  for (const size_t missing : {0, 1}) {
    Module module = Profiling("je_");
    module.symbols.erase(module.symbols.begin() + static_cast<ptrdiff_t>(missing));
    const SampledObjects objects = Found(module).objects;
    EXPECT_EQ(objects.found_by, "");
    EXPECT_EQ(objects.born, 0u);
    EXPECT_EQ(objects.note,
              kHeapUnknown + "no function matches those for sampled objects" + kBuildProfiling);
  }
  Module twice = Profiling("je_");
  twice.symbols.push_back(Module::Named("_rjem_je_prof_free_sampled_object", 0));
  EXPECT_EQ(Found(twice).objects.note,
            kHeapUnknown +
                "several functions are named prof_malloc_sample_object (by symbol); link only one "
                "jemalloc");
  EXPECT_EQ(Found(twice).objects.born, 0u);
  Module aliases = Profiling("je_");
  aliases.symbols.push_back(Module::Named("prof_free_sampled_object", 2));
  EXPECT_EQ(Found(aliases).objects.found_by, "symbol");
  Module empty = Profiling("je_");
  empty.symbols[1].size = 8;
  EXPECT_EQ(Found(empty).objects.born, 0u);
  Module data = Profiling("je_");
  data.symbols[0].address = 0x10;
  EXPECT_EQ(Found(data).objects.note,
            kHeapUnknown + "prof_malloc_sample_object (by symbol) is not code");
  EXPECT_EQ(Found(data).objects.born, 0u);
}

TEST(FindSampledObjectsTest, ByShape) {
  for (const bool sections : {true, false}) {
    const Module module{.functions = {kPlain, kGone, kShape, kBorn}, .sections = sections};
    const SampledObjects objects = Found(module).objects;
    EXPECT_EQ(objects.found_by, "shape") << objects.note;
    EXPECT_EQ(objects.born, Module::Offset(3));
    EXPECT_EQ(objects.born_address, Module::Address(3));
    EXPECT_EQ(objects.gone, Module::Offset(1));
    EXPECT_EQ(objects.lg_prof_sample, 0u);
  }
  EXPECT_EQ(Found({.functions = {kShape, kBorn}}).objects.note,
            kHeapUnknown + "no function matches those for sampled objects" + kBuildProfiling);
  EXPECT_EQ(Found({.functions = {kShape, kBorn, kGone, kGone}}).objects.note,
            kHeapUnknown + "several functions match those for sampled objects" + kBuildProfiling);
  // Those of 5.2 look otherwise.
  const Module before{.functions = {kBorn, kGone},
                      .constants = kMessage + '\0' + VersionText("5.2.1-0")};
  EXPECT_EQ(Found(before).objects.found_by, "");
  EXPECT_EQ(Found(before).objects.note,
            kHeapUnknown + "no symbol names the functions for sampled objects" + kBuildProfiling);
}

TEST(FindSampledObjectsTest, VariablesMayBeMissing) {
  Module module = Profiling("je_");
  module.symbols.resize(3);
  module.symbols.push_back(Module::Variable("je_lg_prof_sample", 0x7000));
  module.symbols.push_back(Module::Variable("other_lg_prof_sample", 0x7100));
  const SampledObjects objects = Found(module).objects;
  EXPECT_EQ(objects.found_by, "symbol");
  EXPECT_EQ(objects.opt_prof, 0u);
  EXPECT_EQ(objects.prof_active, 0u);
  EXPECT_EQ(objects.lg_prof_sample, 0u) << "two of a name";
}

TEST(FindJemallocTest, SettingsVariable) {
  const auto text = [](std::initializer_list<std::string> strings) {
    std::string all = kMessage;
    for (const std::string& string : strings) all += '\0' + string;
    return all + '\0';
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kMessage, "MALLOC_CONF"},
      {text({"MALLOC_CONF"}), "MALLOC_CONF"},
      {text({"_RJEM_MALLOC_CONF"}), "_RJEM_MALLOC_CONF"},
      {text({"value of the environment variable MALLOC_CONF", "JE_MALLOC_CONF"}), "JE_MALLOC_CONF"},
      {text({"JE_MALLOC_CONF", "MALLOC_CONF"}), "JE_MALLOC_CONF"},
      {text({"JE_MALLOC_CONFX"}), "MALLOC_CONF"},
      {text({std::string(32, 'A') + "MALLOC_CONF"}), std::string(32, 'A') + "MALLOC_CONF"},
      {text({std::string(33, 'A') + "MALLOC_CONF"}), "MALLOC_CONF"}};
  for (const auto& [constants, variable] : cases) {
    EXPECT_EQ(Found({.functions = {kShape}, .constants = constants}).settings_variable, variable);
  }
}

// Where pieces of the file meet, nothing is missed and nothing is seen that is not there.
TEST(FindJemallocTest, ConstantsAcrossPieces) {
  constexpr size_t kPiece = 256 << 10;
  const std::string text = kMessage + '\0' + VersionText("15.3.0-0");
  const Bytes base = Module{.functions = {kShape}, .constants = "", .sections = false}.Build();
  for (size_t shift = 0; shift <= text.size(); ++shift) {
    Bytes file = base;
    file.resize(3 * kPiece);
    Elf64_Phdr& first = *reinterpret_cast<Elf64_Phdr*>(file.data() + sizeof(Elf64_Ehdr));
    first.p_filesz = file.size();
    std::copy(text.begin(), text.end(), file.begin() + kPiece - shift);
    const std::optional<JemallocInfo> info = Find(file);
    ASSERT_TRUE(info.has_value()) << shift;
    EXPECT_EQ(info->version, "15.3.0") << shift;
    ExpectFound(*info, "shape", Module::Offset(0));
  }
}

TEST(FindJemallocTest, NoUnwindInformation) {
  Bytes file = Module{.functions = {kShape}, .sections = false}.Build();
  const auto count = reinterpret_cast<Elf64_Ehdr*>(file.data())->e_phnum;
  auto* segments = reinterpret_cast<Elf64_Phdr*>(file.data() + sizeof(Elf64_Ehdr));
  for (size_t i = 0; i < count; ++i) {
    if (segments[i].p_type == PT_GNU_EH_FRAME) segments[i].p_type = PT_NULL;
  }
  const std::optional<JemallocInfo> info = Find(file);
  ASSERT_TRUE(info.has_value());
  ExpectNotFound(*info, kNoneMatches);
}

TEST(FindJemallocTest, FunctionThatEndsWithItsSegment) {
  // The last bytes of the code segment: all of the shape, then all but one byte of it.
  for (const size_t missing : {0, 1}) {
    test::FrameBuilder frames;
    const uint32_t common = frames.AddCommon();
    const uint64_t begin = test::kTextSize - kShape.size() + missing;
    frames.AddFunction(common, test::kText + begin, 0x10000, {});
    test::ElfOptions options;
    options.code = Bytes(begin, 0x90);
    options.code.insert(options.code.end(), kShape.begin(), kShape.end() - missing);
    Bytes file = test::BuildElf(frames.bytes(), options);
    std::copy(kMessage.begin(), kMessage.end(), file.begin() + Module::kConstants);
    const std::optional<JemallocInfo> info = Find(file);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(EventOf(*info), missing == 0 ? test::kTextOffset + begin : 0);
  }
}

TEST(FindJemallocTest, WhatIsNoModule) {
  const auto code = [](const Bytes& bytes) {
    return FindJemalloc(FileOf(bytes).get(), "", kNoDebugFiles).status().code();
  };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Bytes(4096, 'x')), absl::StatusCode::kInvalidArgument);
  Bytes other = Module{.functions = {kShape}}.Build();
  reinterpret_cast<Elf64_Ehdr*>(other.data())->e_machine = EM_AARCH64;
  EXPECT_EQ(code(other), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(FindJemalloc(-1, "", kNoDebugFiles).ok());
}

TEST(FindJemallocTest, SparseGiantCostsBoundedWork) {
  Bytes file = Module{.functions = {kShape}, .constants = "", .sections = false}.Build();
  auto* segments = reinterpret_cast<Elf64_Phdr*>(file.data() + sizeof(Elf64_Ehdr));
  segments[0].p_filesz = uint64_t{1} << 40;
  const UniqueFd fd = FileOf(file);
  ASSERT_EQ(ftruncate(fd.get(), off_t{1} << 40), 0);
  // Behind the limit.
  ASSERT_EQ(pwrite(fd.get(), kMessage.data(), kMessage.size(), off_t{1} << 39),
            static_cast<ssize_t>(kMessage.size()));
  const auto far = FindJemalloc(fd.get(), "", kNoDebugFiles);
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_FALSE(far->has_value());
  ASSERT_EQ(pwrite(fd.get(), kMessage.data(), kMessage.size(), off_t{500} << 20),
            static_cast<ssize_t>(kMessage.size()));
  const auto near = FindJemalloc(fd.get(), "", kNoDebugFiles);
  ASSERT_TRUE(near.ok()) << near.status();
  ASSERT_TRUE(near->has_value());
  ExpectFound(**near, "shape", Module::Offset(0));
}

TEST(FindJemallocTest, EveryTruncationAndManyBitFlips) {
  const Module module{.functions = {kPlain, kShape},
                      .symbols = {Module::Named("je_te_event_trigger", 1)}};
  const Bytes good = module.Build();
  ASSERT_EQ(Found(module).found_by, "symbol");
  const auto check = [](const Bytes& bytes) {
    const UniqueFd fd = FileOf(bytes);
    const auto info = FindJemalloc(fd.get(), "/opt/module.so", kNoDebugFiles);
    if (!info.ok() || !info->has_value()) return;
    EXPECT_NE((*info)->found_by.empty(), (*info)->note.empty());
    if ((*info)->found_by.empty()) return;
    for (const uint64_t offset : EventsOf(**info)) {
      ASSERT_LT(offset, bytes.size());
      EXPECT_TRUE(HasEventShape(std::span(bytes).subspan(offset)));
    }
  };
  for (size_t size = 0; size < good.size(); size += size < 0x400 || size > 0x2000 ? 1 : 61) {
    check(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size)));
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    Bytes bad = good;
    for (int flip = 0; flip < 4; ++flip) {
      // Headers, constants, code, and all behind it.
      const std::pair<size_t, size_t> parts[] = {{0, 0x200},
                                                 {0x800, 0x280},
                                                 {test::kTextOffset, 0x180},
                                                 {test::kFrameOffset, good.size()}};
      const auto& [begin, size] = parts[random() % std::size(parts)];
      const size_t at = std::min(begin + random() % size, good.size() - 1);
      bad[at] ^= static_cast<uint8_t>(1 << random() % 8);
    }
    check(bad);
  }
}

TEST(ListFunctionsTest, AscendingAndEachOnce) {
  test::FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, test::kText + 0x80, 0x10, {});
  frames.AddFunction(common, test::kText, 0x10, {});
  frames.AddFunction(common, test::kText, 0x20, {});
  frames.AddFunction(common, test::kText + 0xff0, 0x20, {});  // runs over the segment's end
  frames.AddFunction(common, test::kText + 0x40, 0, {});
  frames.AddFunction(common, test::kText - 1, 0x20, {});  // no code
  const UniqueFd fd = FileOf(test::BuildElf(frames.bytes()));
  const auto elf = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const auto functions = ListFunctions(*elf);
  ASSERT_TRUE(functions.ok()) << functions.status();
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const symbolize::FileRange& range : *functions)
    ranges.emplace_back(range.offset, range.size);
  EXPECT_THAT(ranges, ElementsAre(std::pair(test::kTextOffset, 0x20),
                                  std::pair(test::kTextOffset + 0x80, 0x10),
                                  std::pair(test::kTextOffset + 0xff0, 0x10)));
}

// Programs and libraries as they are built.
class RealModuleTest : public testing::Test {
 protected:
  void Open(const std::string& path) {
    auto fd = OpenReadOnly(path);
    ASSERT_TRUE(fd.ok()) << fd.status();
    fd_ = *std::move(fd);
    path_ = path;
  }

  std::optional<JemallocInfo> Find(const std::string& debug_root = kNoDebugFiles) {
    auto info = FindJemalloc(fd_.get(), path_, debug_root);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *std::move(info) : std::nullopt;
  }

  std::vector<uint64_t> Shapes() {
    const auto elf = symbolize::ElfFile::Open(fd_.get());
    EXPECT_TRUE(elf.ok()) << elf.status();
    auto shapes = FindByShape(*elf);
    EXPECT_TRUE(shapes.ok()) << shapes.status();
    return shapes.ok() ? *std::move(shapes) : std::vector<uint64_t>();
  }

  UniqueFd fd_;
  std::string path_;
};

#define OPEN_MODULE(path) ASSERT_NO_FATAL_FAILURE(Open(path))

const std::string kLibraries = "/usr/lib/x86_64-linux-gnu";

TEST_F(RealModuleTest, SharedLibraryWithoutSymbols) {
  OPEN_MODULE(kLibraries + "/libjemalloc.so.2");
  const std::optional<JemallocInfo> info = Find();
  ASSERT_TRUE(info.has_value());
  EXPECT_THAT(info->version, HasSubstr("5."));
  EXPECT_THAT(Shapes(), ElementsAre(EventOf(*info)));
  ExpectFound(*info, "shape", EventOf(*info));
  EXPECT_EQ(info->objects.found_by, "shape") << info->objects.note;
  EXPECT_NE(info->objects.born, info->objects.gone);
}

TEST_F(RealModuleTest, StaticallyLinked) {
  OPEN_MODULE(test::InBuild("alloc_jemalloc_static"));
  const std::optional<JemallocInfo> info = Find();
  ASSERT_TRUE(info.has_value());
  ExpectFound(*info, "symbol", EventOf(*info));
  EXPECT_THAT(info->version, HasSubstr("5."));
  EXPECT_THAT(Shapes(), ElementsAre(EventOf(*info)));
  EXPECT_EQ(info->settings_variable, "MALLOC_CONF");
  const SampledObjects& objects = info->objects;
  EXPECT_EQ(objects.found_by, "symbol") << objects.note;
  EXPECT_NE(objects.born, 0u);
  EXPECT_NE(objects.gone, 0u);
  for (const uint64_t variable : {objects.opt_prof, objects.prof_active, objects.lg_prof_sample}) {
    EXPECT_GT(variable, objects.born_address) << "data lie behind the code";
  }
  EXPECT_EQ(std::ranges::count(info->slow_paths, false, &SlowPath::frees), 2);
  EXPECT_EQ(std::ranges::count(info->slow_paths, true, &SlowPath::frees), 3);
}

TEST_F(RealModuleTest, StrippedIsFoundAtTheSamePlace) {
  OPEN_MODULE(test::InBuild("alloc_jemalloc_static"));
  const std::optional<JemallocInfo> whole = Find();
  OPEN_MODULE(test::InBuild("alloc_jemalloc_stripped"));
  const std::optional<JemallocInfo> stripped = Find();
  ASSERT_TRUE(whole.has_value());
  ASSERT_TRUE(stripped.has_value());
  ExpectFound(*stripped, "shape", EventOf(*whole));
  EXPECT_THAT(stripped->slow_paths, IsEmpty()) << "no symbol names them";
  EXPECT_EQ(stripped->objects.found_by, "shape") << stripped->objects.note;
  EXPECT_EQ(stripped->objects.born, whole->objects.born);
  EXPECT_EQ(stripped->objects.born_address, whole->objects.born_address);
  EXPECT_EQ(stripped->objects.gone, whole->objects.gone);
  EXPECT_EQ(stripped->version, whole->version);
}

TEST_F(RealModuleTest, DebugFile) {
  OPEN_MODULE(test::InBuild("alloc_jemalloc_static"));
  const std::optional<JemallocInfo> whole = Find();
  OPEN_MODULE(test::InBuild("alloc_jemalloc_stripped"));
  const auto elf = symbolize::ElfFile::Open(fd_.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const std::string id = elf->BuildId();
  ASSERT_GT(id.size(), 2u);

  std::string root = (std::filesystem::temp_directory_path() / "debugXXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string folder = absl::StrCat(root, "/.build-id/", id.substr(0, 2));
  std::filesystem::create_directories(folder);
  std::filesystem::copy(path_ + ".debug", absl::StrCat(folder, "/", id.substr(2), ".debug"));
  const std::optional<JemallocInfo> info = Find(root);
  std::filesystem::remove_all(root);
  ASSERT_TRUE(whole.has_value());
  ASSERT_TRUE(info.has_value());
  ExpectFound(*info, "debug file", EventOf(*whole));
  EXPECT_EQ(info->objects.found_by, "debug file");
  EXPECT_EQ(info->objects.born, whole->objects.born);
  EXPECT_EQ(info->objects.lg_prof_sample, whole->objects.lg_prof_sample);
}

TEST_F(RealModuleTest, LinkTimeOptimised) {
  REQUIRE_FACT("rustc.jemalloc");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen("rustc --print sysroot 2>/dev/null", "re"),
                                                   pclose);
  char line[4096] = "";
  ASSERT_NE(pipe, nullptr);
  ASSERT_NE(fgets(line, sizeof(line), pipe.get()), nullptr) << "rustc says nothing";
  OPEN_MODULE(absl::StrCat(absl::StripSuffix(line, "\n"), "/bin/rustc"));
  const std::optional<JemallocInfo> info = Find();
  ASSERT_TRUE(info.has_value()) << path_;
  ExpectFound(*info, "symbol", EventOf(*info));
  EXPECT_THAT(info->version, HasSubstr("5."));
  EXPECT_THAT(Shapes(), ElementsAre(EventOf(*info)));
  // The kernel emulates the instructions under all probes.
  EXPECT_FALSE(info->events.front().point.stepped);
  EXPECT_THAT(info->inlined, Not(IsEmpty()));
  EXPECT_THAT(info->inlined, Each(Field(&InlinedEvent::growth_register, Ne(std::nullopt))));
}

TEST_F(RealModuleTest, ModulesWithoutIt) {
  for (const std::string& path :
       {kLibraries + "/libc.so.6", kLibraries + "/libstdc++.so.6", test::InBuild("alloc_glibc")}) {
    OPEN_MODULE(path);
    EXPECT_EQ(Find(), std::nullopt) << path;
  }
}

// This program has the messages among its constants, but not jemalloc.
TEST_F(RealModuleTest, MessagesAlone) {
  OPEN_MODULE("/proc/self/exe");
  const std::optional<JemallocInfo> info = Find();
  ASSERT_TRUE(info.has_value());
  ExpectNotFound(*info, kNoneMatches);
}

// What the programs say of themselves adds up, and the allocator agrees.
class AllocProgramTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    program_ = test::InBuild(GetParam());
    ASSERT_EQ(access(program_.c_str(), X_OK), 0) << program_ << " was not built";
  }

  nlohmann::json Run(const std::string& arguments) {
    const std::string command = absl::StrCat("printf 'go\\ngo\\n' | '", program_, "' ", arguments);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), pclose);
    std::vector<std::string> lines;
    char line[1 << 16];
    while (pipe != nullptr && fgets(line, sizeof(line), pipe.get()) != nullptr) {
      lines.emplace_back(line);
    }
    EXPECT_EQ(lines.size(), 3u) << command;
    if (lines.size() != 3) return {};
    EXPECT_EQ(lines[0], lines[1]);
    nlohmann::json report = nlohmann::json::parse(lines[2], nullptr, false);
    EXPECT_EQ(lines[0], absl::StrCat("ready ", report.value("pid", 0), "\n"));
    return report;
  }

  std::string program_;
};

// The amounts of all accounts in a list.
nlohmann::json Sum(const nlohmann::json& accounts) {
  nlohmann::json sum;
  for (const nlohmann::json& account : accounts) {
    for (const char* side : {"allocated", "freed", "released"}) {
      for (const auto& [key, value] : account[side].items()) {
        nlohmann::json& at = sum[side][key];
        at = (at.is_null() ? 0 : at.get<int64_t>()) + value.get<int64_t>();
      }
    }
  }
  return sum;
}

TEST_P(AllocProgramTest, AmountsAreThoseAskedFor) {
  const nlohmann::json report =
      Run("n=1000 size=1000 threads=2 sites=4 calloc=20 aligned=10 realloc=5 free=30 by=next");
  ASSERT_TRUE(report.is_object());
  // Of 2,000: 700 by malloc and 200 by calloc of 1,000, 10 % aligned of 1,024, and 5 % of 1,000
  // that grow to 2,000.
  const nlohmann::json& total = report["total"];
  EXPECT_EQ(total["allocated"]["count"], 2000 + 100);
  EXPECT_EQ(total["allocated"]["requested"], 1700 * 1000 + 200 * 1024 + 100 * (1000 + 2000));
  EXPECT_EQ(total["freed"]["count"], 600 + 100);
  EXPECT_EQ(total["released"]["count"], 600);
  EXPECT_GE(total["allocated"]["usable"], total["allocated"]["requested"]);
  ASSERT_EQ(report["sites"].size(), 4u);
  EXPECT_EQ(Sum(report["sites"]), total);
  nlohmann::json threads = report["threads"];
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(report["main"]["freed"]["count"], 0);
  threads.push_back(report["main"]);
  EXPECT_EQ(Sum(threads), total);
}

TEST_P(AllocProgramTest, TheAllocatorCountsTheSame) {
  for (const std::string by : {"self", "next", "main"}) {
    const nlohmann::json report = Run(absl::StrCat(
        "n=2000 size=5000 threads=3 sites=16 calloc=11 aligned=7 realloc=23 free=41 by=", by));
    ASSERT_TRUE(report.is_object());
    nlohmann::json threads = report["threads"];
    threads.push_back(report["main"]);
    ASSERT_EQ(threads.size(), 4u);
    for (const nlohmann::json& thread : threads) {
      ASSERT_EQ(thread.contains("counted"), report["allocator"] == "jemalloc");
      if (!thread.contains("counted")) continue;
      EXPECT_EQ(thread["counted"]["allocated"], thread["allocated"]["usable"]) << by;
      EXPECT_EQ(thread["counted"]["freed"], thread["freed"]["usable"]) << by;
    }
    EXPECT_EQ(report["main"]["freed"]["count"], by == "main" ? 3 * 820 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, AllocProgramTest,
                         testing::Values("alloc_glibc", "alloc_jemalloc", "alloc_jemalloc_static",
                                         "alloc_jemalloc_stripped"),
                         [](const auto& program) { return program.param; });

}  // namespace
}  // namespace profd
