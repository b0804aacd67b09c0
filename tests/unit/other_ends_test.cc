// Who has the other end of a pipe or connection, by a /proc that says what a test wants.
#include "daemon/service/other_ends.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/service/name_ends.h"
#include "daemon/service/object_text.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/fake_proc.h"

namespace profd {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

constexpr int kServerPort = 5432;
constexpr int kEstablished = 1, kListens = 10, kSynSent = 2;

// Goes on by so much with each look at it.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(int64_t step_ns) : step_ns_(step_ns) {}
  int64_t MonotonicNs() const override { return now_ns_; }
  int64_t WallNs() const override { return now_ns_; }
  int64_t WallOffsetNs() const override { return 0; }
  int64_t ProcessCpuNs() const override { return now_ns_; }
  int64_t ThreadCpuNs() const override { return now_ns_ += step_ns_; }

 private:
  const int64_t step_ns_;
  mutable int64_t now_ns_ = 0;
};

class OtherEndsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "other_ends.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    proc_ = std::make_unique<FakeProc>(folder_ + "/proc");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static ProcessId Id(int32_t pid) { return {.pid = pid, .start_ns = 42'000'000'000}; }
  void AddProcess(int32_t pid, const std::string& name, int64_t start = 4200) const {
    proc_->Set(pid, {.name = name, .start = start});
    Link(absl::StrCat(pid, "/ns/net"), "net:[1]");
    std::filesystem::create_directories(absl::StrCat(proc_->path(), "/", pid, "/fd"));
  }
  void Link(const std::string& file, const std::string& target) const {
    const std::filesystem::path path = absl::StrCat(proc_->path(), "/", file);
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::remove(path);
    std::filesystem::create_symlink(target, path);
  }
  void AddFile(int32_t pid, int fd, const std::string& target, int flags) const {
    Link(absl::StrCat(pid, "/fd/", fd), target);
    proc_->Write(absl::StrCat(pid, "/fdinfo/", fd),
                 absl::StrFormat("pos:\t0\nflags:\t0%o\nmnt_id:\t15\n", flags | O_CLOEXEC));
  }
  void AddPipe(int32_t pid, int fd, int inode, int flags) const {
    AddFile(pid, fd, absl::StrCat("pipe:[", inode, "]"), flags);
  }
  void AddSocket(int32_t pid, int fd, int inode) const {
    AddFile(pid, fd, absl::StrCat("socket:[", inode, "]"), O_RDWR);
  }
  // A line of /proc/PID/net/tcp; both addresses are 127.0.0.1 unless said otherwise.
  static std::string Row(int local_port, int peer_port, int inode, int state = kEstablished,
                         const std::string& local = "0100007F",
                         const std::string& peer = "0100007F") {
    return absl::StrFormat(
        "   0: %s:%04X %s:%04X %02X 00000000:00000000 00:00000000 00000000  1000        0 %d 1 "
        "0000000000000000 20 4 30 10 -1\n",
        local, local_port, peer, peer_port, state, inode);
  }
  void WriteTable(int32_t pid, const std::string& rows, const std::string& file = "tcp") const {
    proc_->Write(absl::StrCat(pid, "/net/", file),
                 "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n" + rows);
  }

  static NearEnd PipeEnd(uint64_t inode, bool reads = true) {
    return {.pipe = inode, .reads = reads, .writes = !reads};
  }
  static InetAddress Loopback() { return MapIpv4(std::vector<uint8_t>{127, 0, 0, 1}.data()); }
  static NearEnd Client() {
    return {
        .connection = {
            .local = Loopback(), .peer = Loopback(), .local_port = 0, .peer_port = kServerPort}};
  }
  static NearEnd Server() { return {.connection = Client().connection.Turned()}; }

  // Of a clock that stands still: the search ends.
  OtherEnds::Sources Sources() {
    return {.proc = proc_->path(), .allowance = &allowance_, .clock = &still_};
  }
  std::string PhraseOf(const NearEnd& end, const OtherEnds::Waiters& waiters,
                       std::optional<int32_t> descriptor = std::nullopt) {
    OtherEnds ends(Sources(), latest_);
    const std::optional<size_t> question = ends.Ask(end, waiters, descriptor);
    ends.Find({});
    return question ? ends.Phrase(*question) : "too many";
  }

  std::string folder_;
  std::unique_ptr<FakeProc> proc_;
  const FakeClock still_;
  SearchAllowance allowance_{&still_};
  int64_t latest_ = OtherEnds::kAnyStart;
};

