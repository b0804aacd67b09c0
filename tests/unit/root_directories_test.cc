#include "daemon/target/root_directories.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/machine.h"
#include "tests/unit/stripped_library.h"

namespace profd::test {
namespace {

TEST(RootDirectoriesTest, OwnRootIsNone) {
  RootDirectories roots;
  EXPECT_EQ(roots.Of(getpid()), nullptr);
  EXPECT_EQ(roots.Of(-1), nullptr);
}

// A process that changed its root directory and waits; killed with the object.
class Jailed {
 public:
  explicit Jailed(const std::string& root) {
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char done = chroot(root.c_str()) == 0 ? 'y' : 'n';
      (void)!write(ready[1], &done, 1);
      while (true) pause();
    }
    char done = 0;
    EXPECT_EQ(read(ready[0], &done, 1), 1);
    EXPECT_EQ(done, 'y');
    close(ready[0]);
    close(ready[1]);
  }
  Jailed(const Jailed&) = delete;
  Jailed& operator=(const Jailed&) = delete;
  ~Jailed() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  int32_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(RootDirectoriesTest, ProcessesOfOneRootShareIt) {
  REQUIRE_FACT("root");
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/marker") << "here";
  RootDirectories roots;
  std::shared_ptr<const UniqueFd> root;
  {
    const Jailed first(directory.path());
    const Jailed second(directory.path());
    root = roots.Of(first.pid());
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(roots.Of(second.pid()), root);
  }
  EXPECT_EQ(faccessat(root->get(), "marker", F_OK, 0), 0) << "its processes are gone";
  const int fd = root->get();
  root.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "nobody needs it";
}

}  // namespace
}  // namespace profd::test
