// What the words of a description say.
#include "daemon/service/object_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/service/idle.h"

namespace profd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

StackTrace Words(const profd_object& object, std::string_view text = "", uint64_t id = 1) {
  StackTrace words;
  words.id = StackId{id | PROFD_OBJECT_BIT};
  words.frames.resize((sizeof(object) + text.size() + 7) / 8);
  std::memcpy(words.frames.data(), &object, sizeof(object));
  std::memcpy(reinterpret_cast<char*>(words.frames.data()) + sizeof(object), text.data(),
              text.size());
  words.kernel_frames = static_cast<uint16_t>(words.frames.size());
  return words;
}

profd_object Object(profd_object_kind kind, profd_object_action action, uint32_t flags = 0) {
  profd_object object{};
  object.kind = static_cast<uint8_t>(kind);
  object.action = static_cast<uint8_t>(action);
  object.flags = static_cast<uint8_t>(flags);
  return object;
}

// From 10.0.0.1:LOCAL to 10.0.0.2:PEER.
profd_object Tcp(profd_object_action action, uint32_t flags, uint16_t local, uint16_t peer) {
  profd_object object = Object(PROFD_OBJECT_INET, action, flags);
  object.family = AF_INET;
  object.type = SOCK_STREAM;
  object.protocol = IPPROTO_TCP;
  object.local[0] = object.peer[0] = 10;
  object.local[3] = 1;
  object.peer[3] = 2;
  object.local_port = local;
  object.peer_port = peer;
  return object;
}

std::string TextOf(const profd_object& object, std::string_view text = "") {
  return DescribeObject(Words(object, text)).text;
}
ObjectTurn TurnOf(const profd_object& object, std::string_view text = "") {
  return DescribeObject(Words(object, text)).turn;
}

TEST(ObjectTextTest, TcpSaysWhoseTurnItIs) {
  constexpr uint32_t kClient = PROFD_OBJECT_CONNECTED | PROFD_OBJECT_CLIENT;
  profd_object asked = Tcp(PROFD_ACTION_READ, kClient | PROFD_OBJECT_SENT_LAST, 0, 5432);
  EXPECT_EQ(TextOf(asked), "tcp 10.0.0.1 -> 10.0.0.2:5432, reading, request in flight");
  EXPECT_EQ(TurnOf(asked), ObjectTurn::kOfPeer);
  const profd_object quiet = Tcp(PROFD_ACTION_POLL, kClient, 0, 5432);
  EXPECT_EQ(TextOf(quiet), "tcp 10.0.0.1 -> 10.0.0.2:5432, polled");
  EXPECT_EQ(TurnOf(quiet), ObjectTurn::kUnknown) << "an idle connection is what its reason says";
  const profd_object answered =
      Tcp(PROFD_ACTION_READ, PROFD_OBJECT_CONNECTED | PROFD_OBJECT_SENT_LAST, 5432, 0);
  EXPECT_EQ(TextOf(answered), "tcp 10.0.0.1:5432 <- 10.0.0.2, reading, no request");
  EXPECT_EQ(TurnOf(answered), ObjectTurn::kNoRequest);
  EXPECT_EQ(TurnOf(Tcp(PROFD_ACTION_READ, PROFD_OBJECT_CONNECTED, 5432, 0)), ObjectTurn::kUnknown)
      << "in the middle of a request";
  const profd_object listens = Tcp(PROFD_ACTION_ACCEPT, PROFD_OBJECT_LISTENS, 80, 0);
  EXPECT_EQ(TextOf(listens), "tcp 10.0.0.1:80 (listening), accepting");
  EXPECT_EQ(TurnOf(listens), ObjectTurn::kListens);
  asked.action = PROFD_ACTION_WRITE;
  EXPECT_EQ(TextOf(asked), "tcp 10.0.0.1 -> 10.0.0.2:5432, writing");
  EXPECT_EQ(TurnOf(asked), ObjectTurn::kUnknown);
}

TEST(ObjectTextTest, AddressesOfTheOtherFamily) {
  profd_object object = Tcp(PROFD_ACTION_READ, PROFD_OBJECT_CONNECTED, 443, 0);
  object.family = AF_INET6;
  object.peer[0] = object.local[0] = 0xfd;
  EXPECT_EQ(TextOf(object), "tcp [fd00:1::]:443 <- fd00:2::, reading");
  std::memset(object.peer, 0, sizeof(object.peer));
  object.peer[10] = object.peer[11] = 0xff;
  object.peer[12] = 10;
  object.peer[15] = 9;
  EXPECT_THAT(TextOf(object), HasSubstr("<- 10.0.0.9,")) << "mapped";
  object.protocol = IPPROTO_UDP;
  object.type = SOCK_DGRAM;
  object.flags = 0;
  EXPECT_THAT(TextOf(object), StartsWith("udp [fd00:1::]:443, reading"));
}

