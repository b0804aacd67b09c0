// The rules of docs/profctl.md, "What stands out": each just above and just below its limit. How
// the sentences read is in the golden summaries.
#include "client/render/findings.h"

#include <cstdint>
#include <string>
#include <vector>

#include "client/answer/view.h"
#include "gmock/gmock.h"
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

std::vector<std::string> FindingsOf(const AnswerWriter& answer) {
  const Profile profile = answer.Build();
  return Findings(MakeView(profile, false));
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
std::vector<std::string> InTurn(int threads, uint64_t waits, int64_t on_cpu) {
  AnswerWriter answer(profd::Kind::kWait);
  answer.coverage().set_begin_ns(1);
  answer.coverage().set_end_ns(1 + 1'000'000'000);
  for (int i = 0; i < threads; ++i) {
    const uint32_t thread =
        answer.AddThread(1, i + 1, "a", "rpc-0" + std::to_string(i), 1'000'000'000, on_cpu);
    answer.AddSample(thread, kLock, In("Hot"), 900'000'000, 0);
    answer.message().mutable_threads(static_cast<int>(thread))->mutable_off(0)->set_waits(waits);
  }
  return FindingsOf(answer);
}

TEST(FindingsTest, ThreadsThatTakeShortTurns) {
  EXPECT_THAT(InTurn(4, 250, 50'000'000),
              ElementsAre(HasSubstr("wait 1,000 times a second, and run for 200 us in between")));
  const auto none = ElementsAre(Not(HasSubstr("times a second")));
  EXPECT_THAT(InTurn(3, 400, 50'000'000), none) << "too few threads";
  EXPECT_THAT(InTurn(4, 249, 40'000'000), none) << "too seldom";
  EXPECT_THAT(InTurn(4, 250, 50'000'251), none) << "they do more in between";
  EXPECT_THAT(InTurn(4, 0, 50'000'000), none) << "the switch layer was off";
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
    const Profile profile = answer.Build(keys);
    return Findings(MakeView(profile, false));
  };
  EXPECT_THAT(of({"rpc-1", "rpc-2"}, {}), ElementsAre(HasSubstr("by Hot, in rpc (2 threads).")));
  EXPECT_THAT(of({"rpc-1", "io-1"}, {}), ElementsAre(HasSubstr("by Hot, in 2 threads.")));
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
              ElementsAre(HasSubstr("50.0% of the time on a CPU went to hog")));
  EXPECT_THAT(of(200'000, 100'000), ElementsAre(HasSubstr("66.7% of the time on a CPU")));

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

TEST(FindingsTest, NothingIsFoundInNothing) {
  EXPECT_THAT(FindingsOf(AnswerOf(profd::Kind::kWait)), IsEmpty());
  EXPECT_THAT(FindingsOf(AnswerOf(profd::Kind::kAlloc)), IsEmpty());
}

}  // namespace
}  // namespace profctl
