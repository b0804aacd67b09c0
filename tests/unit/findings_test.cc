// The rules of docs/profctl.md, "What stands out": each just above and just below its limit, what
// the findings consist of, and their sentences. More of these are in the golden summaries.
#include "client/render/findings.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/answer/saved_answer.h"
#include "client/answer/view.h"
#include "client/render/finding_text.h"
#include "client/text/text.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using profd::v1::Finding;

constexpr auto kLock = profd::v1::REASON_LOCK;
constexpr auto kRunQueue = profd::v1::REASON_RUNQUEUE;
constexpr int64_t kWindow = 1'000'000;

AnswerWriter AnswerOf(profd::Kind kind) {
  AnswerWriter answer(kind);
  answer.coverage().set_begin_ns(1);
  answer.coverage().set_end_ns(1 + kWindow);
  return answer;
}

std::vector<AnswerWriter::FrameSpec> In(const std::string& function) {
  return {{function, "a", profd::v1::FRAME_KIND_APPLICATION}};
}

std::vector<Finding> Found(const AnswerWriter& answer, bool idle = false,
                           const std::vector<profd::v1::GroupKey>& keys = AnswerWriter::kByName) {
  const Profile profile = answer.Build(keys);
  return Findings(MakeView(profile, idle));
}

// The only finding.
Finding OneOf(const AnswerWriter& answer, bool idle = false,
              const std::vector<profd::v1::GroupKey>& keys = AnswerWriter::kByName) {
  const std::vector<Finding> findings = Found(answer, idle, keys);
  EXPECT_THAT(findings, SizeIs(1));
  return findings.empty() ? Finding() : findings[0];
}

std::vector<std::string> Texts(const std::vector<Finding>& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) texts.push_back(finding.text());
  return texts;
}

std::vector<std::string> FindingsOf(const AnswerWriter& answer) { return Texts(Found(answer)); }

// Compares all fields but the text, which other tests are about.
std::string WithoutText(Finding finding) {
  finding.clear_text();
  return finding.DebugString();
}

// Waits of 1000 by one function of `value`, the rest by many others.
std::vector<std::string> OnePlace(int64_t value, int64_t error) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("Hot"), value, error);
  for (int i = 0; i < 10; ++i) {
    answer.AddSample(thread, kLock, In("Other" + std::to_string(i)), (1000 - value) / 10, 0);
  }
  return FindingsOf(answer);
}

TEST(FindingsTest, APlaceStandsOutFromAFifthOn) {
  EXPECT_THAT(OnePlace(200, 0), ElementsAre(HasSubstr("Hot")));
  EXPECT_THAT(OnePlace(190, 0), IsEmpty());
}

TEST(FindingsTest, APlaceHasToBeCertain) {
  EXPECT_THAT(OnePlace(400, 100), ElementsAre(HasSubstr("Hot")));
  EXPECT_THAT(OnePlace(400, 101),
              ElementsAre("Too few samples to be certain of any place. It is likely that 40.0% ± "
                          "10.1% of the non-idle waiting (400 ns) is for a lock or condition "
                          "(futex), by Hot, in one. A longer window has more samples."));
  EXPECT_THAT(OnePlace(205, 10), IsEmpty()) << "not for want of samples";
}

TEST(FindingsTest, ThreePlacesLargestFirst) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("C"), 240, 0);
  answer.AddSample(thread, kLock, In("A"), 265, 0);
  answer.AddSample(thread, kLock, In("D"), 245, 0);
  answer.AddSample(thread, kLock, In("B"), 250, 0);
  EXPECT_THAT(FindingsOf(answer), ElementsAre(HasSubstr("A"), HasSubstr("B"), HasSubstr("D")));
}

TEST(FindingsTest, LittleWaitingIsNotWorthASentence) {
  const auto of = [](int64_t waited) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    answer.AddSample(answer.AddThread(1, 1, "a", "one", 1000, 0), kLock, In("Hot"), waited, 0);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of(10), SizeIs(1));
  EXPECT_THAT(of(9), IsEmpty());
}

