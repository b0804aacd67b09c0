// Crates and modules of functions without symbols, from panic locations.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/symbolize/infer/code_references.h"
#include "daemon/symbolize/infer/crate_map.h"
#include "daemon/symbolize/infer/crate_maps.h"
#include "daemon/symbolize/infer/function_begins.h"
#include "daemon/symbolize/infer/locations.h"
#include "daemon/symbolize/infer/module_inference.h"
#include "daemon/symbolize/infer/regions.h"
#include "daemon/symbolize/infer/source_path.h"
#include "daemon/symbolize/inferred_names.h"
#include "daemon/symbolize/symbolizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/located_program.h"

namespace profd::symbolize {
namespace {

using test::LocatedProgram;
using test::Pointers;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Parsed(std::string_view path) {
  const SourceFile file = ParseSourcePath(path);
  return file.crate + "|" + file.modules + "|" + file.root;
}

TEST(SourcePathTest, TellsCrateAndModule) {
  EXPECT_EQ(Parsed("/rustc/90b35a/library/std/src/sync/mpsc.rs"),
            "std|sync::mpsc|/rustc/90b35a/library/std/src");
  EXPECT_EQ(Parsed("/home/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/core/src/option.rs"),
            "core|option|/home/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/core/src");
  EXPECT_EQ(Parsed("/root/.cargo/registry/src/index.crates.io-6f17/tokio-util-0.7.1/src/io/mod.rs"),
            "tokio_util|io|/root/.cargo/registry/src/index.crates.io-6f17/tokio-util-0.7.1/src");
  EXPECT_EQ(Parsed("/rust/deps/zstd-sys-2.0.9+zstd.1.5.5/src/lib.rs"),
            "zstd_sys||/rust/deps/zstd-sys-2.0.9+zstd.1.5.5/src");
  EXPECT_EQ(Parsed("/r/git/checkouts/revm-1f2e3d/9a8b7c6/crates/evm-core/src/frame/mod.rs"),
            "evm_core|frame|/r/git/checkouts/revm-1f2e3d/9a8b7c6/crates/evm-core/src");
  EXPECT_EQ(Parsed("crates/trie/src/node.rs"), "trie|node|crates/trie/src");
  EXPECT_EQ(Parsed("crates/./x/../trie/src/main.rs"), "trie||crates/trie/src");
  EXPECT_EQ(Parsed("bin/reth/src/bin/tool.rs"), "tool||bin/reth/src/bin");
  EXPECT_EQ(Parsed("/t/release/build/node-1f2e/out/generated.rs"),
            "node||/t/release/build/node-1f2e/out");
}

TEST(SourcePathTest, NoCrateWhereThePathNamesNone) {
  EXPECT_EQ(Parsed("src/net/peer.rs"), "|net::peer|src");
  EXPECT_EQ(Parsed("/app/src/net.rs"), "|net|/app/src") << "a container builds there";
  EXPECT_EQ(Parsed("build.rs"), "||");
  EXPECT_EQ(Parsed(""), "||");
  EXPECT_EQ(Parsed("/"), "||");
}

TEST(SourcePathTest, HostilePathsGiveIdentifiers) {
  EXPECT_EQ(Parsed("a b/src/x(y)<z>.rs"), "a_b|x_y__z_|a b/src");
  EXPECT_EQ(Parsed("../../src/x.rs"), "|x|../../src");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "a/";
  EXPECT_EQ(Parsed(deep + "src/x.rs"), "||");
}

TEST(SourcePathTest, CrateOfProgramIsAnIdentifier) {
  EXPECT_EQ(CrateOfProgram("op-reth"), "op_reth");
  EXPECT_EQ(CrateOfProgram("librustc_driver-6108105cd7e839cf.so"), "rustc_driver");
}

std::vector<std::string> FilesOf(const UniqueFd& fd) {
  const auto elf = ElfFile::Open(fd.get());
  EXPECT_TRUE(elf.ok()) << elf.status();
  std::vector<std::string> modules;
  const LocationTable table = LocationTable::Read(*elf, "own");
  for (const LocatedFile& file : table.files()) {
    modules.push_back(file.module);
  }
  return modules;
}

class LocationsTest : public ::testing::TestWithParam<Pointers> {};

TEST_P(LocationsTest, EachRecordLeadsToItsFile) {
  LocatedProgram program(GetParam());
  const uint64_t first = program.AddLocation("crates/trie/src/node.rs", 7, 9);
  const uint64_t second = program.AddLocation("src/main.rs", 1, 1);
  const uint64_t again = program.AddLocation("crates/trie/src/node.rs", 8, 9);
  const UniqueFd fd = program.BuildFile();
  const auto elf = ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const LocationTable table = LocationTable::Read(*elf, "own");
  EXPECT_EQ(table.record_count(), 3);
  ASSERT_TRUE(table.FileAt(first).has_value());
  EXPECT_EQ(table.FileAt(first), table.FileAt(again));
  EXPECT_EQ(table.files()[*table.FileAt(first)].module, "trie::node");
  EXPECT_EQ(table.files()[*table.FileAt(second)].module, "own");
  EXPECT_EQ(table.FileAt(first + 1), std::nullopt);
  EXPECT_EQ(table.FileAt(0), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(All, LocationsTest,
                         ::testing::Values(Pointers::kRelocated, Pointers::kInPlace));

TEST(LocationTableTest, OnlyWhatLooksLikeALocationIsOne) {
  LocatedProgram program;
  program.AddLocation("no path", 1, 1);
  program.AddLocation("a/src/zero_line.rs", 0, 1);
  program.AddLocation("a/src/zero_column.rs", 1, 0);
  program.AddLocation("a/src/far.rs", 4'000'000'000, 1);
  program.AddLocation(std::string("a/src/\x01.rs"), 1, 1);
  program.AddLocation(std::string(5000, 'a') + ".rs", 1, 1);
  const uint64_t counted = program.AddLocation(std::string("a/src/nul.rs\0", 13), 1, 1);
  const UniqueFd fd = program.BuildFile();
  const auto elf = ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok());
  const LocationTable table = LocationTable::Read(*elf, "own");
  EXPECT_EQ(table.record_count(), 1);
  ASSERT_TRUE(table.FileAt(counted).has_value());
  EXPECT_EQ(table.files()[*table.FileAt(counted)].module, "a::nul");
}

// tracing::Metadata has the name of a module next to the path of its file.
TEST(LocationTableTest, MetadataTellsTheCrateOfAWorkspace) {
  LocatedProgram program;
  program.AddLocation("crates/trie/src/proof.rs");
  program.AddSlice("reth_trie::node");
  program.AddSlice("crates/trie/src/node.rs");
  program.AddWord(0);
  EXPECT_THAT(FilesOf(program.BuildFile()), ElementsAre("reth_trie::proof", "reth_trie::node"));
}

TEST(LocationTableTest, MetadataOfAProgramsOwnCrate) {
  LocatedProgram program;
  program.AddLocation("src/cargo/ops/mod.rs");
  program.AddSlice("src/cargo/core/resolver.rs");
  program.AddSlice("cargo::core::resolver");
  program.AddWord(0);
  EXPECT_THAT(FilesOf(program.BuildFile()), ElementsAre("cargo::ops", "cargo::core::resolver"));
}

TEST(LocationTableTest, MetadataDoesNotOverruleExactNames) {
  LocatedProgram program;
  program.AddSlice("other::io");
  program.AddSlice("/c/tokio-1.2.3/src/io.rs");
  program.AddWord(0);
  EXPECT_THAT(FilesOf(program.BuildFile()), ElementsAre("tokio::io"));
}

TEST(CodeReferencesTest, FindsLoadsCallsAndJumps) {
  LocatedProgram program;
  const uint64_t record = program.AddLocation("a/src/a.rs");
  const uint64_t callee = program.AddFunction({});
  const uint64_t function = program.AddFunction({record}, callee, callee + 1);
  const test::Bytes file = program.Build();
  const std::span<const uint8_t> code = std::span(file).subspan(function, 1 + 7 + 5 + 5 + 2);
  const CodeReferences references = FindReferences(code, function);
  EXPECT_THAT(references.calls, ElementsAre(callee));
  EXPECT_THAT(references.jumps, ElementsAre(callee + 1));
  std::vector<uint64_t> loads;
  std::vector<uint64_t> calls;
  ForEachReference(
      code, function, [&](uint64_t target) { loads.push_back(target); },
      [&](uint64_t target) { calls.push_back(target); });
  EXPECT_THAT(loads, ElementsAre(record));
  EXPECT_THAT(calls, ElementsAre(callee, callee + 1));
}

TEST(CodeReferencesTest, ConstantsOfProgramsAtAFixedAddress) {
  const test::Bytes code = {0xbf, 0x78, 0x56, 0x34, 0x12};  // mov edi, 0x12345678
  std::vector<uint64_t> loads;
  ForEachReference(
      code, 0, [&](uint64_t target) { loads.push_back(target); }, [](uint64_t /*target*/) {});
  EXPECT_THAT(loads, ElementsAre(0x12345678));
}

TEST(CodeReferencesTest, NeverReadsBehindTheCode) {
  const test::Bytes lea = {0x48, 0x8d, 0x3d, 1, 2, 3, 4};
  for (size_t size = 0; size < lea.size(); ++size) {
    const std::vector<uint8_t> cut(lea.begin(), lea.begin() + static_cast<std::ptrdiff_t>(size));
    const auto never = [](uint64_t /*target*/) { ADD_FAILURE(); };
    ForEachReference(cut, 0, never, never);
    EXPECT_THAT(FindReferences(cut, 0).calls, IsEmpty());
  }
}

class InferenceTest : public ::testing::Test {
 protected:
  std::optional<InferredName> Infer(uint64_t address) {
    const UniqueFd fd = program_.BuildFile();
    const auto elf = ElfFile::Open(fd.get());
    EXPECT_TRUE(elf.ok()) << elf.status();
    const LocationTable table = LocationTable::Read(*elf, "own");
    const std::vector<uint64_t> begins = ReadFunctionBegins(*elf);
    const CrateMap map = CrateMap::Build(*elf, table, begins);
    return ModuleInference(&*elf, &table, &map, begins).Infer(address);
  }

  LocatedProgram program_;
};

TEST_F(InferenceTest, MostLocationsDecide) {
  const uint64_t node = program_.AddLocation("crates/trie/src/node.rs");
  const uint64_t iter = program_.AddLocation("crates/trie/src/iter.rs");
  const uint64_t more = program_.AddLocation("crates/trie/src/iter.rs", 2);
  const uint64_t inlined = program_.AddLocation("/c/ruint-1.2.3/src/add.rs");
  const uint64_t function = program_.AddFunction({node, iter, more, inlined});
  const auto name = Infer(function + 3);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->path, "trie::iter");
  EXPECT_EQ(name->crate, "trie");
  EXPECT_EQ(name->evidence, Evidence::kLocations);
  EXPECT_FALSE(Infer(LocatedProgram::kCode - 1).has_value());
}

TEST_F(InferenceTest, LocationsOfTheStandardLibraryCountLast) {
  const uint64_t vec = program_.AddLocation("/rustc/1a/library/alloc/src/raw_vec.rs");
  const uint64_t slice = program_.AddLocation("/rustc/1a/library/core/src/slice/index.rs");
  const uint64_t own = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  const uint64_t mixed = program_.AddFunction({vec, slice, own});
  EXPECT_EQ(Infer(mixed)->path, "revm::frame");
}

TEST_F(InferenceTest, WithoutNeighborsTheStandardLibraryIsNamed) {
  const uint64_t mpsc = program_.AddLocation("/rustc/1a/library/std/src/sync/mpmc/list.rs");
  const uint64_t function = program_.AddFunction({mpsc});
  const auto name = Infer(function);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->path, "std::sync::mpmc::list");
  EXPECT_EQ(name->evidence, Evidence::kStandard);
}

// The lines of a channel's source file, as in crossbeam 0.5.
class ChannelSideTest : public InferenceTest {
 protected:
  static constexpr char kFile[] = "/c/crossbeam-channel-0.5.17/src/flavors/array.rs";
  uint64_t At(uint32_t line) { return program_.AddLocation(kFile, line, 41); }
  CodeRole RoleOf(const std::vector<uint64_t>& loads) {
    const auto name = Infer(program_.AddFunction(loads));
    EXPECT_TRUE(name.has_value());
    return name ? name->role : CodeRole::kUnknown;
  }
};

TEST_F(ChannelSideTest, TheFirstPairOfLinesIsTheSenders) {
  const uint64_t assertion = At(131);
  const uint64_t sender = At(393), sender_unwraps = At(395);
  const uint64_t receiver = At(453), receiver_unwraps = At(455);
  const uint64_t context = program_.AddLocation("/c/crossbeam-channel-0.5.17/src/context.rs");
  EXPECT_EQ(RoleOf({sender, sender_unwraps}), CodeRole::kSends);
  EXPECT_EQ(RoleOf({context, receiver, receiver_unwraps}), CodeRole::kReceives);
  EXPECT_EQ(RoleOf({receiver, receiver_unwraps, assertion}), CodeRole::kReceives);
  EXPECT_EQ(RoleOf({sender, receiver}), CodeRole::kUnknown) << "both were inlined in it";
  EXPECT_EQ(RoleOf({assertion}), CodeRole::kUnknown);
}

TEST_F(ChannelSideTest, OnePairMayBeOfEitherSide) {
  const uint64_t one = At(453), other = At(455);
  EXPECT_EQ(RoleOf({one, other}), CodeRole::kUnknown);
}

TEST_F(ChannelSideTest, AnotherNumberOfPairsIsAnotherFile) {
  const uint64_t one = At(393), other = At(395);
  for (const uint32_t line : {453, 455, 500, 502}) At(line);
  EXPECT_EQ(RoleOf({one, other}), CodeRole::kUnknown);
}

TEST_F(ChannelSideTest, TheWordIsTheEndOfTheName) {
  for (const uint32_t line : {393, 395}) At(line);
  const uint64_t receiver = At(453), unwraps = At(455);
  const uint64_t function = program_.AddFunction({receiver, unwraps});
  const UniqueFd fd = program_.BuildFile();
  std::vector<FoundName> names = {{.symbol = {}, .begin = function, .source = NameSource::kBounds}};
  CrateMaps maps;
  InferNames(*ElfFile::Open(fd.get()), "prog", names, &maps);
  EXPECT_EQ(names[0].symbol, "crossbeam_channel::flavors::array::recv");
}

TEST_F(InferenceTest, NeighborsGiveTheCrateAlone) {
  const uint64_t record = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  for (int i = 0; i < 8; ++i) program_.AddFunction({record});
  const uint64_t silent = program_.AddFunction({});
  for (int i = 0; i < 8; ++i) program_.AddFunction({record});
  const auto name = Infer(silent);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->path, "revm");
  EXPECT_EQ(name->evidence, Evidence::kNeighbors);
}

TEST_F(InferenceTest, NeighborsThatDisagreeGiveNone) {
  const uint64_t one = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  const uint64_t other = program_.AddLocation("/c/tokio-1.2.3/src/io.rs");
  for (int i = 0; i < 8; ++i) program_.AddFunction({i % 2 == 0 ? one : other});
  const uint64_t silent = program_.AddFunction({});
  for (int i = 0; i < 8; ++i) program_.AddFunction({i % 2 == 0 ? one : other});
  EXPECT_FALSE(Infer(silent).has_value());
}

TEST_F(InferenceTest, CallersOfOneCrateCountMoreThanTheCodeAround) {
  const uint64_t around = program_.AddLocation("/c/tokio-1.2.3/src/io.rs");
  const uint64_t record = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  for (int i = 0; i < 8; ++i) program_.AddFunction({around});
  const uint64_t called = program_.AddFunction({});
  const uint64_t silent = program_.AddFunction({});
  for (int i = 0; i < 8; ++i) program_.AddFunction({around});
  for (int i = 0; i < 8; ++i) program_.AddFunction({record}, called);
  EXPECT_EQ(Infer(called)->path, "revm");
  EXPECT_EQ(Infer(silent)->path, "tokio");
}

TEST(RegionsTest, ARegionIsLeftWhenEnoughSpeaksForAnother) {
  Regions regions({3, 3}, 21);
  const auto add = [&](size_t state, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      regions.Next();
      regions.Add(state, 1);
    }
  };
  add(0, 8);
  add(1, 1);
  add(0, 4);
  add(1, 8);
  const std::vector<Regions::Run> runs = regions.Trace();
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].state, 0);
  EXPECT_EQ(runs[1].first, 13);
  EXPECT_EQ(runs[1].state, 1);
}