TEST_F(OtherEndsTest, WhoHasTheOtherEndOfAPipe) {
  AddProcess(10, "sh");
  AddProcess(912, "make");
  AddProcess(77, "logger");
  AddPipe(912, 1, 4711, O_WRONLY);
  AddPipe(77, 0, 4711, O_RDONLY);
  AddPipe(10, 5, 4712, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(77)}), " from make (912)");
  EXPECT_EQ(PhraseOf(PipeEnd(4711, false), {Id(912)}), " to logger (77)");
  EXPECT_EQ(PhraseOf(PipeEnd(4713), {Id(77)}), "") << "it is gone";
  EXPECT_EQ(PhraseOf(PipeEnd(4712, false), {Id(10)}), "") << "nobody reads";
}

TEST_F(OtherEndsTest, WhoPollsHasOneEnd) {
  AddProcess(912, "make");
  AddProcess(77, "logger");
  AddPipe(912, 1, 4711, O_WRONLY);
  AddPipe(77, 0, 4711, O_RDONLY);
  const NearEnd polled = {.pipe = 4711};
  EXPECT_EQ(PhraseOf(polled, {Id(77)}), " from make (912)");
  EXPECT_EQ(PhraseOf(polled, {Id(912)}), " to logger (77)");
  AddPipe(77, 1, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(polled, {Id(77)}), "") << "it has both";
}

TEST_F(OtherEndsTest, SeveralHaveIt) {
  AddProcess(5, "reader");
  AddPipe(5, 0, 4711, O_RDONLY);
  for (const int pid : {6, 7, 9}) {
    AddProcess(pid, absl::StrCat("make-", pid));
    AddPipe(pid, 1, 4711, O_WRONLY);
    AddPipe(pid, 2, 4711, O_WRONLY);
  }
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from make-6 (6) and 2 more") << "each once";
}

TEST_F(OtherEndsTest, AForkLeavesBothEndsInBoth) {
  AddProcess(5, "parent");
  AddPipe(5, 3, 4711, O_RDONLY);
  AddPipe(5, 4, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from parent (5)") << "nobody else";
  AddProcess(6, "child");
  AddPipe(6, 3, 4711, O_RDONLY);
  AddPipe(6, 4, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from child (6)");
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(6)}), " from parent (5)");
  EXPECT_THAT(PhraseOf(PipeEnd(4711), {Id(5), Id(6)}),
              AnyOf(" from parent (5) and 1 more", " from child (6) and 1 more"));
}

// As long as it lives, root may not read everything, either.
class WithoutOverride {
 public:
  WithoutOverride() : before_(cap_get_proc()) {
    constexpr std::array<cap_value_t, 2> kOverrides = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};
    cap_t less = cap_dup(before_);
    cap_set_flag(less, CAP_EFFECTIVE, static_cast<int>(kOverrides.size()), kOverrides.data(),
                 CAP_CLEAR);
    EXPECT_EQ(cap_set_proc(less), 0);
    cap_free(less);
  }
  ~WithoutOverride() {
    EXPECT_EQ(cap_set_proc(before_), 0);
    cap_free(before_);
  }
  WithoutOverride(const WithoutOverride&) = delete;
  WithoutOverride& operator=(const WithoutOverride&) = delete;

 private:
  const cap_t before_;
};

TEST_F(OtherEndsTest, AProcessThatMayNotBeReadMayHaveIt) {
  const WithoutOverride without;
  AddProcess(5, "parent");
  AddPipe(5, 3, 4711, O_RDONLY);
  AddPipe(5, 4, 4711, O_WRONLY);
  AddProcess(6, "other");
  AddPipe(6, 4, 4711, O_WRONLY);
  const std::filesystem::path secret = proc_->path() + "/6/fd";
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from parent (5) and maybe more");
  std::filesystem::permissions(secret, std::filesystem::perms::owner_all);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from other (6)");
}

