// Lines and inlined functions from debug info, against llvm-symbolizer; and what hostile debug info
// can do.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/own_process.h"
#include "daemon/elf/elf_file.h"
#include "daemon/lines/companion_files.h"
#include "daemon/lines/dwarf_lines.h"
#include "daemon/lines/line_cache.h"
#include "daemon/lines/line_reader.h"
#include "daemon/lines/protocol.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/debug_files.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/target/procfs.h"
#include "tests/support/places.h"
#include "tests/unit/stripped_library.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using testing::AnyOf;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

UniqueFd Open(const std::string& name) {
  UniqueFd fd(open(test::InBuild(name).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.ok()) << name;
  return fd;
}

// Addresses in the functions of a program's own code, in no order.
std::vector<uint64_t> SomeAddresses(const std::string& name, size_t count) {
  const UniqueFd fd = Open(name);
  const auto elf = ElfFile::Open(fd.get());
  EXPECT_TRUE(elf.ok());
  const symbolize::Section* text = elf->FindSectionByName(".text");
  EXPECT_NE(text, nullptr);
  std::mt19937_64 random(7);
  std::uniform_int_distribution<uint64_t> offset(0, text->size - 1);
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < count; ++i) addresses.push_back(text->address + offset(random));
  return addresses;
}

// What llvm-symbolizer says; without what it takes from symbols where there is no debug info.
std::vector<LineChain> Reference(const std::string& name, const std::vector<uint64_t>& addresses) {
  // Other forms are read at the same time.
  const std::string list = absl::StrCat(testing::TempDir(), "lines_addresses-", getpid());
  {
    std::ofstream out(list);
    for (const uint64_t address : addresses) out << "0x" << std::hex << address << "\n";
  }
  const std::string command =
      absl::StrCat("llvm-symbolizer-19 --output-style=GNU --no-demangle -i -f -a -e ",
                   test::InBuild(name), " < ", list);
  std::vector<LineChain> chains;
  FILE* out = popen(command.c_str(), "r");
  EXPECT_NE(out, nullptr);
  std::array<char, 8192> buffer;
  std::vector<std::string> lines;
  while (fgets(buffer.data(), buffer.size(), out) != nullptr) {
    lines.emplace_back(buffer.data());
    lines.back().pop_back();
  }
  EXPECT_EQ(pclose(out), 0);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("0x") &&
        lines[i].find_first_not_of("0123456789abcdefx") == std::string::npos) {
      chains.emplace_back();
      continue;
    }
    if (i + 1 == lines.size()) break;
    SourceLine line;
    if (lines[i] != "??") line.function = Demangle(lines[i]);
    ++i;
    const std::string place = lines[i].substr(0, lines[i].find(" (discriminator"));
    const size_t colon = place.rfind(':');
    (void)absl::SimpleAtoi(place.substr(colon + 1), &line.line);
    line.file = place.substr(0, colon);
    if (line.line > 0 || line.file.starts_with("/")) chains.back().push_back(line);
  }
  return chains;
}

// A supplementary file, by its path alone.
UniqueFd OpenSupplementary(const std::string& name, const std::string& /*build_id*/) {
  return UniqueFd(open(name.c_str(), O_RDONLY | O_CLOEXEC));
}

// Both name a function by its linkage name where it has one. Else llvm leaves out the namespaces.
bool SameFunction(const std::string& ours, const std::string& reference) {
  return ours == reference || ours.ends_with("::" + reference);
}

std::string Describe(const LineChain& chain) {
  std::string text;
  for (const SourceLine& line : chain) {
    absl::StrAppend(&text, line.function, " ", line.file, ":", line.line, "\n");
  }
  return text;
}

// llvm takes the name of the outermost function from the symbol table.
bool SameChain(const LineChain& ours, const LineChain& reference) {
  if (ours.size() != reference.size()) return false;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].line != reference[i].line || ours[i].file != reference[i].file) return false;
    const bool outermost = i + 1 == ours.size();
    if (!outermost && !SameFunction(ours[i].function, reference[i].function)) return false;
  }
  return true;
}

struct Form {
  std::string program;
  std::string contents = "";   // the file with the debug info; empty: the program
  std::string reference = "";  // what llvm-symbolizer reads; empty: the same
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.program; }

