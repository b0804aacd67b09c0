#include "daemon/target/selector.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

bool Matches(const std::string& text, const ProcessInfo& process) {
  const auto selector = Selector::Parse(text);
  EXPECT_TRUE(selector.ok()) << selector.status();
  return selector.ok() && selector->Matches(process);
}

const ProcessInfo kNode = {.pid = 4711, .parent = 1, .comm = "tokio-main", .executable = "op-reth"};

TEST(SelectorTest, DigitsAreAPid) {
  const auto selector = Selector::Parse("4711");
  ASSERT_TRUE(selector.ok());
  EXPECT_EQ(selector->pid(), 4711);
  EXPECT_EQ(selector->text(), "4711");
  EXPECT_TRUE(selector->Matches(kNode));
  EXPECT_FALSE(Matches("471", kNode));
  // Not a name, even of a process that is called so.
  EXPECT_FALSE(Matches("12", {.pid = 1, .parent = 0, .comm = "12", .executable = "12"}));
}

TEST(SelectorTest, AnythingElseIsSearchedInBothNames) {
  EXPECT_EQ(Selector::Parse("reth")->pid(), std::nullopt);
  for (const char* text : {"reth", "op-reth", "tokio", "^op-reth$", "^tokio-main$", "r.th",
                           "geth|reth", "(?i)RETH", "4711|reth"}) {
    EXPECT_TRUE(Matches(text, kNode)) << text;
  }
  for (const char* text : {"^reth", "op-reth2", "RETH", "^$", "4711a", "-4711", "tokio-mainop"}) {
    EXPECT_FALSE(Matches(text, kNode)) << text;
  }
}

TEST(SelectorTest, WrongOnesAreRefusedByName) {
  for (const char* text : {"", "0", "00", "2147483648", "99999999999999999999", "(", "[a", "a**",
                           "\\", "(?P<n", "\xff"}) {
    const auto selector = Selector::Parse(text);
    ASSERT_TRUE(absl::IsInvalidArgument(selector.status())) << text;
    if (text[0] != '\xff') {
      EXPECT_NE(selector.status().message().find(text), std::string::npos) << selector.status();
    }
  }
}

TEST(SelectorTest, NamesMayHoldAnyBytes) {
  const ProcessInfo odd = {.pid = 1, .parent = 0, .comm = "\xff\xfe) \n(reth", .executable = ""};
  EXPECT_TRUE(Matches("reth", odd));
  EXPECT_FALSE(Matches("geth", odd));
  // No back-tracking: an expression of this kind takes no longer than any other.
  EXPECT_FALSE(Matches("(a*)*(a*)*b",
                       {.pid = 1, .parent = 0, .comm = std::string(4096, 'a'), .executable = ""}));
}

}  // namespace
}  // namespace profd
