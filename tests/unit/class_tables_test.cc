// Virtual functions of test programs, named without their symbols and compared with these.
#include "daemon/symbolize/infer/class_tables.h"

#include <map>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/rtti_names.h"
#include "daemon/symbolize/symbolizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/places.h"

namespace profd::symbolize {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Pair;

// Of the functions of a program whose symbol contains "classes": by true name, what they are named
// without it.
std::map<std::string, std::string> NamesWithoutSymbols(const std::string& program) {
  std::map<std::string, std::string> named;
  absl::StatusOr<UniqueFd> fd = OpenReadOnly(test::InBuild(program));
  EXPECT_TRUE(fd.ok()) << program << ": " << fd.status();
  if (!fd.ok()) return named;
  const absl::StatusOr<ElfFile> elf = ElfFile::Open(fd->get());
  EXPECT_TRUE(elf.ok()) << program << ": " << elf.status();
  if (!elf.ok()) return named;
  const std::vector<NamedSymbol> functions = FindFunctions(*elf, "classes", 200);
  std::vector<FoundName> names;
  for (const NamedSymbol& function : functions) {
    names.push_back({.symbol = "", .begin = function.address, .source = NameSource::kBounds});
  }
  NameVirtualFunctions(*elf, names);
  for (size_t i = 0; i < functions.size(); ++i) {
    named[Demangle(functions[i].name)] =
        names[i].source == NameSource::kRtti ? names[i].symbol : "";
  }
  return named;
}

class ClassTablesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ClassTablesTest, NamesFunctionsByTheirClasses) {
  const std::map<std::string, std::string> named = NamesWithoutSymbols(GetParam());
  EXPECT_THAT(named, Contains(Pair("classes::Sleeper::Weight", "classes::Sleeper::vfn2")));
  EXPECT_THAT(named, Contains(Pair("classes::Shallow::Nap", "classes::Shallow::vfn3")));
  EXPECT_THAT(named, Contains(Pair("classes::Deep::Nap", "classes::Deep::vfn3")));
  // It is in the table of Deep, too, which does not declare it.
  EXPECT_THAT(named, Contains(Pair("classes::Shallow::Weight", "classes::Shallow::vfn2")));
  EXPECT_THAT(named, Contains(Pair("classes::Counted::Count", "classes::Counted::vfn2")));
  EXPECT_THAT(named, Contains(Pair("classes::Both::Nap", "classes::Both::vfn3")));
  EXPECT_THAT(named, Contains(Pair("classes::Typed<char>::Nap", "classes::Typed<char>::vfn3")));
  EXPECT_THAT(named, Contains(Pair("classes::(anonymous namespace)::Hidden::Nap",
                                   "classes::(anonymous namespace)::Hidden::vfn3")));
}

TEST_P(ClassTablesTest, LeavesOtherFunctionsAlone) {
  const std::map<std::string, std::string> named = NamesWithoutSymbols(GetParam());
  EXPECT_THAT(named, Contains(Pair("classes::NapAll", "")));
  EXPECT_THAT(named, Contains(Pair("classes::Thread", "")));
}

INSTANTIATE_TEST_SUITE_P(Programs, ClassTablesTest,
                         ::testing::Values("classes", "classes_fixed", "classes_static",
                                           "classes_relr"));

TEST(ClassTablesSymbolizeTest, NamesAStrippedProgram) {
  // The same code with symbols tells where the function is.
  absl::StatusOr<UniqueFd> whole = OpenReadOnly(test::InBuild("classes"));
  absl::StatusOr<UniqueFd> stripped = OpenReadOnly(test::InBuild("classes_stripped"));
  ASSERT_TRUE(whole.ok() && stripped.ok());
  const absl::StatusOr<ElfFile> elf = ElfFile::Open(whole->get());
  ASSERT_TRUE(elf.ok());
  const std::vector<NamedSymbol> found = FindFunctions(*elf, "_ZN7classes4Deep3NapE", 1);
  ASSERT_EQ(found.size(), 1u);
  const std::optional<FileRange> code = elf->CodeAt(found[0].address);
  ASSERT_TRUE(code);
  const std::vector<uint64_t> offsets = {code->offset + 4};
  const std::vector<Symbol> symbols =
      SymbolizeModule(stripped->get(), {.path = "/bin/classes_stripped", .build_id = ""}, offsets);
  EXPECT_EQ(symbols[0].function, "~classes::Deep::vfn3");
  EXPECT_EQ(symbols[0].source, NameSource::kRtti);
  EXPECT_EQ(symbols[0].kind, FrameKind::kApplication);
}

}  // namespace
}  // namespace profd::symbolize
