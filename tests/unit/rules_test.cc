#include "daemon/unwind/rules.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::BuildElf;
using test::Bytes;
using test::ElfOptions;
using test::FrameBuilder;
using test::Join;
using test::kFrameAddress;
using test::kText;
using test::kTextOffset;
using test::kTextSize;
using test::Put;
using test::Sleb;
using test::Uleb;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr uint32_t kNone = PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
constexpr uint32_t kEnd = PROFD_RULE_PACK(PROFD_RULE_END, 0, 0);
constexpr uint32_t kUnsupported = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);
constexpr uint32_t kSignal = PROFD_RULE_PACK(PROFD_RULE_SIGNAL, 0, 0);

constexpr uint32_t Rsp(int cfa, int rbp = 0) {
  return PROFD_RULE_PACK(PROFD_RULE_RSP, cfa / 8, rbp / 8);
}
constexpr uint32_t Rbp(int cfa, int rbp = 0) {
  return PROFD_RULE_PACK(PROFD_RULE_RBP, cfa / 8, rbp / 8);
}

// Rows as (offset into the text, rule).
using Rows = std::vector<std::pair<int64_t, uint32_t>>;

Rows RowsOf(const RuleTable& table) {
  Rows rows;
  for (const profd_rule& row : table.rows) {
    rows.emplace_back(static_cast<int64_t>(row.offset) - static_cast<int64_t>(kTextOffset),
                      row.rule);
  }
  return rows;
}

RuleTable Compile(const Bytes& file, const RuleLimits& limits = {}) {
  absl::StatusOr<RuleTable> table = CompileRules(file, limits);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *std::move(table) : RuleTable();
}

RuleTable Compile(const FrameBuilder& frames, const ElfOptions& options = {}) {
  return Compile(BuildElf(frames.bytes(), options));
}

// Rules of one function of 32 bytes at the start of the text.
RuleTable CompileProgram(const Bytes& program, const Bytes& initial = test::DefaultInitial(),
                         std::string_view augmentation = "zR") {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon(initial, augmentation);
  frames.AddFunction(common, kText, 32, program);
  return Compile(frames);
}

// The one rule of such a function.
uint32_t RuleOf(const Bytes& program) {
  const RuleTable table = CompileProgram(program);
  EXPECT_EQ(table.rows.size(), 2u);
  return FindRule(table, kTextOffset);
}

Bytes DefCfa(uint8_t reg, uint64_t offset) { return Join({{0x0c, reg}, Uleb(offset)}); }
Bytes Expression(uint8_t opcode, const Bytes& expression) {
  return Join({{opcode}, Uleb(expression.size()), expression});
}
Bytes RegisterExpression(uint8_t reg, const Bytes& expression) {
  return Join({{0x10, reg}, Uleb(expression.size()), expression});
}
Bytes PltExpression(uint8_t threshold) {
  return {0x77, 8,    0x80, 0,   0x3f, 0x1a, static_cast<uint8_t>(0x30 + threshold),
          0x2a, 0x33, 0x24, 0x22};
}

TEST(RulesTest, FollowsPushAndMove) {
  // push rbp; mov rsp, rbp; ...; leave; ret
  const RuleTable table =
      CompileProgram({0x41, 0x0e, 16, 0x80 | 6, 2, 0x43, 0x0d, 6, 0x40 | 20, 0x0c, 7, 8});
  EXPECT_THAT(RowsOf(table),
              ElementsAre(Pair(0, Rsp(8)), Pair(1, Rsp(16, -16)), Pair(4, Rbp(16, -16)),
                          Pair(24, Rsp(8, -16)), Pair(32, kNone)));
  EXPECT_EQ(table.functions, 1u);
  EXPECT_EQ(table.rejected_functions, 0u);
  EXPECT_EQ(table.unsupported_rows, 0u);
}