TEST(CrateMapsTest, AProgramIsReadOnce) {
  LocatedProgram program;
  program.AddFunction({program.AddLocation("/c/revm-1.2.3/src/frame.rs")});
  const UniqueFd fd = program.BuildFile();
  const auto elf = ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const LocationTable table = LocationTable::Read(*elf, "own");
  const std::vector<uint64_t> begins = ReadFunctionBegins(*elf);
  CrateMaps maps;
  const auto map = maps.Of(*elf, table, begins);
  EXPECT_EQ(maps.Of(*elf, table, begins), map);
  EXPECT_NE(maps.Of(*elf, LocationTable::Read(*elf, "other"), std::span(begins).first(0)), map);
}

TEST_F(InferenceTest, CodeOfOtherLanguagesHasNoName) {
  const uint64_t record = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  program_.AddFunction({record});
  for (int i = 0; i < 20; ++i) program_.AddFunction({});
  const uint64_t foreign = program_.AddFunction({});
  for (int i = 0; i < 20; ++i) program_.AddFunction({});
  EXPECT_FALSE(Infer(foreign).has_value());
}

TEST_F(InferenceTest, APartThatWasSplitOffBelongsToItsFunction) {
  const uint64_t record = program_.AddLocation("/c/revm-1.2.3/src/frame.rs");
  const uint64_t owner = program_.AddFunction({record});
  for (int i = 0; i < 40; ++i) program_.AddFunction({});
  const uint64_t cold = program_.AddFunction({}, 0, owner + 1);
  const auto name = Infer(cold);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->path, "revm::frame");
}

