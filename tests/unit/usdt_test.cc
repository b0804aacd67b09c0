#include "daemon/heap/usdt.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "tests/support/places.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using test::Bytes;
using test::Put;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint8_t kRbp = 4, kRax = 10, kRcx = 11, kRdx = 12, kRsi = 13, kRdi = 14, kRsp = 19;
constexpr uint8_t kNone = PROFD_USDT_NO_REGISTER;

profd_usdt_argument Argument(const std::string& text) {
  const auto spec = ParseUsdtArguments(text, 1);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.status();
  return spec.ok() ? spec->arguments[0] : profd_usdt_argument{};
}

struct Expected {
  int size = 8, is_signed = 0, in_memory = 0;
  uint8_t base = kNone, index = kNone;
  int shift = 0;
  uint64_t value = 0;
};

void ExpectArgument(const std::string& text, const Expected& expected) {
  const profd_usdt_argument argument = Argument(text);
  SCOPED_TRACE(text);
  EXPECT_EQ(argument.size, expected.size);
  EXPECT_EQ(argument.is_signed, expected.is_signed);
  EXPECT_EQ(argument.in_memory, expected.in_memory);
  EXPECT_EQ(argument.base, expected.base);
  EXPECT_EQ(argument.index, expected.index);
  EXPECT_EQ(argument.shift, expected.shift);
  EXPECT_EQ(argument.value, expected.value);
}

TEST(UsdtArgumentsTest, FormsThatCompilersWrite) {
  ExpectArgument("8@%rdi", {.base = kRdi});
  ExpectArgument("-4@%ecx", {.size = 4, .is_signed = 1, .base = kRcx});
  ExpectArgument("1@%dl", {.size = 1, .base = kRdx});
  ExpectArgument("2@%r15w", {.size = 2, .base = 0});
  ExpectArgument("8@%rsp", {.base = kRsp});
  ExpectArgument("-4@$5", {.size = 4, .is_signed = 1, .value = 5});
  ExpectArgument("8@$-1", {.value = ~uint64_t{0}});
  ExpectArgument("8@$0x10000", {.value = 65536});
  ExpectArgument("8@-16(%rbp)", {.in_memory = 1, .base = kRbp, .value = uint64_t{0} - 16});
  ExpectArgument("8@(%rsp)", {.in_memory = 1, .base = kRsp});
  ExpectArgument("4@8(%rsi,%rax,4)",
                 {.size = 4, .in_memory = 1, .base = kRsi, .index = kRax, .shift = 2, .value = 8});
  ExpectArgument("8@(%rsi,%rax)", {.in_memory = 1, .base = kRsi, .index = kRax});
  ExpectArgument("8@64(,%rax,8)", {.in_memory = 1, .index = kRax, .shift = 3, .value = 64});
}

TEST(UsdtArgumentsTest, AllOthersAreRefused) {
  for (const char* text : {"",
                           "8",
                           "8@",
                           "%rdi",
                           "8%rdi",
                           "3@%rdi",
                           "16@%rdi",
                           "8f@%xmm0",
                           "8@%xmm0",
                           "8@%rip",
                           "8@%ah",
                           "8@%",
                           "8@$",
                           "8@$x",
                           "8@$--1",
                           "8@$99999999999999999999",
                           "8@name(%rip)",
                           "8@8(%rip)",
                           "8@name",
                           "8@8()",
                           "8@8(",
                           "8@8(%rbp",
                           "8@(%rbp))",
                           "8@(%rbp,)",
                           "8@(%rbp,%rax,3)",
                           "8@(%rbp,%rax,8,1)",
                           "8@%fs:16",
                           "8@%fs:(%rax)",
                           "--8@%rdi",
                           "8@+8(%rbp)"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseUsdtArguments(text, 1).status())) << text;
  }
  EXPECT_FALSE(ParseUsdtArguments("8@$" + std::string(100, '1'), 1).ok());
}

TEST(UsdtArgumentsTest, AsManyAsAreWanted) {
  const auto spec = ParseUsdtArguments("8@%rdi  8@%rsi 8@%rdx 8@name(%rip)", 3);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->arguments[0].base, kRdi);
  EXPECT_EQ(spec->arguments[1].base, kRsi);
  EXPECT_EQ(spec->arguments[2].base, kRdx);
  EXPECT_EQ(ParseUsdtArguments("8@%rdi 8@%rsi", 3).status().message(),
            "it has 2 arguments, expected 3");
}