class LineFormsTest : public testing::TestWithParam<Form> {};

TEST_P(LineFormsTest, AgreeWithLlvmSymbolizer) {
  const std::string contents =
      GetParam().contents.empty() ? GetParam().program : GetParam().contents;
  const std::vector<uint64_t> addresses = SomeAddresses(GetParam().program, 600);
  const std::vector<LineChain> reference =
      Reference(GetParam().reference.empty() ? contents : GetParam().reference, addresses);
  ASSERT_THAT(reference, SizeIs(addresses.size()));
  const UniqueFd fd = Open(contents);
  const auto lines = DwarfLines::Open(fd.get(), OpenSupplementary);
  ASSERT_TRUE(lines.ok()) << lines.status();
  size_t inlined = 0;
  size_t known = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const LineChain chain = (*lines)->Find(addresses[i]);
    EXPECT_TRUE(SameChain(chain, reference[i])) << std::hex << addresses[i] << "\n"
                                                << Describe(chain) << "---\n"
                                                << Describe(reference[i]);
    known += chain.empty() ? 0 : 1;
    inlined += chain.size() > 2 ? 1 : 0;
  }
  EXPECT_GT(known, 500u);
  EXPECT_GT(inlined, 100u);
}

INSTANTIATE_TEST_SUITE_P(Forms, LineFormsTest,
                         testing::Values(Form{"lines_dwarf4"}, Form{"lines_dwarf5"},
                                         Form{"lines_minimal"}, Form{"lines_zlib"},
                                         Form{"lines_zstd"}, Form{"lines_clang4"},
                                         Form{"lines_clang5"}, Form{"lines_table"},
                                         Form{"lines_split", "lines_split.debug"},
                                         Form{"lines_dwo4"}, Form{"lines_dwo5"},
                                         Form{"lines_dwo_clang"},
                                         // llvm-symbolizer does not read what dwz made.
                                         Form{"lines_dwz", "", "lines_dwarf5"}),
                         [](const auto& form) { return form.param.program; });

TEST(LinesTest, FilesWithoutDebugInfoAreRefused) {
  const UniqueFd stripped = Open("lines_split");
  EXPECT_TRUE(absl::IsNotFound(DwarfLines::Open(stripped.get(), OpenSupplementary).status()));
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(DwarfLines::Open(null.get(), OpenSupplementary).ok());
}

TEST(LinesTest, TheDebugFileOfAFileWithSymbolsIsFoundForItsLines) {
  ModuleFile module;
  module.identity.path = test::InBuild("lines_split");
  module.fd = Open("lines_split");
  DebugFiles symbols({});
  EXPECT_EQ(symbols.Refresh(1, module), 0u) << "it has symbols of its own";
  DebugFiles lines({}, SystemClock(), "/", DebugNeed::kDebugInfo);
  EXPECT_NE(lines.Refresh(1, module), 0u);
  const auto debug = lines.Open(1);
  ASSERT_TRUE(debug);
  EXPECT_TRUE(symbolize::HasDebugInfo(debug->elf));
  module.fd = Open("lines_dwarf5");
  EXPECT_EQ(lines.Refresh(2, module), 0u) << "it needs none";
}

TEST(LineProtocolTest, MessagesSurviveTheWay) {
  const LineRequest request = {.id = 7, .file = 9, .addresses = {1, 0x1234, UINT64_MAX}};
  const auto decoded = DecodeLineRequest(EncodeLineRequest(request));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, 7u);
  EXPECT_EQ(decoded->file, 9u);
  EXPECT_EQ(decoded->addresses, request.addresses);

  LineAnswerWriter writer(7);
  const LineChain chain = {{"inner", "/a/b.cc", 3}, {"outer", "", 0}};
  writer.Add(1, chain);
  writer.Add(2, {});
  const auto answer = DecodeLineAnswer(writer.Take(true));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, 7u);
  EXPECT_TRUE(answer->last);
  ASSERT_THAT(answer->chains, SizeIs(2));
  EXPECT_EQ(answer->chains[0], std::pair(uint64_t{1}, chain));
  EXPECT_EQ(answer->chains[1], std::pair(uint64_t{2}, LineChain()));
}

