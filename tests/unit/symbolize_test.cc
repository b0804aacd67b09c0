#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/service/frame_names.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/kernel_symbols.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/symbolize/vdso.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/machine.h"

// A name to be found in this test's own symbol table.
extern "C" __attribute__((noinline, used)) int profd_symbolize_test_anchor(int x) {
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr uint64_t kTextOffset = 0x1000;
constexpr uint64_t kTextAddress = 0x401000;
constexpr uint64_t kTextSize = 0x1000;
constexpr uint16_t kText = 1;
constexpr uint16_t kData = 2;

struct TestSymbol {
  std::string name;
  uint64_t value;
  uint64_t size;
  unsigned type = STT_FUNC;
  unsigned bind = STB_GLOBAL;
  uint16_t section = kText;
};

// An ELF file in bytes: .text at file offset 0x1000 and another address, .data, up to two symbol
// tables, notes.
struct TestElf {
  std::vector<TestSymbol> symtab = {};
  std::vector<TestSymbol> dynsym = {};
  std::string notes = {};
  std::string debuglink = {};

  std::string Bytes() const {
    std::string out(kTextOffset + kTextSize, '\0');
    const uint64_t notes_at = out.size();
    out += notes;
    std::vector<Elf64_Shdr> sections(3);
    sections[kText] =
        Header(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, kTextAddress, kTextOffset, kTextSize);
    sections[kData] = Header(SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 0x500000, kTextOffset, kTextSize);
    AddTable(symtab, SHT_SYMTAB, &out, &sections);
    AddTable(dynsym, SHT_DYNSYM, &out, &sections);

    std::string names("\0.gnu_debuglink", 16);
    if (!debuglink.empty()) {
      Elf64_Shdr link = Header(SHT_PROGBITS, 0, 0, out.size(), debuglink.size() + 1);
      link.sh_name = 1;
      sections.push_back(link);
      out += debuglink + '\0';
    }
    sections.push_back(Header(SHT_STRTAB, 0, 0, out.size(), names.size()));
    out += names;

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 3;
    header.e_shoff = out.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections.size());
    header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
    out.append(reinterpret_cast<const char*>(sections.data()),
               sections.size() * sizeof(Elf64_Shdr));

    const Elf64_Phdr segments[3] = {
        {PT_LOAD, PF_R, 0, 0x400000, 0x400000, kTextOffset, kTextOffset, 0x1000},
        {PT_LOAD, PF_R | PF_X, kTextOffset, kTextAddress, kTextAddress, kTextSize, kTextSize,
         0x1000},
        {PT_NOTE, PF_R, notes_at, 0, 0, notes.size(), notes.size(), 4}};
    std::memcpy(out.data(), &header, sizeof(header));
    std::memcpy(out.data() + sizeof(header), segments, sizeof(segments));
    return out;
  }

 private:
  static Elf64_Shdr Header(uint32_t type, uint64_t flags, uint64_t address, uint64_t offset,
                           uint64_t size) {
    Elf64_Shdr section{};
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_addr = address;
    section.sh_offset = offset;
    section.sh_size = size;
    return section;
  }

  static void AddTable(const std::vector<TestSymbol>& symbols, uint32_t type, std::string* out,
                       std::vector<Elf64_Shdr>* sections) {
    if (symbols.empty()) return;
    std::string strings(1, '\0');
    std::vector<Elf64_Sym> table(1);
    for (const TestSymbol& s : symbols) {
      Elf64_Sym symbol{};
      symbol.st_name = static_cast<uint32_t>(strings.size());
      symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(s.bind, s.type));
      symbol.st_shndx = s.section;
      symbol.st_value = s.value;
      symbol.st_size = s.size;
      table.push_back(symbol);
      strings += s.name + '\0';
    }
    Elf64_Shdr header = Header(type, 0, 0, out->size(), table.size() * sizeof(Elf64_Sym));
    header.sh_entsize = sizeof(Elf64_Sym);
    header.sh_link = static_cast<uint32_t>(sections->size() + 1);
    sections->push_back(header);
    out->append(reinterpret_cast<const char*>(table.data()), table.size() * sizeof(Elf64_Sym));
    sections->push_back(Header(SHT_STRTAB, 0, 0, out->size(), strings.size()));
    *out += strings;
  }
};

std::string Note(uint32_t type, const std::string& name, const std::string& content) {
  const Elf64_Nhdr header{static_cast<uint32_t>(name.size()), static_cast<uint32_t>(content.size()),
                          type};
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out += name;
  out.resize((out.size() + 3) / 4 * 4);
  out += content;
  out.resize((out.size() + 3) / 4 * 4);
  return out;
}

const std::string kGnu("GNU\0", 4);