// A note, with the fields that a test wants otherwise.
struct Note {
  std::string owner = std::string("stapsdt\0", 8);
  uint32_t type = 3;
  uint64_t address = 0, base = 0, semaphore = 0;
  std::string text;  // provider, name, arguments, each with its NUL
};

std::string Text(std::string_view provider, std::string_view name, std::string_view arguments) {
  std::string text;
  for (const std::string_view part : {provider, name, arguments}) text.append(part).push_back('\0');
  return text;
}

Bytes Encode(const Note& note) {
  Bytes description;
  Put(description, note.address);
  Put(description, note.base);
  Put(description, note.semaphore);
  description.insert(description.end(), note.text.begin(), note.text.end());
  Bytes bytes;
  Put(bytes, static_cast<uint32_t>(note.owner.size()));
  Put(bytes, static_cast<uint32_t>(description.size()));
  Put(bytes, note.type);
  bytes.insert(bytes.end(), note.owner.begin(), note.owner.end());
  while (bytes.size() % 4 != 0) bytes.push_back(0);
  Put(bytes, description);
  while (bytes.size() % 4 != 0) bytes.push_back(0);
  return bytes;
}

// Code at 0x401000 from offset 0x1000, data at 0x403000 from offset 0x2000, and the notes. `base`:
// where .stapsdt.base is; 0: there is none.
constexpr uint64_t kCode = 0x401000, kData = 0x403000;

Bytes File(const Bytes& notes, uint64_t base = 0, const Bytes& code = Bytes(16, 0x90)) {
  Bytes file(0x3000);
  std::copy(code.begin(), code.end(), file.begin() + 0x1000);
  const std::string names("\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0", 39);
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](uint32_t name, uint32_t type, uint64_t address, uint64_t offset,
                       uint64_t size) {
    Elf64_Shdr section{};
    section.sh_name = name;
    section.sh_type = type;
    section.sh_addr = address;
    section.sh_offset = offset;
    section.sh_size = size;
    sections.push_back(section);
  };
  add(1, SHT_NOTE, 0, file.size(), notes.size());
  Put(file, notes);
  if (base != 0) add(15, SHT_PROGBITS, base, 0x100, 1);
  add(29, SHT_STRTAB, 0, file.size(), names.size());
  file.insert(file.end(), names.begin(), names.end());

  Elf64_Ehdr elf{};
  std::memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.e_machine = EM_X86_64;
  elf.e_phoff = sizeof(elf);
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 2;
  elf.e_shoff = file.size();
  elf.e_shentsize = sizeof(Elf64_Shdr);
  elf.e_shnum = static_cast<uint16_t>(sections.size());
  elf.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  for (const Elf64_Shdr& section : sections) Put(file, section);
  const Elf64_Phdr segments[2] = {
      {PT_LOAD, PF_R | PF_X, 0x1000, kCode, kCode, 0x1000, 0x1000, 0x1000},
      {PT_LOAD, PF_R | PF_W, 0x2000, kData, kData, 0x1000, 0x2000, 0x1000}};
  std::memcpy(file.data(), &elf, sizeof(elf));
  std::memcpy(file.data() + sizeof(elf), segments, sizeof(segments));
  return file;
}