TEST(LineProtocolTest, TheLongestChainFitsIntoAMessage) {
  LineAnswerWriter writer(1);
  const LineChain chain(2 * kMaxChain, {.function = std::string(2 * kMaxFunctionText, 'f'),
                                        .file = std::string(2 * kMaxFileText, 'd'),
                                        .line = 1});
  // What is written before it was not enough for a message.
  for (uint64_t i = 0; !writer.IsFull(); ++i) writer.Add(i, {{"a", "b", 1}});
  EXPECT_LT(writer.Take(false).size(), size_t{16} << 10);
  writer.Add(1, chain);
  const std::vector<uint8_t> bytes = writer.Take(true);
  EXPECT_LE(bytes.size() + (size_t{12} << 10), kMaxLineMessage);
  const auto answer = DecodeLineAnswer(bytes);
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->chains[0].second, SizeIs(kMaxChain));
}

TEST(LineProtocolTest, QuestionsSurviveTheWay) {
  const FileQuestion question = {.id = 7,
                                 .kind = FileQuestion::Kind::kSupplementary,
                                 .name = "/usr/lib/debug/.dwz/common.debug",
                                 .build_id = "0123456789abcdef"};
  const auto decoded = DecodeFileQuestion(EncodeFileQuestion(question));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, question.id);
  EXPECT_EQ(decoded->kind, question.kind);
  EXPECT_EQ(decoded->name, question.name);
  EXPECT_EQ(decoded->build_id, question.build_id);
}

TEST(LineProtocolTest, DamagedQuestionsAreRefused) {
  const FileQuestion sound = {
      .id = 1, .kind = FileQuestion::Kind::kSplit, .name = "a.dwo", .build_id = ""};
  std::vector<uint8_t> bytes = EncodeFileQuestion(sound);
  bytes.push_back(0);
  EXPECT_FALSE(DecodeFileQuestion(bytes));
  bytes.resize(bytes.size() - 2);
  EXPECT_FALSE(DecodeFileQuestion(bytes));
  FileQuestion damaged = sound;
  damaged.kind = static_cast<FileQuestion::Kind>(3);
  EXPECT_FALSE(DecodeFileQuestion(EncodeFileQuestion(damaged)));
  damaged = sound;
  damaged.name = std::string("a\0.dwo", 6);
  EXPECT_FALSE(DecodeFileQuestion(EncodeFileQuestion(damaged)));
  damaged = sound;
  damaged.build_id = "../../etc";
  EXPECT_FALSE(DecodeFileQuestion(EncodeFileQuestion(damaged)));
  EXPECT_FALSE(DecodeFileQuestion({}));
}

TEST(LineProtocolTest, DamagedMessagesAreRefused) {
  LineAnswerWriter writer(7);
  writer.Add(1, {{"inner", "/a/b.cc", 3}, {"outer", "/c.cc", 4}});
  const std::vector<uint8_t> bytes = writer.Take(true);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeLineAnswer({bytes.data(), size})) << size;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(DecodeLineAnswer(longer));
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1u << random() % 8);
    const auto answer = DecodeLineAnswer(damaged);
    if (!answer) continue;
    for (const auto& [address, chain] : answer->chains) EXPECT_LE(chain.size(), kMaxChain);
  }
}

