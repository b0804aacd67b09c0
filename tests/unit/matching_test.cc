#include "daemon/service/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/store/folding.h"

namespace profd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ThreadInfo Info(int32_t pid, const std::string& process, bool exited = false) {
  return {.id = ThreadId{static_cast<uint64_t>(pid)},
          .pid = pid,
          .tid = pid,
          .name = process,
          .process = process,
          .exited = exited};
}

class MatchingTest : public ::testing::Test {
 protected:
  void Ask(const std::string& target) {
    *asked_.Add() = target;
    const auto filter = TargetFilter::Parse(target);
    ASSERT_TRUE(filter.ok());
    scope_.targets.push_back(*filter);
  }
  // What is said when these threads are in the window.
  std::string Say(const std::vector<ThreadInfo>& infos, const Matching::NameOf& name_of = nullptr) {
    Matching matching(scope_);
    for (const ThreadInfo& info : infos) matching.Matches(info);
    const absl::Status status = matching.Outcome(asked_, "in this window", name_of);
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    return std::string(status.message());
  }

  RequestScope scope_;
  google::protobuf::RepeatedPtrField<std::string> asked_;
};

// Processes that ended one after another, added up by name.
const std::vector<ThreadInfo> kStorm = {Info(7, "server"),
                                        *ExitedProcessesOf(Info(100, "cc1", true)),
                                        *ExitedProcessesOf(Info(101, "sh", true))};

TEST_F(MatchingTest, AProcessThatWasAddedUpIsNamed) {
  Ask("100");
  EXPECT_EQ(Say(kStorm, [](int32_t pid) { return pid == 100 ? "cc1" : "other"; }),
            "process 100 (cc1) exited, and is part of the sum of all processes named cc1 that "
            "exited in this window. Ask for this name to see the sum");
}

TEST_F(MatchingTest, AnUnknownPidMayBeOneOfThese) {
  Ask("100");
  for (const Matching::NameOf& name_of :
       {Matching::NameOf(), Matching::NameOf([](int32_t) { return "gone"; })}) {
    EXPECT_EQ(Say(kStorm, name_of),
              "no process matches \"100\"; profiled in this window: server (7); processes that "
              "exited, added up by their names because there are many: cc1, sh. Ask for one of "
              "them, those that exited by name, or start profd with --target for another");
  }
}

TEST_F(MatchingTest, TheSumIsFoundByName) {
  Ask("^cc1$");
  EXPECT_EQ(Say(kStorm), "");
}

TEST_F(MatchingTest, WithoutASumNothingIsSaidOfOne) {
  Ask("100");
  EXPECT_THAT(Say({Info(7, "server")}, [](int32_t) { return "server"; }), Not(HasSubstr("exited")));
  EXPECT_THAT(Say({}), HasSubstr("nothing was profiled in this window"));
}

}  // namespace
}  // namespace profd