TEST_F(OtherEndsTest, ProcessesThatStartedLaterHadNoEnd) {
  AddProcess(5, "reader");
  AddPipe(5, 0, 4711, O_RDONLY);
  AddProcess(6, "young", 9000);
  AddPipe(6, 1, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from young (6)");
  latest_ = 80'000'000'000;
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), "");
}

TEST_F(OtherEndsTest, WhoHasTheOtherEndOfAConnection) {
  AddProcess(5, "app");
  AddProcess(812, "postgres");
  AddProcess(813, "postgres");
  AddProcess(900, "other-app");
  AddSocket(5, 3, 100);
  AddSocket(812, 9, 200);
  AddSocket(900, 3, 300);
  AddSocket(813, 9, 400);
  const std::string rows = Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 200) +
                           Row(40001, kServerPort, 300) + Row(kServerPort, 40001, 400);
  for (const int pid : {5, 812, 813, 900}) WriteTable(pid, rows);
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), " of postgres (812)") << "not those of other clients";
  EXPECT_EQ(PhraseOf(Client(), {Id(900)}), " of postgres (813)");
  EXPECT_EQ(PhraseOf(Server(), {Id(812)}), " of app (5)");
  EXPECT_THAT(PhraseOf(Client(), {Id(5), Id(900)}),
              AnyOf(" of postgres (812) and 1 more", " of postgres (813) and 1 more"));
}

TEST_F(OtherEndsTest, ADescriptorIsOneConnection) {
  AddProcess(5, "app");
  AddSocket(5, 3, 100);
  AddSocket(5, 4, 101);
  AddProcess(812, "postgres");
  AddSocket(812, 9, 200);
  AddProcess(813, "postgres");
  AddSocket(813, 9, 201);
  WriteTable(5, Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 200) +
                    Row(40001, kServerPort, 101) + Row(kServerPort, 40001, 201));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}, 3), " of postgres (812)");
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}, 4), " of postgres (813)");
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}, 5), "") << "it is closed";
}

TEST_F(OtherEndsTest, AConnectionThatWasNotAcceptedIsTheListeners) {
  AddProcess(5, "app");
  AddSocket(5, 3, 100);
  AddProcess(812, "postgres");
  AddSocket(812, 7, 700);
  AddProcess(813, "elsewhere");
  AddSocket(813, 7, 701);
  const std::string listeners = Row(kServerPort, 0, 700, kListens, "00000000", "00000000") +
                                Row(kServerPort, 0, 701, kListens, "0200007F", "00000000");
  WriteTable(5, listeners + Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 0));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), " of postgres (812)");
  WriteTable(5, listeners + Row(40000, kServerPort, 100, kSynSent));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), " of postgres (812)") << "its queue is full";
  WriteTable(5, listeners + Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 0, 4));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), "") << "it was closed";
}

TEST_F(OtherEndsTest, ASocketForBothFamilies) {
  AddProcess(5, "app");
  AddSocket(5, 3, 100);
  AddProcess(812, "java");
  AddSocket(812, 9, 200);
  const std::string mapped = "0000000000000000FFFF00000100007F";
  WriteTable(5, Row(40000, kServerPort, 100));
  WriteTable(5, Row(kServerPort, 40000, 200, kEstablished, mapped, mapped), "tcp6");
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), " of java (812)");
}

TEST_F(OtherEndsTest, OtherNetworkNamespacesHaveTheSameAddresses) {
  AddProcess(5, "app");
  AddSocket(5, 3, 100);
  WriteTable(5, Row(40000, kServerPort, 100));
  AddProcess(812, "postgres");
  AddSocket(812, 9, 200);
  Link("812/ns/net", "net:[2]");
  WriteTable(812, Row(kServerPort, 40000, 200));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), "");
}

