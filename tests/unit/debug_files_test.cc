// Debug files, made by the tools of a distribution, in the places where they may lie.
#include "daemon/symbolize/debug_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/debug_search.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/stripped_library.h"

namespace profd::test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class DebugFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { Build(""); }

  // `full_`, its debug file, and the library without symbols, which names the debug file.
  void Build(const std::string& flags) {
    BuildLibrary(full_, flags);
    Shell("objcopy --only-keep-debug '" + full_ + "' '" + debug_ + "'");
    Strip(full_, "--add-gnu-debuglink='" + debug_ + "'");
    hidden_ = FunctionIn(full_, "hidden_one").address;
    build_id_ = ReadIdentity(OpenReadOnly(full_)->get(), full_)->build_id;
  }

  void Strip(const std::string& from, const std::string& more) {
    std::filesystem::create_directories(root_ + "/opt");
    Shell("objcopy --strip-all " + more + " '" + from + "' '" + root_ + kPath + "'");
  }

  // Copies a file to a place in the root.
  void Place(const std::string& file, const std::string& place) {
    std::filesystem::create_directories(std::filesystem::path(root_ + place).parent_path());
    std::filesystem::copy_file(file, root_ + place,
                               std::filesystem::copy_options::overwrite_existing);
  }

  ModuleFile Module() const {
    return {.identity = {.path = kPath, .build_id = build_id_},
            .fd = *OpenReadOnly(root_ + kPath),
            .root = nullptr};
  }

  Symbol Named(const symbolize::DebugFile* debug) const {
    const ModuleFile module = Module();
    const auto elf = symbolize::ElfFile::Open(module.fd.get());
    const std::vector<uint64_t> offsets = {elf->CodeAt(hidden_)->offset};
    return SymbolizeModule(module.fd.get(), module.identity, offsets, debug)[0];
  }

  bool Found(const symbolize::DebugPlaces& places) const {
    const ModuleFile module = Module();
    const auto elf = symbolize::ElfFile::Open(module.fd.get());
    const auto found = symbolize::SearchDebugFile(*elf, kPath, places);
    if (!found) return false;
    const Symbol symbol = Named(&*found);
    EXPECT_EQ(symbol.function, "hidden_one");
    EXPECT_EQ(symbol.source, NameSource::kDebugFile);
    return true;
  }
  bool FoundInOwnRoot() const { return Found({.own_root = root_}); }
  bool FoundInTargetRoot() const {
    const UniqueFd root(open(root_.c_str(), O_PATH | O_DIRECTORY));
    return Found({.target_root = root.get(), .own_root = directory_.path() + "/none"});
  }

  std::string ById() const {
    return absl::StrCat("/usr/lib/debug/.build-id/", build_id_.substr(0, 2), "/",
                        build_id_.substr(2), ".debug");
  }

  static constexpr char kPath[] = "/opt/lib.so";
  const TemporaryDirectory directory_;
  const std::string full_ = directory_.path() + "/full.so";
  const std::string debug_ = directory_.path() + "/full.debug";
  const std::string root_ = directory_.path() + "/root";
  uint64_t hidden_ = 0;
  std::string build_id_;
};

TEST_F(DebugFilesTest, ByBuildId) {
  EXPECT_FALSE(FoundInOwnRoot());
  EXPECT_FALSE(FoundInTargetRoot());
  Place(debug_, ById());
  EXPECT_TRUE(FoundInOwnRoot());
  EXPECT_TRUE(FoundInTargetRoot());
}

TEST_F(DebugFilesTest, OtherBuildIdIsAnotherFile) {
  const std::string by_id = ById();
  Build("-O2 -Wl,--build-id=0x123456");
  Place(debug_, by_id);
  Build("");
  EXPECT_EQ(ById(), by_id);
  EXPECT_FALSE(FoundInOwnRoot());
}

TEST_F(DebugFilesTest, ByNameAndChecksumInEachPlace) {
  Build("-Wl,--build-id=none");
  ASSERT_EQ(build_id_, "");
  for (const std::string place :
       {"/opt/full.debug", "/opt/.debug/full.debug", "/usr/lib/debug/opt/full.debug"}) {
    EXPECT_FALSE(FoundInTargetRoot());
    Place(debug_, place);
    EXPECT_TRUE(FoundInOwnRoot()) << place;
    EXPECT_TRUE(FoundInTargetRoot()) << place;
    // It has other symbols than the library was linked with.
    std::ofstream(root_ + place, std::ios::app) << '\0';
    EXPECT_FALSE(FoundInTargetRoot()) << place;
    std::filesystem::remove(root_ + place);
  }
}

TEST_F(DebugFilesTest, UnstrippedBuildOfTheSameCode) {
  Build("-Wl,--build-id=none");
  Strip(full_, "");
  const std::string symbols = directory_.path() + "/symbols";
  std::filesystem::create_directories(symbols + "/folder");
  const auto found = [&] { return Found({.own_root = root_, .directories = {symbols}}); };
  std::ofstream(symbols + "/README") << "no ELF file";
  EXPECT_FALSE(found());
  const std::string other = directory_.path() + "/other.so";
  BuildLibrary(other, "-O2 -Wl,--build-id=none");
  std::filesystem::copy_file(other, symbols + "/lib.so");
  EXPECT_FALSE(found()) << "it has other code";
  std::filesystem::copy_file(full_, symbols + "/lib-v2-with-symbols");
  EXPECT_TRUE(found());
  EXPECT_FALSE(FoundInOwnRoot());
}

