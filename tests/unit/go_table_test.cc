#include "daemon/unwind/go_table.h"

#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/unwind/go_rules.h"
#include "daemon/unwind/rules.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::BuildElf;
using test::Bytes;
using test::ElfOptions;
using test::kText;
using test::kTextOffset;
using test::kTextSize;
using test::Put;
using test::Uleb;
using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::Pair;

constexpr uint8_t kRoot = 1, kSetsStack = 2;
constexpr uint32_t kUnsupported = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);

constexpr uint32_t Rsp(int cfa, int rbp = 0) {
  return PROFD_RULE_PACK(PROFD_RULE_RSP, cfa / 8, rbp / 8);
}

// A table as Go's linker writes it.
class GoTableBuilder {
 public:
  struct Depth {
    int64_t bytes;
    uint32_t length;
  };
  struct Function {
    std::string name;
    uint32_t size;
    std::vector<Depth> depths{};
    uint8_t flags = 0;
  };

  explicit GoTableBuilder(std::vector<Function> functions, uint64_t text = kText)
      : functions_(std::move(functions)), text_(text) {}

  Bytes Build() const {
    Bytes names(1), depths(1), entries, descriptions;
    const auto entries_size = static_cast<uint32_t>(8 * functions_.size() + 4);
    uint32_t begin = 0;
    for (const Function& function : functions_) {
      Put<uint32_t>(entries, begin);
      Put<uint32_t>(entries, entries_size + static_cast<uint32_t>(descriptions.size()));
      const uint32_t name = static_cast<uint32_t>(names.size());
      names.insert(names.end(), function.name.begin(), function.name.end());
      names.push_back(0);
      const auto of_depths = static_cast<uint32_t>(function.depths.empty() ? 0 : depths.size());
      int64_t before = -1;
      for (const Depth& depth : function.depths) {
        const int64_t change = depth.bytes - before;
        Put(depths, Uleb(static_cast<uint64_t>(change < 0 ? -2 * change - 1 : 2 * change)));
        Put(depths, Uleb(depth.length));
        before = depth.bytes;
      }
      if (of_depths != 0) depths.push_back(0);
      for (const uint32_t word : {begin, name, 0u, 0u, of_depths, 0u, 0u, 0u, 0u, 1u}) {
        Put<uint32_t>(descriptions, word);
      }
      Put(descriptions, Bytes{0, function.flags, 0, 0});
      begin += function.size;
    }
    Put<uint32_t>(entries, begin);

    Bytes table;
    Put<uint32_t>(table, 0xfffffff1);
    Put(table, Bytes{0, 0, 1, 8});
    const uint64_t after_header = 72;
    const uint64_t of_depths = after_header + names.size();
    const uint64_t of_functions = of_depths + depths.size();
    for (const uint64_t word : {uint64_t{functions_.size()}, uint64_t{0}, text_, after_header,
                                uint64_t{0}, uint64_t{0}, of_depths, of_functions}) {
      Put(table, word);
    }
    Put(table, names);
    Put(table, depths);
    Put(table, entries);
    Put(table, descriptions);
    Put<uint64_t>(table, 0);  // the last function's list of things that profd does not need
    return table;
  }

 private:
  std::vector<Function> functions_;
  uint64_t text_;
};

// Padding between them, as the linker makes it.
Bytes Code() { return Bytes(kTextSize, 0xcc); }

std::vector<GoTableBuilder::Function> Functions() {
  return {{"runtime.rt0_go", 32, {}, kRoot},
          {"main.add", 32, {{0, 32}}},
          {"main.(*Server).handle", 64, {{0, 5}, {8, 10}, {40, 40}, {8, 1}, {0, 8}}},
          {"runtime.systemstack", 32, {{0, 1}, {8, 31}}, kSetsStack},
          {"runtime.mcall", 32, {{0, 1}, {8, 31}}, kSetsStack},
          {"main.odd", 32, {{0, 8}, {12, 24}}}};
}

Bytes Program(const Bytes& table) {
  return BuildElf({}, {.type = ET_EXEC, .code = Code(), .go_table = table});
}

std::vector<std::pair<int64_t, uint32_t>> Rows(const Bytes& file) {
  std::vector<std::pair<int64_t, uint32_t>> rows;
  const auto table = CompileRules(file);
  EXPECT_TRUE(table.ok()) << table.status();
  if (!table.ok()) return rows;
  for (const profd_rule& row : table->rows) {
    rows.emplace_back(static_cast<int64_t>(row.offset) - static_cast<int64_t>(kTextOffset),
                      row.rule);
  }
  return rows;
}

