// Sampled objects of jemalloc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "tests/bpf/kernel_fixture.h"
#include "tests/bpf/probed.h"

namespace profd {
namespace {

using ::testing::SizeIs;

class LiveKernelTest : public KernelTest {
 protected:
  static constexpr KernelOptions kLive = WithLayers({&KernelOptions::heap_layer});

  void Attach(int32_t pid, profd_live_place born, profd_live_place gone) {
    const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const ProbePlace places[] = {
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestObjectBorn)),
         .cookie = PROFD_PROBE_COOKIE(born, 0, 7)},
        {.offset = FileOffset(reinterpret_cast<const void*>(&ProfdTestObjectGone)),
         .cookie = PROFD_PROBE_COOKIE(gone, 0, 7)}};
    auto probe = kernel_->AttachLiveProbe(self.get(), pid, places);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  void ExpectObject(size_t index, const Child& child, bool gone, uint64_t size, uint64_t born) {
    const profd_live_heap_record& object = objects_.at(index);
    SCOPED_TRACE(index);
    EXPECT_EQ(object.stack == 0, gone);
    EXPECT_EQ(object.size, size);
    EXPECT_EQ(object.context, 0x7000U);
    EXPECT_EQ(object.born, born);
    EXPECT_EQ(object.pid, child.pid());
    EXPECT_EQ(object.watch_id, 7U);
    EXPECT_NE(object.thread_id, 0U);
    EXPECT_LT(static_cast<int64_t>(object.time), MonotonicNs());
  }

  Probe probe_;
};

TEST_F(LiveKernelTest, ObjectsComeAndGo) {
  START_OR_SKIP(kLive);
  const Child child([](Child& me) {
    struct {
      uint64_t born = 5, context = 0x7000, size = 1000;
    } info;
    const auto address = reinterpret_cast<uint64_t>(&info);
    me.Wait();
    ProfdTestMakesObject(1000, 1024, 0x7000);
    ProfdTestObjectGone(0, 1024, address, 0);       // 5.3.0
    ProfdTestObjectGone(0, 0x5000, 2048, address);  // 5.3.1
    ProfdTestObjectGone(0, 1024, 1024, 1024);       // neither
    info.context = 1;
    ProfdTestObjectGone(0, 1024, address, 0);
    ProfdTestObjectBorn(0, 0x5000, 1000, 1024, 1);
    ProfdTestObjectBorn(0, 0x5000, 1000, 0, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_3, PROFD_LIVE_GONE_5_3));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(objects_, SizeIs(3));
  ExpectObject(0, child, false, 1024, 0);
  ExpectObject(1, child, true, 1024, 5);
  ExpectObject(2, child, true, 2048, 5);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_GONE), 2U);
  EXPECT_EQ(Loss(PROFD_LOSS_LIVE_BORN), 2U);
  const profd_probe_cost cost = kernel_->HeapCost();
  EXPECT_EQ(cost.events, 7U);
  EXPECT_EQ(cost.walks, 1U);

  ASSERT_THAT(stacks_, SizeIs(1));
  EXPECT_EQ(static_cast<uint64_t>(stacks_[0].id), objects_[0].stack);
  ExpectBeginsWith(stacks_[0], reinterpret_cast<const void*>(&ProfdTestObjectBorn),
                   reinterpret_cast<const void*>(&ProfdTestMakesObject));
}

TEST_F(LiveKernelTest, ArgumentsOfTheVersionBefore) {
  START_OR_SKIP(kLive);
  const Child child([](Child& me) {
    me.Wait();
    ProfdTestObjectBorn(0, 0x5000, 1024, 0x7000, 0);
    ProfdTestObjectGone(0, 0x5000, 1024, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_2, PROFD_LIVE_GONE_5_2));
  child.Signal();
  child.Wait();
  Poll();
  ASSERT_THAT(objects_, SizeIs(2));
  ExpectObject(0, child, false, 1024, 0);
  ExpectObject(1, child, true, 1024, 0);
}

// With nobody to read the ring what does not fit is counted.
TEST_F(LiveKernelTest, LossesAreCounted) {
  START_OR_SKIP(kLive);
  constexpr uint64_t kObjects = 60'000;  // more than the ring holds
  const Child child([](Child& me) {
    me.Wait();
    for (uint64_t i = 0; i < kObjects; ++i) ProfdTestObjectGone(0, 0x5000, 1024, 0x7000);
    me.Signal();
    WaitForever();
  });
  Mark(child);
  ASSERT_NO_FATAL_FAILURE(Attach(child.pid(), PROFD_LIVE_BORN_5_2, PROFD_LIVE_GONE_5_2));
  child.Signal();
  child.Wait();
  Poll();
  EXPECT_GT(Loss(PROFD_LOSS_LIVE_GONE), 0U);
  EXPECT_EQ(objects_.size() + Loss(PROFD_LOSS_LIVE_GONE), kObjects);
}

}  // namespace
}  // namespace profd