TEST(RulesTest, SeparatesFunctionsAndMergesEqualNeighbours) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText + 64, 16, {});  // out of order on purpose
  frames.AddFunction(common, kText, 16, {});
  frames.AddFunction(common, kText + 16, 16, {});
  const RuleTable table = Compile(frames);
  EXPECT_THAT(RowsOf(table),
              ElementsAre(Pair(0, Rsp(8)), Pair(32, kNone), Pair(64, Rsp(8)), Pair(80, kNone)));
  EXPECT_EQ(FindRule(table, 0), kNone);
  EXPECT_EQ(FindRule(table, kTextOffset - 1), kNone);
  EXPECT_EQ(FindRule(table, kTextOffset), Rsp(8));
  EXPECT_EQ(FindRule(table, kTextOffset + 31), Rsp(8));
  EXPECT_EQ(FindRule(table, kTextOffset + 32), kNone);
  EXPECT_EQ(FindRule(table, UINT32_MAX), kNone);
  EXPECT_EQ(FindRule(RuleTable(), 5), kNone);
}

TEST(RulesTest, RefusesWhatDoesNotFitARow) {
  EXPECT_EQ(RuleOf(DefCfa(7, 524287 * 8)), Rsp(524287 * 8));
  EXPECT_EQ(RuleOf(DefCfa(7, 524288 * 8)), kUnsupported);
  EXPECT_EQ(RuleOf(DefCfa(7, 12)), kUnsupported);
  EXPECT_EQ(RuleOf(DefCfa(10, 0)), kUnsupported);
  EXPECT_EQ(RuleOf({0x80 | 6, 0}), kUnsupported);  // rbp at the CFA itself
  EXPECT_EQ(RuleOf(Join({{0x80 | 6}, Uleb(128)})), Rsp(8, -128 * 8));
  EXPECT_EQ(RuleOf(Join({{0x80 | 6}, Uleb(129)})), kUnsupported);
  EXPECT_EQ(RuleOf(Join({{0x11, 6}, Sleb(-127)})), Rsp(8, 127 * 8));
  EXPECT_EQ(RuleOf(Join({{0x11, 6}, Sleb(-128)})), kUnsupported);
}

TEST(RulesTest, DecodesNegativeOffsets) {
  const uint32_t rule = RuleOf(Join({{0x12, 6}, Sleb(3), {0x80 | 6, 2}}));  // CFA = rbp - 24
  EXPECT_EQ(PROFD_RULE_KIND(rule), static_cast<unsigned>(PROFD_RULE_RBP));
  EXPECT_EQ(PROFD_RULE_CFA(rule), -24);
  EXPECT_EQ(PROFD_RULE_RBP_OFFSET(rule), -16);
}

TEST(RulesTest, UndefinedReturnAddressIsARoot) {
  EXPECT_EQ(RuleOf({0x07, 16}), kEnd);
  EXPECT_EQ(RuleOf(Join({DefCfa(10, 0), {0x07, 16}})), kEnd);
}

TEST(RulesTest, OtherReturnAddressesAreUnsupported) {
  EXPECT_EQ(RuleOf({0x80 | 16, 2}), kUnsupported);
  EXPECT_EQ(RuleOf({0x09, 16, 1}), kUnsupported);
  EXPECT_EQ(RuleOf({0x08, 16}), kUnsupported);
  EXPECT_EQ(RuleOf(RegisterExpression(16, {0x77, 0})), kUnsupported);
  EXPECT_EQ(RuleOf({0x09, 7, 8}), kUnsupported);  // longjmp: rsp from a register
  EXPECT_EQ(RuleOf({0x14, 7, 0}), Rsp(8));        // rsp is the CFA, spelled out
}

TEST(RulesTest, KnowsWhereTheCallersRbpIs) {
  EXPECT_EQ(RuleOf({0x80 | 6, 2, 0x07, 6}), Rsp(8));
  EXPECT_EQ(RuleOf({0x80 | 6, 2, 0x08, 6}), Rsp(8));
  EXPECT_EQ(RuleOf({0x09, 6, 3}), kUnsupported);
  EXPECT_EQ(RuleOf({0x14, 6, 2}), kUnsupported);
  EXPECT_EQ(RuleOf(Join({{0x15, 6}, Sleb(2)})), kUnsupported);
  EXPECT_EQ(RuleOf(RegisterExpression(6, {0x76, 0})), kUnsupported);
  EXPECT_EQ(RuleOf(Join({{0x16, 6}, Uleb(2), {0x77, 0}})), kUnsupported);
  EXPECT_EQ(RuleOf({0x05, 6, 2}), Rsp(8, -16));
  EXPECT_EQ(RuleOf({0x2f, 6, 2}), Rsp(8, 16));
  EXPECT_EQ(RuleOf({0x80 | 3, 2, 0x09, 12, 13, 0x2e, 40}), Rsp(8));  // other registers
}