UniqueFd Store(const Bytes& bytes) {
  UniqueFd fd(memfd_create("usdt_test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

std::vector<UsdtNote> Notes(const Bytes& file) {
  const UniqueFd fd = Store(file);
  const auto elf = ElfFile::Open(fd.get());
  EXPECT_TRUE(elf.ok()) << elf.status();
  if (!elf.ok()) return {};
  const auto notes = ReadUsdtNotes(*elf, "otel_memory");
  EXPECT_TRUE(notes.ok()) << notes.status();
  return notes.ok() ? *notes : std::vector<UsdtNote>();
}

const Note kAlloc = {.address = kCode + 4,
                     .text = Text("otel_memory", "alloc", "8@%rdi 8@%rsi 8@%rdx")};
const Note kFree = {.address = kCode + 8, .text = Text("otel_memory", "free", "8@%rdi")};

absl::StatusOr<std::optional<OtelMemory>> Find(const Bytes& notes, uint64_t base = 0,
                                               const Bytes& code = Bytes(16, 0x90)) {
  const UniqueFd fd = Store(File(notes, base, code));
  return FindOtelMemory(fd.get());
}

TEST(UsdtNotesTest, ThoseOfAProvider) {
  const Note other = {.address = kCode, .text = Text("other", "alloc", "")};
  const std::vector<UsdtNote> notes =
      Notes(File(test::Join({Encode(other), Encode(kAlloc), Encode(kFree)})));
  ASSERT_THAT(notes, ElementsAre(Field(&UsdtNote::name, "alloc"), Field(&UsdtNote::name, "free")));
  EXPECT_EQ(notes[0].address, kCode + 4);
  EXPECT_EQ(notes[0].arguments, "8@%rdi 8@%rsi 8@%rdx");
  EXPECT_EQ(notes[0].semaphore, 0U);
  EXPECT_THAT(Notes(File({})), IsEmpty());
}

TEST(UsdtNotesTest, AFileThatWasMovedAfterItWasLinked) {
  Note note = kAlloc;
  note.address -= 0x100000;
  note.base = 0x302000;
  note.semaphore = kData + 6 - 0x100000;
  const std::vector<UsdtNote> notes = Notes(File(Encode(note), 0x402000));
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].address, kCode + 4);
  EXPECT_EQ(notes[0].semaphore, kData + 6);
  // Without the section nothing is known of that.
  EXPECT_EQ(Notes(File(Encode(note))).at(0).address, note.address);
}

TEST(UsdtNotesTest, WhatIsNoNoteIsLeftOut) {
  Note owner = kAlloc, type = kAlloc, shortened = kAlloc, open = kAlloc;
  owner.owner = "stapsdt";  // without its NUL
  type.type = 4;
  shortened.text = "";
  open.text.pop_back();
  EXPECT_THAT(Notes(File(test::Join(
                  {Encode(owner), Encode(type), Encode(shortened), Encode(open), Encode(kFree)}))),
              ElementsAre(Field(&UsdtNote::name, "free")));
}

TEST(UsdtNotesTest, EveryCutAndEverySizeStaysWithinTheBytes) {
  const Bytes whole = test::Join({Encode(kAlloc), Encode(kFree)});
  for (size_t size = 0; size <= whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_LE(Notes(File(cut)).size(), 2U);
  }
  for (const uint32_t lie : {0x7fffffffU, 0xfffffffcU, 0xffffffffU, 0x80000000U}) {
    for (const size_t field : {size_t{0}, size_t{4}}) {
      Bytes bytes = whole;
      std::memcpy(bytes.data() + field, &lie, sizeof(lie));
      EXPECT_THAT(Notes(File(bytes)), IsEmpty());
    }
  }
}

TEST(UsdtNotesTest, TooManyAreRefused) {
  Bytes notes;
  for (int i = 0; i < 257; ++i) Put(notes, Encode(kFree));
  EXPECT_TRUE(absl::IsResourceExhausted(Find(notes).status()));
  Note large = kFree;
  large.text += std::string(1 << 20, 'x');
  EXPECT_TRUE(absl::IsResourceExhausted(Find(Encode(large)).status()));
  // What the header says is not in the file.
  Bytes cut = File(Encode(kFree));
  Elf64_Ehdr elf;
  std::memcpy(&elf, cut.data(), sizeof(elf));
  const uint64_t size = 1 << 19;
  std::memcpy(cut.data() + elf.e_shoff + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), &size,
              sizeof(size));
  const UniqueFd fd = Store(cut);
  EXPECT_FALSE(FindOtelMemory(fd.get()).ok());
}

TEST(OtelMemoryTest, PlacesInTheFile) {
  Note second = kAlloc;
  second.address = kCode + 12;
  second.semaphore = kData + 0x10;
  const auto found = Find(test::Join({Encode(kAlloc), Encode(kFree), Encode(second)}));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  ASSERT_THAT((*found)->alloc, SizeIs(2));
  ASSERT_THAT((*found)->free, SizeIs(1));
  EXPECT_EQ((*found)->note, "");
  EXPECT_EQ((*found)->alloc[0].offset, 0x1004U);
  EXPECT_EQ((*found)->alloc[0].semaphore, 0U);
  EXPECT_EQ((*found)->alloc[0].arguments.arguments[2].base, kRdx);
  EXPECT_EQ((*found)->alloc[1].offset, 0x100cU);
  EXPECT_EQ((*found)->alloc[1].semaphore, 0x2010U);
  EXPECT_EQ((*found)->free[0].offset, 0x1008U);
}