TEST_F(InferenceTest, TheSymbolizerMarksTheName) {
  const uint64_t record = program_.AddLocation("/c/tokio-1.2.3/src/runtime/park.rs");
  const uint64_t function = program_.AddFunction({record});
  const UniqueFd fd = program_.BuildFile();
  std::vector<FoundName> names = {
      {.symbol = {}, .begin = function, .source = NameSource::kBounds},
      {.symbol = "known", .begin = function, .source = NameSource::kSymbols}};
  CrateMaps maps;
  InferNames(*ElfFile::Open(fd.get()), "prog", names, &maps);
  EXPECT_EQ(names[0].symbol, "tokio::runtime::park");
  EXPECT_EQ(names[0].source, NameSource::kInferred);
  EXPECT_EQ(names[1].symbol, "known");
  EXPECT_EQ(InferredFunction(names[0].symbol, 0x10000), "~tokio::runtime::park (fn_10000)");
  const std::optional<InferredParts> parts = ParseInferred("~tokio::runtime::park (fn_10000)");
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->module, "tokio::runtime::park");
  EXPECT_EQ(parts->word, "");
  EXPECT_EQ(ParseInferred("~std::sys::futex_wait (fn_1)")->module, "std::sys");
  EXPECT_EQ(ParseInferred("~futex_wait (fn_1)")->module, "");
  EXPECT_EQ(ParseInferred("~lock_slow (fn_1)")->word, kLockSlowWord);
  EXPECT_FALSE(ParseInferred("a::b").has_value());
  EXPECT_FALSE(ParseInferred("Type::~Type()").has_value());
}