// Waits of 1000 in the kind, with a file that took `total` to sync in 100 calls.
std::vector<std::string> OneFile(profd::Kind kind, int64_t total, uint64_t joined = 0) {
  AnswerWriter answer = AnswerOf(kind);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  for (int i = 0; i < 10; ++i) {
    answer.AddSample(thread, profd::v1::REASON_FSYNC, In("Commit" + std::to_string(i)), 100, 0);
  }
  for (const int64_t of_file : {total, total - 1}) {
    profd::v1::FileSync* sync = answer.message().add_syncs();
    sync->set_file(of_file == total ? "/data/wal" : "/data/other");
    sync->set_call("fdatasync");
    sync->set_calls(100);
    sync->set_joined(joined);
    sync->set_total_ns(of_file);
    sync->set_stack_ns(of_file);
    sync->set_stack(1);
  }
  return FindingsOf(answer);
}

TEST(FindingsTest, AFileStandsOutFromAFifthOn) {
  EXPECT_THAT(OneFile(profd::Kind::kWait, 200),
              ElementsAre(AllOf(HasSubstr("fdatasync of /data/wal took 200 ns in 100 calls"),
                                HasSubstr(", from Commit0"), Not(HasSubstr("began while")))));
  EXPECT_THAT(OneFile(profd::Kind::kWait, 199), IsEmpty());
  EXPECT_THAT(OneFile(profd::Kind::kWall, 200), Contains(HasSubstr("/data/wal")));
  EXPECT_THAT(OneFile(profd::Kind::kWaker, 200), Not(Contains(HasSubstr("/data/wal"))));
}

TEST(FindingsTest, CallsThatAreJoinedAreToldFromAFifthOn) {
  EXPECT_THAT(OneFile(profd::Kind::kWait, 500, 20),
              ElementsAre(HasSubstr("20.0% of the calls began while another thread synced it.")));
  EXPECT_THAT(OneFile(profd::Kind::kWait, 500, 19), ElementsAre(Not(HasSubstr("began while"))));
}