UniqueFd FileOf(const std::string& bytes) {
  UniqueFd fd(memfd_create("elf", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

std::vector<std::string> Functions(const std::vector<Symbol>& symbols) {
  std::vector<std::string> out;
  for (const Symbol& symbol : symbols) out.push_back(symbol.function);
  return out;
}

// Names for addresses that are given relative to the start of .text.
std::vector<std::string> Names(const std::string& bytes, std::vector<uint64_t> from_text,
                               const ModuleIdentity& identity = {"/opt/mod", ""}) {
  const UniqueFd fd = FileOf(bytes);
  for (uint64_t& offset : from_text) offset += kTextOffset;
  return Functions(SymbolizeModule(fd.get(), identity, from_text));
}

TEST(SymbolizeModuleTest, SizedSymbolCoversItsRangeOnly) {
  const TestElf elf{.symtab = {{"f", kTextAddress + 0x10, 0x20}, {"g", kTextAddress + 0x40, 0x10}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x4f, 0x10, 0x2f, 0x30, 0xf, 0x40, 0x50, 0x10}),
              ElementsAre("g", "f", "f", "mod+0x1030", "mod+0x100f", "g", "mod+0x1050", "f"));
}

TEST(SymbolizeModuleTest, InnermostFunctionWins) {
  const TestElf elf{
      .symtab = {{"outer", kTextAddress, 0x100}, {"inner", kTextAddress + 0x40, 0x10}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x3f, 0x40, 0x50}), ElementsAre("outer", "inner", "outer"));
}

TEST(SymbolizeModuleTest, UnsizedSymbolReachesToTheNextSymbol) {
  const TestElf elf{.symtab = {{"asm_a", kTextAddress + 0x10, 0, STT_NOTYPE},
                               {"asm_b", kTextAddress + 0x20, 0, STT_FUNC},
                               {"sized", kTextAddress + 0x40, 0x10}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x0, 0x10, 0x1f, 0x20, 0x3f, 0x4f, 0x50}),
              ElementsAre("mod+0x1000", "asm_a", "asm_a", "asm_b", "asm_b", "sized", "mod+0x1050"));
}

TEST(SymbolizeModuleTest, LabelInsideFunctionNeverReachesBeyondIt) {
  const TestElf elf{.symtab = {{"f", kTextAddress, 0x40},
                               {"label", kTextAddress + 0x20, 0, STT_NOTYPE, STB_LOCAL}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x28, 0x48}), ElementsAre("f", "mod+0x1048"));
}

TEST(SymbolizeModuleTest, OnlyCodeIsNamed) {
  const TestElf elf{.symtab = {{"object", kTextAddress, 0x40, STT_OBJECT},
                               {"data_label", kTextAddress, 0, STT_NOTYPE, STB_GLOBAL, kData},
                               {"undefined", kTextAddress, 0x40, STT_FUNC, STB_GLOBAL, SHN_UNDEF},
                               {"absolute", kTextAddress, 0x40, STT_FUNC, STB_GLOBAL, SHN_ABS}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x8}), ElementsAre("mod+0x1008"));
}

TEST(SymbolizeModuleTest, AliasIsChosenByRuleNotByOrder) {
  std::vector<TestSymbol> symbols = {
      {"__read", kTextAddress, 0x10},
      {"read@@GLIBC_2.2.5", kTextAddress, 0x10, STT_FUNC, STB_WEAK},
      {"__GI_read", kTextAddress, 0x10, STT_FUNC, STB_LOCAL},
      {"a", kTextAddress, 0x10, STT_FUNC, STB_LOCAL},
      {"b", kTextAddress, 0x10, STT_NOTYPE, STB_GLOBAL},
      {"global_alias", kTextAddress + 0x20, 0x10, STT_FUNC, STB_GLOBAL},
      {"weak", kTextAddress + 0x20, 0x10, STT_FUNC, STB_WEAK},
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Names(TestElf{.symtab = symbols}.Bytes(), {4, 0x24}),
                ElementsAre("read", "global_alias"));
    std::reverse(symbols.begin(), symbols.end());
  }
}

TEST(SymbolizeModuleTest, BothTablesCount) {
  const TestElf elf{.symtab = {{"in_symtab", kTextAddress, 0x10}},
                    .dynsym = {{"in_dynsym", kTextAddress + 0x10, 0x10}}};
  EXPECT_THAT(Names(elf.Bytes(), {0x8, 0x18}), ElementsAre("in_symtab", "in_dynsym"));
}

TEST(SymbolizeModuleTest, NamesAreDemangledAndClassified) {
  const TestElf elf{.symtab = {{"_ZN3std6thread4park17h0123456789abcdefE", kTextAddress, 0x10},
                               {"_RNvC3app3run", kTextAddress + 0x10, 0x10}}};
  const UniqueFd fd = FileOf(elf.Bytes());
  const std::vector<uint64_t> offsets = {kTextOffset, kTextOffset + 0x10, kTextOffset + 0x20};
  const std::vector<Symbol> symbols = SymbolizeModule(fd.get(), {"/opt/app", ""}, offsets);
  EXPECT_THAT(Functions(symbols), ElementsAre("std::thread::park", "app::run", "app+0x1020"));
  EXPECT_EQ(symbols[0].kind, FrameKind::kRuntime);
  EXPECT_EQ(symbols[1].kind, FrameKind::kApplication);
  EXPECT_EQ(symbols[2].kind, FrameKind::kApplication);
  EXPECT_EQ(SymbolizeModule(fd.get(), {"/lib/libc.so.6", ""}, offsets)[2].kind, FrameKind::kLibc);
}

TEST(SymbolizeModuleTest, NamesAreUtf8WithoutControlCharacters) {
  const TestElf elf{.symtab = {{"a\nb\xff\xc3\xa9", kTextAddress, 0x10}}};
  EXPECT_THAT(Names(elf.Bytes(), {0}), ElementsAre("a?b?\xc3\xa9"));
  EXPECT_THAT(Names("", {0}, {"/x/evil\n\x80", ""}), ElementsAre("evil??+0x1000"));
}