TEST(RulesTest, RestoresRegistersAndStates) {
  EXPECT_EQ(RuleOf({0x80 | 6, 2, 0xc0 | 6}), Rsp(8));
  EXPECT_EQ(RuleOf({0x07, 16, 0x06, 16}), Rsp(8));
  const RuleTable table = CompileProgram({0x0e, 16, 0x80 | 6, 2, 0x0a, 0x41, 0x0c, 6, 24, 0x0a,
                                          0x41, 0x0e, 32, 0xc6, 0x41, 0x0b, 0x41, 0x0b, 0x41});
  EXPECT_THAT(RowsOf(table),
              ElementsAre(Pair(0, Rsp(16, -16)), Pair(1, Rbp(24, -16)), Pair(2, Rbp(32)),
                          Pair(3, Rbp(24, -16)), Pair(4, Rsp(16, -16)), Pair(32, kNone)));
}

TEST(RulesTest, BoundsRememberedStates) {
  EXPECT_EQ(CompileProgram(Bytes(32, 0x0a)).functions, 1u);
  EXPECT_EQ(CompileProgram(Bytes(33, 0x0a)).rejected_functions, 1u);
  EXPECT_EQ(CompileProgram({0x0b}).rejected_functions, 1u);
}

TEST(RulesTest, AdvancesInEveryWay) {
  Bytes set_loc = {0x01};
  // The function's record begins at 28 (after the common entry's); its program 17 bytes on.
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  const uint32_t program_at = frames.position() + 17;
  Put<int32_t>(set_loc, static_cast<int32_t>(kText + 0x400 - (kFrameAddress + program_at + 15)));
  frames.AddFunction(common, kText, 0x800,
                     Join({{0x02, 16, 0x0e, 16, 0x03, 0x00, 0x01, 0x0e, 24},
                           {0x04, 0, 1, 0, 0},
                           set_loc,
                           {0x0e, 32, 0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 40}}));
  EXPECT_THAT(RowsOf(Compile(frames)),
              ElementsAre(Pair(0, Rsp(8)), Pair(16, Rsp(16)), Pair(0x110, Rsp(24)),
                          Pair(0x400, Rsp(32)), Pair(0x800, kNone)));
}

TEST(RulesTest, KnowsThePltExpression) {
  EXPECT_EQ(RuleOf(Expression(0x0f, PltExpression(11))), PROFD_RULE_PACK(PROFD_RULE_PLT, 0, 0));
  const RuleTable table = CompileProgram(Expression(0x0f, PltExpression(9)));
  EXPECT_THAT(RowsOf(table), ElementsAre(Pair(0, Rsp(8)), Pair(9, Rsp(16)), Pair(16, Rsp(8)),
                                         Pair(25, Rsp(16)), Pair(32, kNone)));
}

TEST(RulesTest, KnowsSimpleAndRealignedCfaExpressions) {
  EXPECT_EQ(RuleOf(Expression(0x0f, {0x77, 24})), Rsp(24));
  EXPECT_EQ(RuleOf(Expression(0x0f, {0x76, 16})), Rbp(16));
  const Bytes realigned = Expression(0x0f, {0x76, 0x78, 0x06});  // *(rbp - 8)
  EXPECT_EQ(RuleOf(Join({realigned, RegisterExpression(6, {0x76, 0})})),
            PROFD_RULE_PACK(PROFD_RULE_DEREF_RBP, -1, 0));
  EXPECT_EQ(RuleOf(realigned), kUnsupported);
  EXPECT_EQ(RuleOf(Join({realigned, RegisterExpression(6, {0x76, 8})})), kUnsupported);
  EXPECT_EQ(RuleOf(Expression(0x0f, {0x77, 8, 0x06})), kUnsupported);
  EXPECT_EQ(RuleOf(Expression(0x0f, {0x77, 8, 0x22})), kUnsupported);
  EXPECT_EQ(RuleOf(Expression(0x0f, {})), kUnsupported);
  EXPECT_EQ(RuleOf(Join({{0x0f}, Uleb(1), {0x77}})), kUnsupported);  // cut short
}

