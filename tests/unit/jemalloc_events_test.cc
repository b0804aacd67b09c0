// Where the events of jemalloc are watched.
#include "daemon/probes/jemalloc_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_hands.h"
#include "tests/support/fake_kernel.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr WatchId kModule{7};

// Copies of the event, each 16 bytes after the one before, in turn of allocations and frees.
JemallocInfo WithCopies(size_t copies) {
  JemallocInfo info;
  for (size_t i = 0; i < copies; ++i) {
    info.inlined.push_back({.offset = 16 * (i + 1),
                            .value_register = 7,
                            .thread_register = 6,
                            .last_event = i % 2 == 0 ? 8 : 24});
  }
  return info;
}

class JemallocEventsTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> Standing(int32_t pid) {
    EXPECT_TRUE(reconciler_.Await(ProbeSet::kMapCalls, MonotonicNs() + 60'000'000'000));
    const auto at =
        hands_.standing().find({.set = ProbeSet::kEvents, .pid = pid, .module = kModule});
    return at == hands_.standing().end() ? std::vector<uint64_t>() : at->second;
  }

  FakeClock clock_;
  FakeKernel kernel_{&clock_};
  FakeHands hands_;
  Reconciler reconciler_{&hands_, SystemClock(), true};
  JemallocEvents events_{&kernel_, &reconciler_};
};

TEST_F(JemallocEventsTest, PlacesSayWhatTheyAre) {
  JemallocInfo info = WithCopies(2);
  info.events = {{.offset = 100, .point = {.skip = 3, .stepped = false}}};
  info.inlined[1].growth_register = 2;
  const EventPlaces all = EventPlacesOf(info, kModule);
  ASSERT_THAT(all.places, SizeIs(3));
  EXPECT_EQ(all.more, 0U);
  EXPECT_EQ(all.places[0].offset, 103U);
  const int places[] = {PROFD_HEAP_JEMALLOC_EVENT, PROFD_HEAP_JEMALLOC_INLINED_ALLOC,
                        PROFD_HEAP_JEMALLOC_INLINED_FREE};
  for (uint32_t i = 0; i < 3; ++i) {
    const uint64_t cookie = all.places[i].cookie;
    EXPECT_EQ(PROFD_PROBE_PLACE(cookie), static_cast<uint32_t>(places[i]));
    EXPECT_EQ(PROFD_PROBE_WATCH(cookie), 7U);
    EXPECT_EQ(PROFD_HEAP_NUMBER(cookie), i);
    EXPECT_EQ(PROFD_PROBE_STEPPED(cookie), i == 1 ? 1U : 0U);
  }
  const uint64_t copy = all.places[2].cookie;
  EXPECT_EQ(PROFD_HEAP_VALUE_REGISTER(copy), 14U) << "rdi in struct pt_regs";
  EXPECT_EQ(PROFD_HEAP_THREAD_REGISTER(copy), 13U) << "rsi";
  EXPECT_EQ(PROFD_HEAP_GROWTH_REGISTER(copy), 12U) << "rdx";
  EXPECT_EQ(PROFD_HEAP_FIELD(copy), 24U);
  EXPECT_EQ(PROFD_HEAP_GROWTH_REGISTER(all.places[1].cookie),
            static_cast<uint32_t>(PROFD_NO_REGISTER));
}

TEST_F(JemallocEventsTest, PlacesBeyondTheLimitAreToldOf) {
  const JemallocInfo info = WithCopies(PROFD_HEAP_NUMBERS + 5);
  events_.Want({1, kModule}, info);
  EXPECT_THAT(Standing(1), SizeIs(PROFD_HEAP_NUMBERS));
  AllocatorState state;
  events_.Describe(kModule, state);
  EXPECT_EQ(state.places, static_cast<size_t>(PROFD_HEAP_NUMBERS));
  EXPECT_EQ(state.more_places, 5U);
  EXPECT_EQ(state.note,
            absl::StrCat("5 more places look like jemalloc's events than the ", PROFD_HEAP_NUMBERS,
                         " that can be watched: what they allocate has no stacks"));
  AllocatorState all;
  JemallocEvents(&kernel_, &reconciler_).Want({1, WatchId{8}}, WithCopies(PROFD_HEAP_NUMBERS));
  events_.Describe(WatchId{8}, all);
  EXPECT_THAT(all.note, IsEmpty());
}

TEST_F(JemallocEventsTest, WhereNothingIsAnEventThePlaceGoes) {
  for (const int32_t pid : {1, 2}) events_.Want({pid, kModule}, WithCopies(3));
  EXPECT_THAT(Standing(2), ElementsAre(16U, 32U, 48U));
  // So few tell nothing.
  kernel_.heap_refusals = 7;
  kernel_.heap_tallies = {{.module = kModule, .number = 1, .held = 0, .refused = 7}};
  events_.Judge();
  EXPECT_THAT(Standing(1), SizeIs(3));
  kernel_.heap_refusals = 100;
  kernel_.heap_tallies = {{.module = kModule, .number = 1, .held = 0, .refused = 50},
                          {.module = kModule, .number = 2, .held = 8, .refused = 50},
                          {.module = WatchId{9}, .number = 0, .held = 0, .refused = 50}};
  events_.Judge();
  EXPECT_THAT(Standing(1), ElementsAre(16U, 48U));
  EXPECT_THAT(Standing(2), ElementsAre(16U, 48U));
  EXPECT_THAT(hands_.detached, IsEmpty()) << "in the place of those before";
  // Who comes later has the right ones at once.
  events_.Want({3, kModule}, WithCopies(3));
  EXPECT_THAT(Standing(3), ElementsAre(16U, 48U));
  kernel_.heap_refusals = 1000;
  kernel_.heap_tallies = {{.module = kModule, .number = 0, .held = 0, .refused = 50},
                          {.module = kModule, .number = 2, .held = 7, .refused = 50}};
  events_.Judge();
  EXPECT_THAT(Standing(1), IsEmpty());
  const ProbeKey key = {.set = ProbeSet::kEvents, .pid = 1, .module = kModule};
  EXPECT_EQ(reconciler_.StateOf(key)->failure,
            "jemalloc's event function was not found: what looks like it has other arguments; keep "
            "the module's symbols or install its debug file");
  AllocatorState state;
  events_.Describe(kModule, state);
  EXPECT_EQ(state.wrong_places, 3U);
}

TEST_F(JemallocEventsTest, NothingIsKeptOfAModuleThatIsForgotten) {
  constexpr WatchId kOther{8};
  events_.Want({1, kModule}, WithCopies(3));
  events_.Want({1, kOther}, WithCopies(3));
  kernel_.heap_refusals = 100;
  kernel_.heap_tallies = {{.module = kModule, .number = 0, .held = 0, .refused = 50},
                          {.module = kOther, .number = 1, .held = 0, .refused = 50}};
  events_.Judge();
  events_.KeepOnly([](WatchId module) { return module == kOther; });
  ASSERT_THAT(kernel_.heap_tallies, SizeIs(1));
  EXPECT_EQ(kernel_.heap_tallies[0].module, kOther);
  AllocatorState kept, forgotten;
  events_.Describe(kOther, kept);
  events_.Describe(kModule, forgotten);
  EXPECT_EQ(kept.wrong_places, 1U);
  EXPECT_EQ(forgotten.places, 0U);
  // Late numbers of what is gone change nothing.
  kernel_.heap_refusals = 200;
  kernel_.heap_tallies = {{.module = kModule, .number = 1, .held = 0, .refused = 50}};
  events_.Judge();
  events_.Describe(kOther, kept);
  EXPECT_EQ(kept.wrong_places, 1U);
}

}  // namespace
}  // namespace profd
