#include "daemon/heap/glibc.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kBanner[] =
    "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n";
constexpr char kMessage[] = "free(): invalid pointer";
constexpr uint64_t kApart = 0x40;

UniqueFd FileOf(const Bytes& bytes) {
  UniqueFd fd(memfd_create("module", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

// A function of that name at its place, `kApart` bytes from the next.
struct Named {
  std::string name;
  uint64_t place;
};

// Functions begin with a push at even places, with a comparison at odd ones.
Bytes Module(const std::vector<Named>& functions, const std::string& text) {
  test::ElfOptions options;
  options.code.resize(0x400);
  for (uint64_t place = 0; place < 16; ++place) {
    options.code[place * kApart] = place % 2 == 0 ? 0x55 : 0x48;
    options.code[place * kApart + 1] = place % 2 == 0 ? 0x53 : 0x85;
  }
  for (const Named& function : functions) {
    options.symbols.push_back(
        {.name = function.name, .address = test::kText + function.place * kApart, .size = 16});
  }
  return test::BuildElf(Bytes(text.begin(), text.end()), options);
}

const std::vector<Named> kAll = {{"malloc", 0},         {"free", 1},        {"calloc", 2},
                                 {"realloc", 4},        {"memalign", 5},    {"aligned_alloc", 5},
                                 {"posix_memalign", 6}, {"valloc", 7},      {"pvalloc", 8},
                                 {"__libc_malloc", 0},  {"__libc_free", 1}, {"reallocarray", 9},
                                 {"malloc_trim", 10},   {"xmalloc", 11}};

absl::StatusOr<std::optional<GlibcInfo>> Find(const Bytes& bytes) {
  const UniqueFd fd = FileOf(bytes);
  return FindGlibc(fd.get());
}

TEST(GlibcTest, FunctionsAreFoundByName) {
  const auto found = Find(Module(kAll, kBanner));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->version, "2.36");
  EXPECT_EQ((*found)->found_by, "symbol");
  std::vector<profd_malloc_place> places;
  for (const GlibcFunction& function : (*found)->functions) {
    places.push_back(function.place);
    const uint64_t place = (function.offset - test::kTextOffset) / kApart;
    EXPECT_EQ(function.offset, test::kTextOffset + place * kApart);
    EXPECT_EQ(function.stepped, place % 2 == 1) << place;
  }
  EXPECT_THAT(places,
              ElementsAre(PROFD_MALLOC_MALLOC, PROFD_MALLOC_FREE, PROFD_MALLOC_CALLOC,
                          PROFD_MALLOC_REALLOC, PROFD_MALLOC_MEMALIGN, PROFD_MALLOC_POSIX_MEMALIGN,
                          PROFD_MALLOC_VALLOC, PROFD_MALLOC_PVALLOC));
}

TEST(GlibcTest, TheLibraryOfThisProcess) {
  std::ifstream maps("/proc/self/maps");
  std::string path;
  for (std::string line; path.empty() && std::getline(maps, line);) {
    if (absl::StrContains(line, "/libc.so")) path = line.substr(line.find('/'));
  }
  ASSERT_FALSE(path.empty());
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto found = FindGlibc(fd.get());
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_THAT(std::string(gnu_get_libc_version()), HasSubstr((*found)->version));
  EXPECT_GE((*found)->functions.size(), 8U);
  for (const GlibcFunction& function : (*found)->functions) {
    const bool is_common =
        function.place == PROFD_MALLOC_MALLOC || function.place == PROFD_MALLOC_CALLOC ||
        function.place == PROFD_MALLOC_REALLOC || function.place == PROFD_MALLOC_FREE;
    EXPECT_TRUE(!function.stepped || !is_common) << function.place;
  }
}

TEST(GlibcTest, OtherAllocatorsAreNot) {
  const auto is_empty = [](const Bytes& bytes) {
    const auto found = Find(bytes);
    return found.ok() && !found->has_value();
  };
  EXPECT_TRUE(is_empty(Module(kAll, "jemalloc: 5.3.0"))) << "no text of glibc's";
  EXPECT_TRUE(is_empty(Module({{"malloc", 0}, {"calloc", 2}}, kBanner))) << "no free";
  EXPECT_TRUE(is_empty(Module({{"free", 0}, {"xmalloc", 2}}, kBanner))) << "no malloc";
  EXPECT_TRUE(is_empty(Module({}, kBanner)));
  EXPECT_TRUE(is_empty(Module({{"malloc", 0x1000}, {"free", 0x1001}}, kBanner))) << "not in code";
}

// A program that is linked statically need not have the banner.
TEST(GlibcTest, AMessageIsEnough) {
  const auto found = Find(Module(kAll, kMessage));
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->version, "");
}

TEST(GlibcTest, WhatIsNoModuleIsAnError) {
  EXPECT_FALSE(Find({}).ok());
  EXPECT_FALSE(Find(Bytes(1000, 'x')).ok());
}

void ExpectSane(const Bytes& bytes) {
  const auto found = Find(bytes);
  if (!found.ok() || !*found) return;
  EXPECT_LE((*found)->functions.size(), 256U);
  EXPECT_LE((*found)->version.size(), 7U);
  for (const GlibcFunction& function : (*found)->functions) {
    EXPECT_LT(function.offset, bytes.size());
    EXPECT_GE(function.place, PROFD_MALLOC_MALLOC);
    EXPECT_LE(function.place, PROFD_MALLOC_PVALLOC);
  }
}

TEST(GlibcTest, FilesThatAreCutShortAreSearchedWithinThem) {
  const Bytes whole = Module(kAll, kBanner);
  for (size_t size = 0; size < whole.size(); size += 37) {
    ExpectSane(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
  }
}

TEST(GlibcTest, DamagedFilesAreSearchedWithinThem) {
  const Bytes whole = Module(kAll, kBanner);
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    Bytes bytes = whole;
    for (int i = 0; i < 8; ++i) {
      // Headers are at the begin, tables at the end.
      const size_t reach = std::min<size_t>(bytes.size(), 0x600);
      const size_t at = random() % reach;
      bytes[random() % 2 == 0 ? at : bytes.size() - 1 - at] = static_cast<uint8_t>(random());
    }
    ExpectSane(bytes);
  }
}

TEST(GlibcTest, AThousandSymbolsOfOneNameAreBounded) {
  std::vector<Named> functions = {{"free", 1}};
  for (int i = 0; i < 1000; ++i) functions.push_back({"malloc", static_cast<uint64_t>(i % 16)});
  ExpectSane(Module(functions, kBanner));
}

}  // namespace
}  // namespace profd