TEST(RulesTest, KnowsTheKernelsSignalFrame) {
  const Bytes program =
      Join({Expression(0x0f, {0x77, 0xa0, 0x01, 0x06}), RegisterExpression(6, {0x77, 0xf8, 0x00}),
            RegisterExpression(7, {0x77, 0xa0, 0x01}), RegisterExpression(16, {0x77, 0xa8, 0x01})});
  EXPECT_EQ(FindRule(CompileProgram(program, {}, "zRS"), kTextOffset), kSignal);
  EXPECT_EQ(FindRule(CompileProgram(program, {}, "zR"), kTextOffset), kUnsupported);
  EXPECT_EQ(FindRule(CompileProgram({}, test::DefaultInitial(), "zRS"), kTextOffset), kUnsupported);
}

TEST(RulesTest, ReadsEveryPointerEncoding) {
  struct Case {
    uint8_t encoding;
    int bytes;
    uint64_t begin;
    bool accepted;
  };
  const uint64_t field = kFrameAddress + 8;
  for (const Case& c : std::vector<Case>{{0x00, 8, kText, true},
                                         {0x02, 2, kText, false},
                                         {0x03, 4, kText, true},
                                         {0x04, 8, kText, true},
                                         {0x0b, 4, kText, true},
                                         {0x0c, 8, kText, true},
                                         {0x10, 8, kText - field, true},
                                         {0x1c, 8, kText - field, true},
                                         {0x2b, 4, 0, true},
                                         {0x3b, 4, kText - (kFrameAddress - 0x1800), true},
                                         {0x40, 8, kText, false},
                                         {0x50, 8, kText, false},
                                         {0x80, 8, kText, false},
                                         {0x9b, 4, kText, false},
                                         {0x07, 8, kText, false},
                                         {0xff, 0, kText, false}}) {
    FrameBuilder frames;
    const uint32_t common = frames.AddCommon(test::DefaultInitial(), "zR", {c.encoding});
    // Pc-relative values count from the field, which lies behind the common entry.
    const bool relative = (c.encoding & 0x70) == 0x10;
    const uint64_t begin = relative ? c.begin - frames.position() : c.begin;
    Bytes pointers;
    for (const uint64_t value : {begin, uint64_t{16}}) {
      for (int i = 0; i < c.bytes; ++i) pointers.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    frames.AddEncodedFunction(common, pointers, {});
    ElfOptions options;
    options.frame_segment = true;
    const RuleTable table = Compile(frames, options);
    EXPECT_EQ(FindRule(table, kTextOffset), c.accepted ? Rsp(8) : kNone) << int{c.encoding};
    EXPECT_EQ(table.functions, c.accepted ? 1u : 0u) << int{c.encoding};
  }
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon(test::DefaultInitial(), "zR", {0x01});
  frames.AddEncodedFunction(common, Join({Uleb(kText), Uleb(16)}), {});
  EXPECT_EQ(FindRule(Compile(frames), kTextOffset), Rsp(8));
}

TEST(RulesTest, ReadsAugmentations) {
  const auto rejected = [](std::string_view augmentation, const Bytes& data, uint8_t version = 1) {
    FrameBuilder frames;
    const uint32_t common = frames.AddCommon(test::DefaultInitial(), augmentation, data, version);
    frames.AddFunction(common, kText, 16, {});
    const RuleTable table = Compile(frames);
    EXPECT_EQ(table.functions + table.rejected_functions, 1u);
    return table.rejected_functions == 1;
  };
  EXPECT_FALSE(rejected("zPLR", {0x9b, 1, 2, 3, 4, 0x1b, 0x1b}));
  EXPECT_FALSE(rejected("zPLR", {0xff, 0x1b, 0x1b}));
  EXPECT_FALSE(rejected("zRB", {0x1b}));
  EXPECT_FALSE(rejected("zRS", {0x1b}));
  EXPECT_FALSE(rejected("zR", {0x1b}, 3));
  EXPECT_FALSE(rejected("zR", {0x1b}, 4));
  EXPECT_TRUE(rejected("zR", {0x1b}, 2));
  EXPECT_TRUE(rejected("zRx", {0x1b}));
  EXPECT_TRUE(rejected("eh", {0x1b}));
  EXPECT_TRUE(rejected("zR", {}));
  EXPECT_TRUE(rejected("zPR", {0x9b, 1, 2}));
  EXPECT_TRUE(rejected("zRRRRRRRRRRRRRRRRRRRR", {0x1b}));
}

TEST(RulesTest, SkipsDiscardedAndEmptyFunctions) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 0, {});
  frames.AddFunction(common, 0, 16, {});
  frames.AddFunction(common, kFrameAddress, 4, {});           // not code
  frames.AddFunction(common, kText + kTextSize - 8, 16, {});  // leaves the segment
  frames.AddFunction(common, kText + kTextSize - 8, 8, {});
  const RuleTable table = Compile(frames);
  EXPECT_THAT(RowsOf(table), ElementsAre(Pair(kTextSize - 8, Rsp(8)), Pair(kTextSize, kNone)));
  EXPECT_EQ(table.rejected_functions, 0u);
}