// How std and parking_lot wait: by the number of the system call, and spinning before if it is for
// a lock.
TEST_F(InferenceTest, CodeTellsLocksFromOtherWaits) {
  const uint64_t record = program_.AddLocation("/c/parking_lot_core-1.2.3/src/parking_lot.rs");
  constexpr uint8_t kMovEdi = 0xbf;
  constexpr uint8_t kMovEdx = 0xba;
  const test::Bytes futex = {kMovEdi, 202, 0, 0, 0, kMovEdx, 0x89, 0, 0, 0};
  const test::Bytes wake = {kMovEdi, 202, 0, 0, 0, kMovEdx, 0x81, 0, 0, 0};
  const test::Bytes pause = {0xf3, 0x90};
  const uint64_t waits = program_.AddCode(futex);
  const uint64_t locks = program_.AddCode(test::Join({pause, futex}));
  const uint64_t located = program_.AddFunction({record}, 0, 0, futex);
  const uint64_t other = program_.AddCode({kMovEdi, 203, 0, 0, 0, kMovEdx, 0x89, 0, 0, 0});
  const uint64_t wakes = program_.AddCode(wake);
  const uint64_t application = program_.AddLocation("crates/app/src/main.rs");
  const uint64_t inlined = program_.AddFunction({application}, 0, 0, futex);
  for (int i = 0; i < 40; ++i) program_.AddFunction({});
  const uint64_t spins = program_.AddCode(pause);
  const auto name = Infer(waits);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->role, CodeRole::kFutexWait);
  EXPECT_EQ(Infer(locks)->role, CodeRole::kLockSlow);
  EXPECT_EQ(Infer(located)->role, CodeRole::kFutexWait);
  EXPECT_EQ(Infer(located)->path, "parking_lot_core::parking_lot");
  EXPECT_NE(Infer(other).value_or(InferredName()).role, CodeRole::kFutexWait);
  EXPECT_NE(Infer(wakes).value_or(InferredName()).role, CodeRole::kFutexWait);
  EXPECT_EQ(Infer(inlined)->role, CodeRole::kUnknown) << "its name says more";
  EXPECT_FALSE(Infer(spins).has_value());
}

// Every cut of a good file, and every byte of its tables broken: nothing is read out of bounds.
TEST(InferHostileTest, BrokenFilesAreHandled) {
  LocatedProgram program;
  const uint64_t record = program.AddLocation("crates/trie/src/node.rs");
  const uint64_t function = program.AddFunction({record});
  const test::Bytes good = program.Build();
  const auto run = [&](const test::Bytes& bytes) {
    const UniqueFd fd = test::FileOf(bytes);
    const auto elf = ElfFile::Open(fd.get());
    if (!elf.ok()) return;
    const LocationTable table = LocationTable::Read(*elf, "own");
    const std::vector<uint64_t> begins = ReadFunctionBegins(*elf);
    const CrateMap map = CrateMap::Build(*elf, table, begins);
    ModuleInference(&*elf, &table, &map, begins).Infer(function);
  };
  for (size_t size = 0; size < good.size(); size += 4099) {
    run(test::Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  const size_t sections = good.size() - 7 * sizeof(Elf64_Shdr);
  for (size_t i = sections; i < good.size(); i += 3) {
    test::Bytes bad = good;
    bad[i] = 0xff;
    run(bad);
  }
}

}  // namespace
}  // namespace profd::symbolize