TEST(SymbolizeModuleTest, FileThatWasReplacedNamesNothing) {
  const TestElf elf{.symtab = {{"f", kTextAddress, 0x10}},
                    .notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\xab")};
  EXPECT_THAT(Names(elf.Bytes(), {0}, {"/opt/mod (deleted)", "1234ab"}), ElementsAre("f"));
  EXPECT_THAT(Names(elf.Bytes(), {0}, {"/opt/mod (deleted)", "1234ac"}), ElementsAre("mod+0x1000"));
}

TEST(SymbolizeModuleTest, UnreadableFilesGiveOffsets) {
  const std::vector<uint64_t> offsets = {0x10, UINT64_MAX};
  const auto expected = ElementsAre("mod+0x10", "mod+0xffffffffffffffff");
  const ModuleIdentity identity{"/opt/mod", ""};
  EXPECT_THAT(Functions(SymbolizeModule(-1, identity, offsets)), expected);
  const UniqueFd directory(open("/", O_RDONLY | O_DIRECTORY));
  EXPECT_THAT(Functions(SymbolizeModule(directory.get(), identity, offsets)), expected);
  EXPECT_THAT(Functions(SymbolizeModule(FileOf("").get(), identity, offsets)), expected);
  EXPECT_THAT(Functions(SymbolizeModule(FileOf("#!/bin/sh\n").get(), identity, offsets)), expected);
  EXPECT_THAT(Functions(SymbolizeModule(-1, {"", ""}, offsets)),
              ElementsAre("[unknown]+0x10", "[unknown]+0xffffffffffffffff"));
  EXPECT_TRUE(SymbolizeModule(-1, identity, {}).empty());
}

// Writes `value` into a field of a copy of `bytes`.
template <typename T>
std::string With(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

TEST(SymbolizeModuleTest, LyingHeaders) {
  const TestElf elf{.symtab = {{"f", kTextAddress, 0x10}}};
  const std::string good = elf.Bytes();
  ASSERT_THAT(Names(good, {0}), ElementsAre("f"));
  const auto without_name = ElementsAre("mod+0x1000");

  EXPECT_THAT(Names(With<uint8_t>(good, EI_CLASS, ELFCLASS32), {0}), without_name);
  EXPECT_THAT(Names(With<uint8_t>(good, EI_DATA, ELFDATA2MSB), {0}), without_name);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{good.size()}, UINT64_MAX, UINT64_MAX - 64}) {
    EXPECT_THAT(Names(With(good, offsetof(Elf64_Ehdr, e_shoff), offset), {0}), without_name);
    EXPECT_THAT(Names(With(good, offsetof(Elf64_Ehdr, e_phoff), offset), {0}), without_name);
  }
  EXPECT_THAT(Names(With<uint16_t>(good, offsetof(Elf64_Ehdr, e_shentsize), 0), {0}), without_name);
  EXPECT_THAT(Names(With<uint16_t>(good, offsetof(Elf64_Ehdr, e_phentsize), 1), {0}), without_name);
  // More sections than the file holds: those that fit are taken.
  EXPECT_THAT(Names(With<uint16_t>(good, offsetof(Elf64_Ehdr, e_shnum), 0xffff), {0}),
              ElementsAre("f"));

  uint64_t section_table = 0;
  std::memcpy(&section_table, good.data() + offsetof(Elf64_Ehdr, e_shoff), sizeof(section_table));
  const size_t symtab = section_table + 3 * sizeof(Elf64_Shdr);
  const size_t strtab = symtab + sizeof(Elf64_Shdr);
  for (const uint64_t entry_size : {uint64_t{0}, uint64_t{1}, uint64_t{23}, UINT64_MAX}) {
    EXPECT_THAT(Names(With(good, symtab + offsetof(Elf64_Shdr, sh_entsize), entry_size), {0}),
                without_name);
  }
  for (const uint32_t link : {0u, 3u, 77u, UINT32_MAX}) {
    EXPECT_THAT(Names(With(good, symtab + offsetof(Elf64_Shdr, sh_link), link), {0}), without_name);
  }
  EXPECT_THAT(Names(With(good, symtab + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX), {0}),
              without_name);
  EXPECT_THAT(Names(With(good, strtab + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX), {0}),
              without_name);
  EXPECT_THAT(Names(With(good, strtab + offsetof(Elf64_Shdr, sh_size), uint64_t{0}), {0}),
              without_name);

  uint64_t symbols = 0;
  std::memcpy(&symbols, good.data() + symtab + offsetof(Elf64_Shdr, sh_offset), sizeof(symbols));
  const size_t symbol = symbols + sizeof(Elf64_Sym);
  EXPECT_THAT(Names(With(good, symbol + offsetof(Elf64_Sym, st_name), UINT32_MAX), {0}),
              without_name);
  EXPECT_THAT(Names(With(good, symbol + offsetof(Elf64_Sym, st_size), UINT64_MAX), {0}),
              ElementsAre("f"));
}