TEST(RulesTest, CountsCodeBeyondFourGigabytes) {
  UniqueFd fd(memfd_create("elf", MFD_CLOEXEC));
  ASSERT_TRUE(fd.ok());
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 16, {});
  frames.AddFunction(common, kText + 0x800, 16, {});
  ElfOptions options;
  options.code_file_offset = (uint64_t{1} << 32) - 0x800;
  const Bytes file = BuildElf(frames.bytes(), options);
  ASSERT_EQ(ftruncate(fd.get(), (int64_t{1} << 32) + 0x10000), 0);
  ASSERT_EQ(pwrite(fd.get(), file.data(), file.size(), 0), static_cast<ssize_t>(file.size()));
  absl::StatusOr<MappedFile> mapped = MappedFile::Map(fd.get());
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  absl::StatusOr<RuleTable> table = CompileRules(mapped->bytes());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->functions, 1u);
  EXPECT_EQ(table->rejected_functions, 1u);
  EXPECT_EQ(FindRule(*table, 0xfffff800), Rsp(8));
}

TEST(RulesTest, OverlapsAreResolvedTheSameWayInAnyOrder) {
  const std::vector<std::pair<uint64_t, uint32_t>> functions = {{0, 16}, {0, 32}, {8, 40}, {16, 8}};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    FrameBuilder frames;
    const uint32_t common = frames.AddCommon();
    for (const size_t i : order) {
      frames.AddFunction(common, kText + functions[i].first, functions[i].second,
                         {0x0e, static_cast<uint8_t>(16 + 8 * i), 0x44, 0x0e, 64});
    }
    EXPECT_THAT(RowsOf(Compile(frames)),
                ElementsAre(Pair(0, Rsp(24)), Pair(4, Rsp(64)), Pair(48, kNone)));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RulesTest, MalformedFunctionDoesNotHideAnother) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 32, {0x41, 0x0e, 16, 0x3f});
  frames.AddFunction(common, kText, 16, {});
  const RuleTable table = Compile(frames);
  EXPECT_THAT(RowsOf(table), ElementsAre(Pair(0, Rsp(8)), Pair(16, kNone)));
  EXPECT_EQ(table.functions, 1u);
  EXPECT_EQ(table.rejected_functions, 1u);
}

TEST(RulesTest, FindsFramesWithoutSectionHeaders) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 16, {});
  frames.AddRaw({0, 0, 0, 0});
  frames.AddFunction(common, kText + 32, 16, {});  // whatever follows the terminator
  ElfOptions options;
  options.sections = false;
  EXPECT_THAT(Compile(frames, options).rows, IsEmpty());
  options.frame_segment = true;
  EXPECT_THAT(RowsOf(Compile(frames, options)), ElementsAre(Pair(0, Rsp(8)), Pair(16, kNone)));
}

