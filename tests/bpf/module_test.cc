// Modules, as they are announced, and their rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "daemon/source/record.h"
#include "daemon/symbolize/vdso.h"
#include "daemon/target/procfs.h"
#include "daemon/unwind/rules.h"
#include "tests/bpf/kernel_fixture.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;

bool IsVdso(const profd_module_record& module) {
  return module.key.ino == PROFD_VDSO_INO && module.key.dev == PROFD_VDSO_DEV;
}

absl::StatusOr<UniqueFd> Open(const profd_module_record& module) {
  if (IsVdso(module)) return CopyVdso();
  ASSIGN_OR_RETURN(MappedModule mapped, OpenMapping(module.pid, module.start, module.end));
  return std::move(mapped.fd);
}

TEST_F(KernelTest, ModulesAreAnnouncedOnceAndRulesMakeWalksComplete) {
  START_OR_SKIP();
  const Child child([](Child&) { NapForever(2 * kMillisecond); });
  Mark(child);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;
  const auto key_of = [](const profd_module_record& m) {
    return Key(m.key.ino, m.key.dev, m.key.generation);
  };
  std::set<Key> keys;
  for (const auto& module : modules_) EXPECT_TRUE(keys.insert(key_of(module)).second);
  ASSERT_GE(keys.size(), 4U) << "the program, the C library, the loader and the vDSO";
  EXPECT_EQ(std::count_if(modules_.begin(), modules_.end(), IsVdso), 1);
  const std::vector<profd_module_record> announced = std::exchange(modules_, {});

  const auto tick_until = [&](profd_walk walk) {
    return Eventually([&] {
      Tick();
      Poll();
      return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
        return stack.walk == WalkResult{static_cast<uint8_t>(walk)};
      });
    });
  };
  EXPECT_TRUE(tick_until(PROFD_WALK_RULES_PENDING));
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  EXPECT_THAT(modules_, IsEmpty()) << "announced again";

  ASSERT_TRUE(kernel_->ForgetModule(announced[0].key).ok());
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(kernel_->AnnounceMappings().ok());
    Poll();
    return !modules_.empty();
  }));
  ASSERT_THAT(modules_, SizeIs(1));
  EXPECT_EQ(key_of(modules_[0]), key_of(announced[0]));

  std::set<uint32_t> ids;
  for (const profd_module_record& module : announced) {
    const auto id = kernel_->ModuleIdOf(module.key);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(ids.insert(*id).second);
    const auto fd = Open(module);
    ASSERT_TRUE(fd.ok()) << fd.status();
    const auto file = MappedFile::Map(fd->get());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto table = CompileRules(file->bytes());
    ASSERT_TRUE(table.ok()) << table.status();
    Publish(module.key, table->rows);
  }
  EXPECT_GT(kernel_->RuleBytes(), 0U);
  stacks_.clear();
  EXPECT_TRUE(tick_until(PROFD_WALK_COMPLETE));
  const ModuleRules unknown = {.key = {.ino = 1, .dev = 2, .generation = 3}, .rows = {}};
  EXPECT_FALSE(kernel_->PublishRules({&unknown, 1}).at(0).ok());
}

// A process that is stuck with the lock of its memory map stops whoever looks at it.
TEST_F(KernelTest, MappingsOfOtherProcessesAreNotLookedAt) {
  START_OR_SKIP();
  const Child asked([](Child&) { NapForever(2 * kMillisecond); });
  const Child other([](Child&) { NapForever(2 * kMillisecond); });
  int32_t ended = 0;
  {
    const Child gone([](Child&) { NapForever(2 * kMillisecond); });
    ended = gone.pid();
  }
  Mark(asked);
  Mark(other);
  ASSERT_TRUE(kernel_->AnnounceMappings().ok());
  Poll();
  ASSERT_FALSE(modules_.empty());
  ASSERT_TRUE(kernel_->WatchModule(modules_[0].key).ok());
  const auto watched = [&](std::initializer_list<int32_t> pids) {
    EXPECT_TRUE(kernel_->AnnounceMappings(std::span(pids.begin(), pids.size())).ok());
    std::vector<int32_t> told;
    EXPECT_TRUE(kernel_
                    ->PollEvents([&](std::span<const uint8_t> bytes) {
                      const auto record = DecodeRecord<profd_watched_record>(bytes);
                      if (record.ok() && record->type == PROFD_RECORD_WATCHED) {
                        told.push_back(record->pid);
                      }
                    })
                    .ok());
    return told;
  };
  EXPECT_THAT(watched({asked.pid()}), ElementsAre(asked.pid()));
  EXPECT_THAT(watched({ended, other.pid()}), ElementsAre(other.pid()));
  EXPECT_THAT(watched({ended}), IsEmpty());
  EXPECT_THAT(watched({getppid()}), IsEmpty()) << "no target";
}

}  // namespace
}  // namespace profd
