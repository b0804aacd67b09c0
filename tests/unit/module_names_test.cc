// Names of code in libraries as the tools of a distribution leave them.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/function_bounds.h"
#include "daemon/symbolize/inferred_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/elf_builder.h"
#include "tests/unit/stripped_library.h"

namespace profd::test {
namespace {

using ::testing::ElementsAre;

std::string FunctionAt(const std::string& module, uint64_t address) {
  return absl::StrCat(module, ":fn_", absl::Hex(address));
}

class ModuleNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    BuildLibrary(full_);
    stripped_ = Stripped(full_);
  }

  std::string Stripped(const std::string& path) {
    std::string stripped = path + ".stripped";
    Shell("strip --strip-all -o '" + stripped + "' '" + path + "'");
    return stripped;
  }

  const TemporaryDirectory directory_;
  const std::string full_ = directory_.path() + "/lib.so";
  std::string stripped_;
  const std::string module_ = "lib.so.stripped";
};

TEST_F(ModuleNamesTest, SymbolsSayFromWhichTable) {
  const symbolize::NamedSymbol exported = FunctionIn(full_, "exported");
  const symbolize::NamedSymbol hidden = FunctionIn(full_, "hidden_one");
  EXPECT_EQ(NameIn(full_, hidden.address).function, "hidden_one");
  EXPECT_EQ(NameIn(full_, hidden.address).source, NameSource::kSymbols);
  EXPECT_EQ(NameIn(full_, exported.address).source, NameSource::kSymbols) << "it is in both tables";
  EXPECT_EQ(NameIn(stripped_, exported.address).function, "exported");
  EXPECT_EQ(NameIn(stripped_, exported.address).source, NameSource::kDynamicSymbols);
}

TEST_F(ModuleNamesTest, EveryByteOfAStrippedFunctionHasOneName) {
  for (const std::string name : {"hidden_one", "hidden_two"}) {
    const symbolize::NamedSymbol function = FunctionIn(full_, name);
    std::vector<uint64_t> addresses;
    for (uint64_t i = 0; i < function.size; ++i) addresses.push_back(function.address + i);
    for (const Symbol& symbol : NamesIn(stripped_, addresses)) {
      EXPECT_EQ(symbol.function, FunctionAt(module_, function.address)) << name;
      EXPECT_EQ(symbol.source, NameSource::kBounds);
      EXPECT_EQ(symbol.kind, FrameKind::kApplication);
    }
  }
}

TEST_F(ModuleNamesTest, TheExportedFunctionThatJumpsThereGivesItsName) {
  // As they follow each other.
  const std::vector<std::pair<std::string, std::string>> callers = {
      {"alone", "jump_alone"},
      {"shared", "jump"},  // and jump_until
      {"common", ""},      // too many
      {"called", ""},      // by others
      {"encoded", ""}};    // not of C
  std::vector<uint64_t> addresses;
  std::vector<std::string> expected;
  for (const auto& [name, caller] : callers) {
    const uint64_t begin = FunctionIn(full_, name).address;
    addresses.push_back(begin + 1);
    expected.push_back(caller.empty() ? FunctionAt(module_, begin)
                                      : symbolize::InferredFunction(caller, begin));
  }
  const std::vector<Symbol> names = NamesIn(stripped_, addresses);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i].function, expected[i]);
    EXPECT_EQ(names[i].source,
              expected[i].starts_with('~') ? NameSource::kInferred : NameSource::kBounds);
  }
}

TEST_F(ModuleNamesTest, WhatNobodyDescribesHasNoFunction) {
  const uint64_t bare = FunctionIn(full_, "bare").address;
  const Symbol symbol = NameIn(stripped_, bare + 3);
  EXPECT_THAT(symbol.function, ::testing::StartsWith(module_ + "+0x"));
  EXPECT_EQ(symbol.source, NameSource::kNone);
}

TEST_F(ModuleNamesTest, LabelEndsWithItsDescription) {
  const uint64_t described = FunctionIn(full_, "described").address;
  constexpr uint64_t kSize = 16;
  EXPECT_EQ(NameIn(full_, described + kSize - 1).function, "described");
  // The label before has no description: it may reach up to the function that has one.
  const uint64_t bare = FunctionIn(full_, "bare").address;
  EXPECT_EQ(NameIn(full_, bare + kSize - 1).function, "bare");
  // Without the symbol behind it, the label must not take the code there.
  const std::string hidden = directory_.path() + "/hidden.so";
  Shell("strip -N behind -o '" + hidden + "' '" + full_ + "'");
  EXPECT_EQ(NameIn(hidden, described).function, "described");
  EXPECT_EQ(NameIn(hidden, described + kSize + 4).source, NameSource::kNone);
  // Nor may a label take a function that it does not begin.
  Shell("strip -N described -N behind -o '" + hidden + "' '" + full_ + "'");
  EXPECT_EQ(NameIn(hidden, described).function, FunctionAt("hidden.so", described));
}

TEST_F(ModuleNamesTest, SplitPartsWithoutSymbolsAreFunctionsOfTheirOwn) {
  const std::string split = directory_.path() + "/split.so";
  BuildLibrary(split, "-O2 -fno-inline -fno-ipa-icf");
  const symbolize::NamedSymbol cold = FunctionIn(split, "hidden_two.cold");
  EXPECT_EQ(NameIn(split, cold.address).function, "hidden_two");
  EXPECT_EQ(NameIn(Stripped(split), cold.address).function,
            FunctionAt("split.so.stripped", cold.address));
}