TEST(RulesTest, EntryPointOfAProgramIsARoot) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText + 64, 16, {0x44, 0x0e, 16});
  frames.AddFunction(common, kText + 80, 16, {});
  ElfOptions options;
  options.entry = kText + 64;
  const Rows with_root = {{64, kEnd}, {80, Rsp(8)}, {96, kNone}};
  const Rows without = {{64, Rsp(8)}, {68, Rsp(16)}, {80, Rsp(8)}, {96, kNone}};
  EXPECT_EQ(RowsOf(Compile(frames, options)), without);
  options.interpreter = true;
  EXPECT_EQ(RowsOf(Compile(frames, options)), with_root);
  options.interpreter = false;
  options.type = ET_EXEC;
  EXPECT_EQ(RowsOf(Compile(frames, options)), with_root);
}

TEST(RulesTest, EntryPointWithoutDescriptionIsARoot) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText + 40, 16, {});
  ElfOptions options;
  options.entry = kText + 8;
  EXPECT_THAT(RowsOf(Compile(frames, options)),
              ElementsAre(Pair(8, kEnd), Pair(40, Rsp(8)), Pair(56, kNone)));
  options.entry = kText + 0x100;
  EXPECT_THAT(RowsOf(Compile(frames, options)), ElementsAre(Pair(40, Rsp(8)), Pair(56, kNone),
                                                            Pair(0x100, kEnd), Pair(0x140, kNone)));
  // A library whose linker wrote the start of its text there.
  options.needed = true;
  EXPECT_THAT(RowsOf(Compile(frames, options)), ElementsAre(Pair(40, Rsp(8)), Pair(56, kNone)));
}

TEST(RulesTest, ThreadStartsWithoutDescriptionAreRoots) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 16, {});
  frames.AddFunction(common, kText + 0x200, 16, {});
  ElfOptions options;
  options.symbols = {{"__clone", kText + 0x100, 0},
                     {"clone", kText + 0x100, 0},
                     {"clonee", kText + 0x180, 8},
                     {"thread_start", kText + 0x1f0, 24},  // described in part
                     {"_start", kText + 0x300, 5}};
  EXPECT_THAT(
      RowsOf(Compile(frames, options)),
      ElementsAre(Pair(0, Rsp(8)), Pair(16, kNone), Pair(0x100, kEnd), Pair(0x140, kNone),
                  Pair(0x200, Rsp(8)), Pair(0x210, kNone), Pair(0x300, kEnd), Pair(0x305, kNone)));
}

// As LLVM's linker writes it.
TEST(RulesTest, PltWithoutDescriptionIsKnownByItsCode) {
  constexpr uint64_t kPlt = 0x40;
  const Bytes header = {0xff, 0x35, 2, 0, 0, 0, 0xff, 0x25, 4, 0, 0, 0, 0x0f, 0x1f, 0x40, 0};
  const Bytes entry = {0xff, 0x25, 2, 0, 0, 0, 0x68, 1, 0, 0, 0, 0xe9, 0xd0, 0xff, 0xff, 0xff};
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 16, {});
  ElfOptions options{.plt = kText + kPlt, .plt_size = 48};
  options.code = Join({Bytes(kPlt), header, entry, entry});
  const Rows known = {{0, Rsp(8)},
                      {16, kNone},
                      {kPlt, Rsp(16)},
                      {kPlt + 6, Rsp(24)},
                      {kPlt + 16, PROFD_RULE_PACK(PROFD_RULE_PLT, 0, 0)},
                      {kPlt + 48, kNone}};
  EXPECT_EQ(RowsOf(Compile(frames, options)), known);

  const Rows nothing = {{0, Rsp(8)}, {16, kNone}};
  for (const size_t byte : {0, 1, 6, 7, 16, 17, 22, 27, 32, 38, 43}) {
    SCOPED_TRACE(byte);
    ElfOptions other = options;
    other.code[kPlt + byte] ^= 1;
    EXPECT_EQ(RowsOf(Compile(frames, other)), nothing);
  }
  for (const uint64_t size : {8, 16, 40, 56, 1 << 30}) {
    ElfOptions other = options;
    other.plt_size = size;
    EXPECT_EQ(RowsOf(Compile(frames, other)), nothing) << size;
  }
  ElfOptions other = options;
  other.plt += 8;
  EXPECT_EQ(RowsOf(Compile(frames, other)), nothing);

  // What is described stays as it is.
  frames.AddFunction(common, kText + kPlt, 48, DefCfa(7, 32));
  EXPECT_EQ(FindRule(Compile(frames, options), kTextOffset + kPlt), Rsp(32));
}

