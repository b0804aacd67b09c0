// Where companion files of debug info are looked for, and what a hostile name can do.
#include "daemon/lines/companion_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/elf/elf_file.h"
#include "tests/support/places.h"
#include "tests/unit/stripped_library.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;

class CompanionFilesTest : public ::testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static void Copy(const std::string& from, const std::string& to) {
    fs::create_directories(fs::path(to).parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }
  static std::string PathOf(const UniqueFd& fd) {
    return fd.ok() ? fs::read_symlink(absl::StrCat("/proc/self/fd/", fd.get())).string() : "none";
  }

  CompanionFiles Files() const {
    return CompanionFiles(std::make_shared<UniqueFd>(open(target_.c_str(), O_PATH | O_DIRECTORY)),
                          own_, {more_}, "/opt/app/server");
  }
  std::string Split(const std::string& name) const {
    return PathOf(
        Files().Open({.id = 1, .kind = FileQuestion::Kind::kSplit, .name = name, .build_id = ""}));
  }
  bool HasSupplementary(const std::string& name) const {
    return Files()
        .Open({.id = 1,
               .kind = FileQuestion::Kind::kSupplementary,
               .name = name,
               .build_id = build_id_})
        .ok();
  }

  const TemporaryDirectory directory_;
  const std::string target_ = directory_.path() + "/target";
  const std::string own_ = directory_.path() + "/own";
  const std::string more_ = directory_.path() + "/more";
  const std::string common_ = InBuild("lines_dwz.common");
  const std::string split_ = InBuild("lines_dwo5-lines.dwo");
  std::string build_id_;

  void SetUp() override {
    for (const std::string& root : {target_, own_, more_}) fs::create_directories(root);
    const UniqueFd fd(open(common_.c_str(), O_RDONLY | O_CLOEXEC));
    const auto elf = symbolize::ElfFile::Open(fd.get());
    ASSERT_TRUE(elf.ok()) << elf.status();
    build_id_ = elf->BuildId();
    ASSERT_GT(build_id_.size(), 2u);
  }
};

TEST_F(CompanionFilesTest, SplitFilesLieWhereTheCompilerLeftThem) {
  EXPECT_EQ(Split("/src/a.dwo"), "none");
  for (const std::string& place :
       {more_ + "/a.dwo", more_ + "/src/a.dwo", own_ + "/src/a.dwo", target_ + "/src/a.dwo"}) {
    Copy(split_, place);
    EXPECT_EQ(Split("/src/a.dwo"), place);
  }
}

TEST_F(CompanionFilesTest, NothingElseIsOpened) {
  Write(target_ + "/etc/shadow", "secret");
  EXPECT_EQ(Split("/etc/shadow"), "none");
  fs::create_symlink("etc/shadow", target_ + "/secret.dwo");
  EXPECT_EQ(Split("/secret.dwo"), "none") << "not split DWARF";
  Copy(InBuild("lines_dwarf5"), target_ + "/whole.dwo");
  EXPECT_EQ(Split("/whole.dwo"), "none") << "not split DWARF";
  fs::create_symlink("/proc/self/mem", own_ + "/memory.dwo");
  EXPECT_EQ(Split("/memory.dwo"), "none");
  Copy(split_, directory_.path() + "/outside.dwo");
  EXPECT_EQ(Split("/../../../../outside.dwo"), "none");
  fs::create_symlink("../../outside.dwo", target_ + "/link.dwo");
  EXPECT_EQ(Split("/link.dwo"), "none");
  ASSERT_EQ(mkfifo((target_ + "/fifo.dwo").c_str(), 0600), 0);
  EXPECT_EQ(Split("/fifo.dwo"), "none");
  fs::create_directories(target_ + "/folder.dwo");
  EXPECT_EQ(Split("/folder.dwo"), "none");
  EXPECT_EQ(Split(""), "none");
}

TEST_F(CompanionFilesTest, SupplementaryFilesAreFoundByNameAndBuildId) {
  const std::string name = "/usr/lib/debug/.dwz/x86_64-linux-gnu/server.debug";
  EXPECT_FALSE(HasSupplementary(name));
  Copy(common_, more_ + "/server.debug");
  EXPECT_TRUE(HasSupplementary(name));
  fs::remove(more_ + "/server.debug");
  Copy(common_, own_ + name);
  EXPECT_TRUE(HasSupplementary(name));
  EXPECT_TRUE(HasSupplementary("../../.dwz/x86_64-linux-gnu/server.debug")) << "relative";
  Copy(InBuild("lines_dwarf5"), own_ + name);
  EXPECT_FALSE(HasSupplementary(name)) << "another one of that name";
  Copy(common_, absl::StrCat(target_, "/usr/lib/debug/.build-id/", build_id_.substr(0, 2), "/",
                             build_id_.substr(2), ".debug"));
  EXPECT_TRUE(HasSupplementary(name));
}

}  // namespace
}  // namespace profd::test
