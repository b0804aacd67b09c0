#include "daemon/heap/map_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/heap/probe_point.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using test::BuildElf;
using test::Bytes;
using test::kText;
using test::kTextOffset;
using ::testing::IsEmpty;
using Symbol = test::ElfOptions::Symbol;

UniqueFd FileOf(const Bytes& bytes) {
  UniqueFd fd(memfd_create("profd-test", MFD_CLOEXEC));
  EXPECT_TRUE(fd.ok());
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

std::map<uint64_t, profd_map_call> Find(const Bytes& bytes) {
  const UniqueFd fd = FileOf(bytes);
  const auto calls = FindMapCalls(fd.get());
  EXPECT_TRUE(calls.ok()) << calls.status();
  std::map<uint64_t, profd_map_call> found;
  if (!calls.ok()) return found;
  for (const MapCall& call : *calls) EXPECT_TRUE(found.emplace(call.offset, call.call).second);
  return found;
}

std::map<uint64_t, profd_map_call> FindDynamic(std::vector<Symbol> symbols) {
  return Find(BuildElf({}, {.dynamic_symbols = std::move(symbols)}));
}

// As a libc has them: some under several names.
const std::vector<Symbol> kLibc = {
    {"mmap", kText, 16},         {"mmap64", kText, 16},      {"__mmap", kText, 16},
    {"munmap", kText + 16, 16},  {"mremap", kText + 32, 16}, {"brk", kText + 48, 16},
    {"madvise", kText + 64, 16}, {"sbrk", kText + 80, 16},   {"posix_madvise", kText + 96, 16},
    {"a_brk", kText + 112, 16},  {"brk2", kText + 128, 16}};
const std::map<uint64_t, profd_map_call> kCalls = {{kTextOffset, PROFD_MAP_MMAP},
                                                   {kTextOffset + 16, PROFD_MAP_MUNMAP},
                                                   {kTextOffset + 32, PROFD_MAP_MREMAP},
                                                   {kTextOffset + 48, PROFD_MAP_BRK},
                                                   {kTextOffset + 64, PROFD_MAP_MADVISE}};

TEST(MapCallsTest, WholeNamesOfALibcOnceEach) { EXPECT_EQ(FindDynamic(kLibc), kCalls); }

// The one that this program runs with.
TEST(MapCallsTest, TheLibcOfThisHost) {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(libc, nullptr) << "this program runs with glibc";
  Dl_info place;
  ASSERT_NE(dladdr(dlsym(libc, "mmap"), &place), 0);
  const UniqueFd fd(open(place.dli_fname, O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.ok());
  const auto calls = FindMapCalls(fd.get());
  ASSERT_TRUE(calls.ok()) << calls.status();
  std::map<profd_map_call, uint64_t> offsets;
  for (const MapCall& call : *calls) {
    EXPECT_TRUE(offsets.emplace(call.call, call.offset).second) << call.call;
  }
  EXPECT_EQ(offsets.size(), 5U);
  for (const auto& [call, name] :
       {std::pair{PROFD_MAP_MMAP, "mmap"}, std::pair{PROFD_MAP_MUNMAP, "munmap"},
        std::pair{PROFD_MAP_MREMAP, "mremap"}, std::pair{PROFD_MAP_BRK, "brk"},
        std::pair{PROFD_MAP_MADVISE, "madvise"}}) {
    const auto* code = static_cast<const uint8_t*>(dlsym(libc, name));
    const Reach reach = call == PROFD_MAP_MADVISE ? Reach::kAfterSystemCall : Reach::kUnchanged;
    const ProbePoint point = ChooseProbePoint({code, kProbePointBytes}, reach);
    Bytes in_file(16);
    ASSERT_EQ(pread(fd.get(), in_file.data(), in_file.size(), static_cast<off_t>(offsets[call])),
              16);
    EXPECT_EQ(in_file, Bytes(code + point.skip, code + point.skip + 16)) << name;
    const bool has_cheap_place = call == PROFD_MAP_MMAP || call == PROFD_MAP_MADVISE;
    EXPECT_TRUE(!point.stepped || !has_cheap_place) << name;
  }
}

TEST(MapCallsTest, OtherFilesAreNoLibc) {
  const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto calls = FindMapCalls(self.get());
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_THAT(*calls, IsEmpty());
  EXPECT_THAT(Find(BuildElf({})), IsEmpty());
  // What puts itself between a program and its libc.
  EXPECT_THAT(FindDynamic({{"mmap", kText, 16},
                           {"munmap", kText + 16, 16},
                           {"mremap", kText + 32, 16},
                           {"sbrk", kText + 48, 16}}),
              IsEmpty());
  EXPECT_THAT(FindDynamic({{"mmap", kText, 16}, {"brk", kText + 16, 16}}), IsEmpty());
}

TEST(MapCallsTest, MuslHasNoHeapByBrk) {
  EXPECT_EQ(
      FindDynamic({{"mmap", kText, 16}, {"munmap", kText + 16, 16}, {"madvise", kText + 64, 16}})
          .size(),
      3U);
}

TEST(MapCallsTest, OnlyFunctionsInCodeThatOthersMayCall) {
  for (const Symbol& spoilt : {Symbol{"munmap", kText + 16, 16, STT_OBJECT},
                               Symbol{"munmap", kText + 16, 16, STT_GNU_IFUNC},
                               Symbol{"munmap", kText + 16, 16, STT_FUNC, STB_LOCAL},
                               Symbol{"munmap", kText + 16, 16, STT_FUNC, STB_GLOBAL, SHN_UNDEF},
                               Symbol{"munmap", 0, 16}, Symbol{"munmap", ~uint64_t{0}, 16}}) {
    std::vector<Symbol> symbols = kLibc;
    symbols[3] = spoilt;
    EXPECT_THAT(FindDynamic(symbols), IsEmpty());
    symbols[3].binding = STB_WEAK;
    if (spoilt.binding == STB_LOCAL) {
      EXPECT_EQ(FindDynamic(symbols), kCalls) << "weak is as good";
    }
  }
}

// A program without a dynamic linker has its libc's symbols among its own.
TEST(MapCallsTest, StaticProgramsBySymtab) {
  EXPECT_EQ(Find(BuildElf({}, {.symbols = kLibc})), kCalls);
  std::vector<Symbol> local = kLibc;
  for (Symbol& symbol : local) symbol.binding = STB_LOCAL;
  EXPECT_THAT(Find(BuildElf({}, {.symbols = local})), IsEmpty()) << "functions of that name";
  // One that is linked to others calls those.
  EXPECT_THAT(
      Find(BuildElf({}, {.symbols = kLibc,
                         .dynamic_symbols = {{"malloc", 0, 0, STT_FUNC, STB_GLOBAL, SHN_UNDEF}}})),
      IsEmpty());
  EXPECT_EQ(Find(BuildElf({}, {.symbols = kLibc, .dynamic_symbols = {{"main", kText, 16}}})),
            kCalls);
}

TEST(MapCallsTest, FilesThatLie) {
  const Bytes whole = BuildElf({}, {.dynamic_symbols = kLibc});
  size_t found = 0;
  for (size_t size = 0; size < whole.size(); size += size < 256 || size > 0x2000 ? 1 : 97) {
    const UniqueFd fd = FileOf(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    const auto calls = FindMapCalls(fd.get());
    if (!calls.ok()) continue;
    found += calls->size();
    for (const MapCall& call : *calls) EXPECT_EQ(kCalls.at(call.offset), call.call) << size;
  }
  EXPECT_GT(found, 0U) << "none of them is cut where it does not matter";
  found = 0;
  // A byte at a time, in the headers and behind the code: whatever it says, places are in the file.
  for (size_t at = 0; at < whole.size(); at += at < 0x200 || at > 0x2000 ? 1 : 509) {
    for (const uint8_t value : {0x00, 0x7f, 0xff}) {
      Bytes bytes = whole;
      bytes[at] = value;
      const UniqueFd fd = FileOf(bytes);
      const auto calls = FindMapCalls(fd.get());
      if (!calls.ok()) continue;
      found += calls->size();
      EXPECT_LE(calls->size(), kLibc.size());
      for (const MapCall& call : *calls) EXPECT_LT(call.offset, whole.size()) << at;
    }
  }
  EXPECT_GT(found, 0U);
  Bytes other = whole;
  other[offsetof(Elf64_Ehdr, e_machine)] = EM_386;
  const UniqueFd fd = FileOf(other);
  EXPECT_TRUE(absl::IsInvalidArgument(FindMapCalls(fd.get()).status()));
}

// More definitions than any libc has.
TEST(MapCallsTest, OverfullTablesAreBounded) {
  std::vector<Symbol> symbols;
  for (uint64_t i = 0; i < 2'000; ++i) symbols.push_back({"mmap", kText + i, 1});
  symbols.insert(symbols.end(), kLibc.begin(), kLibc.end());
  EXPECT_THAT(FindDynamic(symbols), IsEmpty());
}

}  // namespace
}  // namespace profd