// The function that the PLT entry at each address of the section calls, as the disassembler has it.
void ExpectPlt(const std::string& path, const std::string& section, uint64_t entry_size) {
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(path);
  const auto elf = symbolize::ElfFile::Open(fd->get());
  const symbolize::Section* plt = elf->FindSectionByName(section);
  ASSERT_NE(plt, nullptr) << section;
  std::vector<uint64_t> addresses;
  for (uint64_t at = 0; at < plt->size; at += 3) addresses.push_back(plt->address + at);
  const std::vector<Symbol> symbols = NamesIn(path, addresses);
  std::set<std::string> names;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const uint64_t entry = (addresses[i] - plt->address) / entry_size;
    if (symbols[i].source == NameSource::kPlt) {
      names.insert(symbols[i].function);
    } else {
      EXPECT_EQ(symbols[i].source, NameSource::kBounds);
      EXPECT_EQ(symbols[i].function, FunctionAt(std::filesystem::path(path).filename(),
                                                plt->address + entry * entry_size))
          << "only the head of a lazy PLT calls nothing";
      EXPECT_EQ(entry, 0u);
    }
  }
  if (section == ".plt.got") {
    EXPECT_THAT(names, ElementsAre("__cxa_finalize@plt"));
  } else {
    EXPECT_THAT(names, ::testing::IsSupersetOf({"puts@plt", "abort@plt"}));
  }
}

TEST_F(ModuleNamesTest, PltEntriesOfEachLayout) {
  const std::string path = directory_.path() + "/plt.so";
  BuildLibrary(path, "-Wl,-z,lazy");
  ExpectPlt(Stripped(path), ".plt", 16);
  ExpectPlt(Stripped(path), ".plt.got", 8);
  BuildLibrary(path, "-Wl,-z,ibtplt -Wl,-z,lazy");
  ExpectPlt(Stripped(path), ".plt", 16);
  ExpectPlt(Stripped(path), ".plt.sec", 16);
}

// .eh_frame without the search table.
TEST_F(ModuleNamesTest, BoundsWithoutASearchTable) {
  const std::string path = directory_.path() + "/plain.so";
  BuildLibrary(path, "-Wl,--no-eh-frame-hdr");
  const symbolize::NamedSymbol function = FunctionIn(path, "hidden_one");
  EXPECT_EQ(NameIn(Stripped(path), function.address + function.size - 1).function,
            FunctionAt("plain.so.stripped", function.address));
  const uint64_t bare = FunctionIn(path, "bare").address;
  EXPECT_EQ(NameIn(Stripped(path), bare).source, NameSource::kNone);
}

// Any change to the parts that are parsed gives a name or none, in bounded time.
TEST_F(ModuleNamesTest, DamagedFilesGiveSomeName) {
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(stripped_);
  ASSERT_TRUE(fd.ok());
  const auto elf = symbolize::ElfFile::Open(fd->get());
  std::string good(std::filesystem::file_size(stripped_), '\0');
  ASSERT_TRUE(ReadFileAt(fd->get(), 0, good.data(), good.size()).ok());
  std::vector<uint64_t> offsets;
  for (uint64_t at = 0; at < good.size(); at += 61) offsets.push_back(at);
  for (const std::string section : {".eh_frame_hdr", ".eh_frame", ".rela.plt", ".plt", ".dynsym"}) {
    const symbolize::Section* place = elf->FindSectionByName(section);
    ASSERT_NE(place, nullptr) << section;
    for (uint64_t at = 0; at < place->size; at += 7) {
      for (const uint8_t value : {uint8_t{0}, uint8_t{0xff}, uint8_t{0x80}}) {
        std::string bad = good;
        bad[place->offset + at] = static_cast<char>(value);
        const UniqueFd memory(memfd_create("bad", MFD_CLOEXEC));
        ASSERT_EQ(write(memory.get(), bad.data(), bad.size()), static_cast<ssize_t>(bad.size()));
        for (const Symbol& symbol : SymbolizeModule(memory.get(), {"/lib/bad.so", ""}, offsets)) {
          ASSERT_FALSE(symbol.function.empty());
        }
      }
    }
  }
}

// A table of .eh_frame_hdr in any order, with descriptions that do not fit.
TEST(FunctionBoundsTest, TableThatLiesGivesNoBoundsAroundOtherCode) {
  FrameBuilder frames;
  const uint32_t common = frames.AddCommon();
  frames.AddFunction(common, kText + 0x100, 0x40, {});
  const Bytes file = BuildElf(frames.bytes());
  const UniqueFd fd(memfd_create("bounds", MFD_CLOEXEC));
  ASSERT_EQ(write(fd.get(), file.data(), file.size()), static_cast<ssize_t>(file.size()));
  const auto elf = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok());
  const std::vector<uint64_t> addresses = {
      0, kText + 0xff, kText + 0x100, kText + 0x13f, kText + 0x140, UINT64_MAX};
  const auto found = symbolize::FindBounds(*elf, addresses);
  ASSERT_EQ(found.size(), addresses.size());
  for (const size_t i : {0, 1, 4, 5}) EXPECT_FALSE(found[i].has_value()) << i;
  for (const size_t i : {2, 3}) {
    ASSERT_TRUE(found[i].has_value()) << i;
    EXPECT_EQ(found[i]->begin, kText + 0x100);
    EXPECT_EQ(found[i]->end, kText + 0x140);
  }
}

}  // namespace
}  // namespace profd::test
