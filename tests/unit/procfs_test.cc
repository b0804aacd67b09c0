#include "daemon/target/procfs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

#include "tests/support/machine.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kPage = 4096;

// PID of a process that has just ended.
int32_t EndedPid() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return child;
}

// A file of one page, mapped executable.
class MappedFileFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "procfs_test." + std::to_string(getpid());
    std::ofstream(path_) << std::string(kPage, 'x');
    const auto fd = OpenReadOnly(path_);
    ASSERT_TRUE(fd.ok()) << fd.status();
    map_ = mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd->get(), 0);
    ASSERT_NE(map_, MAP_FAILED);
  }
  void TearDown() override {
    if (map_ != MAP_FAILED) munmap(map_, kPage);
    unlink(path_.c_str());
  }
  uint64_t start() const { return reinterpret_cast<uint64_t>(map_); }
  absl::StatusOr<MappedModule> Open() const {
    return OpenMapping(getpid(), start(), start() + kPage);
  }

  std::string path_;
  void* map_ = MAP_FAILED;
};

TEST(ProcfsTest, ReadsAProcess) {
  const auto self = ReadProcess(getpid());
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_EQ(self->pid, getpid());
  EXPECT_EQ(self->parent, getppid());
  EXPECT_EQ(self->executable, program_invocation_short_name);
  char name[16];
  ASSERT_EQ(prctl(PR_GET_NAME, name), 0);
  EXPECT_EQ(self->comm, name);
}

TEST(ProcfsTest, CommandNamesCannotForgeTheRest) {
  for (const char* name : {") S 1 (", "a) R 2 3", "(((", ")))", " ", "a\nb) S 9", "\xff\xfe"}) {
    ASSERT_EQ(prctl(PR_SET_NAME, name), 0);
    const auto self = ReadProcess(getpid());
    ASSERT_TRUE(self.ok()) << self.status();
    EXPECT_EQ(self->comm, name);
    EXPECT_EQ(self->parent, getppid());
  }
  prctl(PR_SET_NAME, "procfs_test");
}

TEST(ProcfsTest, ProcessThatIsGoneIsNotFound) {
  for (const int32_t pid : {EndedPid(), 0, -1, 0x7fffffff}) {
    EXPECT_TRUE(absl::IsNotFound(ReadProcess(pid).status())) << pid;
    EXPECT_TRUE(absl::IsNotFound(OpenPidfd(pid).status())) << pid;
    EXPECT_TRUE(absl::IsNotFound(OpenMapping(pid, 0x1000, 0x2000).status())) << pid;
  }
}

TEST(ProcfsTest, ListHoldsUsOnce) {
  const std::vector<ProcessInfo> processes = ListProcesses();
  EXPECT_EQ(std::count_if(processes.begin(), processes.end(),
                          [](const ProcessInfo& p) { return p.pid == getpid(); }),
            1);
  EXPECT_TRUE(std::all_of(processes.begin(), processes.end(),
                          [](const ProcessInfo& p) { return p.pid > 0; }));
}

std::vector<int32_t> PidsOf(const std::vector<ProcessInfo>& processes) {
  std::vector<int32_t> pids;
  for (const ProcessInfo& process : processes) pids.push_back(process.pid);
  return pids;
}

TEST(ProcfsTest, AnotherProcessWithItsPidIsNotIt) {
  auto self = ReadProcess(getpid());
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_TRUE(IsRunning(*self));
  ++self->start_ticks;
  EXPECT_FALSE(IsRunning(*self));
  self->pid = EndedPid();
  EXPECT_FALSE(IsRunning(*self));
}

// We > a child of another thread than the first > its child.
TEST(ProcfsTest, FamilyIsAllThatDescends) {
  REQUIRE_FACT("kernel.proc_children");
  int said[2];
  int over[2];
  ASSERT_EQ(pipe(said), 0);
  ASSERT_EQ(pipe(over), 0);
  int32_t pids[2] = {};
  std::thread mother([&] {
    const pid_t child = fork();
    if (child != 0) {
      pids[0] = child;
      EXPECT_EQ(read(said[0], &pids[1], sizeof(pids[1])), static_cast<ssize_t>(sizeof(pids[1])));
      const auto family = ReadFamily(getpid());
      ASSERT_TRUE(family.ok()) << family.status();
      EXPECT_THAT(PidsOf(*family), ElementsAre(getpid(), pids[0], pids[1]));
      const auto of_child = ReadFamily(pids[0]);
      ASSERT_TRUE(of_child.ok()) << of_child.status();
      EXPECT_THAT(PidsOf(*of_child), ElementsAre(pids[0], pids[1]));
      close(over[1]);
      waitpid(child, nullptr, 0);
      return;
    }
    close(over[1]);
    const pid_t grandchild = fork();
    if (grandchild > 0) (void)!write(said[1], &grandchild, sizeof(grandchild));
    // Until our parent, or its test, is over.
    char none;
    (void)!read(over[0], &none, 1);
    if (grandchild > 0) waitpid(grandchild, nullptr, 0);
    _exit(0);
  });
  mother.join();
  for (const int fd : {said[0], said[1], over[0]}) close(fd);
  const auto gone = ReadFamily(pids[0]);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_THAT(*gone, IsEmpty());
}