TEST(ObjectTextTest, UnixSocketsHaveAnAddressAndAPeer) {
  profd_object object = Object(PROFD_OBJECT_UNIX, PROFD_ACTION_READ, PROFD_OBJECT_CLIENT);
  std::memcpy(object.name, "postgres", 8);
  object.number = 77;
  EXPECT_EQ(TextOf(object, "/run/.s.PGSQL"), "unix /run/.s.PGSQL -> postgres (77), reading");
  EXPECT_EQ(TurnOf(object, "/run/x"), ObjectTurn::kUnknown);
  object.action = PROFD_ACTION_POLL;
  EXPECT_EQ(TurnOf(object, "/run/x"), ObjectTurn::kOfPeer) << "it polls nothing else";
  object.flags = PROFD_OBJECT_ABSTRACT;
  object.number = 0;
  EXPECT_EQ(TextOf(object, "bus"), "unix @bus <- postgres, polled");
  object.flags = PROFD_OBJECT_LISTENS;
  object.action = PROFD_ACTION_ACCEPT;
  EXPECT_EQ(TextOf(object, "/run/x"), "unix /run/x (listening), accepting");
  EXPECT_EQ(TurnOf(object, "/run/x"), ObjectTurn::kListens);
}

TEST(ObjectTextTest, PathsAreTurnedAroundAndCleaned) {
  using std::string_view_literals::operator""sv;
  const profd_object file = Object(PROFD_OBJECT_FILE, PROFD_ACTION_READ);
  EXPECT_EQ(TextOf(file, "db\0lib\0var\0"sv), "/var/lib/db, reading");
  EXPECT_EQ(TextOf(file, "a\x1b[31m\n\0tmp\0"sv), "/tmp/a?[31m?, reading");
  EXPECT_EQ(TextOf(file, ""), "/, reading");
  EXPECT_EQ(TurnOf(file, "3\0pts\0dev\0"sv), ObjectTurn::kTerminal);
  std::string longest;
  for (int i = 0; i < 60; i++) longest += "directory" + std::string(1, '\0');
  longest.resize(PROFD_OBJECT_TEXT);
  const std::string text = TextOf(file, longest);
  EXPECT_THAT(text, StartsWith(".../directory/directory/"));
  EXPECT_THAT(text, Not(HasSubstr("/di/"))) << "the outermost name was cut";
}

TEST(ObjectTextTest, SetsInAShortForm) {
  profd_object set = Object(PROFD_OBJECT_EPOLL, PROFD_ACTION_READ);
  set.members[PROFD_MEMBER_SERVER] = 10;
  set.members[PROFD_MEMBER_EVENTFD] = set.members[PROFD_MEMBER_TIMERFD] = 1;
  EXPECT_EQ(TextOf(set), "epoll of 12: 10 connections accepted, eventfd, timerfd");
  EXPECT_EQ(TurnOf(set), ObjectTurn::kUnknown);
  set.flags = PROFD_OBJECT_MORE | PROFD_OBJECT_IN_FLIGHT;
  EXPECT_EQ(TextOf(set),
            "epoll of more than 12: 10 connections accepted, eventfd, timerfd, request in flight");
  EXPECT_EQ(TurnOf(set), ObjectTurn::kOfPeer);
  EXPECT_EQ(TextOf(Object(PROFD_OBJECT_POLL, PROFD_ACTION_POLL)), "poll of 0");
}

TEST(ObjectTextTest, OtherDescriptorsAndChildren) {
  profd_object object = Object(PROFD_OBJECT_ANONYMOUS, PROFD_ACTION_READ);
  std::memcpy(object.name, "[timerfd]", 9);
  object.number = 5;
  EXPECT_EQ(TextOf(object), "timerfd 5, reading");
  EXPECT_EQ(TurnOf(object), ObjectTurn::kTimer);
  object = Object(PROFD_OBJECT_PIPE, PROFD_ACTION_WRITE);
  object.inode = 4711;
  EXPECT_EQ(TextOf(object), "pipe 4711, writing");
  object = Object(PROFD_OBJECT_CHILD, PROFD_ACTION_CHILD);
  object.count = 3;
  EXPECT_EQ(TextOf(object), "any of 3 children");
  object.number = 12;
  std::memset(object.name, 'x', sizeof(object.name));
  EXPECT_EQ(TextOf(object), "child xxxxxxxxxxxxxxxx (12)") << "a name without its end";
  object = Object(PROFD_OBJECT_RING, PROFD_ACTION_READ);
  object.number = 4;
  object.count = 1;
  EXPECT_EQ(TextOf(object), "io_uring 4, 1 request in flight");
}

TEST(ObjectTextTest, WordsThatMakeNoSenseSayNothing) {
  StackTrace words;
  EXPECT_EQ(DescribeObject(words).text, "");
  words.frames.assign(PROFD_OBJECT_WORDS, ~uint64_t{0});
  EXPECT_EQ(DescribeObject(words).text, "") << "a kind that is none";
  profd_object object = Object(PROFD_OBJECT_INET, PROFD_ACTION_READ);
  object.action = 200;
  EXPECT_THAT(TextOf(object), StartsWith("ip protocol 0"));
}