TEST_F(DebugFilesTest, NoLinkLeadsOutOfTheTargetsRoot) {
  std::filesystem::create_directories(directory_.path() + "/outside");
  const std::string outside = directory_.path() + "/outside/full.debug";
  std::filesystem::copy_file(debug_, outside);
  std::filesystem::create_directories(std::filesystem::path(root_ + ById()).parent_path());
  for (const std::string& target : {outside, std::string("../../../../../../outside/full.debug")}) {
    std::filesystem::remove(root_ + ById());
    std::filesystem::create_symlink(target, root_ + ById());
    EXPECT_FALSE(FoundInTargetRoot()) << target;
  }
  // Within the root a link works as the target sees it.
  Place(debug_, "/srv/full.debug");
  std::filesystem::remove(root_ + ById());
  std::filesystem::create_symlink("/srv/full.debug", root_ + ById());
  EXPECT_TRUE(FoundInTargetRoot());
}

TEST_F(DebugFilesTest, OnlyRegularFilesAreOpened) {
  std::filesystem::create_directories(std::filesystem::path(root_ + ById()).parent_path());
  ASSERT_EQ(mkfifo((root_ + ById()).c_str(), 0600), 0);
  EXPECT_FALSE(FoundInTargetRoot()) << "and it does not wait for a writer";
  std::filesystem::remove(root_ + ById());
  std::filesystem::create_symlink("/dev/zero", root_ + ById());
  EXPECT_FALSE(FoundInOwnRoot());
  std::filesystem::remove(root_ + ById());
  std::filesystem::create_directory(root_ + ById());
  EXPECT_FALSE(FoundInTargetRoot());
  std::filesystem::remove(root_ + ById());
  // A file that is larger than any debug file, almost all of it a hole.
  Place(debug_, ById());
  std::filesystem::resize_file(root_ + ById(), uint64_t{9} << 30);
  EXPECT_FALSE(FoundInTargetRoot());
}

// The compressed symbols that Fedora puts into every program.
TEST_F(DebugFilesTest, SymbolsInTheFileItself) {
  const std::string packed = debug_ + ".xz";
  Shell("xz --keep '" + debug_ + "'");
  const auto name = [&] {
    Strip(full_, "--add-section .gnu_debugdata='" + packed + "'");
    return Named(nullptr);
  };
  EXPECT_EQ(name().function, "hidden_one");
  EXPECT_EQ(name().source, NameSource::kDebugFile);

  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - 40);
  EXPECT_EQ(name().source, NameSource::kBounds) << "cut";
  std::ofstream(packed) << "no xz";
  EXPECT_EQ(name().source, NameSource::kBounds);
  Shell("cp '" + debug_ + "' '" + debug_ + ".big' && truncate -s 100M '" + debug_ +
        ".big' && xz -0 --stdout '" + debug_ + ".big' > '" + packed + "'");
  EXPECT_EQ(name().source, NameSource::kBounds) << "too large when unpacked";
  Shell("xz --lzma2=dict=256MiB --stdout '" + debug_ + "' > '" + packed + "'");
  EXPECT_EQ(name().source, NameSource::kBounds) << "needs too much memory to unpack";
}

TEST_F(DebugFilesTest, SoughtAgainLessAndLessOften) {
  FakeClock clock;
  DebugFiles files({}, &clock, root_);
  const int64_t begin = clock.MonotonicNs();
  const auto refresh_at = [&](int64_t second) {
    clock.MoveTo(begin + second * kSecond);
    return files.Refresh(7, Module());
  };
  EXPECT_EQ(refresh_at(0), 0u);
  EXPECT_FALSE(files.Open(7).has_value());
  EXPECT_EQ(refresh_at(10), 0u);
  Place(debug_, ById());
  EXPECT_EQ(refresh_at(29), 0u) << "after 10 s it waits for 20 s";
  const uint64_t version = refresh_at(30);
  EXPECT_NE(version, 0u);
  EXPECT_EQ(refresh_at(31), version);
  const auto found = files.Open(7);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(Named(&*found).function, "hidden_one");
  std::filesystem::remove(root_ + ById());
  EXPECT_EQ(refresh_at(10'000), version) << "it stays open";
  EXPECT_FALSE(files.Open(8).has_value());
}

TEST_F(DebugFilesTest, NothingIsSoughtForAModuleWithSymbols) {
  Place(debug_, ById());
  Place(full_, kPath);
  FakeClock clock;
  DebugFiles files({}, &clock, root_);
  EXPECT_EQ(files.Refresh(7, Module()), 0u);
  EXPECT_FALSE(files.Open(7).has_value());
}

TEST_F(DebugFilesTest, FileThatWasReplacedHasNone) {
  Place(debug_, ById());
  FakeClock clock;
  DebugFiles files({}, &clock, root_);
  ModuleFile module = Module();
  module.identity.build_id = "abcd";
  EXPECT_EQ(files.Refresh(7, module), 0u);
}

TEST_F(DebugFilesTest, ManyModulesKeepFewFilesOpen) {
  Place(debug_, ById());
  FakeClock clock;
  DebugFiles files({}, &clock, root_);
  for (uint64_t key = 1; key <= 600; ++key) ASSERT_NE(files.Refresh(key, Module()), 0u) << key;
  size_t open = 0;
  for (uint64_t key = 1; key <= 600; ++key) open += files.Open(key).has_value() ? 1 : 0;
  EXPECT_EQ(open, 256u);
  EXPECT_TRUE(files.Open(600).has_value()) << "the last ones stay";
  EXPECT_FALSE(files.Open(1).has_value());
}

}  // namespace
}  // namespace profd::test