TEST(ProcfsTest, PidfdIsOfThatProcess) {
  const auto fd = OpenPidfd(getpid());
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto info = ReadWholeFile("/proc/self/fdinfo/" + std::to_string(fd->get()));
  ASSERT_TRUE(info.ok());
  EXPECT_NE(info->find("Pid:\t" + std::to_string(getpid()) + "\n"), std::string::npos) << *info;
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(MappedFileFixture, OpensTheMappedFile) {
  const auto module = Open();
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->path, path_);
  struct stat opened, named;
  ASSERT_EQ(fstat(module->fd.get(), &opened), 0);
  ASSERT_EQ(stat(path_.c_str(), &named), 0);
  EXPECT_EQ(opened.st_ino, named.st_ino);
}

TEST_F(MappedFileFixture, OpensADeletedFileNeverItsSuccessor) {
  REQUIRE_FACT("capabilities");
  struct stat mapped;
  ASSERT_EQ(stat(path_.c_str(), &mapped), 0);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  std::ofstream(path_) << "another file";
  const auto module = Open();
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->path, path_);
  struct stat opened;
  ASSERT_EQ(fstat(module->fd.get(), &opened), 0);
  EXPECT_EQ(opened.st_ino, mapped.st_ino);
  EXPECT_EQ(opened.st_size, static_cast<off_t>(kPage));
}

TEST_F(MappedFileFixture, MappingThatIsGoneIsNotFound) {
  munmap(map_, kPage);
  const auto module = Open();
  map_ = MAP_FAILED;
  EXPECT_TRUE(absl::IsNotFound(module.status())) << module.status();
}

TEST(ProcfsTest, MappingWithoutAFileIsNotFound) {
  void* map = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(map);
  EXPECT_TRUE(absl::IsNotFound(OpenMapping(getpid(), start, start + kPage).status()));
  munmap(map, kPage);
}

TEST(ProcfsTest, DevicesAreNotModules) {
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  void* map = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, zero.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(map);
  EXPECT_FALSE(OpenMapping(getpid(), start, start + kPage).ok());
  munmap(map, kPage);
}

TEST_F(MappedFileFixture, CodeIsFoundWhereItIsMapped) {
  const auto fd = OpenReadOnly(path_);
  ASSERT_TRUE(fd.ok());
  const auto found = FindCode(getpid(), fd->get(), 10);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, start() + 10);
  EXPECT_TRUE(absl::IsNotFound(FindCode(getpid(), fd->get(), kPage).status()));
  EXPECT_TRUE(absl::IsNotFound(FindCode(getpid(), fd->get(), UINT64_MAX).status()));
  EXPECT_TRUE(absl::IsNotFound(FindCode(EndedPid(), fd->get(), 10).status()));
  // Another file of the same content.
  std::ofstream(path_ + ".other") << std::string(kPage, 'x');
  const auto other = OpenReadOnly(path_ + ".other");
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(absl::IsNotFound(FindCode(getpid(), other->get(), 10).status()));
  unlink((path_ + ".other").c_str());
  // Mapped as data only.
  ASSERT_EQ(mprotect(map_, kPage, PROT_READ), 0);
  EXPECT_TRUE(absl::IsNotFound(FindCode(getpid(), fd->get(), 10).status()));
}

TEST(ProcfsTest, ReadsMemory) {
  const uint64_t value = 0x1234567890abcdef;
  uint64_t read = 0;
  const auto address = reinterpret_cast<uint64_t>(&value);
  ASSERT_TRUE(ReadMemory(getpid(), address, &read, sizeof(read)).ok());
  EXPECT_EQ(read, value);
  for (const uint64_t nowhere : {uint64_t{0}, uint64_t{1} << 47, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_TRUE(absl::IsNotFound(ReadMemory(getpid(), nowhere, &read, sizeof(read)))) << nowhere;
  }
  EXPECT_FALSE(ReadMemory(EndedPid(), address, &read, sizeof(read)).ok());
}

}  // namespace
}  // namespace profd