TEST(LineCacheTest, KeepsWithinItsBounds) {
  LineCache cache(100'000);
  const auto chain_of = [](uint64_t file, uint64_t address) {
    return LineChain{{absl::StrCat("function", address), absl::StrCat("/file", file), 1}};
  };
  for (uint64_t file = 0; file < 10; ++file) {
    for (uint64_t address = 0; address < 100; ++address) {
      cache.Put(file, address, chain_of(file, address));
      EXPECT_LE(cache.bytes(), 100'000u);
    }
  }
  LineChain chain;
  EXPECT_FALSE(cache.Get(0, 5, &chain));
  ASSERT_TRUE(cache.Get(9, 5, &chain));
  EXPECT_EQ(chain, chain_of(9, 5));
  EXPECT_TRUE(cache.Knows(9, 99));
  cache.Put(9, 1000, {});
  EXPECT_TRUE(cache.Get(9, 1000, &chain));
  EXPECT_THAT(chain, IsEmpty());
}

// Workers of this test: the sanitizers need more memory and more system calls than these may have.
constexpr WorkerLimits kLimits = {.data_bytes = 0, .cpu_seconds = 5, .filter_calls = false};

std::vector<int32_t> Readers() {
  std::vector<int32_t> pids;
  for (const ProcessInfo& process : ListProcesses()) {
    if (process.parent == getpid() && process.comm == kLineProcessName) pids.push_back(process.pid);
  }
  return pids;
}

class LineReaderTest : public testing::Test {
 protected:
  void Start(LineReaderOptions options = {}) {
    auto launcher = LineLauncher::Start(kLimits);
    ASSERT_TRUE(launcher.ok()) << launcher.status();
    launcher_ = launcher->pid();
    reader_ = std::make_unique<LineReader>(std::move(*launcher), &cpu_ns_, options);
  }

  static LineQuery Query(const std::string& name, uint64_t file, size_t count = 50) {
    LineQuery query;
    query.file = file;
    query.contents = std::make_shared<UniqueFd>(Open(name));
    query.addresses = SomeAddresses(name, count);
    return query;
  }

  std::vector<LineQuery::State> Ask(LineQuery& query,
                                    std::chrono::milliseconds patience = kPatient) {
    reader_->Find({&query, 1}, patience);
    return query.states;
  }

  pid_t Worker() const {
    for (const int32_t pid : Readers()) {
      if (pid != launcher_) return pid;
    }
    return 0;
  }

  static constexpr std::chrono::milliseconds kPatient{60'000};
  std::atomic<int64_t> cpu_ns_ = 0;
  pid_t launcher_ = 0;
  std::unique_ptr<LineReader> reader_;
};

TEST_F(LineReaderTest, SaysWhatTheFileSays) {
  Start();
  LineQuery query = Query("lines_dwarf5", 1, 600);
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kKnown));
  const auto lines = DwarfLines::Open(query.contents->get(), OpenSupplementary);
  ASSERT_TRUE(lines.ok());
  for (size_t i = 0; i < query.addresses.size(); ++i) {
    EXPECT_EQ(query.chains[i], (*lines)->Find(query.addresses[i]));
  }
  const LineReaderStatus status = reader_->Status();
  EXPECT_EQ(status.note, "");
  EXPECT_GE(status.read, 500u);
  EXPECT_GT(status.cpu_ns, 0);
  EXPECT_GT(status.rss_bytes, 0u);
  EXPECT_GT(status.cache_bytes, 0u);
}

TEST_F(LineReaderTest, AnswersInTimeAndKnowsMoreLater) {
  Start();
  LineQuery query = Query("lines_dwarf4", 1, 600);
  EXPECT_THAT(Ask(query, std::chrono::milliseconds(0)), Each(LineQuery::State::kPending));
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kKnown));
  // From memory alone.
  EXPECT_THAT(Ask(query, std::chrono::milliseconds(0)), Each(LineQuery::State::kKnown));
}

TEST_F(LineReaderTest, StopsItsWorkerWhenThereIsNothingToDo) {
  Start({.idle = std::chrono::milliseconds(20)});
  LineQuery query = Query("lines_dwarf4", 1);
  Ask(query);
  const int64_t deadline = MonotonicNs() + 30'000'000'000;
  while (Worker() != 0 && MonotonicNs() < deadline) usleep(10'000);
  EXPECT_EQ(Worker(), 0);
  LineQuery other = Query("lines_dwarf5", 2);
  EXPECT_THAT(Ask(other), Each(LineQuery::State::kKnown));
}

TEST_F(LineReaderTest, ReplacesAKilledWorker) {
  Start();
  LineQuery query = Query("lines_dwarf4", 1);
  Ask(query);
  const pid_t worker = Worker();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  LineQuery other = Query("lines_dwarf5", 2);
  EXPECT_THAT(Ask(other), Each(LineQuery::State::kKnown));
  EXPECT_NE(Worker(), worker);
}

TEST_F(LineReaderTest, SaysWhenItCannotStartAnother) {
  Start();
  ASSERT_EQ(kill(launcher_, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(launcher_), &info, WEXITED | WNOWAIT), 0);
  LineQuery query = Query("lines_dwarf4", 1);
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kFailed));
  EXPECT_THAT(reader_->Status().note, testing::HasSubstr("restart profd"));
}

