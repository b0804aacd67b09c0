// Names inferred in programs that the installed Rust compiler made.
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/unit/stripped_library.h"

namespace profd::test {
namespace {

constexpr char kMain[] = R"(
mod trie { pub mod node; }
fn main() {
    let values: Vec<usize> = std::env::args().map(|a| a.len()).collect();
    println!("{}", trie::node::look_up(&values, values[0]));
}
)";
constexpr char kNode[] = R"(
#[inline(never)]
pub fn look_up(values: &[usize], at: usize) -> usize {
    values[at + 1] + values[at + 2].checked_mul(at).expect("small")
}
)";

constexpr char kChannel[] = R"(
use std::sync::mpsc::sync_channel;
fn main() {
    let (sender, receiver) = sync_channel::<String>(2);
    let thread = std::thread::spawn(move || (0..9).for_each(|i| sender.send(format!("{i}")).unwrap()));
    let lengths: usize = receiver.iter().map(|text| text.len()).sum();
    thread.join().unwrap();
    println!("{lengths}");
}
)";

class RustProgramTest : public ::testing::TestWithParam<const char*> {};

// The parameter: how the linker stores the pointers of the records.
TEST_P(RustProgramTest, FunctionsAreNamedByTheirSourceFile) {
  const TemporaryDirectory directory;
  const std::string root = directory.path();
  std::filesystem::create_directories(root + "/src/trie");
  std::ofstream(root + "/src/main.rs") << kMain;
  std::ofstream(root + "/src/trie/node.rs") << kNode;
  Shell("cd '" + root + "' && rustc -O --edition 2021 --crate-name walker " + GetParam() +
        " -o full src/main.rs && strip --strip-all -o walker full");

  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(root + "/full");
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto elf = symbolize::ElfFile::Open(fd->get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const auto functions = symbolize::FindFunctions(*elf, "look_up", 4);
  ASSERT_EQ(functions.size(), 1);
  const Symbol symbol = NameIn(root + "/walker", functions[0].address);
  EXPECT_TRUE(absl::StartsWith(symbol.function, "~walker::trie::node (fn_")) << symbol.function;
  EXPECT_EQ(symbol.source, NameSource::kInferred);
}

// By the lines of the standard library of this compiler.
TEST(RustChannelTest, SendersAndReceiversAreTold) {
  const TemporaryDirectory directory;
  const std::string root = directory.path();
  std::ofstream(root + "/channel.rs") << kChannel;
  Shell("cd '" + root +
        "' && rustc -O --edition 2021 -o full channel.rs && strip -s -o channel full");
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(root + "/full");
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto elf = symbolize::ElfFile::Open(fd->get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  for (const std::string side : {"send", "recv"}) {
    // The code that waits is a closure of std::sync::mpmc::array::Channel<T>, in either way of
    // mangling.
    auto functions = symbolize::FindFunctions(*elf, "mpmc5array", 64);
    std::erase_if(functions, [&](const symbolize::NamedSymbol& symbol) {
      return !absl::StrContains(symbol.name, "4" + side) ||
             (!absl::StrContains(symbol.name, "closure") && !absl::StartsWith(symbol.name, "_RNC"));
    });
    ASSERT_EQ(functions.size(), 1) << side;
    EXPECT_TRUE(absl::StartsWith(NameIn(root + "/channel", functions[0].address).function,
                                 "~std::sync::mpmc::array::" + side + " (fn_"))
        << NameIn(root + "/channel", functions[0].address).function;
  }
}

INSTANTIATE_TEST_SUITE_P(Pointers, RustProgramTest,
                         ::testing::Values("", "-C link-arg=-Wl,-z,pack-relative-relocs",
                                           "-C relocation-model=static"));

}  // namespace
}  // namespace profd::test