TEST(SymbolizeModuleTest, EveryTruncationAndManyBitFlips) {
  const TestElf elf{
      .symtab = {{"f", kTextAddress, 0x10}, {"g", kTextAddress + 0x10, 0, STT_NOTYPE}},
      .dynsym = {{"h", kTextAddress + 0x20, 0x10}},
      .notes = Note(NT_GNU_BUILD_ID, kGnu, "0123"),
      .debuglink = "x.debug"};
  const std::string good = elf.Bytes();
  for (size_t size = kTextOffset + kTextSize; size < good.size(); ++size) {
    EXPECT_EQ(Names(good.substr(0, size), {0, 0x18, 0x28}).size(), 3u);
  }
  std::mt19937_64 random(42);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int flip = 0; flip < 4; ++flip) {
      // The code's own bytes are never read.
      const size_t at = random() % (bad.size() - kTextSize);
      const size_t place = at < 0x100 ? at : at + kTextSize - 0x100;
      bad[std::min(place, bad.size() - 1)] ^= static_cast<char>(1 << random() % 8);
    }
    EXPECT_EQ(Names(bad, {0, 0x18, 0x28}).size(), 3u);
    const UniqueFd fd = FileOf(bad);
    (void)ReadIdentity(fd.get(), "f");
  }
}

TEST(SymbolizeModuleTest, SparseGiantCostsBoundedWork) {
  const TestElf elf{.symtab = {{"f", kTextAddress, 0x10}}};
  std::string bytes = elf.Bytes();
  uint64_t section_table = 0;
  std::memcpy(&section_table, bytes.data() + offsetof(Elf64_Ehdr, e_shoff), sizeof(section_table));
  const size_t symtab = section_table + 3 * sizeof(Elf64_Shdr);
  bytes = With(bytes, symtab + offsetof(Elf64_Shdr, sh_size), uint64_t{1} << 39);
  const UniqueFd fd = FileOf(bytes);
  ASSERT_EQ(ftruncate(fd.get(), off_t{1} << 40), 0);
  const std::vector<uint64_t> offsets = {kTextOffset};
  EXPECT_THAT(Functions(SymbolizeModule(fd.get(), {"/opt/mod", ""}, offsets)), ElementsAre("f"));
}