TEST(FindingsTest, DelayStandsOutFromATenthOfTheRunnableTimeOn) {
  const auto of = [](int64_t on_cpu, int64_t queued) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    const uint32_t thread = answer.AddThread(1, 77, "a", "late", kWindow, on_cpu);
    answer.AddSample(thread, kRunQueue, {}, queued, 0);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of(180'000, 20'000), ElementsAre(HasSubstr("late (77)")));
  EXPECT_THAT(of(180'001, 19'999), IsEmpty());
  // Little of it is noise.
  EXPECT_THAT(of(0, 10'000), SizeIs(1));
  EXPECT_THAT(of(0, 9'999), IsEmpty());
}

TEST(FindingsTest, AQuotaStandsOutFromAFifthOfItsPeriodsOn) {
  const auto of = [](int64_t periods, int64_t throttled, int processes) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    for (int i = 0; i < processes; ++i) {
      const uint32_t thread = answer.AddThread(i + 1, i + 1, "node", "one", 1000, 0);
      answer.AddSample(thread, kLock, In("Hot"), 900, 0);
      profd::v1::Process& process = *answer.message().mutable_processes(i);
      process.set_name("node");
      process.mutable_cpu_quota()->set_millicpus(500);
      process.mutable_cpu_quota()->set_periods(periods);
      process.mutable_cpu_quota()->set_throttled_periods(throttled);
      process.mutable_cpu_quota()->set_throttled_ns(3'000'000);
    }
    return FindingsOf(answer);
  };
  EXPECT_THAT(
      of(10, 2, 1),
      ElementsAre("The CPU quota of node (1), 0.5 CPUs, ran out in 2 of 10 periods and held "
                  "threads back for 3.00 ms, all CPUs together. They were in the run queue then.",
                  HasSubstr("Hot")));
  EXPECT_THAT(of(10, 2, 3), ::testing::Contains(HasSubstr("of node (1) and 2 more, 0.5 CPUs")));
  EXPECT_THAT(of(11, 2, 1), ElementsAre(HasSubstr("Hot")));
  EXPECT_THAT(of(5, 5, 1), SizeIs(2));
  EXPECT_THAT(of(4, 4, 1), SizeIs(1)) << "too few periods";
}

TEST(FindingsTest, OfSeveralQuotasTheOneThatHeldBackLongestStandsOut) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  for (int i = 0; i < 3; ++i) {
    const uint32_t thread = answer.AddThread(i + 1, i + 1, "node", "one", 1000, 0);
    answer.AddSample(thread, kLock, In("Hot"), 900, 0);
    profd::v1::Process& process = *answer.message().mutable_processes(i);
    process.set_name("node");
    process.mutable_cpu_quota()->set_millicpus(500);
    process.mutable_cpu_quota()->set_periods(10);
    process.mutable_cpu_quota()->set_throttled_periods(5);
    process.mutable_cpu_quota()->set_throttled_ns(i == 1 ? 3'000'000 : 2'000'000);
  }
  EXPECT_THAT(FindingsOf(answer),
              ElementsAre(HasSubstr("The CPU quota of node (2), 0.5 CPUs"), HasSubstr("Hot")));
}

// Waits for a lock of `threads` threads of one group, each `waits` times in the second of the
// window, that ran for `on_cpu` ns each.
Finding InTurn(int threads, uint64_t waits, int64_t on_cpu) {
  AnswerWriter answer(profd::Kind::kWait);
  answer.coverage().set_begin_ns(1);
  answer.coverage().set_end_ns(1 + 1'000'000'000);
  for (int i = 0; i < threads; ++i) {
    const uint32_t thread =
        answer.AddThread(1, i + 1, "a", "rpc-0" + std::to_string(i), 1'000'000'000, on_cpu);
    answer.AddSample(thread, kLock, In("Hot"), 900'000'000, 0);
    answer.message().mutable_threads(static_cast<int>(thread))->mutable_off(0)->set_waits(waits);
  }
  return OneOf(answer);
}

TEST(FindingsTest, ThreadsThatTakeShortTurns) {
  const Finding turns = InTurn(4, 250, 50'000'000);
  EXPECT_EQ(turns.turns_per_second(), 1000);
  EXPECT_EQ(turns.turn_ns(), 200'000);
  EXPECT_THAT(turns.text(), HasSubstr("wait 1,000 times a second, and run for 200 us in between"));
  EXPECT_EQ(InTurn(3, 400, 50'000'000).turns_per_second(), 0) << "too few threads";
  EXPECT_EQ(InTurn(4, 249, 40'000'000).turns_per_second(), 0) << "too seldom";
  EXPECT_EQ(InTurn(4, 250, 50'000'251).turns_per_second(), 0) << "they do more in between";
  EXPECT_EQ(InTurn(4, 0, 50'000'000).turns_per_second(), 0) << "the switch layer was off";
  EXPECT_THAT(InTurn(3, 400, 50'000'000).text(), Not(HasSubstr("times a second")));
}

TEST(FindingsTest, ThreadsThatAnAnswerDoesNotTellApartHaveTheirCommonName) {
  const auto of = [](const std::vector<std::string>& names,
                     const std::vector<profd::v1::GroupKey>& keys) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    for (size_t i = 0; i < names.size(); ++i) {
      const uint32_t thread =
          answer.AddThread(1, static_cast<int32_t>(i + 1), "a", names[i], 1000, 0);
      answer.AddSample(thread, kLock, In("Hot"), 900, 0);
    }
    return OneOf(answer, false, keys);
  };
  const Finding alike = of({"rpc-1", "rpc-2"}, {});
  EXPECT_EQ(alike.group(), "rpc");
  EXPECT_EQ(alike.threads(), 2);
  EXPECT_THAT(alike.text(), HasSubstr("by Hot, in rpc (2 threads)."));
  const Finding different = of({"rpc-1", "io-1"}, {});
  EXPECT_EQ(different.group(), "");
  EXPECT_EQ(different.threads(), 2);
  EXPECT_THAT(different.text(), HasSubstr("by Hot, in 2 threads."));
  // Grouped by name, they are two groups.
  const Finding groups = of({"rpc-1", "io-1"}, AnswerWriter::kByName);
  EXPECT_EQ(groups.more_groups(), 1);
  EXPECT_EQ(groups.threads(), 2);
}

TEST(FindingsTest, WhatAWaitIsForAndInTheWayOf) {
  const auto of = [](const std::string& kind, const std::string& task) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
    answer.AddSample(thread, kLock, In("Hot"), 900, 0);
    answer.AddLabel("lock_kind", kind);
    if (!task.empty()) answer.AddLabel("task", task);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of("std mutex", ""), ElementsAre(AllOf(HasSubstr("is for a std mutex, by Hot"),
                                                     Not(HasSubstr("worker")))));
  EXPECT_THAT(of("absl mutex", ""), ElementsAre(HasSubstr("is for an absl mutex, by Hot")));
  EXPECT_THAT(of("full channel", ""), ElementsAre(HasSubstr("for room in a full channel")));
  EXPECT_THAT(of("thread join", ""), ElementsAre(HasSubstr("for a thread to end")));
  EXPECT_THAT(of("parked thread", ""), ElementsAre(HasSubstr("for another thread to unpark it")));
  EXPECT_THAT(of("lock", ""), ElementsAre(HasSubstr("for a lock or condition")));
  EXPECT_THAT(of("std mutex", "async task"), ElementsAre(HasSubstr("They are in async tasks")));
  EXPECT_THAT(of("std mutex", "pool job"), ElementsAre(HasSubstr("They are in jobs of a pool")));
}

TEST(FindingsTest, WaitsOfOneFunctionForTwoKindsOfLocksAreToldApart) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("Hot"), 600, 0);
  answer.AddLabel("lock_kind", "condition variable");
  answer.AddSample(thread, kLock, In("Hot"), 300, 0);
  answer.AddLabel("lock_kind", "std mutex");
  answer.AddSample(thread, kLock, In("Hot"), 50, 0);
  answer.AddLabel("lock_kind", "pthread mutex");
  EXPECT_THAT(FindingsOf(answer),
              ElementsAre(AllOf(HasSubstr("63.2%"), HasSubstr("for a condition variable, by Hot")),
                          AllOf(HasSubstr("31.6%"), HasSubstr("for a std mutex, by Hot"))));
}

