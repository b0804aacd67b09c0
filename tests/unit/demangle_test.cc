#include <string>
#include <vector>

#include "daemon/symbolize/symbolizer.h"
#include "gtest/gtest.h"

namespace profd {
namespace {

struct Case {
  std::string mangled;
  std::string expected;
};

void ExpectAll(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(Demangle(c.mangled), c.expected) << c.mangled;
}

TEST(DemangleTest, CppWithoutParametersButWithTemplateArguments) {
  ExpectAll({
      {"_Z3foov", "foo"},
      {"_ZN2ns3BarIiE3runEPKc", "ns::Bar<int>::run"},
      {"_Z1fIiEvT_", "f<int>"},
      {"_ZSt13__invoke_implIvPFviEJiEET_St14__invoke_otherOT0_DpOT1_",
       "std::__invoke_impl<void, void (*)(int), int>"},
      {"_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"},
      {"_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo"},
      {"_ZThn16_N3foo3barEv", "non-virtual thunk to foo::bar()"},
      {"_Znwm", "operator new"},
      {"_ZN3FooC1Ev", "Foo::Foo"},
      {"_ZN3FooD0Ev", "Foo::~Foo"},
  });
}

TEST(DemangleTest, CppAbiTagsAreDropped) {
  EXPECT_EQ(Demangle("_ZNKSt7__cxx1112basic_stringIcE4sizeB5cxx11Ev"),
            "std::__cxx11::basic_string<char>::size");
}

TEST(DemangleTest, RustLegacyWithoutHash) {
  ExpectAll({
      {"_ZN3std2rt10lang_start17h0123456789abcdefE", "std::rt::lang_start"},
      {"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$"
       "u7d$$GT$17h9f2c5a1d3e4b6071E",
       "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>"},
      {"_ZN59_$LT$alloc..boxed..Box$LT$F$C$A$GT$$u20$as$u20$core..Fn$GT$4call17h0123456789abcdefE",
       "<alloc::boxed::Box<F,A> as core::Fn>::call"},
  });
}

TEST(DemangleTest, RustV0WithoutDisambiguators) {
  ExpectAll({
      {"_RNvC6_123foo3bar", "123foo::bar"},
      {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
      {"_RINvNtCs1_4core3ptr13drop_in_placeNtC3foo3BarE", "core::ptr::drop_in_place::<foo::Bar>"},
      {"_RNCNvCs1234_7mycrate4main0B3_", "mycrate::main::{closure#0}"},
      {"_RNvMC3fooNtB2_3Bar3new", "<foo::Bar>::new"},
      {"_RNvXs_C3fooNtB4_3BarNtNtC4core3fmt5Debug3fmt", "<foo::Bar as core::fmt::Debug>::fmt"},
  });
}

TEST(DemangleTest, LlvmNumberIsStrippedOtherSuffixesStay) {
  ExpectAll({
      {"_ZN3foo3bar17h0123456789abcdefE.llvm.13376877381894848936", "foo::bar"},
      {"_RNvC6_123foo3bar.llvm.123", "123foo::bar"},
      {"_ZN3foo3barEv.llvm.9", "foo::bar"},
      {"_ZN3foo3barEv.cold", "foo::bar"},
      {"_ZN3foo3barEv.part.0.constprop.1", "foo::bar"},
      {"_ZN3foo3barEv.llvm.9.cold", "foo::bar"},
      {"_ZN3foo3bar17h0123456789abcdefE.cold", "foo::bar"},
      {"memcpy.isra.0", "memcpy"},
      {"f.lto_priv.12", "f"},
      {"f.cold.3", "f"},
      {"f.part", "f.part"},
      {"f.part.x.0", "f.part.x.0"},
      {"f.0", "f.0"},
      {"_ZN3foo3barEv.123", "foo::bar.123"},
      {".cold", ".cold"},
      {"0123", "0123"},
      {"static_fn.llvm.77", "static_fn"},
      {"static_fn.llvm.x", "static_fn.llvm.x"},
      {".llvm.77", ".llvm.77"},
  });
}

TEST(DemangleTest, EverythingElseIsUnchanged) {
  ExpectAll({
      {"", ""},
      {"main", "main"},
      {"runtime.gopark", "runtime.gopark"},
      {"_Zebra", "_Zebra"},
      {"_R", "_R"},
      {"_Rough_edge", "_Rough_edge"},
      {"_Z", "_Z"},
      {"_ZN", "_ZN"},
      {"_ZN3foo", "_ZN3foo"},
      {"__clock_nanosleep", "__clock_nanosleep"},
      {"\xff\xfe", "\xff\xfe"},
  });
}

TEST(DemangleTest, LongCppNameKeepsItsLeadingPath) {
  const std::string part = "20aaaaaaaaaaaaaaaaaaaa";
  std::string arguments;
  for (int i = 0; i < 100; ++i) arguments += part;
  EXPECT_EQ(Demangle("_ZNK5Eigen8internal3runI" + arguments + "E4callEv"),
            "Eigen::internal::run<...>");
  EXPECT_EQ(Demangle("_ZNSt6vectorI" + arguments + "E9push_backEv"), "std::vector<...>");
  const std::string hopeless = "_ZN" + std::string(2000, '9');
  EXPECT_EQ(Demangle(hopeless), hopeless);
}

TEST(DemangleTest, ExponentialCppNameIsCut) {
  // Every substitution doubles the one before it: 2^60 characters if it were written out.
  std::string mangled = "_Z1fI1pIccE";
  std::string last = "S0_";
  for (int i = 0; i < 30; ++i) {
    mangled += "S_I" + last + last + "E";
    last = "S" + std::string(1, static_cast<char>(i < 9 ? '1' + i : 'A' + i - 9)) + "_";
  }
  mangled += "Evv";
  const std::string name = Demangle(mangled);
  EXPECT_TRUE(name.starts_with("f<p<char, char>")) << name.substr(0, 100);
  EXPECT_TRUE(name.ends_with("...")) << name.size();
  EXPECT_LE(name.size(), 4096u);
}

TEST(DemangleTest, ExponentialRustNameIsCut) {
  // Tuples of back references to the tuple before: (T, T), ((T, T), (T, T)) ...
  std::string mangled = "_RINvC1a1b";
  const auto base62 = [](size_t value) {
    const char* digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string out;
    for (--value; value > 0 || out.empty(); value /= 62) out.insert(0, 1, digits[value % 62]);
    return out + "_";
  };
  size_t last = mangled.size() - 2;
  mangled += "TaaE";
  for (int i = 0; i < 40; ++i) {
    const size_t here = mangled.size() - 2;
    mangled += "TB" + base62(last) + "B" + base62(last) + "E";
    last = here;
  }
  mangled += "E";
  const std::string name = Demangle(mangled);
  EXPECT_TRUE(name.starts_with("a::b::<(i8, i8), ((i8, i8), (i8, i8))")) << name.substr(0, 100);
  EXPECT_TRUE(name.ends_with("...")) << name.size();
  EXPECT_LE(name.size(), 4096u);
}

TEST(DemangleTest, DeepNestingIsRefusedNotFollowed) {
  const std::string pointers = "_Z1f" + std::string(8000, 'P') + "i";
  EXPECT_LE(Demangle(pointers).size(), 8192u);
  const std::string references = "_RINvC1a1b" + std::string(8000, 'R') + "aE";
  EXPECT_LE(Demangle(references).size(), 8192u);
}

TEST(DemangleTest, TooLongIsCutBetweenCharacters) {
  std::string name(4091, 'x');
  for (int i = 0; i < 3000; ++i) name += "\xc3\xa9";
  const std::string cut = Demangle(name);
  EXPECT_LE(cut.size(), 4096u);
  EXPECT_EQ(cut.substr(4091), "\xc3\xa9...");
}

}  // namespace
}  // namespace profd