TEST_F(LineReaderTest, TakesAWorkerThatComesLate) {
  Start({.start = std::chrono::milliseconds(1)});
  ASSERT_EQ(kill(launcher_, SIGSTOP), 0);
  LineQuery query = Query("lines_dwarf4", 1);
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kFailed));
  EXPECT_THAT(reader_->Status().note, testing::HasSubstr("has not started yet"));
  ASSERT_EQ(kill(launcher_, SIGCONT), 0);
  // Each order is for another file, as one that failed rests. The worker that was late is the only
  // one.
  for (uint64_t file = 2; Ask(query)[0] != LineQuery::State::kKnown && file < 600; ++file) {
    query.file = file;
  }
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kKnown));
  EXPECT_EQ(reader_->Status().note, "");
  EXPECT_EQ(Readers().size(), 2u) << "the launcher and one worker";
}

TEST_F(LineReaderTest, ReplacesAWorkerThatDoesNotAnswer) {
  Start({.patience = std::chrono::milliseconds(6000)});
  LineQuery query = Query("lines_dwarf4", 1);
  Ask(query);
  const pid_t worker = Worker();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  LineQuery other = Query("lines_clang4", 2);
  EXPECT_THAT(Ask(other), Each(LineQuery::State::kKnown));
  EXPECT_NE(Worker(), worker);
}

TEST_F(LineReaderTest, EndsWhileItWaits) {
  Start();
  LineQuery query = Query("lines_dwarf4", 1);
  Ask(query);
  ASSERT_EQ(kill(Worker(), SIGSTOP), 0);
  LineQuery other = Query("lines_clang4", 2);
  EXPECT_THAT(Ask(other, std::chrono::milliseconds(0)), Each(LineQuery::State::kPending));
  const int64_t begin = MonotonicNs();
  reader_.reset();
  EXPECT_LT(MonotonicNs() - begin, 20'000'000'000) << "the patience is 30 s";
}

TEST_F(LineReaderTest, GivesUpAFileThatTakesTooLong) {
  Start({.patience = std::chrono::milliseconds(0)});
  LineQuery slow = Query("lines_clang4", 2);
  EXPECT_THAT(Ask(slow), Each(LineQuery::State::kFailed));
  EXPECT_EQ(reader_->Status().failures, 1u);
  EXPECT_EQ(Worker(), 0);
  // It rests, and holds up nothing.
  EXPECT_THAT(Ask(slow), Each(LineQuery::State::kFailed));
  EXPECT_EQ(reader_->Status().failures, 1u);
}

TEST_F(LineReaderTest, LeavesAFileAloneThatIsNone) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writer(ends[1]);
  LineQuery query = {.file = 3,
                     .contents = std::make_shared<UniqueFd>(ends[0]),
                     .companions = nullptr,
                     .addresses = {0x1000},
                     .states = {},
                     .chains = {}};
  EXPECT_THAT(Ask(query), Each(LineQuery::State::kFailed));
  EXPECT_THAT(Ask(query, std::chrono::milliseconds(0)), Each(LineQuery::State::kFailed));
  LineQuery other = Query("lines_dwarf5", 2);
  EXPECT_THAT(Ask(other), Each(LineQuery::State::kKnown));
  EXPECT_EQ(reader_->Status().failures, 0u);
}