TEST(RulesTest, SignalReturnWithoutDescriptionIsKnownByItsCode) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText + 0x100, 16, {});
  ElfOptions options;
  options.symbols = {{"__restore_rt", kText + 16, 9}};
  EXPECT_EQ(FindRule(Compile(frames, options), kTextOffset + 16), kNone);
  options.code = Bytes(16);
  Put(options.code, Bytes{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05});
  EXPECT_THAT(
      RowsOf(Compile(frames, options)),
      ElementsAre(Pair(15, kSignal), Pair(25, kNone), Pair(0x100, Rsp(8)), Pair(0x110, kNone)));
}

TEST(RulesTest, BridgesTheGapInClone) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText, 16, {});
  frames.AddFunction(common, kText + 26, 6, {0x07, 16});
  frames.AddFunction(common, kText + 64, 16, {});
  frames.AddFunction(common, kText + 128, 16, {0x07, 16});
  EXPECT_THAT(RowsOf(Compile(frames)),
              ElementsAre(Pair(0, Rsp(8)), Pair(26, kEnd), Pair(32, kNone), Pair(64, Rsp(8)),
                          Pair(80, kNone), Pair(128, kEnd), Pair(144, kNone)));
}

TEST(RulesTest, ReadsLongLengths) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  Bytes record = {0xff, 0xff, 0xff, 0xff};
  Put<uint64_t>(record, 4 + 8 + 1);
  Put<uint32_t>(record, frames.position() + 12 - common);
  Put<int32_t>(record, static_cast<int32_t>(kText - (kFrameAddress + frames.position() + 16)));
  Put<uint32_t>(record, 16);
  record.push_back(0);
  frames.AddRaw(record);
  frames.AddFunction(common, kText + 16, 16, {0x0e, 16});
  EXPECT_THAT(RowsOf(Compile(frames)),
              ElementsAre(Pair(0, Rsp(8)), Pair(16, Rsp(16)), Pair(32, kNone)));
}