TEST(FindingsTest, WhoHadTheCpusIsToldFromHalfOfTheirTimeOn) {
  const auto of = [](int64_t hog, int64_t other) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    answer.AddThread(1, 1, "a", "hog", kWindow, hog);
    answer.AddThread(1, 2, "a", "other", kWindow, other);
    const uint32_t thread = answer.AddThread(1, 77, "a", "late", kWindow, 0);
    answer.AddSample(thread, kRunQueue, {}, 500'000, 0);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of(200'000, 200'000),
              ElementsAre(HasSubstr("50.0% of the targets' CPU time went to hog")));
  EXPECT_THAT(of(200'000, 100'000), ElementsAre(HasSubstr("66.7% of the targets' CPU time")));

  AnswerWriter three = AnswerOf(profd::Kind::kWait);
  for (int i = 0; i < 3; ++i) {
    three.AddThread(1, i + 1, "a", std::string(1, static_cast<char>('a' + i)), kWindow, 100'000);
  }
  three.AddSample(three.AddThread(1, 77, "a", "late", kWindow, 0), kRunQueue, {}, 500'000, 0);
  EXPECT_THAT(FindingsOf(three), ElementsAre(Not(HasSubstr("went to"))));
}

TEST(FindingsTest, OccupantsAreNamedFromAFifthOfTheRunQueueOn) {
  using profd::v1::OccupantKind;
  struct Had {
    OccupantKind kind;
    const char* name;
    const char* thread;
    int32_t pid;
    int64_t time_ns;
    int64_t error_ns;
  };
  const auto of = [](const std::vector<Had>& all) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    answer.AddThread(1, 1, "a", "hog", kWindow, 400'000);
    answer.AddThread(1, 2, "a", "other", kWindow, 0);
    const uint32_t thread = answer.AddThread(1, 77, "a", "late", kWindow, 0);
    answer.AddSample(thread, kRunQueue, {}, 500'000, 0);
    for (const Had& had : all) {
      profd::v1::Occupant* occupant = answer.message().add_occupants();
      occupant->set_kind(had.kind);
      occupant->set_name(had.name);
      occupant->set_thread(had.thread);
      occupant->set_pid(had.pid);
      occupant->set_processes(had.pid == 0 ? 12 : 1);
      occupant->set_time_ns(had.time_ns);
      occupant->set_error_ns(had.error_ns);
    }
    return FindingsOf(answer);
  };
  constexpr auto kProcess = profd::v1::OCCUPANT_KIND_PROCESS;
  EXPECT_THAT(
      of({{kProcess, "postgres", "", 812, 110'000, 5'000}}),
      ElementsAre(AllOf(
          HasSubstr(" Meanwhile their CPUs ran postgres (812) for 22.0% ± 1.0% of that time."),
          Not(HasSubstr("went to")))));
  // By two standard errors.
  EXPECT_THAT(of({{kProcess, "postgres", "", 812, 110'000, 5'001}}),
              ElementsAre(AllOf(Not(HasSubstr("Meanwhile")), HasSubstr("went to hog"))));
  EXPECT_THAT(of({{kProcess, "node", "rpc", 1, 150'000, 0},
                  {kProcess, "cc1plus", "", 0, 120'000, 0},
                  {profd::v1::OCCUPANT_KIND_KERNEL, "kworker", "", 0, 110'000, 0},
                  {profd::v1::OCCUPANT_KIND_IDLE, "", "", 0, 105'000, 0}}),
              ElementsAre(HasSubstr(" Meanwhile their CPUs ran rpc of node (1) for 30.0%")));
  EXPECT_THAT(
      of({{kProcess, "node", "rpc", 1, 150'000, 0}, {kProcess, "cc1plus", "", 0, 120'000, 0}}),
      ElementsAre(HasSubstr(", cc1plus (12 processes) for 24.0%")));
  EXPECT_THAT(
      of({{profd::v1::OCCUPANT_KIND_QUOTA, "payments.slice", "", 0, 400'000, 0}}),
      ElementsAre(HasSubstr(" A CPU quota, that of payments.slice, held them back for 80.0%")));
  EXPECT_THAT(of({{profd::v1::OCCUPANT_KIND_UNSPECIFIED, "", "", 0, 400'000, 0}}),
              ElementsAre(Not(HasSubstr("Meanwhile"))));
}

TEST(FindingsTest, ABusyThreadStandsOutFromNineTenthsOn) {
  const auto of = [](int64_t wall, int64_t on_cpu) {
    AnswerWriter answer = AnswerOf(profd::Kind::kWait);
    answer.AddThread(1, 77, "a", "hog", wall, on_cpu);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of(kWindow, 900'000), ElementsAre(HasSubstr("hog (77")));
  EXPECT_THAT(of(kWindow, 899'999), IsEmpty());
  EXPECT_THAT(of(500'000, 500'000), SizeIs(1));
  EXPECT_THAT(of(499'999, 499'999), IsEmpty());
}

TEST(FindingsTest, BytesHaveNeitherDelayNorBusyThreads) {
  AnswerWriter answer = AnswerOf(profd::Kind::kAlloc);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", kWindow, kWindow);
  answer.AddBytes(thread, In("Big"), 900, 0, 1);
  answer.AddBytes(thread, In("Small"), 100, 0, 1);
  EXPECT_THAT(FindingsOf(answer), ElementsAre(HasSubstr("Big")));
}

TEST(FindingsTest, GrowthStandsOutFromATwentiethOfAllOn) {
  const auto of = [](int64_t growth, int64_t error) {
    AnswerWriter answer = AnswerOf(profd::Kind::kResident);
    const uint32_t thread = answer.AddThread(1, 1, "a", "one", kWindow, 0);
    answer.AddLevel(thread, In("Large"), 850, 0, 1, 0);
    answer.AddLevel(thread, In("Grows"), 150, error, 1, growth);
    return FindingsOf(answer);
  };
  EXPECT_THAT(of(50, 25), ElementsAre(HasSubstr("Large"), HasSubstr("Grows")));
  EXPECT_THAT(of(49, 0), ElementsAre(HasSubstr("Large")));
  EXPECT_THAT(of(50, 26), ElementsAre(HasSubstr("Large")));
}

// A finding in the text format of protobuf.
std::string Parsed(const std::string& text) {
  Finding finding;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &finding)) << text;
  return finding.DebugString();
}

TEST(FindingFieldsTest, Place) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  for (int i = 1; i <= 2; ++i) {
    const uint32_t thread = answer.AddThread(1, i, "a", "rpc-" + std::to_string(i), 1000, 0);
    answer.AddSample(thread, kLock, In("Hot"), 450, i == 1 ? 30 : 40);
    answer.AddLabel("lock_kind", "std mutex");
    answer.AddLabel("task", "async task");
  }
  EXPECT_EQ(WithoutText(OneOf(answer)), Parsed(R"pb(
              rule: FINDING_RULE_PLACE
              sample_type: "offcpu"
              value: 900
              error: 50
              whole: 900
              share: 1
              function: "Hot"
              reason: REASON_LOCK
              lock_kind: "std mutex"
              group: "rpc"
              threads: 2
              task: "async task"
            )pb"));
  EXPECT_TRUE(OneOf(answer, true).idle());
}

TEST(FindingFieldsTest, TasksOfSomeWaitsAreNotThoseOfThePlace) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("Hot"), 450, 0);
  answer.AddLabel("task", "async task");
  answer.AddSample(thread, kLock, In("Hot"), 450, 0);
  EXPECT_EQ(OneOf(answer).task(), "");
}

TEST(FindingFieldsTest, LikelyPlace) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  answer.AddSample(thread, kLock, In("Hot"), 1000, 700);
  EXPECT_EQ(WithoutText(OneOf(answer)), Parsed(R"pb(
              rule: FINDING_RULE_LIKELY_PLACE
              sample_type: "offcpu"
              value: 1000
              error: 700
              whole: 1000
              share: 1
              function: "Hot"
              reason: REASON_LOCK
              group: "one"
              threads: 1
            )pb"));
}

// Waits for locks of one function, each with a name and a kind.
Finding OfLocks(const std::vector<std::pair<std::string, std::string>>& locks) {
  AnswerWriter answer = AnswerOf(profd::Kind::kLocks);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  for (const auto& [name, kind] : locks) {
    answer.AddSample(thread, kLock, In("Hot"), 400, 0);
    answer.AddLabel("lock", name);
    answer.AddLabel("lock_kind", kind);
  }
  return OneOf(answer);
}

TEST(FindingFieldsTest, Locks) {
  const Finding one = OfLocks({{"a:table+0x40", "pthread mutex"}});
  EXPECT_EQ(one.sample_type(), "locks");
  EXPECT_EQ(one.lock(), "a:table+0x40");
  EXPECT_EQ(one.lock_kind(), "pthread mutex");
  EXPECT_EQ(one.locks(), 1);
  EXPECT_THAT(one.text(), HasSubstr(" is for a:table+0x40 (pthread mutex), by Hot"));

  const Finding stripped = OfLocks({{"lock of Hot", "lock"}});
  EXPECT_EQ(stripped.lock_kind(), "lock");
  EXPECT_THAT(stripped.text(), HasSubstr(" is for lock of Hot (lock), by Hot"));

  const Finding two = OfLocks({{"heap 0x10", "std mutex"}, {"heap 0x20", "std mutex"}});
  EXPECT_EQ(two.lock(), "");
  EXPECT_EQ(two.lock_kind(), "std mutex");
  EXPECT_EQ(two.locks(), 2);
  EXPECT_THAT(two.text(), HasSubstr(" is for 2 locks, by Hot"));
}

TEST(FindingFieldsTest, FileSync) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", 1000, 0);
  for (int i = 0; i < 10; ++i) {
    answer.AddSample(thread, profd::v1::REASON_FSYNC, In("Commit" + std::to_string(i)), 100, 0);
  }
  profd::v1::FileSync* sync = answer.message().add_syncs();
  sync->set_file("/data/wal");
  sync->set_call("fdatasync");
  sync->set_calls(100);
  sync->set_total_ns(400);
  EXPECT_EQ(WithoutText(OneOf(answer)), Parsed(R"pb(
              rule: FINDING_RULE_FILE_SYNC
              sample_type: "offcpu"
              value: 400
              whole: 1000
              share: 0.4
              sync { file: "/data/wal" call: "fdatasync" calls: 100 total_ns: 400 }
            )pb"));
  sync->set_stack(3);
  sync->set_stack_ns(400);
  EXPECT_EQ(OneOf(answer).function(), "Commit2");
}

TEST(FindingFieldsTest, Growth) {
  AnswerWriter answer = AnswerOf(profd::Kind::kResident);
  const uint32_t thread = answer.AddThread(1, 1, "a", "one", kWindow, 0);
  answer.AddLevel(thread, In("Large"), 850, 0, 1, 0);
  answer.AddLevel(thread, In("Grows"), 150, 20, 1, 50);
  EXPECT_EQ(WithoutText(Found(answer).at(1)), Parsed(R"pb(
              rule: FINDING_RULE_GROWTH
              sample_type: "rss"
              value: 50
              error: 20
              whole: 1000
              share: 0.05
              function: "Grows"
              group: "one"
              threads: 1
              level: 150
            )pb"));
}

TEST(FindingFieldsTest, CpuQuota) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  for (int i = 0; i < 2; ++i) {
    answer.AddThread(i + 1, i + 1, "node", "one", 1000, 0);
    profd::v1::Process& process = *answer.message().mutable_processes(i);
    process.mutable_cpu_quota()->set_millicpus(500);
    process.mutable_cpu_quota()->set_periods(10);
    process.mutable_cpu_quota()->set_throttled_periods(4);
    process.mutable_cpu_quota()->set_throttled_ns(3'000'000);
  }
  EXPECT_EQ(WithoutText(OneOf(answer)), Parsed(R"pb(
              rule: FINDING_RULE_CPU_QUOTA
              sample_type: "offcpu"
              value: 3000000
              share: 0.4
              process: "node"
              pid: 1
              processes: 2
              cpu_quota { millicpus: 500 periods: 10 throttled_periods: 4 throttled_ns: 3000000 }
            )pb"));
}

TEST(FindingFieldsTest, RunQueue) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  answer.AddThread(1, 1, "a", "hog-1", kWindow, 400'000);
  answer.AddThread(1, 2, "a", "hog-2", kWindow, 200'000);
  answer.AddThread(1, 3, "a", "other", kWindow, 200'000);
  const uint32_t thread = answer.AddThread(1, 77, "a", "late", kWindow, 0);
  answer.AddSample(thread, kRunQueue, {}, 200'000, 0);
  const std::string queue = R"pb(
    rule: FINDING_RULE_RUN_QUEUE
    sample_type: "offcpu"
    value: 200000
    whole: 1000000
    share: 0.2
    top_threads { pid: 1 tid: 77 name: "late" time_ns: 200000 wall_ns: 1000000 }
  )pb";
  EXPECT_EQ(WithoutText(OneOf(answer)),
            Parsed(queue + R"pb(cpu_group: "hog" cpu_threads: 2 cpu_share: 0.75)pb"));
  profd::v1::Occupant* occupant = answer.message().add_occupants();
  occupant->set_kind(profd::v1::OCCUPANT_KIND_PROCESS);
  occupant->set_name("postgres");
  occupant->set_pid(812);
  occupant->set_time_ns(150'000);
  answer.message().add_occupants()->set_time_ns(50'000);
  EXPECT_EQ(WithoutText(OneOf(answer)), Parsed(queue + R"pb(
              occupants { kind: OCCUPANT_KIND_PROCESS name: "postgres" pid: 812 time_ns: 150000 }
            )pb"));
}

TEST(FindingFieldsTest, BusyThreads) {
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  for (int i = 1; i <= 4; ++i) {
    answer.AddThread(1, i, "a", "hog-" + std::to_string(i), kWindow, 950'000 + i);
  }
  const Finding finding = OneOf(answer);
  EXPECT_EQ(finding.rule(), profd::v1::FINDING_RULE_BUSY_THREADS);
  EXPECT_EQ(finding.threads(), 4);
  EXPECT_EQ(finding.value(), 950'004);
  EXPECT_EQ(finding.whole(), kWindow);
  ASSERT_EQ(finding.top_threads_size(), 3);
  EXPECT_EQ(finding.top_threads(0).tid(), 4);
  EXPECT_EQ(finding.top_threads(2).time_ns(), 950'002);
  EXPECT_THAT(finding.text(), HasSubstr("hog-2 (2, 95.0%) and 1 more. Each can"));
}

TEST(FindingFieldsTest, EachSampleTypeHasItsOwn) {
  const auto answer = BuildAnswer(WakersAndCpu(ServerAnswer()));
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<View> views;
  for (const Profile& profile : answer->profiles) views.push_back(MakeView(profile, false));
  const profd::v1::Profile message = WithFindings(*answer, views);
  std::vector<std::string> types;
  for (const Finding& finding : message.findings()) types.push_back(finding.sample_type());
  EXPECT_THAT(types, AllOf(Contains("wakers"), Contains("cpu")));
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end(), std::greater<>()));
  // Those of a saved answer may be of other names and options.
  const auto again = BuildAnswer(message);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->message().findings(), IsEmpty());
}

TEST(FindingTextTest, NamesAreWholeInAnAnswerAndFitATerminal) {
  const std::string name(200, 'f');
  AnswerWriter answer = AnswerOf(profd::Kind::kWait);
  answer.AddSample(answer.AddThread(1, 1, "a", "one", 1000, 0), kLock, In(name), 900, 0);
  SetTerminalColumns(80);
  const Finding finding = OneOf(answer);
  EXPECT_EQ(finding.function(), name);
  EXPECT_THAT(finding.text(), HasSubstr(name));
  EXPECT_EQ(DescribeFinding(finding, NameWidth::kWhole), finding.text());
  EXPECT_THAT(DescribeFinding(finding, NameWidth::kFitting), Not(HasSubstr(name)));
  SetTerminalColumns(std::nullopt);
  EXPECT_EQ(DescribeFinding(finding, NameWidth::kFitting), finding.text());
}

TEST(FindingsTest, NothingIsFoundInNothing) {
  EXPECT_THAT(FindingsOf(AnswerOf(profd::Kind::kWait)), IsEmpty());
  EXPECT_THAT(FindingsOf(AnswerOf(profd::Kind::kAlloc)), IsEmpty());
}

}  // namespace
}  // namespace profctl