TEST(WaitObjectsTest, FindsWhatWaitsAreFor) {
  const profd_object pipe = Object(PROFD_OBJECT_PIPE, PROFD_ACTION_READ);
  const std::vector<std::shared_ptr<const StackTrace>> known = {
      std::make_shared<const StackTrace>(Words(pipe, "", 8)),
      std::make_shared<const StackTrace>(StackTrace{.id = StackId{8}, .frames = {}})};
  WaitObjects objects(known);
  SampleKey key;
  key.argument = 8 | PROFD_OBJECT_BIT;
  EXPECT_EQ(objects.TextOf(key), "pipe 0, reading");
  key.argument = 0x7f00;
  EXPECT_EQ(objects.TextOf(key), "0x7f00");
  key.argument = 0;
  EXPECT_EQ(objects.TextOf(key), "");
  key.argument = PROFD_OBJECT_BIT;
  EXPECT_EQ(objects.TextOf(key), "[other objects]");
  key.argument = 9 | PROFD_OBJECT_BIT;
  EXPECT_EQ(objects.TextOf(key), "[unknown object]") << "its description was lost";
  key.kind = Kind::kAlloc;
  EXPECT_EQ(ObjectOf(key), StackId{});
}

TEST(WaitObjectsTest, WhoseTurnItIsDecidesWhatIsIdle) {
  const auto idle = [](Reason reason, ObjectTurn turn) {
    return IdleOfWait(reason, {}, "server", "worker", turn);
  };
  EXPECT_EQ(idle(Reason::kPoll, ObjectTurn::kUnknown), "waiting for work (poll)");
  EXPECT_EQ(idle(Reason::kPoll, ObjectTurn::kOfPeer), "");
  EXPECT_EQ(idle(Reason::kNet, ObjectTurn::kUnknown), "");
  EXPECT_EQ(idle(Reason::kNet, ObjectTurn::kListens), "listening socket");
  EXPECT_EQ(idle(Reason::kNet, ObjectTurn::kNoRequest), "connection without a request");
  EXPECT_EQ(idle(Reason::kOther, ObjectTurn::kTimer), "sleeping");
  EXPECT_EQ(idle(Reason::kRunQueue, ObjectTurn::kListens), "") << "it has been woken";
}

TEST(ObjectTurnTest, AnAnswerSaysWhoseTurnItIs) {
  constexpr int kLast = static_cast<int>(ObjectTurn::kTerminal);
  for (int i = 0; i <= kLast; ++i) {
    const auto turn = static_cast<ObjectTurn>(i);
    EXPECT_EQ(TurnOfName(TurnName(turn)), turn);
  }
  EXPECT_EQ(TurnName(ObjectTurn::kUnknown), "");
  EXPECT_EQ(TurnOfName("of a later version"), ObjectTurn::kUnknown);
}

TEST(ObjectTextTest, WhoHadACpu) {
  const auto of = [](profd_object_kind kind, const char* name, uint32_t number, uint32_t flags,
                     std::string_view text) {
    profd_object object = Object(kind, PROFD_ACTION_NONE, flags);
    std::strncpy(object.name, name, sizeof(object.name) - 1);
    object.number = number;
    return DescribeObject(Words(object, text));
  };
  const WaitObject thread = of(PROFD_OBJECT_OCCUPANT, "node", 4711, 0, "rpc-3");
  EXPECT_EQ(thread.text, "node (4711), thread rpc-3");
  EXPECT_EQ(thread.turn, ObjectTurn::kUnknown);
  EXPECT_EQ(thread.holder.kind, CpuHolder::Kind::kProcess);
  EXPECT_EQ(thread.holder.name, "node");
  EXPECT_EQ(thread.holder.thread, "rpc-3");
  EXPECT_EQ(thread.holder.pid, 4711);
  // A thread that is called as its process says nothing more.
  EXPECT_EQ(of(PROFD_OBJECT_OCCUPANT, "node", 4711, 0, "node").text, "node (4711)");
  // One of too many.
  EXPECT_EQ(of(PROFD_OBJECT_OCCUPANT, "cc1plus", 0, 0, "").text, "cc1plus");
  const WaitObject kernel = of(PROFD_OBJECT_OCCUPANT, "kworker/1:2", 0, PROFD_OBJECT_KERNEL, "");
  EXPECT_EQ(kernel.text, "[kworker/1:2]");
  EXPECT_EQ(kernel.holder.kind, CpuHolder::Kind::kKernel);
  EXPECT_EQ(of(PROFD_OBJECT_IDLE_CPU, "", 0, 0, "").text, "[idle CPU]");
  EXPECT_EQ(of(PROFD_OBJECT_QUOTA, "", 0, 0, "payments.slice").text, "CPU quota of payments.slice");
  EXPECT_EQ(of(PROFD_OBJECT_QUOTA, "", 0, 0, "").text, "CPU quota");
  // Bytes of another process are no text.
  EXPECT_EQ(of(PROFD_OBJECT_OCCUPANT, "a\x1b[1mb", 0xffffffff, 0, "").holder.name, "a?[1mb");
}

}  // namespace
}  // namespace profd