TEST(RulesTest, KeepsWhatPrecedesBrokenRecords) {
  const Bytes reserved = {0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0};
  const Bytes too_long = {0x40, 0, 0, 0, 1, 2, 3, 4};
  const Bytes endless = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  const Bytes cut = {0x40, 0};
  const Bytes far_common = {4, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
  const Bytes not_a_common = {4, 0, 0, 0, 4, 0, 0, 0};
  for (const Bytes& broken : {reserved, too_long, endless, cut, far_common, not_a_common}) {
    FrameBuilder frames;
    const uint32_t common = frames.AddCommon();
    frames.AddFunction(common, kText, 16, {});
    frames.AddRaw(broken);
    const RuleTable table = Compile(frames);
    EXPECT_THAT(RowsOf(table), ElementsAre(Pair(0, Rsp(8)), Pair(16, kNone)));
    EXPECT_EQ(table.rejected_functions, 1u);
  }
}

TEST(RulesTest, RejectsMalformedPrograms) {
  for (const Bytes& program : std::vector<Bytes>{{0x3f},
                                                 {0x2d},
                                                 {0x0e},
                                                 {0x04, 1},
                                                 {0x0f, 40, 1},
                                                 {0x80, 0x80},
                                                 {0x01, 0, 0xe8, 0xff, 0xff},
                                                 {0x0f, 0, 0x0e, 8},
                                                 {0x0f, 0, 0x0d, 7}}) {
    const RuleTable table = CompileProgram(program);
    EXPECT_EQ(table.rejected_functions, 1u) << int{program[0]};
    EXPECT_THAT(table.rows, IsEmpty());
  }
}

TEST(RulesTest, SharedWorkIsBounded) {
  // Longer initial instructions than any compiler writes.
  EXPECT_EQ(CompileProgram({}, Bytes(4096, 0)).functions, 1u);
  EXPECT_EQ(CompileProgram({}, Bytes(4097, 0)).rejected_functions, 1u);
  // Functions that take turns between long entries which the cache cannot hold together.
  FrameBuilder frames;
  std::vector<uint32_t> commons;
  while (commons.size() < 1024) commons.push_back(frames.AddCommon(Bytes(4000, 0)));
  for (int i = 0; i < 20000; ++i) {
    frames.AddFunction(commons[i % commons.size()], kText, 16, {});
  }
  EXPECT_EQ(CompileRules(BuildElf(frames.bytes())).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(RulesTest, RowsAreBounded) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  Bytes program;
  for (uint8_t i = 0; i < 100; ++i) {
    Put(program, Bytes{0x0e, static_cast<uint8_t>(8 * (i % 2 + 1)), 0x41});
  }
  frames.AddFunction(common, kText, 200, program);
  const Bytes file = BuildElf(frames.bytes());
  RuleLimits limits;
  limits.max_rows = 101;
  EXPECT_EQ(Compile(file, limits).rows.size(), 101u);
  limits.max_rows = 100;
  EXPECT_EQ(CompileRules(file, limits).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RulesTest, RefusesOtherFiles) {
  EXPECT_EQ(CompileRules({}).status().code(), absl::StatusCode::kInvalidArgument);
  const Bytes good = BuildElf({});
  EXPECT_THAT(Compile(good).rows, IsEmpty());
  for (const size_t at :
       {size_t{0}, size_t{EI_CLASS}, size_t{EI_DATA}, offsetof(Elf64_Ehdr, e_type),
        offsetof(Elf64_Ehdr, e_machine), offsetof(Elf64_Ehdr, e_phentsize)}) {
    Bytes bad = good;
    bad[at] = 0x7e;
    EXPECT_EQ(CompileRules(bad).status().code(), absl::StatusCode::kInvalidArgument) << at;
  }
}

// A table that the kernel's binary search can rely on.
void ExpectWellFormed(const RuleTable& table) {
  if (table.rows.empty()) return;
  EXPECT_NE(table.rows.front().rule, kNone);
  EXPECT_EQ(table.rows.back().rule, kNone);
  uint32_t unsupported = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    unsupported += PROFD_RULE_KIND(table.rows[i].rule) == PROFD_RULE_UNSUPPORTED ? 1 : 0;
    if (i == 0) continue;
    ASSERT_LT(table.rows[i - 1].offset, table.rows[i].offset);
    ASSERT_NE(table.rows[i - 1].rule, table.rows[i].rule);
  }
  EXPECT_EQ(table.unsupported_rows, unsupported);
}

TEST(RulesTest, DamagedFilesGiveATableOrAnError) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  const uint32_t signal = frames.AddCommon({}, "zRS");
  frames.AddFunction(
      common, kText, 32,
      {0x41, 0x0e, 16, 0x80 | 6, 2, 0x43, 0x0d, 6, 0x0a, 0x54, 0x0c, 7, 8, 0x41, 0x0b});
  frames.AddFunction(signal, kText + 32, 16, Expression(0x0f, {0x77, 0xa0, 0x01, 0x06}));
  frames.AddFunction(common, kText + 64, 64, Expression(0x0f, PltExpression(10)));
  frames.AddFunction(common, kText + 138, 16, {0x07, 16});
  ElfOptions options;
  options.entry = kText + 256;
  options.frame_segment = true;
  options.symbols = {{"__clone", kText + 0x200, 0}, {"__restore_rt", kText + 0x300, 9}};
  std::mt19937 random(1);  // the same damage in every run
  for (int i = 0; i < 10000; ++i) {
    options.sections = i % 2 == 0;
    Bytes file = BuildElf(frames.bytes(), options);
    for (unsigned damage = random() % 6 + 1; damage > 0; --damage) {
      const uint32_t where = random() % 4;
      const size_t at = where == 0   ? random() % 0x200
                        : where == 1 ? 0x800 + random() % 8
                                     : 0x2000 + random() % (file.size() - 0x2000);
      file[at] = random() % 4 == 0 ? 0xff : static_cast<uint8_t>(random());
    }
    if (random() % 8 == 0) file.resize(random() % file.size());
    const absl::StatusOr<RuleTable> table = CompileRules(file);
    if (table.ok()) ExpectWellFormed(*table);
  }
}

}  // namespace
}  // namespace profd
