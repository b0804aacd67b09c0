#include "client/analysis/flame_tree.h"
#include "client/render/folded.h"
#include "client/render/locks.h"
#include "client/render/summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using profd::v1::FRAME_KIND_APPLICATION;
using profd::v1::FRAME_KIND_LIBC;
using profd::v1::LockUse;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;

void AddPlace(profd::v1::LockPlace* place, const std::string& function, const std::string& waker,
              int64_t time_ns, int64_t error_ns) {
  place->set_function(function);
  place->set_waker(waker);
  place->set_time_ns(time_ns);
  place->set_error_ns(error_ns);
}

void SetWaits(profd::v1::WaitCount* count, uint64_t waits, uint64_t error, int64_t p50_ns,
              int64_t p99_ns) {
  count->set_waits(waits);
  count->set_waits_error(error);
  count->set_p50_ns(p50_ns);
  count->set_p50_low_ns(p50_ns * 4 / 5);
  count->set_p50_high_ns(p50_ns * 6 / 5);
  count->set_p99_ns(p99_ns);
  count->set_p99_low_ns(p99_ns * 4 / 5);
  count->set_p99_high_ns(p99_ns * 2);
}

// Two locks of a server, one of a hostile name, and waits for work.
AnswerWriter LocksAnswer() {
  AnswerWriter answer(profd::Kind::kLocks);
  const uint32_t worker = answer.AddThread(4242, 4243, "server", "worker", 60'000 * kMs, 0);
  const std::vector<AnswerWriter::FrameSpec> frames = {
      {"pthread_mutex_lock", "libc.so.6", FRAME_KIND_LIBC},
      {"Cache::Get", "server", FRAME_KIND_APPLICATION}};
  answer.AddSample(worker, profd::v1::REASON_LOCK, frames, 18'000 * kMs, 280 * kMs);
  answer.AddSample(worker, profd::v1::REASON_LOCK, {}, 2'000 * kMs, 100 * kMs);
  LockUse* table = answer.message().add_locks();
  table->set_name("server:table+0x40");
  table->set_kind("pthread mutex");
  table->set_time_ns(18'000 * kMs);
  table->set_error_ns(280 * kMs);
  table->set_samples(1800);
  table->set_threads(8);
  AddPlace(table->add_waiters(), "Cache::Get", "", 15'000 * kMs, 200 * kMs);
  AddPlace(table->add_waiters(), "Cache::Put", "", 3'000 * kMs, 150 * kMs);
  AddPlace(table->add_releasers(), "Cache::Put", "server/persistence", 12'000 * kMs, 300 * kMs);
  AddPlace(table->add_releasers(), "", "[timer]", 1'000 * kMs, 90 * kMs);
  table->set_release_unknown_ns(4'500 * kMs);
  table->set_release_left_out_ns(500 * kMs);
  table->set_shared_releasers(true);
  SetWaits(table->mutable_waits(), 1'204, 31, 12 * kMs, 48 * kMs);
  table->mutable_waits()->set_timeouts(40);
  table->mutable_waits()->set_timeouts_error(6);
  table->mutable_waits()->set_interrupted(1);
  SetWaits(table->mutable_waiters(0)->mutable_waits(), 1'003, 29, 12 * kMs, 48 * kMs);
  SetWaits(table->mutable_waiters(1)->mutable_waits(), 201, 12, 12 * kMs, 48 * kMs);
  LockUse* heap = answer.message().add_locks();
  heap->set_name("heap 0x55d0a4c3e2a0\x1b[31m");
  heap->set_kind("pthread rwlock");
  heap->set_time_ns(2'000 * kMs);
  heap->set_error_ns(100 * kMs);
  heap->set_samples(20'000);
  heap->set_threads(1);
  heap->set_release_unknown_ns(2'000 * kMs);
  heap->set_owner_tid(4250);
  heap->set_owner("compactor");
  SetWaits(heap->mutable_waits(), 0, 0, 0, 0);
  LockUse* idle = answer.message().add_locks();
  idle->set_name("server:work");
  idle->set_kind("condition variable");
  idle->set_idle("condition variable");
  idle->set_time_ns(30'000 * kMs);
  answer.message().set_locks_left_out(3);
  answer.message().set_locks_left_out_ns(70 * kMs);
  answer.message().add_lock_notes("Who released the locks is not known: wakers were not watched.");
  return answer;
}

// The same with the attributes that the daemon gives the samples of locks.
profd::v1::Profile WithLockOf(profd::v1::Profile message, const std::string& name) {
  const auto text = [&](const std::string& t) {
    message.add_strings(t);
    return static_cast<uint32_t>(message.strings_size() - 1);
  };
  for (const auto& [key, value] :
       {std::pair{"lock", name}, std::pair{"lock_kind", std::string("pthread mutex")}}) {
    profd::v1::Attribute* attribute = message.add_attributes();
    attribute->set_key(text(key));
    attribute->set_text(text(value));
    message.mutable_samples(0)->add_attributes(
        static_cast<uint32_t>(message.attributes_size() - 1));
  }
  return message;
}

Profile Read(const profd::v1::Profile& message) {
  ProfileBuilder builder({"locks"});
  EXPECT_TRUE(builder.Add(message).ok());
  absl::StatusOr<Answer> answer = builder.Finish();
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer->profiles.front();
}

TEST(LocksRenderTest, MatchesGolden) {
  const Profile profile = Read(LocksAnswer().Message());
  ExpectGolden(RenderLocks(MakeView(profile, false), LockOrder::kTime, false), "locks.txt");
  ExpectGolden(RenderLocks(MakeView(profile, true), LockOrder::kSamples, false), "locks-all.txt");
  ExpectGolden(RenderSummary(MakeView(profile, false), false), "locks.summary");
}

TEST(LocksRenderTest, WithoutContentionSaysSo) {
  AnswerWriter answer(profd::Kind::kLocks);
  answer.AddThread(1, 1, "p", "t", 100, 0);
  const Profile profile = answer.Build();
  EXPECT_THAT(RenderLocks(MakeView(profile, false), LockOrder::kTime, false),
              HasSubstr("No thread was seen waiting for a lock"));
}

TEST(LocksRenderTest, SortsByWhatWasAskedFor) {
  profd::v1::Profile message = LocksAnswer().Message();
  SortLocks(LockOrder::kSamples, &message);
  EXPECT_THAT(message.locks(0).name(), HasSubstr("heap"));
  SortLocks(LockOrder::kThreads, &message);
  EXPECT_EQ(message.locks(0).name(), "server:table+0x40");
  EXPECT_EQ(message.locks(2).idle(), "condition variable") << "comes last, whatever its time";
}

TEST(LocksRenderTest, TheLockIsTheInnermostFrame) {
  const Profile profile = Read(WithLockOf(LocksAnswer().Message(), "server:table"));
  EXPECT_THAT(RenderFolded(MakeView(profile, false)),
              HasSubstr("Cache::Get;pthread_mutex_lock;[lock];server:table_(pthread_mutex) "));
  const FlameTree tree = BuildFlameTree(MakeView(profile, false), false, false);
  bool found = false;
  for (const FlameNode& node : tree.nodes) {
    found = found || (node.name == "server:table (pthread mutex)" && node.children.empty());
  }
  EXPECT_TRUE(found);
}

TEST(LocksRenderTest, AnAnswerOfImpossibleLocksIsRefused) {
  profd::v1::Profile message = LocksAnswer().Message();
  message.mutable_locks(0)->set_process(7);
  ProfileBuilder builder({"locks"});
  EXPECT_TRUE(builder.Add(message).ok());
  EXPECT_TRUE(absl::IsDataLoss(builder.Finish().status()));
  message.mutable_locks(0)->set_process(0);
  message.mutable_locks(0)->mutable_waits()->set_p99_high_ns(-1);
  ProfileBuilder negative({"locks"});
  EXPECT_TRUE(negative.Add(message).ok());
  EXPECT_TRUE(absl::IsDataLoss(negative.Finish().status()));
  message.mutable_locks(0)->clear_waits();
  message.mutable_locks(0)->set_time_ns(INT64_MAX);
  ProfileBuilder other({"locks"});
  EXPECT_TRUE(other.Add(message).ok());
  EXPECT_TRUE(absl::IsDataLoss(other.Finish().status()));
}

}  // namespace
}  // namespace profctl
