#include "daemon/target/guarded_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

namespace profd {
namespace {

constexpr size_t kPage = 4096;

// An unlinked file of `size` bytes, all 'x'.
UniqueFd MakeFile(size_t size) {
  std::string path = testing::TempDir() + "guarded_file_test.XXXXXX";
  UniqueFd fd(mkstemp(path.data()));
  EXPECT_TRUE(fd.ok());
  unlink(path.c_str());
  const std::string content(size, 'x');
  EXPECT_EQ(write(fd.get(), content.data(), size), static_cast<ssize_t>(size));
  return fd;
}

bool AllAre(std::span<const uint8_t> bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](uint8_t b) { return b == value; });
}

TEST(GuardedFileTest, WholeFileReadsAsItIs) {
  const UniqueFd fd = MakeFile(2 * kPage + 100);
  const auto file = GuardedFile::Map(fd.get());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->bytes().size(), 2 * kPage + 100);
  EXPECT_TRUE(AllAre((*file)->bytes(), 'x'));
  EXPECT_FALSE((*file)->torn());
}

TEST(GuardedFileTest, CutShortReadsAsZerosAndIsTorn) {
  for (const size_t left : {size_t{0}, kPage, 2 * kPage}) {
    const UniqueFd fd = MakeFile(4 * kPage + 1);
    const auto file = GuardedFile::Map(fd.get());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(left)), 0);
    EXPECT_FALSE((*file)->torn());
    EXPECT_TRUE(AllAre((*file)->bytes().first(left), 'x'));
    EXPECT_TRUE(AllAre((*file)->bytes().subspan(left), 0));
    EXPECT_TRUE((*file)->torn());
  }
}

TEST(GuardedFileTest, NextFileIsNotTorn) {
  const UniqueFd cut = MakeFile(kPage);
  {
    const auto file = GuardedFile::Map(cut.get());
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(ftruncate(cut.get(), 0), 0);
    EXPECT_EQ((*file)->bytes()[0], 0);
  }
  const UniqueFd fd = MakeFile(kPage);
  const auto file = GuardedFile::Map(fd.get());
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE((*file)->torn());
}

TEST(GuardedFileTest, OneAtATime) {
  const UniqueFd fd = MakeFile(kPage);
  {
    const auto file = GuardedFile::Map(fd.get());
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(GuardedFile::Map(fd.get()).status()));
    EXPECT_TRUE(AllAre((*file)->bytes(), 'x'));
  }
  EXPECT_TRUE(GuardedFile::Map(fd.get()).ok());
}

TEST(GuardedFileTest, WhatHasNoContentIsRefused) {
  const UniqueFd empty = MakeFile(0);
  EXPECT_TRUE(absl::IsInvalidArgument(GuardedFile::Map(empty.get()).status()));
  const UniqueFd device(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(GuardedFile::Map(device.get()).status()));
  EXPECT_FALSE(GuardedFile::Map(-1).ok());
  const UniqueFd fd = MakeFile(kPage);
  EXPECT_TRUE(GuardedFile::Map(fd.get()).ok());
}

TEST(GuardedFileDeathTest, OtherBusErrorsStillEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const UniqueFd guarded = MakeFile(kPage);
        const auto file = GuardedFile::Map(guarded.get());
        const UniqueFd fd = MakeFile(kPage);
        const auto other = MappedFile::Map(fd.get());
        if (!file.ok() || !other.ok() || ftruncate(fd.get(), 0) != 0) _exit(1);
        _exit(*const_cast<const volatile uint8_t*>(other->bytes().data()));
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace profd