TEST(SymbolizeModuleTest, LongNamesAreCut) {
  const TestElf elf{.symtab = {{std::string(100'000, 'n'), kTextAddress, 0x10}}};
  const std::vector<std::string> names = Names(elf.Bytes(), {0});
  EXPECT_EQ(names[0].size(), 4096u);
}

// Name, address and size of each function found, as text.
std::vector<std::string> FunctionsNamed(const std::string& bytes, std::string_view part,
                                        size_t limit = 100) {
  const UniqueFd fd = FileOf(bytes);
  const auto elf = symbolize::ElfFile::Open(fd.get());
  EXPECT_TRUE(elf.ok()) << elf.status();
  std::vector<std::string> out;
  for (const symbolize::NamedSymbol& f : symbolize::FindFunctions(*elf, part, limit)) {
    out.push_back(f.name + "@" + std::to_string(f.address - kTextAddress) + "+" +
                  std::to_string(f.size));
  }
  return out;
}

TEST(FindFunctionsTest, ThoseWhoseNameContainsThePart) {
  const TestElf elf{.symtab = {{"a_part_b", kTextAddress, 16, STT_FUNC, STB_LOCAL},
                               {"other", kTextAddress + 16, 16},
                               {"part", kTextAddress + 32, 0},
                               {"part_object", kTextAddress, 16, STT_OBJECT},
                               {"part_label", kTextAddress, 0, STT_NOTYPE},
                               {"part_undefined", 0, 0, STT_FUNC, STB_GLOBAL, SHN_UNDEF}},
                    .dynsym = {{"dynamic_part", kTextAddress + 48, 16}, {"par", kTextAddress, 16}}};
  EXPECT_THAT(FunctionsNamed(elf.Bytes(), "part"),
              ElementsAre("a_part_b@0+16", "part@32+0", "dynamic_part@48+16"));
  EXPECT_THAT(FunctionsNamed(elf.Bytes(), "part", 2), ElementsAre("a_part_b@0+16", "part@32+0"));
  EXPECT_THAT(FunctionsNamed(elf.Bytes(), "none"), ElementsAre());
}

TEST(FindFunctionsTest, VariablesAreOfTheirOwn) {
  const TestElf elf{.symtab = {{"part", kTextAddress, 16},
                               {"part_object", kTextAddress + 64, 8, STT_OBJECT, STB_LOCAL},
                               {"part_of_thread", 0x10, 8, STT_TLS},
                               {"part_undefined", 0, 8, STT_OBJECT, STB_GLOBAL, SHN_UNDEF}}};
  const UniqueFd fd = FileOf(elf.Bytes());
  const auto file = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto variables = symbolize::FindVariables(*file, "part", 100);
  ASSERT_EQ(variables.size(), 1u);
  EXPECT_EQ(variables[0].name, "part_object");
  EXPECT_EQ(variables[0].address, kTextAddress + 64);
  EXPECT_EQ(variables[0].size, 8u);
  EXPECT_TRUE(symbolize::FindVariables(*file, "part", 0).empty());
}

TEST(FindFunctionsTest, NamesThatShareTheirEnd) {
  const TestElf elf{.symtab = {{"long_prefix_part", kTextAddress, 16}, {"x", kTextAddress, 8}}};
  const std::string bytes = elf.Bytes();
  uint64_t section_table = 0;
  std::memcpy(&section_table, bytes.data() + offsetof(Elf64_Ehdr, e_shoff), sizeof(section_table));
  Elf64_Shdr symtab;
  std::memcpy(&symtab, bytes.data() + section_table + 3 * sizeof(Elf64_Shdr), sizeof(symtab));
  const size_t name = symtab.sh_offset + 2 * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_name);
  EXPECT_THAT(FunctionsNamed(With<uint32_t>(bytes, name, 1 + 5), "part"),
              ElementsAre("long_prefix_part@0+16", "prefix_part@0+8"));
  EXPECT_THAT(FunctionsNamed(With<uint32_t>(bytes, name, 1 + 12), "part"),
              ElementsAre("long_prefix_part@0+16", "part@0+8"));
  EXPECT_THAT(FunctionsNamed(With<uint32_t>(bytes, name, 1 + 13), "part"),
              ElementsAre("long_prefix_part@0+16"));
  EXPECT_THAT(FunctionsNamed(With<uint32_t>(bytes, name, UINT32_MAX), "part"),
              ElementsAre("long_prefix_part@0+16"));
}

TEST(FindFunctionsTest, LongNamesAreLeftOut) {
  const std::string longest = std::string(251, 'n') + "part";
  const TestElf elf{.symtab = {{longest, kTextAddress, 1},
                               {"n" + longest, kTextAddress, 2},
                               {"part" + std::string(252, 'n'), kTextAddress, 3}}};
  EXPECT_THAT(FunctionsNamed(elf.Bytes(), "part"), ElementsAre(longest + "@0+1"));
}

TEST(ElfFileTest, CodeAtItsAddressOnly) {
  const UniqueFd fd = FileOf(TestElf{}.Bytes());
  const auto elf = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  EXPECT_EQ(elf->machine(), EM_X86_64);
  const auto code = elf->CodeAt(kTextAddress + 0x10);
  ASSERT_TRUE(code.has_value());
  EXPECT_EQ(code->offset, kTextOffset + 0x10);
  EXPECT_EQ(code->size, kTextSize - 0x10);
  EXPECT_FALSE(elf->CodeAt(kTextAddress - 1).has_value());
  EXPECT_FALSE(elf->CodeAt(kTextAddress + kTextSize).has_value());
  EXPECT_FALSE(elf->CodeAt(UINT64_MAX).has_value());
}

TEST(ElfFileTest, CodeEndsWithTheFile) {
  const std::string good = TestElf{}.Bytes();
  // The second program header is that of the code.
  const size_t segment = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  const UniqueFd fd = FileOf(With(good, segment + offsetof(Elf64_Phdr, p_filesz), UINT64_MAX));
  const auto elf = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  const auto code = elf->CodeAt(kTextAddress + 1);
  ASSERT_TRUE(code.has_value());
  EXPECT_EQ(code->offset + code->size, good.size());
  const UniqueFd outside = FileOf(With(good, segment + offsetof(Elf64_Phdr, p_offset), UINT64_MAX));
  EXPECT_FALSE(symbolize::ElfFile::Open(outside.get())->CodeAt(kTextAddress).has_value());
}

TEST(ElfFileTest, PiecesOverlapAndCoverTheRange) {
  std::string bytes = TestElf{}.Bytes();
  std::mt19937_64 random(3);
  while (bytes.size() < 700'000) bytes += static_cast<char>(random());
  const UniqueFd fd = FileOf(bytes);
  const auto elf = symbolize::ElfFile::Open(fd.get());
  ASSERT_TRUE(elf.ok()) << elf.status();
  for (const uint64_t size : {uint64_t{0}, uint64_t{5}, uint64_t{600'000}, UINT64_MAX}) {
    uint64_t end = 100;  // of what was seen
    int pieces = 0;
    const auto visit = [&](uint64_t at, std::string_view piece) {
      EXPECT_EQ(at, pieces == 0 ? 100 : end - 10);
      EXPECT_EQ(piece, std::string_view(bytes).substr(at, piece.size()));
      end = at + piece.size();
      ++pieces;
      return true;
    };
    EXPECT_TRUE(elf->ReadPieces({.offset = 100, .size = size}, 10, visit).ok());
    EXPECT_EQ(end, 100 + std::min<uint64_t>(size, bytes.size() - 100));
    EXPECT_EQ(pieces, size == 0 ? 0 : size == 5 ? 1 : 3);
  }
  int visits = 0;
  const auto stop = [&visits](uint64_t, std::string_view) { return ++visits < 2; };
  EXPECT_TRUE(elf->ReadPieces({.offset = 0, .size = UINT64_MAX}, 10, stop).ok());
  EXPECT_EQ(visits, 2);
  EXPECT_TRUE(elf->ReadPieces({.offset = UINT64_MAX, .size = 1}, 10, stop).ok());
  EXPECT_EQ(visits, 2);
  ASSERT_EQ(ftruncate(fd.get(), 300'000), 0);
  EXPECT_FALSE(
      elf->ReadPieces({.offset = 0, .size = UINT64_MAX}, 10, [](auto...) { return true; }).ok());
}

// File and file offset of an address of this process.
struct Place {
  std::string path;
  uint64_t offset = 0;
};

std::optional<Place> PlaceOf(const void* pointer) {
  struct Query {
    uint64_t address;
    std::optional<Place> place;
  } query{reinterpret_cast<uint64_t>(pointer), std::nullopt};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* opaque) {
        auto* q = static_cast<Query*>(opaque);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const uint64_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || q->address < begin ||
              q->address - begin >= segment.p_memsz) {
            continue;
          }
          const std::string name = info->dlpi_name;
          q->place = Place{.path = name.empty() ? "/proc/self/exe" : name,
                           .offset = q->address - begin + segment.p_offset};
          return 1;
        }
        return 0;
      },
      &query);
  return query.place;
}

TEST(SymbolizeModuleTest, OwnExecutable) {
  const std::optional<Place> place =
      PlaceOf(reinterpret_cast<const void*>(&profd_symbolize_test_anchor));
  ASSERT_TRUE(place.has_value());
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(place->path);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const std::vector<uint64_t> offsets = {place->offset + 1};
  const std::vector<Symbol> symbols = SymbolizeModule(fd->get(), {place->path, ""}, offsets);
  EXPECT_EQ(symbols[0].function, "profd_symbolize_test_anchor");
  EXPECT_EQ(symbols[0].kind, FrameKind::kApplication);
}

TEST(SymbolizeModuleTest, Libc) {
  const void* function = dlsym(RTLD_DEFAULT, "pthread_cond_wait");
  ASSERT_NE(function, nullptr);
  const std::optional<Place> place = PlaceOf(function);
  ASSERT_TRUE(place.has_value());
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(place->path);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const absl::StatusOr<ModuleIdentity> identity =
      ReadIdentity(fd->get(), "/lib/x86_64-linux-gnu/libc.so.6");
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->build_id.size(), 40u);
  EXPECT_EQ(identity->headers_id, "");
  const std::vector<uint64_t> offsets = {place->offset + 3};
  const std::vector<Symbol> symbols = SymbolizeModule(fd->get(), *identity, offsets);
  EXPECT_THAT(symbols[0].function, HasSubstr("pthread_cond_wait"));
  EXPECT_EQ(symbols[0].kind, FrameKind::kLibc);
}

TEST(SymbolizeModuleTest, Vdso) {
  uint64_t clock_gettime_at = 0;
  const void* vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (vdso != nullptr) {
    clock_gettime_at =
        reinterpret_cast<uint64_t>(dlsym(const_cast<void*>(vdso), "__vdso_clock_gettime"));
  }
  ASSERT_NE(clock_gettime_at, 0U) << "this kernel maps no vDSO with clock_gettime";
  const std::optional<Place> place = PlaceOf(reinterpret_cast<const void*>(clock_gettime_at));
  ASSERT_TRUE(place.has_value());
  const absl::StatusOr<UniqueFd> copy = CopyVdso();
  ASSERT_TRUE(copy.ok()) << copy.status();
  const std::vector<uint64_t> offsets = {place->offset};
  const std::vector<Symbol> symbols = SymbolizeModule(copy->get(), {"[vdso]", ""}, offsets);
  EXPECT_EQ(symbols[0].function, "__vdso_clock_gettime");
  EXPECT_EQ(symbols[0].kind, FrameKind::kLibc);
}

ModuleIdentity Identity(const std::string& bytes) {
  const UniqueFd fd = FileOf(bytes);
  const absl::StatusOr<ModuleIdentity> identity = ReadIdentity(fd.get(), "/a/file");
  EXPECT_TRUE(identity.ok()) << identity.status();
  return identity.ok() ? *identity : ModuleIdentity{};
}

TEST(IdentityTest, FindsTheBuildIdAmongOtherNotes) {
  const TestElf elf{.notes = Note(1, kGnu, "abi tag contents") +
                             Note(NT_GNU_BUILD_ID, std::string("Go\0\0", 4), "x") +
                             Note(NT_GNU_BUILD_ID, kGnu, "\x01\xfe")};
  const ModuleIdentity identity = Identity(elf.Bytes());
  EXPECT_EQ(identity.path, "/a/file");
  EXPECT_EQ(identity.build_id, "01fe");
  EXPECT_EQ(identity.headers_id, "");
}

TEST(IdentityTest, BuildIdAbsentOrBroken) {
  EXPECT_EQ(Identity(TestElf{}.Bytes()).build_id, "");
  std::string lying = Note(NT_GNU_BUILD_ID, kGnu, "abcd");
  for (const uint32_t size : {0u, 5u, 1000u, UINT32_MAX}) {
    const TestElf elf{.notes = With(lying, offsetof(Elf64_Nhdr, n_descsz), size)};
    EXPECT_EQ(Identity(elf.Bytes()).build_id, "") << size;
  }
  EXPECT_FALSE(ReadIdentity(FileOf("no ELF file").get(), "").ok());
  EXPECT_FALSE(ReadIdentity(-1, "").ok());
}

// Size and headers tell files without a build-id apart; their contents do not.
TEST(IdentityTest, HeadersOfAFileWithoutABuildId) {
  const std::string bytes = TestElf{}.Bytes();
  const std::string id = Identity(bytes).headers_id;
  EXPECT_THAT(id, MatchesRegex(absl::StrCat(absl::Hex(bytes.size()), "\\.[0-9a-f]{8}")));
  EXPECT_EQ(Identity(bytes).headers_id, id);
  EXPECT_NE(Identity(bytes + "x").headers_id, id) << "another size";
  EXPECT_NE(Identity(With(bytes, offsetof(Elf64_Ehdr, e_entry), uint64_t{77})).headers_id, id);
  // Tables that begin beyond the end, or have more entries than there are bytes.
  for (const size_t at : {offsetof(Elf64_Ehdr, e_phoff), offsetof(Elf64_Ehdr, e_shoff)}) {
    EXPECT_NE(Identity(With(bytes, at, UINT64_MAX)).headers_id, id);
  }
  for (const size_t at : {offsetof(Elf64_Ehdr, e_phnum), offsetof(Elf64_Ehdr, e_shnum)}) {
    EXPECT_NE(Identity(With(bytes, at, uint16_t{UINT16_MAX})).headers_id, id);
  }
}

class DebugFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "debugXXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << bytes;
  }

  bool Found(const TestElf& main, const std::string& path) {
    const UniqueFd fd = FileOf(main.Bytes());
    const auto elf = symbolize::ElfFile::Open(fd.get());
    EXPECT_TRUE(elf.ok());
    return symbolize::OpenDebugFile(*elf, elf->BuildId(), path, root_).has_value();
  }

  std::string root_;
};

TEST_F(DebugFileTest, ByBuildIdAndByLinkOnlyWithTheSameBuildId) {
  const TestElf elf{.notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\x56"), .debuglink = "app.debug"};
  const TestElf other{.notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\x57")};
  EXPECT_FALSE(Found(elf, "/usr/bin/app"));
  Write("/usr/bin/app.debug", other.Bytes());
  EXPECT_FALSE(Found(elf, "/usr/bin/app"));
  Write("/usr/bin/app.debug", elf.Bytes());
  EXPECT_TRUE(Found(elf, "/usr/bin/app"));
  EXPECT_FALSE(Found(elf, "/usr/lib/../bin/app"));
  EXPECT_FALSE(Found(elf, "usr/bin/app"));
  Write("/.build-id/12/3456.debug", elf.Bytes());
  EXPECT_TRUE(Found(elf, "/elsewhere"));
  EXPECT_FALSE(Found(TestElf{.debuglink = "app.debug"}, "/usr/bin/app"));
}

TEST_F(DebugFileTest, LinkMustBeAPlainName) {
  TestElf elf{.notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\x56"), .debuglink = "../app.debug"};
  Write("/usr/app.debug", elf.Bytes());
  Write("/usr/bin/x", "");
  EXPECT_FALSE(Found(elf, "/usr/bin/app"));
}

class KallsymsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& content) {
    fd_ = FileOf(content);
    return "/proc/self/fd/" + std::to_string(fd_.get());
  }

 private:
  UniqueFd fd_;
};

TEST_F(KallsymsTest, NearestTextSymbolWithoutModule) {
  const std::string path = Path(
      "0000000000000000 A per_cpu_start\n"
      "ffffffff81000000 T _text\n"
      "ffffffff81000100 t local_fn\n"
      "ffffffff81000200 T __x64_sys_read\n"
      "ffffffff81000200 t __se_alias\n"
      "ffffffff81000200 W weak\n"
      "ffffffff81000300 D some_data\n"
      "ffffffff81000320 T _etext\n"
      "ffffffffc0001000 t ext4_file_write\t[ext4]\n"
      "ffffffffc0000100 t bpf_prog_0123456789abcdef_tick\t[bpf]");
  const std::vector<uint64_t> addresses = {
      0xffffffffc0001004, 0xffffffff81000100, 0xffffffff810001ff, 0xffffffff81000250,
      0xffffffff81000310, 0xffffffffc0000104, 0xffffffffd0000000, 0x10};
  const auto symbols = KernelSymbolTable(path).Find(addresses);
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  EXPECT_THAT(
      Functions(symbols->symbols),
      ElementsAre("ext4_file_write", "local_fn", "local_fn", "weak", "kernel+0x310",
                  "bpf_prog_0123456789abcdef_tick", "kernel+0xffffffffd0000000", "kernel+0x10"));
  EXPECT_EQ(symbols->text_begin, 0xffffffff81000000);
  EXPECT_EQ(symbols->text_end, 0xffffffff81000320);
  for (const Symbol& symbol : symbols->symbols) EXPECT_EQ(symbol.kind, FrameKind::kKernel);
}

// The image's functions are kept. Modules may be loaded later, so they are read when asked for.
TEST_F(KallsymsTest, OnlyTheImageIsKept) {
  const std::string image =
      "ffffffff81000000 T _text\n"
      "ffffffff81000100 t local_fn\n"
      "ffffffff81000100 T global_fn\n"
      "ffffffff81000200 D some_data\n"
      "ffffffff81000300 T _etext\n"
      "ffffffff81000300 T after_the_end\n";
  const std::string path = testing::TempDir() + "/kallsyms." + std::to_string(getpid());
  const auto write = [&](const std::string& content) { std::ofstream(path) << content; };
  write(image +
        "ffffffffd0000100 t bpf_prog_00_own\t[bpf]\n"
        "ffffffffd0000200 t bpf_prog_01_other\t[bpf]\n");
  KernelSymbolTable table(path, {{0xffffffffd0000100, 0xffffffffd0000180}});
  ASSERT_TRUE(table.Read().ok());
  const auto find = [&](uint64_t address) {
    const auto found = table.Find(std::vector<uint64_t>{address});
    return found.ok() ? found->symbols[0].function : found.status().ToString();
  };
  write("");
  EXPECT_EQ(find(0xffffffff81000001), "_text");
  EXPECT_EQ(find(0xffffffff810001ff), "global_fn");
  EXPECT_EQ(find(0xffffffff81000210), "kernel+0x210");
  EXPECT_EQ(find(0xffffffffc0001004), "kernel+0xffffffffc0001004");
  EXPECT_EQ(find(0xffffffffd0000100), "bpf_prog_00_own") << "it lasts";
  EXPECT_EQ(find(0xffffffffd000017f), "bpf_prog_00_own");
  EXPECT_EQ(find(0xffffffffd0000180), "kernel+0xffffffffd0000180");
  EXPECT_EQ(find(0xffffffffd0000204), "kernel+0xffffffffd0000204") << "anybody's may go";
  write(image + "ffffffffc0001000 t ext4_file_write\t[ext4]\n");
  EXPECT_EQ(find(0xffffffffc0001004), "ext4_file_write");
  EXPECT_EQ(find(0xffffffff81000304), "after_the_end");
  std::remove(path.c_str());
  EXPECT_EQ(find(0xffffffff810001ff), "global_fn");
  EXPECT_TRUE(table.Read().ok());
}

TEST_F(KallsymsTest, HiddenAddressesAreAnErrorThatSaysWhatToDo) {
  const std::string path = Path("0000000000000000 T _text\n0000000000000000 T start\n");
  const std::vector<uint64_t> addresses = {0xffffffff81000100};
  const auto symbols = KernelSymbolTable(path).Find(addresses);
  EXPECT_EQ(symbols.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(symbols.status().message(),
            "kernel names are hidden: " + path +
                " shows no addresses; run profd with CAP_SYSLOG and kernel.kptr_restrict below 2");
}

TEST_F(KallsymsTest, BrokenLinesAreSkipped) {
  std::string content = "garbage\n\n \nffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n";
  content += "ffffffff81000000 T " + std::string(300'000, 'x') + "\n";
  content += "ffffffff81000010 T after_the_long_line\n";
  content += std::string("ffffffff8100001\0 T nul\n", 23);
  const std::vector<uint64_t> addresses = {0xffffffff81000008, 0xffffffff81000018};
  const auto symbols = KernelSymbolTable(Path(content)).Find(addresses);
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  EXPECT_THAT(Functions(symbols->symbols),
              ElementsAre("kernel+0xffffffff81000008", "after_the_long_line"));
}

TEST_F(KallsymsTest, EmptyAndMissing) {
  const std::vector<uint64_t> addresses = {1};
  EXPECT_THAT(Functions(KernelSymbolTable(Path("")).Find(addresses)->symbols),
              ElementsAre("kernel+0x1"));
  EXPECT_EQ(KernelSymbolTable("/nonexistent/kallsyms").Find(addresses).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(KernelSymbolTable("/nonexistent/kallsyms").Find({})->symbols.empty());
}

TEST(KallsymsRealTest, NamesAreFoundWhereTheyWereRead) {
  REQUIRE_FACT("kernel.kallsyms");
  std::ifstream file("/proc/kallsyms");
  std::string line;
  uint64_t address = 0;
  while (std::getline(file, line)) {
    if (line.ends_with(" T schedule")) address = std::stoull(line, nullptr, 16);
  }
  ASSERT_NE(address, 0U);
  const std::vector<uint64_t> addresses = {address + 1};
  const auto symbols = KernelSymbolTable().Find(addresses);
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  EXPECT_THAT(Functions(symbols->symbols), ElementsAre("schedule"));
}

// One module, whose open file is all that is left of it.
class OneFile final : public ModuleSource {
 public:
  OneFile(int fd, ModuleIdentity identity) : fd_(fd), identity_(std::move(identity)) {}
  std::optional<ModuleFile> Find(ModuleId /*id*/) const override {
    return ModuleFile{identity_, UniqueFd(fcntl(fd_, F_DUPFD_CLOEXEC, 3)), nullptr};
  }

 private:
  const int fd_;
  const ModuleIdentity identity_;
};

// A recording outlives the programs that it is of.
TEST(FrameNamesTest, NamesStayWhenTheFileIsOverwritten) {
  const TestElf old{.symtab = {{"f", kTextAddress, 0x10}, {"g", kTextAddress + 0x10, 0x10}},
                    .notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\xab")};
  const TestElf other{.symtab = {{"x", kTextAddress, 0x10}, {"y", kTextAddress + 0x10, 0x10}},
                      .notes = Note(NT_GNU_BUILD_ID, kGnu, "\x12\x34\xac")};
  const UniqueFd file = FileOf(old.Bytes());
  const OneFile modules(file.get(), {"/opt/mod (deleted)", "1234ab"});
  FrameNames names(&modules, {.symbols = "/nonexistent"});
  const auto name_of = [&](uint64_t from_text) {
    return names
        .Name(std::vector<FrameAddress>{
            {.frame = PROFD_FRAME(1, kTextOffset + from_text), .exact = true}})[0]
        .function;
  };
  EXPECT_EQ(name_of(0), "f");
  const std::string bytes = other.Bytes();
  ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(name_of(0), "f") << "was named before";
  EXPECT_EQ(name_of(0x10), "mod+0x1010") << "not by another file";
}

}  // namespace
}  // namespace profd
