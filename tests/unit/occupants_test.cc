// Who had the CPUs, summed over the threads of an answer.
#include "daemon/service/occupants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace profd {
namespace {

using ::testing::SizeIs;

class OccupantsTest : public ::testing::Test {
 protected:
  // A description; returns what stands for it.
  uint64_t Describe(profd_object_kind kind, const std::string& name, uint32_t number,
                    uint8_t flags = 0) {
    profd_object object{};
    object.kind = static_cast<uint8_t>(kind);
    object.flags = flags;
    object.number = number;
    std::memcpy(object.name, name.data(), std::min(name.size(), sizeof(object.name) - 1));
    auto words = std::make_shared<StackTrace>();
    words->id = StackId{PROFD_OBJECT_BIT | (2 * known_.size() + 1)};
    words->frames.resize(PROFD_OBJECT_WORDS);
    std::memcpy(words->frames.data(), &object, sizeof(object));
    known_.push_back(words);
    return static_cast<uint64_t>(words->id);
  }

  void Wait(uint64_t argument, int64_t amount, int64_t error, Reason reason = Reason::kRunQueue) {
    EstimatedSample& sample = waits_.samples.emplace_back();
    sample.key = {.argument = argument, .reason = reason};
    sample.amount = amount;
    sample.error = error;
    sample.ticks = 1;
  }

  v1::Profile Fill() {
    WaitObjects objects(known_);
    Occupants occupants(&objects);
    occupants.Add(waits_);
    v1::Profile part;
    occupants.Fill(&part);
    return part;
  }

  std::vector<std::shared_ptr<const StackTrace>> known_;
  EstimatedThread waits_;
};

TEST_F(OccupantsTest, ProcessesOfOneNameAreOneEntry) {
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "cc1plus", 10), 30, 3);
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "cc1plus", 11), 40, 4);
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "cc1plus", 0), 5, 0);
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "postgres", 812), 20, 2);
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "kworker/0:1", 0, PROFD_OBJECT_KERNEL), 7, 0);
  Wait(Describe(PROFD_OBJECT_OCCUPANT, "kworker/u4:2", 0, PROFD_OBJECT_KERNEL), 6, 0);
  Wait(0, 1, 0);
  // Other waits are none of it.
  Wait(Describe(PROFD_OBJECT_PIPE, "", 0), 1000, 0, Reason::kPipe);
  const v1::Profile part = Fill();
  ASSERT_THAT(part.occupants(), SizeIs(4));
  EXPECT_EQ(part.occupants(0).name(), "cc1plus");
  EXPECT_EQ(part.occupants(0).pid(), 0);
  EXPECT_EQ(part.occupants(0).processes(), 2U);
  EXPECT_EQ(part.occupants(0).time_ns(), 75);
  EXPECT_EQ(part.occupants(0).error_ns(), 5);
  EXPECT_EQ(part.occupants(0).samples(), 3U);
  EXPECT_EQ(part.occupants(1).name(), "postgres");
  EXPECT_EQ(part.occupants(1).pid(), 812);
  EXPECT_EQ(part.occupants(2).kind(), v1::OCCUPANT_KIND_KERNEL);
  EXPECT_EQ(part.occupants(2).name(), "kworker");
  EXPECT_EQ(part.occupants(2).time_ns(), 13);
  EXPECT_EQ(part.occupants(3).kind(), v1::OCCUPANT_KIND_UNSPECIFIED);
  EXPECT_EQ(part.occupants_left_out(), 0U);
}

TEST_F(OccupantsTest, TheLimitLosesNoTime) {
  for (int i = 0; i < 60; ++i) {
    Wait(Describe(PROFD_OBJECT_OCCUPANT, std::string(1, static_cast<char>('A' + i)), 100 + i),
         60 - i, 0);
  }
  const v1::Profile part = Fill();
  ASSERT_THAT(part.occupants(), SizeIs(50));
  EXPECT_EQ(part.occupants_left_out(), 10U);
  const int64_t listed =
      std::accumulate(part.occupants().begin(), part.occupants().end(), int64_t{0},
                      [](int64_t sum, const v1::Occupant& one) { return sum + one.time_ns(); });
  EXPECT_EQ(listed + part.occupants_left_out_ns(), 60 * 61 / 2);
}

}  // namespace
}  // namespace profd