TEST(GoTableTest, RulesFollowTheDepthOfTheStack) {
  EXPECT_THAT(Rows(Program(GoTableBuilder(Functions()).Build())),
              ElementsAre(Pair(0, PROFD_RULE_PACK(PROFD_RULE_END, 0, 0)),  // rt0_go
                          Pair(32, Rsp(8)),                                // add
                          Pair(69, Rsp(16, -16)),                          // handle has pushed rbp
                          Pair(79, Rsp(48, -16)), Pair(119, Rsp(16, -16)), Pair(120, Rsp(8)),
                          Pair(128, PROFD_RULE_PACK(PROFD_RULE_OTHER_STACK, 0, 0)),  // systemstack
                          Pair(160, PROFD_RULE_PACK(PROFD_RULE_END, 0, 0)),          // mcall
                          Pair(192, Rsp(8)), Pair(200, kUnsupported),                // odd
                          Pair(224, PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0))));
}

TEST(GoTableTest, ATableThatEndsEarlyLeavesTheRestUnsupported) {
  EXPECT_THAT(Rows(Program(GoTableBuilder({{"main.f", 32, {{0, 4}}}}).Build())),
              ElementsAre(Pair(0, Rsp(8)), Pair(4, kUnsupported),
                          Pair(32, PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0))));
}

// Since Go 1.26 the table does not say where code begins.
TEST(GoTableTest, CodeIsFoundWithoutItsAddress) {
  EXPECT_EQ(Rows(Program(GoTableBuilder(Functions(), 0).Build())),
            Rows(Program(GoTableBuilder(Functions()).Build())));
}

TEST(GoTableTest, ATableForOtherCodeIsNotBelieved) {
  const Bytes table = GoTableBuilder(Functions()).Build();
  const Bytes file =
      BuildElf({}, {.type = ET_EXEC, .code = Bytes(kTextSize, 0x90), .go_table = table});
  EXPECT_THAT(Rows(file), ElementsAre());
}

TEST(GoTableTest, NamesAreThereWithoutSymbols) {
  const Bytes file = Program(GoTableBuilder(Functions()).Build());
  const UniqueFd fd(memfd_create("go", MFD_CLOEXEC));
  ASSERT_EQ(write(fd.get(), file.data(), file.size()), static_cast<ssize_t>(file.size()));
  const std::vector<uint64_t> offsets = {kTextOffset + 70, kTextOffset + 63, kTextOffset + 223,
                                         kTextOffset + 224};
  const std::vector<Symbol> symbols =
      SymbolizeModule(fd.get(), {.path = "/bin/server", .build_id = {}}, offsets);
  EXPECT_THAT(
      symbols,
      ElementsAre(FieldsAre("main.(*Server).handle", FrameKind::kApplication, NameSource::kSymbols),
                  FieldsAre("main.add", FrameKind::kApplication, NameSource::kSymbols),
                  FieldsAre("main.odd", FrameKind::kApplication, NameSource::kSymbols),
                  FieldsAre("server+0x10e0", FrameKind::kApplication, NameSource::kNone)));
}

// Whatever the bytes are, there is an answer, and it is within the code.
TEST(GoTableTest, BrokenTablesAreHarmless) {
  const Bytes table = GoTableBuilder(Functions()).Build();
  std::mt19937 random(7);
  size_t compiled = 0;
  const auto check = [&](const Bytes& broken) {
    const Bytes file = Program(broken);
    const auto rules = CompileRules(file);
    ASSERT_TRUE(rules.ok()) << rules.status();
    uint32_t before = 0;
    for (const profd_rule& row : rules->rows) {
      ASSERT_TRUE(before == 0 || row.offset > before);
      ASSERT_LE(row.offset, kTextOffset + kTextSize);
      before = row.offset;
    }
    compiled += rules->functions;
    const auto image = ElfImage::Parse(file);
    ASSERT_TRUE(image.ok());
    if (const auto found = FindGoTable(*image)) {
      for (uint64_t address = kText; address < kText + 256; address += 16) {
        if (const auto function = found->Around(address)) {
          EXPECT_LE(found->Name(*function).size(), 600u);
        }
      }
    }
  };
  for (size_t size = 1; size < table.size(); ++size) {
    check(Bytes(table.begin(), table.begin() + static_cast<ptrdiff_t>(size)));
  }
  for (int round = 0; round < 4000; ++round) {
    Bytes broken = table;
    for (int i = 0; i < 3; ++i) broken[random() % broken.size()] = static_cast<uint8_t>(random());
    check(broken);
  }
  EXPECT_GT(compiled, 1000u);  // most changes leave something
}

}  // namespace
}  // namespace profd