// A copy of the program whose debug sections are damaged at random.
std::shared_ptr<const UniqueFd> Damaged(const std::string& name, std::mt19937_64& random) {
  const UniqueFd fd = Open(name);
  const auto elf = ElfFile::Open(fd.get());
  struct stat status{};
  EXPECT_EQ(fstat(fd.get(), &status), 0);
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  EXPECT_TRUE(elf->Read(0, bytes.data(), bytes.size()).ok());
  for (const char* section : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists",
                              ".debug_ranges", ".debug_str", ".debug_line_str"}) {
    const symbolize::Section* found = elf->FindSectionByName(section);
    if (found == nullptr || found->size == 0) continue;
    for (uint64_t flips = random() % 20; flips > 0; --flips) {
      bytes[found->offset + random() % found->size] ^= static_cast<char>(1u << random() % 8);
    }
  }
  if (random() % 4 == 0) bytes.resize(random() % bytes.size());
  const int copy = memfd_create("damaged", MFD_CLOEXEC);
  EXPECT_EQ(write(copy, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return std::make_shared<UniqueFd>(copy);
}

std::string Contents(const std::string& name) {
  std::ifstream in(test::InBuild(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST_F(LineReaderTest, ACompanionFileMayComeLater) {
  Start({.first_rest = std::chrono::milliseconds(1)});
  LineQuery query = Query("lines_dwz", 1, 1'000);
  const auto lines = DwarfLines::Open(query.contents->get(), OpenSupplementary);
  ASSERT_TRUE(lines.ok());
  std::vector<LineChain> expected;
  for (const uint64_t address : query.addresses) expected.push_back((*lines)->Find(address));

  // It names a file that is not there yet.
  std::string program = Contents("lines_dwz");
  const size_t at = program.find("/lines_dwz.common");
  ASSERT_NE(at, std::string::npos);
  program.replace(at, 17, "/lines_dwz.future");
  const int copy = memfd_create("later", MFD_CLOEXEC);
  ASSERT_EQ(write(copy, program.data(), program.size()), static_cast<ssize_t>(program.size()));
  query.contents = std::make_shared<UniqueFd>(copy);
  const test::TemporaryDirectory directory;
  query.companions = std::make_shared<const CompanionFiles>(
      nullptr, directory.path(), std::vector<std::string>{directory.path()}, "/opt/program");
  const int64_t begin = MonotonicNs();
  {
    // Somebody else asks all the time, for nothing: also while parts of the answer are there.
    LineQuery nothing = query;
    nothing.addresses.clear();
    std::atomic<bool> stop = false;
    const std::jthread other([&] {
      while (!stop) {
        Ask(nothing, std::chrono::milliseconds(0));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_THAT(Ask(query), Each(LineQuery::State::kKnown));
    stop = true;
  }
  EXPECT_NE(query.chains, expected);

  std::ofstream(directory.path() + "/lines_dwz.future", std::ios::binary)
      << Contents("lines_dwz.common");
  // It is looked for after a rest, twice as long after each time that it was not there: about as
  // long as all of the rests before.
  const int64_t now = MonotonicNs();
  const int64_t patience = 3 * (now - begin) + 120'000'000'000;
  while (query.chains != expected && MonotonicNs() < now + patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_THAT(Ask(query), Each(LineQuery::State::kKnown));
  }
  EXPECT_EQ(query.chains, expected);
}

// Forty files; with PROFD_DAMAGE_SECONDS others at each run, for so long.
TEST_F(LineReaderTest, SurvivesDamagedFiles) {
  Start();
  const char* const text = getenv("PROFD_DAMAGE_SECONDS");
  const int64_t seconds = text == nullptr ? 0 : std::atoll(text);
  const uint64_t seed = seconds == 0 ? 11 : std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const std::array<std::string, 6> programs = {"lines_dwarf5", "lines_clang4",    "lines_dwo5",
                                               "lines_dwz",    "lines_dwo_clang", "lines_dwarf4"};
  const auto companions = std::make_shared<const CompanionFiles>(
      nullptr, "/", std::vector<std::string>(), test::InBuild("program"));
  const int64_t end_ns = MonotonicNs() + seconds * 1'000'000'000;
  uint64_t round = 0;
  for (; round < 40 || MonotonicNs() < end_ns; ++round) {
    const std::string& name = programs[round % programs.size()];
    LineQuery query = Query(name, 100 + round, 100);
    query.contents = Damaged(name, random);
    query.companions = companions;
    EXPECT_THAT(Ask(query), Each(AnyOf(LineQuery::State::kKnown, LineQuery::State::kFailed)));
  }
  RecordProperty("files", std::to_string(round));
  RecordProperty("workers_lost", std::to_string(reader_->Status().failures));
  LineQuery sound = Query("lines_dwarf5", 2);
  EXPECT_THAT(Ask(sound), Each(LineQuery::State::kKnown));
}

}  // namespace
}  // namespace profd