TEST_F(OtherEndsTest, APidThatWasUsedAgainIsSomebodyElse) {
  AddProcess(5, "app", 9000);
  AddSocket(5, 3, 100);
  AddProcess(812, "postgres");
  AddSocket(812, 9, 200);
  WriteTable(5, Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 200));
  EXPECT_EQ(PhraseOf(Client(), {Id(5)}), "") << "the waiter is gone";
  AddPipe(5, 7, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from app (5)");
}

TEST_F(OtherEndsTest, HostileText) {
  AddProcess(5, "reader");
  AddPipe(5, 0, 4711, O_RDONLY);
  for (const char* link : {"pipe:[", "pipe:[]", "pipe:[x]", "pipe:[4711", "pipe:[-1]", "pipe:4711",
                           "/pipe:[4711]", "pipe:[99999999999999999999]", "socket:[4711]"}) {
    AddFile(5, 9, link, O_WRONLY);
    EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), "") << link;
  }
  std::filesystem::remove(proc_->path() + "/5/fd/9");
  AddProcess(6, "a\x1b[31m\xff (b) c");
  AddPipe(6, 1, 4711, O_WRONLY);
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), " from a?[31m? (b) c (6)");
  for (const char* info :
       {"", "flags:", "flags:\t9\n", "flags:\t777777777777777777\n", "pos: 0\n"}) {
    proc_->Write("6/fdinfo/1", info);
    EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), "") << info;
  }
  proc_->Write("6/fdinfo/1", absl::StrFormat("flags:\t0%o\n", O_PATH | O_RDWR));
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), "") << "it cannot be written";
  proc_->Write("6/fdinfo/1", "flags:\t01\n");
  proc_->Write("6/stat", "6 (gone");
  EXPECT_EQ(PhraseOf(PipeEnd(4711), {Id(5)}), "");
  AddSocket(5, 3, 100);
  for (const std::string& rows :
       {std::string("0: x y\n"), std::string(200'000, 'x'), std::string("\n\n\0\n", 4),
        Row(40000, kServerPort, 100) + "0: 0100007F:1538 0100007F:9C40 01 0 0 0 0 0 x\n" +
            "0: 0100007G:1538 0100007F:9C40 01 0 0 0 0 0 200\n" +
            "0: 0100007F:11538 0100007F:9C40 01 0 0 0 0 0 200\n"}) {
    WriteTable(5, rows);
    EXPECT_EQ(PhraseOf(Client(), {Id(5)}), "");
  }
}

