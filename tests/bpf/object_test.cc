// What waits are for, as ticks describe it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/bpf/kernel_fixture.h"
#include "tests/observe.h"
#include "tests/support/end_with.h"

namespace profd {
namespace {

class ObjectKernelTest : public KernelTest {
 protected:
  // What the ticks since the last call found waits to be for.
  std::set<uint64_t> Arguments() const {
    std::set<uint64_t> arguments;
    for (const profd_visit& visit : found_) arguments.insert(visit.arg0);
    return arguments;
  }

  // Ticks until a wait is for an object of the kind, and returns what was told of it. The child's
  // own wait for a pipe is another one.
  profd_object Await(profd_object_kind kind) {
    profd_object object{};
    EXPECT_TRUE(Eventually([&] {
      Tick();
      Poll();
      const std::set<uint64_t> arguments = Arguments();
      return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackTrace& stack) {
        if (!arguments.contains(static_cast<uint64_t>(stack.id)) ||
            stack.frames.size() < PROFD_OBJECT_WORDS) {
          return false;
        }
        std::memcpy(&object, stack.frames.data(), sizeof(object));
        return object.kind == kind;
      });
    }));
    return object;
  }
};

TEST_F(ObjectKernelTest, APipeIsItsInode) {
  START_OR_SKIP();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  struct stat file;
  ASSERT_EQ(fstat(ends[0], &file), 0);
  const Child child([&](Child& me) {
    me.Signal();
    char c;
    while (read(ends[0], &c, 1) != 0) continue;
  });
  child.Wait();
  child.AwaitSleep();
  Mark(child);
  const profd_object object = Await(PROFD_OBJECT_PIPE);
  EXPECT_EQ(object.inode, file.st_ino);
  EXPECT_EQ(object.action, PROFD_ACTION_READ);
  // In the same wait it is the same.
  const std::set<uint64_t> once = Arguments();
  Tick();
  EXPECT_EQ(Arguments(), once);
}

TEST_F(ObjectKernelTest, ASetIsCountedUpToALimit) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    const int set = epoll_create1(0);
    for (int i = 0; i < 40; ++i) {
      const int fd = i < 20 ? eventfd(0, 0) : socket(AF_INET, SOCK_DGRAM, 0);
      epoll_event wanted = {.events = EPOLLIN, .data = {.fd = fd}};
      if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted) != 0) _exit(1);
    }
    std::thread([] {
      pollfd polled[3] = {{.fd = eventfd(0, 0), .events = POLLIN, .revents = 0},
                          {.fd = -1, .events = POLLIN, .revents = 0},
                          {.fd = eventfd(0, 0), .events = POLLIN, .revents = 0}};
      while (poll(polled, 3, -1) >= 0) continue;
    }).detach();
    me.Signal();
    epoll_event event;
    while (true) epoll_wait(set, &event, 1, -1);
  });
  child.Wait();
  child.AwaitSleep();
  Mark(child);
  const profd_object set = Await(PROFD_OBJECT_EPOLL);
  EXPECT_EQ(set.members[PROFD_MEMBER_EVENTFD] + set.members[PROFD_MEMBER_SOCKET], 16);
  EXPECT_EQ(set.flags, PROFD_OBJECT_MORE);
  const profd_object polled = Await(PROFD_OBJECT_POLL);
  EXPECT_EQ(polled.members[PROFD_MEMBER_EVENTFD], 2);
  EXPECT_EQ(polled.flags, 0);
}

// Reading it could wait for a file system that does not answer.
TEST_F(ObjectKernelTest, AnArrayOfPollInSharedMemoryIsNotRead) {
  START_OR_SKIP();
  const Child child([](Child& me) {
    const auto poll_from = [](int sharing, nfds_t count) {
      auto* polled = static_cast<pollfd*>(
          mmap(nullptr, 4096, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0));
      for (nfds_t i = 0; i < count; ++i) {
        polled[i] = {.fd = eventfd(0, 0), .events = POLLIN, .revents = 0};
      }
      while (poll(polled, count, -1) >= 0) continue;
    };
    std::thread(poll_from, MAP_SHARED, 2).detach();
    std::thread(poll_from, MAP_PRIVATE, 3).detach();
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  EXPECT_EQ(Await(PROFD_OBJECT_POLL).members[PROFD_MEMBER_EVENTFD], 3);
  for (int i = 0; i < 5; ++i) Tick();
  Poll();
  for (const StackTrace& stack : stacks_) {
    if (stack.frames.size() < PROFD_OBJECT_WORDS) continue;
    profd_object object{};
    std::memcpy(&object, stack.frames.data(), sizeof(object));
    if (object.kind == PROFD_OBJECT_POLL) {
      EXPECT_EQ(object.members[PROFD_MEMBER_EVENTFD], 3);
    }
  }
}

TEST_F(ObjectKernelTest, AChildIsNamed) {
  START_OR_SKIP();
  const Shared<pid_t> chosen;
  const Child child([&](Child& me) {
    for (int i = 0; i < 3; ++i) {
      const pid_t parent = getpid();
      const pid_t pid = fork();
      if (pid == 0) {
        EndWith(parent);
        WaitForever();
      }
      if (i == 1) *chosen = pid;
    }
    me.Signal();
    waitpid(*chosen, nullptr, 0);
  });
  child.Wait();
  child.AwaitSleep();
  Mark(child);
  const profd_object object = Await(PROFD_OBJECT_CHILD);
  EXPECT_EQ(static_cast<pid_t>(object.number), *chosen);
  EXPECT_EQ(std::string(object.name), "kernel_test");
  kill(*chosen, SIGKILL);
}

TEST_F(ObjectKernelTest, TooManyNewOnesAreCounted) {
  constexpr int kThreads = PROFD_OBJECT_BURST + 400;
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 2 * kThreads);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  START_OR_SKIP();
  // Each reads an eventfd of its own.
  const Child child([](Child& me) {
    for (int i = 0; i < kThreads; ++i) {
      const int fd = eventfd(0, 0);
      if (fd < 0) _exit(1);
      std::thread([fd] {
        uint64_t word;
        while (read(fd, &word, sizeof(word)) >= 0) continue;
      }).detach();
    }
    me.Signal();
    WaitForever();
  });
  child.Wait();
  Mark(child);
  ASSERT_TRUE(Eventually([&] {
    Drain();
    Tick();
    Poll();
    return Loss(PROFD_LOSS_OBJECT) > 0;
  }));
  std::set<uint64_t> others;
  for (const profd_visit& visit : found_) {
    if (visit.arg0 == PROFD_OBJECT_BIT) others.insert(visit.thread_id);
  }
  // Where the iterator's buffer is full, the kernel shows a thread again, and it counts twice.
  const size_t filled = found_.size() * sizeof(profd_visit) / 4096 + 1;
  EXPECT_GE(Loss(PROFD_LOSS_OBJECT), others.size());
  EXPECT_LE(Loss(PROFD_LOSS_OBJECT), others.size() + filled);
  Observe("loss", "object_lost", Loss(PROFD_LOSS_OBJECT));
}

}  // namespace
}  // namespace profd
