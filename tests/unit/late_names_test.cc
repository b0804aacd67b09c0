// Names of frames that only the client has.
#include "client/symbolize/late_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer/json.h"
#include "client/answer/saved_answer.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/module_code.h"
#include "daemon/symbolize/module_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/stripped_library.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define PROFD_LEAKS_FOUND 1
#endif
#endif

namespace profctl {
namespace {

using profd::test::BuildLibrary;
using profd::test::FunctionIn;
using profd::test::Shell;
using profd::test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

profd::symbolize::ModuleCode CodeOf(const std::string& path) {
  const profd::UniqueFd fd = *profd::OpenReadOnly(path);
  uint64_t bytes_left = 1 << 30;
  return *profd::symbolize::ModuleCodes().Of(1, fd.get(), "", &bytes_left);
}

class LateNamesTest : public ::testing::Test {
 protected:
  void Build(const std::string& flags = "") {
    BuildLibrary(full_, flags);
    Shell("strip -s -o '" + stripped_ + "' '" + full_ + "'");
    Shell("objcopy --only-keep-debug '" + full_ + "' '" + debug_ + "'");
  }

  // A wait in hidden_one of the stripped library, as the daemon sends it: 1 s of "lock".
  profd::v1::Profile Message(bool with_code = true) {
    AnswerWriter answer;
    const uint32_t thread = answer.AddThread(7, 8, "server", "worker-1", 5'000'000'000, 0);
    answer.AddSample(thread, profd::v1::REASON_LOCK,
                     {{"futex_wait", "[kernel]", profd::v1::FRAME_KIND_KERNEL},
                      {"lib.so:fn_1", "lib.so", profd::v1::FRAME_KIND_APPLICATION}},
                     1'000'000'000, 1'000'000);
    profd::v1::Profile message = answer.Message({});
    const profd::UniqueFd fd = *profd::OpenReadOnly(stripped_);
    const auto elf = profd::symbolize::ElfFile::Open(fd.get());
    const auto function = FunctionIn(full_, "hidden_one");
    for (profd::v1::Location& location : *message.mutable_locations()) {
      profd::v1::Mapping& mapping = *message.mutable_mappings(static_cast<int>(location.mapping()));
      if (message.strings(static_cast<int>(mapping.file())) != "lib.so") continue;
      // A return address behind the last instruction is that of a call in it.
      location.set_address(elf->CodeAt(function.address)->offset + function.size);
      message.mutable_functions(static_cast<int>(location.lines(0).function()))
          ->set_found_by(profd::v1::NAME_SOURCE_BOUNDS);
      message.add_strings(elf->BuildId());
      mapping.set_build_id(static_cast<uint32_t>(message.strings_size() - 1));
      if (!with_code) continue;
      const profd::symbolize::ModuleCode code = CodeOf(stripped_);
      message.add_strings(code.id);
      mapping.set_code_id(static_cast<uint32_t>(message.strings_size() - 1));
      for (const auto& segment : code.segments) {
        profd::v1::CodeSegment* sent = mapping.add_code();
        sent->set_offset(segment.offset);
        sent->set_address(segment.address);
        sent->set_size(segment.file_size);
      }
    }
    return message;
  }

  Profile Named(profd::v1::Profile message, const DebugOptions& debug, bool lines = false) {
    notes_.clear();
    const auto names = LateNames::Open({.debug = debug, .lines = lines});
    EXPECT_TRUE(names.ok()) << names.status();
    (*names)->Name(&message, &notes_);
    const absl::StatusOr<Answer> answer = BuildAnswer(message);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->profiles.front();
  }

  static std::vector<std::string> Functions(const Profile& profile) {
    std::vector<std::string> functions;
    for (const uint32_t frame : profile.stacks[1].frames) {
      functions.push_back(profile.frames[frame].function);
    }
    return functions;
  }

  const TemporaryDirectory directory_;
  const std::string full_ = directory_.path() + "/full.so";
  const std::string stripped_ = directory_.path() + "/lib.so";
  const std::string debug_ = directory_.path() + "/lib.debug";
  std::vector<std::string> notes_;
};

TEST_F(LateNamesTest, ByBuildId) {
  Build();
  for (const std::string& file : {full_, debug_}) {
    const Profile profile = Named(Message(), {.files = {file}, .directories = {}});
    EXPECT_THAT(Functions(profile), ElementsAre("futex_wait", "hidden_one")) << file;
    EXPECT_EQ(profile.frames[profile.stacks[1].frames[1]].found_by,
              profd::v1::NAME_SOURCE_DEBUG_FILE);
    EXPECT_THAT(notes_, IsEmpty());
  }
  // As profd wrote answers before it sent where the code lies.
  EXPECT_THAT(Functions(Named(Message(false), {.files = {full_}, .directories = {}})),
              ElementsAre("futex_wait", "hidden_one"));
}

TEST_F(LateNamesTest, ByCodeWithoutABuildId) {
  Build("-Wl,--build-id=none");
  EXPECT_THAT(Functions(Named(Message(), {.files = {full_}, .directories = {}})),
              ElementsAre("futex_wait", "hidden_one"));
  // It has no code.
  EXPECT_THAT(Functions(Named(Message(), {.files = {debug_}, .directories = {}})),
              ElementsAre("futex_wait", "lib.so:fn_1"));
}

TEST_F(LateNamesTest, AnotherBuildOfTheSameCodeHasAnotherBuildId) {
  Build();
  const profd::v1::Profile message = Message();
  // As long as a real one: the code stays where it is.
  Build("-Wl,--build-id=0x0123456789012345678901234567890123456789");
  EXPECT_THAT(Functions(Named(message, {.files = {full_}, .directories = {}})),
              ElementsAre("futex_wait", "hidden_one"));
}

TEST_F(LateNamesTest, OtherCodeNamesNothingAndIsReported) {
  Build();
  const profd::v1::Profile message = Message();
  const std::string other = directory_.path() + "/lib.so.old";
  BuildLibrary(other, "-O3 -Wl,--build-id=0xabcdef");
  EXPECT_THAT(Functions(Named(message, {.files = {other}, .directories = {}})),
              ElementsAre("futex_wait", "lib.so:fn_1"));
  ASSERT_EQ(notes_.size(), 1);
  EXPECT_THAT(notes_[0], HasSubstr("its build-id is abcdef"));
}

TEST_F(LateNamesTest, InADirectory) {
  Build("-Wl,--build-id=none");
  const std::string place = directory_.path() + "/many";
  std::filesystem::create_directories(place);
  std::ofstream(place + "/a") << "no ELF file";
  Shell("mkfifo '" + place + "/b'");
  EXPECT_THAT(Functions(Named(Message(), {.files = {}, .directories = {place}})),
              ElementsAre("futex_wait", "lib.so:fn_1"));
  std::filesystem::copy_file(full_, place + "/c");
  EXPECT_THAT(Functions(Named(Message(), {.files = {}, .directories = {place}})),
              ElementsAre("futex_wait", "hidden_one"));
}

TEST_F(LateNamesTest, LinesComeFromDebugInfo) {
  Build();
  const Profile profile = Named(Message(), {.files = {debug_}, .directories = {}}, true);
  const Frame& frame = profile.frames[profile.stacks[1].frames[1]];
  EXPECT_THAT(frame.file, HasSubstr("full.so.c"));
  EXPECT_GT(frame.line, 0);
  EXPECT_EQ(profile.message->source_lines().known(), 1);
}

TEST_F(LateNamesTest, WhatFollowsFromNamesFollows) {
  Build();
  // Now it is the function that parks a worker without work.
  Shell("objcopy --redefine-sym hidden_one=_ZN10rayon_core5sleep5Sleep5sleepE '" + full_ + "' '" +
        full_ + ".idle'");
  const Profile before = *BuildAnswer(Message())->profiles.begin();
  EXPECT_EQ(before.samples[0].idle, "");
  EXPECT_EQ(before.threads[0].ledger.idle_ns(), 0);
  const Profile after = Named(Message(), {.files = {full_ + ".idle"}, .directories = {}});
  EXPECT_THAT(Functions(after), ElementsAre("futex_wait", "rayon_core::sleep::Sleep::sleep"));
  EXPECT_EQ(after.samples[0].idle, "rayon worker");
  EXPECT_EQ(after.threads[0].ledger.idle_ns(), 1'000'000'000);
  EXPECT_EQ(after.frames[after.stacks[1].origin].function, "rayon_core::sleep::Sleep::sleep");
  ASSERT_EQ(after.message->name_shares_size(), 1);
  EXPECT_EQ(after.message->name_shares(0).source(), profd::v1::NAME_SOURCE_DEBUG_FILE);
  EXPECT_EQ(after.message->name_shares(0).share(), 1);
}

TEST_F(LateNamesTest, TheKindOfALockFollows) {
  Build();
  Shell("objcopy --redefine-sym hidden_one=_ZN11parking_lot9raw_mutex8RawMutex9lock_slowE '" +
        full_ + "' '" + full_ + ".lock'");
  EXPECT_EQ(BuildAnswer(Message())->profiles.front().samples[0].lock_kind, "");
  const Profile after = Named(Message(), {.files = {full_ + ".lock"}, .directories = {}});
  EXPECT_EQ(after.samples[0].lock_kind, "parking_lot mutex");
  EXPECT_EQ(after.samples[0].idle, "");
}

// A client polls a connection with a request in flight, and a server reads one without a request.
TEST_F(LateNamesTest, TheTurnOfAnObjectStillDecides) {
  Build();
  const auto judged = [&](profd::v1::Reason reason, const std::string& idle,
                          const std::string& turn) {
    profd::v1::Profile message = Message();
    message.mutable_samples(0)->set_reason(reason);
    message.mutable_threads(0)->mutable_off(0)->set_reason(reason);
    for (const auto& [key, text] : {std::pair("idle", idle), std::pair("turn", turn)}) {
      if (text.empty()) continue;
      message.add_strings(key);
      message.add_strings(text);
      profd::v1::Attribute* attribute = message.add_attributes();
      attribute->set_key(static_cast<uint32_t>(message.strings_size() - 2));
      attribute->set_text(static_cast<uint32_t>(message.strings_size() - 1));
      message.mutable_samples(0)->add_attributes(
          static_cast<uint32_t>(message.attributes_size() - 1));
    }
    const Profile after = Named(message, {.files = {full_}, .directories = {}});
    EXPECT_THAT(Functions(after), ElementsAre("futex_wait", "hidden_one"));
    return after.samples[0].idle;
  };
  EXPECT_EQ(judged(profd::v1::REASON_POLL, "", "peer"), "");
  EXPECT_EQ(judged(profd::v1::REASON_NET, "connection without a request", "no request"),
            "connection without a request");
  EXPECT_EQ(judged(profd::v1::REASON_POLL, "", ""), "waiting for work (poll)");
}

TEST_F(LateNamesTest, ALockOfAFunctionIsRenamed) {
  Build();
  profd::v1::Profile message = Message();
  message.add_strings("lock");
  message.add_strings("lock of lib.so:fn_1");
  profd::v1::Attribute* lock = message.add_attributes();
  lock->set_key(static_cast<uint32_t>(message.strings_size() - 2));
  lock->set_text(static_cast<uint32_t>(message.strings_size() - 1));
  message.mutable_samples(0)->add_attributes(static_cast<uint32_t>(message.attributes_size() - 1));
  profd::v1::LockUse* use = message.add_locks();
  use->set_name("lock of lib.so:fn_1");
  use->add_waiters()->set_function("lib.so:fn_1");
  const Profile after = Named(message, {.files = {full_}, .directories = {}});
  EXPECT_EQ(after.samples[0].lock, "lock of hidden_one");
  EXPECT_EQ(after.message->locks(0).name(), "lock of hidden_one");
  EXPECT_EQ(after.message->locks(0).waiters(0).function(), "hidden_one");
}

// A port on which nobody listens, most likely.
int FreePort() {
  const profd::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

TEST_F(LateNamesTest, FromADebuginfodServer) {
#ifdef PROFD_LEAKS_FOUND
  // libdebuginfod 0.188 of Debian 12 leaves a file of its cache open after each query (2026-11).
  const __lsan::ScopedDisabler disabler;
#endif
  Build();
  const std::string served = directory_.path() + "/served";
  std::filesystem::create_directories(served);
  std::filesystem::copy_file(debug_, served + "/lib.debug");
  const int port = FreePort();
  const std::string at = directory_.path();
  // The shell prints the server's PID, and is gone.
  Shell(absl::StrCat("HOME='", at, "' debuginfod -F -d '", at, "/files.sqlite' -p ", port, " '",
                     served, "' >/dev/null 2>&1 & echo $! >'", at, "/pid'"));
  pid_t server = 0;
  std::ifstream(at + "/pid") >> server;
  ASSERT_GT(server, 0);
  std::vector<std::string> named;
  for (int attempt = 0;
       attempt < 300 && named != std::vector<std::string>{"futex_wait", "hidden_one"}; ++attempt) {
    if (attempt > 0) usleep(100'000);
    // What was missing once would be taken for missing.
    setenv("DEBUGINFOD_CACHE_PATH", absl::StrCat(at, "/cache", attempt).c_str(), 1);
    named = Functions(Named(
        Message(),
        {.files = {}, .directories = {}, .servers = {absl::StrCat("http://127.0.0.1:", port)}}));
  }
  EXPECT_THAT(named, ElementsAre("futex_wait", "hidden_one"));
  kill(server, SIGTERM);
  unsetenv("DEBUGINFOD_CACHE_PATH");
  unsetenv("DEBUGINFOD_URLS");
}

TEST_F(LateNamesTest, AnAnswerSurvivesBeingSaved) {
  Build();
  const std::string saved = directory_.path() + "/saved.json";
  std::ofstream(saved) << RenderJson(Message());
  const absl::StatusOr<Answer> answer = ReadSavedAnswer(saved);
  ASSERT_TRUE(answer.ok()) << answer.status();
  profd::v1::Profile message = answer->message();
  message.mutable_threads(0)->set_group("worker");
  GroupByName(&message);
  const Profile profile = Named(message, {.files = {full_}, .directories = {}});
  EXPECT_THAT(Functions(profile), ElementsAre("futex_wait", "hidden_one"));
  EXPECT_THAT(profile.groups[profile.samples[0].group], ElementsAre("server", "worker"));
}

TEST_F(LateNamesTest, FilesThatCannotHelpAreRefused) {
  Build();
  for (const std::string& file :
       {stripped_, directory_.path(), directory_.path() + "/none", std::string("/dev/zero")}) {
    EXPECT_FALSE(LateNames::Open({.debug = {.files = {file}, .directories = {}}}).ok()) << file;
  }
  EXPECT_FALSE(LateNames::Open({.debug = {.files = {}, .directories = {"/no/such"}}}).ok());
}

TEST_F(LateNamesTest, CodeIsReadWithinABudget) {
  Build();
  const profd::UniqueFd fd = *profd::OpenReadOnly(full_);
  profd::symbolize::ModuleCodes codes;
  uint64_t none = 0;
  EXPECT_EQ(codes.Of(1, fd.get(), "", &none)->id, "");
  // It is not remembered as unknown.
  uint64_t bytes_left = 1 << 20;
  EXPECT_EQ(codes.Of(1, fd.get(), "", &bytes_left)->id, CodeOf(stripped_).id);
  EXPECT_LT(bytes_left, 1 << 20);
  uint64_t again = bytes_left;
  EXPECT_NE(codes.Of(1, fd.get(), "", &again)->id, "");
  EXPECT_EQ(again, bytes_left);
  EXPECT_EQ(codes.Of(2, fd.get(), "00", &again), nullptr);
}

}  // namespace
}  // namespace profctl
