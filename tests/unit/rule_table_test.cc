#include "daemon/unwind/rule_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/target/guarded_file.h"
#include "daemon/unwind/rules.h"

namespace profd {
namespace {

constexpr uint32_t kNone = PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
constexpr uint32_t kUnsupported = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);

uint32_t Rsp(uint32_t words) { return PROFD_RULE_PACK(PROFD_RULE_RSP, words, 0); }

// Everywhere that a rule begins or ends, the packed table says what the rows say.
void ExpectTheSame(const std::vector<profd_rule>& rows) {
  const std::vector<uint64_t> packed = PackRules(rows);
  const RuleTable table = {.rows = rows};
  for (const profd_rule& row : rows) {
    for (const uint32_t offset : {row.offset - 1, row.offset, row.offset + 1}) {
      ASSERT_EQ(FindPackedRule(packed, offset), FindRule(table, offset)) << offset;
    }
  }
  for (const uint32_t offset : {0U, 0xffffU, 0x10000U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_EQ(FindPackedRule(packed, offset), FindRule(table, offset)) << offset;
  }
}

TEST(RuleTableTest, NoRowsNoTable) {
  EXPECT_THAT(PackRules({}), testing::IsEmpty());
  EXPECT_EQ(FindPackedRule({}, 7), kNone);
}

TEST(RuleTableTest, RowsAtTheEdgesOfPages) {
  ExpectTheSame({{0, Rsp(1)}});
  ExpectTheSame({{0xffff, Rsp(1)}, {0x10000, Rsp(2)}, {0x1ffff, kNone}});
  ExpectTheSame({{0x10000, Rsp(1)}, {0x10001, Rsp(2)}, {0x20000, Rsp(1)}, {0x2ffff, kNone}});
}

TEST(RuleTableTest, ARuleReachesOverPagesWithoutRows) {
  ExpectTheSame({{0x123, Rsp(1)}, {0x45678, Rsp(2)}, {0x90000, kNone}});
  ExpectTheSame({{0xfffffffe, Rsp(1)}});
}

TEST(RuleTableTest, AnyRows) {
  std::mt19937_64 random(1);
  for (const uint32_t reach : {300U, 70'000U, 5'000'000U, 0xfffffff0U}) {
    std::set<uint32_t> offsets;
    for (int i = 0; i < 2000; ++i) offsets.insert(static_cast<uint32_t>(random() % reach));
    std::vector<profd_rule> rows;
    for (const uint32_t offset : offsets) {
      rows.push_back({offset, Rsp(static_cast<uint32_t>(random() % 50))});
    }
    ExpectTheSame(rows);
  }
}

TEST(RuleTableTest, MoreDistinctRulesThanAreNumbered) {
  std::vector<profd_rule> rows;
  for (uint32_t i = 0; i < 70'000; ++i) rows.push_back({i * 3, Rsp(i)});
  const std::vector<uint64_t> packed = PackRules(rows);
  EXPECT_EQ(FindPackedRule(packed, 3 * 65'534), Rsp(65'534));
  EXPECT_EQ(FindPackedRule(packed, 3 * 65'535), kUnsupported);
  EXPECT_EQ(FindPackedRule(packed, 3 * 69'999), kUnsupported);
  EXPECT_EQ(FindPackedRule(packed, 0), Rsp(0));
}

// The aim is 5 bytes: of these libraries, each with tens of thousands of rows.
TEST(RuleTableTest, RealFilesTakeFewBytesARow) {
  for (const char* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/proc/self/exe"}) {
    const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
    const auto file = GuardedFile::Map(fd.get());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto table = CompileRules((*file)->bytes());
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_GT(table->rows.size(), 10'000U);
    const std::vector<uint64_t> packed = PackRules(table->rows);
    const double bytes = static_cast<double>(packed.size() * sizeof(uint64_t));
    EXPECT_LT(bytes / static_cast<double>(table->rows.size()), 4.5) << path;
    for (size_t i = 0; i < table->rows.size(); i += 101) {
      const profd_rule& row = table->rows[i];
      ASSERT_EQ(FindPackedRule(packed, row.offset), row.rule) << path;
    }
  }
}

}  // namespace
}  // namespace profd