TEST(OtelMemoryTest, NothingWhereThereIsNone) {
  const auto none = Find({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  // mmap is of the same provider, and not asked for.
  const auto other = Find(Encode({.address = kCode, .text = Text("otel_memory", "mmap", "")}));
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->has_value());
  EXPECT_FALSE(FindOtelMemory(Store({1, 2, 3}).get()).ok());
}

TEST(OtelMemoryTest, NoOpsOfSeveralBytesAreNotEmulatedEverywhere) {
  Bytes code(16, 0x90);
  const Bytes kLong = {0x0f, 0x1f, 0x44, 0x00, 0x00};
  std::copy(kLong.begin(), kLong.end(), code.begin() + 8);
  const auto found = Find(test::Join({Encode(kAlloc), Encode(kFree)}), 0, code);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_THAT((*found)->alloc, ElementsAre(Field(&UsdtPlace::stepped, false)));
  EXPECT_THAT((*found)->free, ElementsAre(Field(&UsdtPlace::stepped, true)));
}

TEST(OtelMemoryTest, SaysWhatCannotBeWatched) {
  const auto note_of = [](const Bytes& notes, const Bytes& code = Bytes(16, 0x90)) {
    const auto found = Find(notes, 0, code);
    EXPECT_TRUE(found.ok() && found->has_value()) << found.status();
    return found.ok() && *found ? **found : OtelMemory();
  };
  OtelMemory found = note_of(Encode(kAlloc));
  EXPECT_THAT(found.alloc, IsEmpty()) << "nothing would ever go";
  EXPECT_EQ(found.note, "the module has no otel_memory:free");
  EXPECT_EQ(note_of(Encode(kFree)).note, "the module has no otel_memory:alloc");

  Note broken = kAlloc;
  broken.text = Text("otel_memory", "alloc", "8@%rdi 8@size(%rip) 8@%rdx");
  found = note_of(test::Join({Encode(kAlloc), Encode(broken), Encode(kFree)}));
  EXPECT_THAT(found.alloc, SizeIs(1));
  EXPECT_EQ(found.note,
            "1 of 3 places cannot be watched; the first: otel_memory:alloc: argument 2 has an "
            "unsupported form");
  found = note_of(test::Join({Encode(broken), Encode(kFree)}));
  EXPECT_THAT(found.alloc, IsEmpty());
  EXPECT_THAT(found.free, IsEmpty());
  EXPECT_EQ(found.note,
            "1 of 2 places cannot be watched; the first: otel_memory:alloc: argument 2 has an "
            "unsupported form");

  // Not code, not a no-op, a semaphore that is no data of the file.
  for (const uint64_t address : {uint64_t{0}, kCode - 1, kCode + 0x1000, kData, ~uint64_t{0}}) {
    broken = kAlloc;
    broken.address = address;
    EXPECT_EQ(note_of(test::Join({Encode(broken), Encode(kFree)})).note,
              "1 of 2 places cannot be watched; the first: otel_memory:alloc: there is no no-op at "
              "the note's address");
  }
  EXPECT_EQ(note_of(test::Join({Encode(kAlloc), Encode(kFree)}), Bytes(16, 0x55)).note,
            "2 of 2 places cannot be watched; the first: otel_memory:alloc: there is no no-op at "
            "the note's address");
  for (const uint64_t semaphore : {kCode, kData + 0xfff, kData + 0x1000, ~uint64_t{0}}) {
    broken = kAlloc;
    broken.semaphore = semaphore;
    EXPECT_EQ(note_of(test::Join({Encode(broken), Encode(kFree)})).note,
              "1 of 2 places cannot be watched; the first: otel_memory:alloc: its semaphore is "
              "outside the file's "
              "data");
  }
}

// Those of a compiler, in a program that a linker made.
TEST(OtelMemoryTest, InPrograms) {
  for (const bool semaphore : {true, false}) {
    const std::string path = test::InBuild(semaphore ? "told" : "told_always");
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.ok()) << path;
    const auto found = FindOtelMemory(fd.get());
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->note, "");
    EXPECT_THAT((*found)->alloc, SizeIs(2));
    EXPECT_THAT((*found)->free, SizeIs(2));
    for (const UsdtPlace& place : (*found)->alloc) EXPECT_EQ(place.semaphore != 0, semaphore);
    EXPECT_EQ((*found)->alloc[0].semaphore, (*found)->alloc[1].semaphore);
  }
}

}  // namespace
}  // namespace profd