// A process with more descriptors than can be looked at in time comes last.
TEST_F(OtherEndsTest, NoAnswerTakesLong) {
  AddProcess(5, "reader");
  AddPipe(5, 0, 4711, O_RDONLY);
  AddProcess(6, "proxy");
  for (int fd = 0; fd < 6000; fd++) Link(absl::StrCat("6/fd/", fd), "socket:[7]");
  AddProcess(9000, "make");
  AddPipe(9000, 1, 4711, O_WRONLY);
  const auto phrase = [&](const NearEnd& end, int64_t cpu_ns) {
    // Each 16th descriptor takes 1 us.
    const TickingClock clock(1000);
    SearchAllowance allowance(&clock);
    allowance.Took(SearchAllowance::kMostSavedNs - cpu_ns);
    OtherEnds ends({.proc = proc_->path(), .allowance = &allowance, .clock = &clock});
    const std::optional<size_t> question = ends.Ask(end, {Id(5)});
    ends.Find({6});
    return ends.Phrase(*question);
  };
  EXPECT_EQ(phrase(PipeEnd(4711), 1'000'000), " from make (9000)");
  EXPECT_EQ(phrase(PipeEnd(4711), 300'000), " from make (9000) and maybe more");
  EXPECT_EQ(phrase(PipeEnd(4711), 100'000), " from [not found in time]");
  EXPECT_EQ(phrase(PipeEnd(4712), 100'000), " from [not found in time]");
  EXPECT_EQ(phrase(Client(), 100'000), " of [not found in time]") << "no table can be read";
  WriteTable(5, "");
  EXPECT_EQ(phrase(Client(), 100'000), "") << "there is no connection";
  AddSocket(5, 3, 100);
  WriteTable(5, Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 200));
  EXPECT_EQ(phrase(Client(), 100'000), " of [not found in time]");
  EXPECT_EQ(phrase(Client(), 1'000'000), "") << "nobody has it";
  EXPECT_EQ(phrase(PipeEnd(4712), 1'000'000), "");
  AddPipe(5, 1, 4711, O_WRONLY);
  EXPECT_EQ(phrase(PipeEnd(4711), 100'000), " from [not found in time]")
      << "the waiter's own process only if nobody else has it";
}

TEST(SearchAllowanceTest, RepeatedSearchesTakeOneHundredth) {
  constexpr int64_t kMost = SearchAllowance::kMostNs;
  FakeClock clock;
  SearchAllowance allowance(&clock);
  for (int i = 0; i < 5; i++) {
    EXPECT_EQ(allowance.Left(), kMost);
    allowance.Took(kMost);
  }
  EXPECT_EQ(allowance.Left(), 0);
  allowance.Took(1000);
  EXPECT_EQ(allowance.Left(), -1000) << "somebody took more than there was";
  clock.Compute(100'000);
  EXPECT_EQ(allowance.Left(), 0);
  clock.Compute(2'000'000'000);
  EXPECT_EQ(allowance.Left(), 20'000'000);
  clock.Compute(3'600'000'000'000);
  allowance.Took(0);
  EXPECT_EQ(allowance.Left(), kMost);
  allowance.Took(5 * kMost);
  EXPECT_EQ(allowance.Left(), 0) << "savings have an end";
}

TEST_F(OtherEndsTest, TooManyQuestionsAreNotAsked) {
  OtherEnds ends(Sources());
  for (int i = 0; i < 4096; i++) ASSERT_TRUE(ends.Ask(PipeEnd(1), {Id(5)}));
  EXPECT_FALSE(ends.Ask(PipeEnd(1), {Id(5)}));
}

class NameEndsTest : public OtherEndsTest {
 protected:
  static std::shared_ptr<const StackTrace> Describe(const profd_object& object, uint64_t id) {
    StackTrace words;
    words.id = StackId{id | PROFD_OBJECT_BIT};
    words.frames.resize(sizeof(object) / 8);
    std::memcpy(words.frames.data(), &object, sizeof(object));
    return std::make_shared<const StackTrace>(std::move(words));
  }
  static profd_object PipeObject(uint64_t inode) {
    profd_object object{};
    object.kind = PROFD_OBJECT_PIPE;
    object.action = PROFD_ACTION_READ;
    object.inode = inode;
    return object;
  }
  static profd_object TcpObject(uint8_t first) {
    profd_object object{};
    object.kind = PROFD_OBJECT_INET;
    object.action = PROFD_ACTION_READ;
    object.flags = PROFD_OBJECT_CLIENT | PROFD_OBJECT_CONNECTED | PROFD_OBJECT_SENT_LAST;
    object.family = AF_INET;
    object.type = SOCK_STREAM;
    object.protocol = IPPROTO_TCP;
    object.local[0] = object.peer[0] = first;
    object.local[3] = object.peer[3] = 1;
    object.peer_port = kServerPort;
    return object;
  }
};

TEST_F(NameEndsTest, TheTextSaysIt) {
  const std::vector<std::shared_ptr<const StackTrace>> known = {Describe(PipeObject(4711), 1),
                                                                Describe(TcpObject(127), 2)};
  WaitObjects objects(known);
  const auto text = [&](uint64_t id, std::string_view phrase) {
    return WithOtherEnd(objects.Of(StackId{id | PROFD_OBJECT_BIT}), phrase);
  };
  EXPECT_EQ(text(1, " from make (912)"), "pipe 4711 from make (912), reading");
  EXPECT_EQ(text(2, " of postgres (812)"),
            "tcp 127.0.0.1 -> 127.0.0.1:5432 of postgres (812), reading, request in flight");
  EXPECT_EQ(text(2, ""), "tcp 127.0.0.1 -> 127.0.0.1:5432, reading, request in flight");
  EXPECT_EQ(text(3, " of nobody"), "") << "not known";
}

TEST_F(NameEndsTest, OnlyConnectionsWithinThisHostAreAskedFor) {
  const auto near = [](const profd_object& object) {
    return DescribeObject(*Describe(object, 1)).near.has_value();
  };
  EXPECT_TRUE(near(TcpObject(127)));
  profd_object own = TcpObject(10);
  EXPECT_TRUE(near(own)) << "an address that connects to itself";
  own.peer[3] = 2;
  EXPECT_FALSE(near(own));
  profd_object udp = TcpObject(127);
  udp.protocol = IPPROTO_UDP;
  EXPECT_FALSE(near(udp));
  profd_object listening = TcpObject(127);
  listening.flags = PROFD_OBJECT_LISTENS;
  EXPECT_FALSE(near(listening));
  EXPECT_FALSE(near(PipeObject(0)));
}

TEST_F(NameEndsTest, ThreadsAsTheyAreNowAndWindows) {
  AddProcess(77, "logger");
  AddPipe(77, 0, 4711, O_RDONLY);
  AddProcess(912, "make");
  AddPipe(912, 1, 4711, O_WRONLY);
  AddSocket(77, 3, 100);
  AddProcess(812, "postgres");
  AddSocket(812, 3, 200);
  WriteTable(77, Row(40000, kServerPort, 100) + Row(kServerPort, 40000, 200));

  Look look;
  look.stacks = {Describe(PipeObject(4711), 1), Describe(TcpObject(127), 2)};
  const auto thread = [](uint64_t object, std::optional<uint64_t> descriptor) {
    LookedThread looked;
    looked.info.pid = 77;
    looked.info.process_start_ns = 42'000'000'000;
    looked.described = StackId{object | PROFD_OBJECT_BIT};
    looked.syscall = 0;
    looked.object = descriptor;
    return looked;
  };
  look.threads = {thread(1, 0), thread(2, 3), thread(2, 4), thread(2, std::nullopt)};
  WaitObjects objects(look.stacks);
  const LookedObjects looked(look, Sources(), &objects);
  EXPECT_EQ(looked.TextOf(look.threads[0]), "pipe 4711 from make (912), reading");
  EXPECT_THAT(looked.TextOf(look.threads[1]),
              StartsWith("tcp 127.0.0.1 -> 127.0.0.1:5432 of postgres (812), reading"));
  EXPECT_THAT(looked.TextOf(look.threads[2]),
              StartsWith("tcp 127.0.0.1 -> 127.0.0.1:5432, reading"));
  EXPECT_THAT(looked.TextOf(look.threads[3]),
              StartsWith("tcp 127.0.0.1 -> 127.0.0.1:5432 of postgres (812), reading"));

  MergedProfile profile;
  profile.stacks = look.stacks;
  profile.covered = {.begin_ns = 0, .end_ns = MonotonicNs()};
  profile.threads.emplace_back().info = std::make_shared<const ThreadInfo>(look.threads[0].info);
  SampleKey key;
  key.kind = Kind::kWait;
  key.reason = Reason::kPipe;
  key.argument = 1 | PROFD_OBJECT_BIT;
  profile.long_waits.emplace_back().wait.key = key;
  FetchPlan plan;
  plan.types = {&DescribeSampleType(Kind::kWait)};
  plan.reasons.fill(true);
  plan.longest = FetchPlan::Longest{.limit = 10};
  const auto name = [&] {
    WaitObjects fresh(profile.stacks);
    NameOtherEnds(plan, profile, Sources(), &fresh);
    return fresh.TextOf(key);
  };
  const char* const plain = "pipe 4711, reading";
  EXPECT_EQ(name(), "pipe 4711 from make (912), reading");
  plan.group_by = {v1::GROUP_KEY_PROCESS};
  EXPECT_EQ(name(), plain) << "objects are not shown";
  plan.group_by = {v1::GROUP_KEY_PROCESS, v1::GROUP_KEY_OBJECT};
  EXPECT_EQ(name(), "pipe 4711 from make (912), reading");
  plan.baseline.emplace();
  EXPECT_EQ(name(), plain) << "two windows are compared";
  plan.baseline.reset();
  plan.reasons.fill(false);
  EXPECT_EQ(name(), plain) << "the wait is not shown";
}

}  // namespace
}  // namespace profd
