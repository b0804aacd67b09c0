#include "daemon/base/program_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace profd {
namespace {

constexpr size_t kPage = 4096;
// Alone on their pages. The kernel maps 16 pages around one that is used.
alignas(kPage) constexpr char kUsed[64 * kPage] = "used";
alignas(kPage) constexpr char kChanged[kPage] = "plain";

// Whether a page is mapped at present, by /proc/self/pagemap (Documentation/admin-guide/mm).
bool IsMapped(const void* address) {
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entry = 0;
  const auto offset =
      static_cast<off_t>(reinterpret_cast<uintptr_t>(address) / kPage * sizeof(entry));
  EXPECT_EQ(pread(fd, &entry, sizeof(entry), offset), static_cast<ssize_t>(sizeof(entry)));
  close(fd);
  return entry >> 63 != 0;
}

char Read(const char* at) { return *static_cast<const volatile char*>(at); }

TEST(ProgramPagesTest, WhatIsNotUsedIsUnmappedAndComesBack) {
  const char* const page = kUsed + 32 * kPage;
  EXPECT_EQ(Read(kUsed), 'u');
  EXPECT_EQ(Read(page), '\0');
  ASSERT_TRUE(IsMapped(page));
  const absl::StatusOr<size_t> bytes = UnmapProgramPages();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 16 * kPage);
  EXPECT_FALSE(IsMapped(page));
  EXPECT_EQ(Read(kUsed), 'u');
  EXPECT_EQ(Read(kUsed + 3), 'd');
}

// As a debugger does: the page is this process's own from now on.
bool BreakpointStays() {
  char* const page = const_cast<char*>(kChanged);
  if (mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return false;
  *static_cast<volatile char*>(page) = '!';
  if (mprotect(page, kPage, PROT_READ) != 0) return false;
  return UnmapProgramPages().ok() && Read(kChanged) == '!';
}

TEST(ProgramPagesTest, ABreakpointStays) {
  EXPECT_EXIT(std::exit(BreakpointStays() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace profd
