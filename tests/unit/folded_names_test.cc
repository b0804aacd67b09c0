// Names of one place, and short names.
#include "daemon/symbolize/folded_names.h"

#include <string>
#include <vector>

#include "daemon/symbolize/short_name.h"
#include "daemon/symbolize/symbolizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::symbolize {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Ordered(std::vector<PlaceName> names) {
  OrderNames(&names);
  std::vector<std::string> symbols;
  for (const PlaceName& name : names) symbols.push_back(name.symbol);
  return symbols;
}

TEST(FoldedNamesTest, TheLargestGroupOfInstancesComesFirst) {
  // A<int>::f, A<char>::f, b
  EXPECT_THAT(
      Ordered({{.symbol = "_Z1bv"}, {.symbol = "_ZN1AIiE1fEv"}, {.symbol = "_ZN1AIcE1fEv"}}),
      ElementsAre("_ZN1AIcE1fEv", "_ZN1AIiE1fEv", "_Z1bv"));
}

TEST(FoldedNamesTest, ExportedNamesComeFirst) {
  EXPECT_THAT(Ordered({{.symbol = "_ZN1AIiE1fEv"},
                       {.symbol = "_ZN1AIcE1fEv"},
                       {.symbol = "_Z1bv", .exported = true}}),
              ElementsAre("_Z1bv", "_ZN1AIcE1fEv", "_ZN1AIiE1fEv"));
}

TEST(FoldedNamesTest, AliasesOfOneFunctionAreOneName) {
  EXPECT_THAT(Ordered({{.symbol = "__read"}, {.symbol = "read", .weak = true}}),
              ElementsAre("read"));
  // Both constructors of a class.
  EXPECT_THAT(Ordered({{.symbol = "_ZN3FooC1Ev"}, {.symbol = "_ZN3FooC2Ev"}}),
              ElementsAre("_ZN3FooC1Ev"));
}

TEST(FoldedNamesTest, AStrongNameComesBeforeAWeakOneThenTheShorter) {
  EXPECT_THAT(Ordered({{.symbol = "ab", .weak = true}, {.symbol = "abcd"}, {.symbol = "abc"}}),
              ElementsAre("abc", "abcd", "ab"));
}

TEST(DemanglePartsTest, TellsWhatWasRemoved) {
  const auto parts = [](const char* name) {
    const DemangledName split = DemangleParts(name);
    return split.text + "|" + split.suffix;
  };
  EXPECT_EQ(parts("_ZN2ns3runEv.cold"), "ns::run|.cold");
  EXPECT_EQ(parts("_ZN2ns3runEv.part.0.isra.3"), "ns::run|.part.0.isra.3");
  EXPECT_EQ(parts("run.lto_priv.0"), "run|.lto_priv.0");
  EXPECT_EQ(parts("run.constprop.0.cold"), "run|.constprop.0.cold");
  EXPECT_EQ(parts("_RNvCs1234_7mycrate3foo.llvm.123456"), "mycrate::foo|.llvm.123456");
  EXPECT_EQ(parts("_ZN3std2rt10lang_start17h0123456789abcdefE.llvm.5"),
            "std::rt::lang_start|.llvm.5");
  EXPECT_EQ(parts("run.__uniq.987"), "run|.__uniq.987");
  EXPECT_EQ(parts("run.localalias"), "run|.localalias");
  EXPECT_EQ(parts("read"), "read|");
  // A body of its own.
  EXPECT_EQ(parts("run._omp_fn.0"), "run._omp_fn.0|");
  EXPECT_EQ(parts(".cold"), ".cold|");
}

struct Case {
  const char* name;
  const char* shorter;
};

TEST(ShortNameTest, GenericsAndTemplates) {
  for (const Case& c : std::vector<Case>{
           {"read", "read"},
           {"reth_trie::walk::<A, B<C>>", "reth_trie::walk<...>"},
           {"std::vector<int, std::allocator<int> >::push_back", "std::vector<...>::push_back"},
           {"<alloc::vec::Vec<T> as core::ops::Drop>::drop",
            "<alloc::vec::Vec<...> as core::ops::Drop>::drop"},
           {"core::fmt::<impl core::fmt::Debug for Foo<T>>::fmt",
            "core::fmt::<impl core::fmt::Debug for Foo<...>>::fmt"},
           {"call::<fn(A) -> Vec<B>>::{closure#0}", "call<...>::{closure#0}"},
           {"A::operator<", "A::operator<"},
           {"A<int>::operator<< <char>", "A<...>::operator<< <...>"},
           {"A::operator-><int>", "A::operator-><...>"},
           {"main::{lambda(std::vector<int>)#1}::operator()<char>",
            "main::{lambda(std::vector<...>)#1}::operator()<...>"},
           {"f<(A)1, ((2)>(1))>::g", "f<...>::g"},
           // Brackets that do not match.
           {"f<int", "f<int"},
           {"a>b", "a>b"},
           {"", ""}}) {
    EXPECT_EQ(ShortName(c.name), c.shorter) << c.name;
  }
}

}  // namespace
}  // namespace profd::symbolize
