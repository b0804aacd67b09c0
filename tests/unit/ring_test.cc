#include "daemon/source/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/source/record.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Takes down the types of the records that it gets.
class Listener final : public Source {
 public:
  explicit Listener(std::vector<uint32_t> wanted) : wanted_(std::move(wanted)) {}
  const char* name() const override { return "listener"; }
  std::vector<uint32_t> records() const override { return wanted_; }
  absl::Status OnRecord(uint32_t type, std::span<const uint8_t> bytes) override {
    RETURN_IF_ERROR(DecodeRecord<profd_exec_record>(bytes).status());
    heard.push_back(type);
    return absl::OkStatus();
  }

  std::vector<uint32_t> heard;

 private:
  const std::vector<uint32_t> wanted_;
};

class RingTest : public ::testing::Test {
 protected:
  // A record of that type, as long as an exec's.
  void Emit(uint32_t type) {
    profd_exec_record record{};
    record.type = type;
    kernel_.Emit(record);
  }

  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  Ring ring_{&kernel_, &clock_};
};

TEST_F(RingTest, EveryoneWhoWantsARecordGetsIt) {
  Listener both({PROFD_RECORD_EXEC, PROFD_RECORD_WATCHED}), one({PROFD_RECORD_EXEC}), none({});
  for (Listener* listener : {&both, &one, &none}) ring_.Add(listener);
  Emit(PROFD_RECORD_EXEC);
  Emit(PROFD_RECORD_WATCHED);
  ring_.Poll();
  EXPECT_THAT(both.heard, ElementsAre(PROFD_RECORD_EXEC, PROFD_RECORD_WATCHED));
  EXPECT_THAT(one.heard, ElementsAre(PROFD_RECORD_EXEC));
  EXPECT_THAT(none.heard, IsEmpty());
  EXPECT_EQ(ring_.polled_ns(), clock_.MonotonicNs());
  EXPECT_EQ(ring_.bad_records(), 0U);
}

TEST_F(RingTest, RecordsOfASourceThatIsOffAreNobodys) {
  Emit(PROFD_RECORD_PAGE);
  ring_.Poll();
  EXPECT_EQ(ring_.bad_records(), 0U);
}

TEST_F(RingTest, RecordsThatCannotBeOneAreCounted) {
  Listener listener({PROFD_RECORD_EXEC});
  ring_.Add(&listener);
  Emit(0);
  Emit(PROFD_RECORD_LAST + 1);
  kernel_.Emit(uint32_t{PROFD_RECORD_EXEC});  // too short
  kernel_.Emit(uint16_t{1});                  // without a type
  ring_.Poll();
  EXPECT_EQ(ring_.bad_records(), 4U);
  EXPECT_THAT(listener.heard, IsEmpty());
}

TEST_F(RingTest, StacksAreKeptUntilTheyAreTaken) {
  profd_stack_record stack{};
  stack.type = PROFD_RECORD_STACK;
  stack.hash = 77;
  kernel_.Emit(stack);
  ring_.Poll();
  const std::vector<StackTrace> stacks = ring_.TakeStacks();
  ASSERT_THAT(stacks, SizeIs(1));
  EXPECT_EQ(stacks[0].id, StackId{77});
  EXPECT_THAT(ring_.TakeStacks(), IsEmpty());
}

}  // namespace
}  // namespace profd
