// Rules and bounds of functions that only .debug_frame describes.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/function_bounds.h"
#include "daemon/unwind/compressed_section.h"
#include "daemon/unwind/rules.h"
#include "gtest/gtest.h"
#include "tests/support/places.h"
#include "tests/unit/elf_builder.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using test::Bytes;
using test::Join;
using test::kText;
using test::kTextOffset;
using test::Put;

constexpr uint32_t kNone = PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
constexpr uint32_t Rsp(int cfa) { return PROFD_RULE_PACK(PROFD_RULE_RSP, cfa / 8, 0); }

// `wide`: in the format of 64-bit DWARF. `version` 4 has sizes of addresses and segments.
Bytes DebugFrame(bool wide, uint8_t version, const std::vector<std::pair<uint64_t, uint64_t>>& code,
                 uint64_t common = 0) {
  const auto put_id = [&](Bytes& out, uint64_t id) {
    if (wide) {
      Put<uint64_t>(out, id);
    } else {
      Put<uint32_t>(out, static_cast<uint32_t>(id));
    }
  };
  Bytes section;
  const auto put_record = [&](const Bytes& body) {
    if (wide) Put<uint32_t>(section, 0xffffffff);
    put_id(section, body.size());
    Put(section, body);
  };
  Bytes head;
  put_id(head, UINT64_MAX);
  head.push_back(version);
  head.push_back(0);  // no augmentation
  if (version == 4) Put(head, Bytes{8, 0});
  Put(head, Join({{1, 0x78, 16}, test::DefaultInitial()}));
  put_record(head);
  for (const auto& [begin, size] : code) {
    Bytes body;
    put_id(body, common);
    Put<uint64_t>(body, begin);
    Put<uint64_t>(body, size);
    Put(body, Bytes{0x41, 0x0e, 16});  // after one byte: CFA = rsp + 16
    put_record(body);
  }
  return section;
}

// Renames the section .eh_frame, and gives it these flags.
Bytes AsDebugFrame(Bytes file, uint64_t flags = 0) {
  const std::string old_name = ".eh_frame", new_name = ".debug_frame";
  Elf64_Ehdr elf;
  std::memcpy(&elf, file.data(), sizeof(elf));
  for (uint64_t i = 0; i < elf.e_shnum; ++i) {
    uint8_t* at = file.data() + elf.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, at, sizeof(section));
    if (section.sh_addr != test::kFrameAddress) continue;
    section.sh_flags = flags;
    section.sh_addr = 0;
    // The name goes to a place of its own, behind the other names.
    Elf64_Shdr names;
    std::memcpy(&names, file.data() + elf.e_shoff + elf.e_shstrndx * sizeof(names), sizeof(names));
    section.sh_name = static_cast<uint32_t>(file.size() - names.sh_offset);
    std::memcpy(at, &section, sizeof(section));
    names.sh_size = section.sh_name + new_name.size() + 1;
    std::memcpy(file.data() + elf.e_shoff + elf.e_shstrndx * sizeof(names), &names, sizeof(names));
    file.insert(file.end(), new_name.begin(), new_name.end());
    file.push_back(0);
    break;
  }
  return file;
}

RuleTable Compile(const Bytes& file) {
  const absl::StatusOr<RuleTable> table = CompileRules(file);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *table : RuleTable();
}

void ExpectTwoFunctions(const RuleTable& table) {
  EXPECT_EQ(table.functions, 2u);
  EXPECT_EQ(FindRule(table, kTextOffset), Rsp(8));
  EXPECT_EQ(FindRule(table, kTextOffset + 1), Rsp(16));
  EXPECT_EQ(FindRule(table, kTextOffset + 31), Rsp(16));
  EXPECT_EQ(FindRule(table, kTextOffset + 32), kNone);
  EXPECT_EQ(FindRule(table, kTextOffset + 64), Rsp(8));
}

const std::vector<std::pair<uint64_t, uint64_t>> kTwo = {{kText, 32}, {kText + 64, 32}};

TEST(DebugFrameTest, BothFormatsAndAllVersions) {
  for (const bool wide : {false, true}) {
    for (const uint8_t version : {1, 3, 4}) {
      SCOPED_TRACE(version);
      ExpectTwoFunctions(Compile(AsDebugFrame(test::BuildElf(DebugFrame(wide, version, kTwo)))));
    }
  }
}

TEST(DebugFrameTest, AFunctionThatTheLinkerRemovedIsLeftOut) {
  const RuleTable table =
      Compile(AsDebugFrame(test::BuildElf(DebugFrame(false, 3, {{0, 32}, {kText, 32}}))));
  EXPECT_EQ(table.functions, 1u);
  EXPECT_EQ(table.rejected_functions, 0u);
}

TEST(DebugFrameTest, APositionBeyondTheSectionIsMalformed) {
  const RuleTable table =
      Compile(AsDebugFrame(test::BuildElf(DebugFrame(false, 3, kTwo, 0x7fffffff))));
  EXPECT_EQ(table.functions, 0u);
  EXPECT_EQ(table.rejected_functions, 2u);
}

Bytes Zlib(const Bytes& content, uint64_t claimed) {
  Elf64_Chdr header = {};
  header.ch_type = 1;
  header.ch_size = claimed;
  header.ch_addralign = 8;
  Bytes packed(sizeof(header));
  std::memcpy(packed.data(), &header, sizeof(header));
  uLongf size = compressBound(content.size());
  packed.resize(sizeof(header) + size);
  EXPECT_EQ(compress(packed.data() + sizeof(header), &size, content.data(), content.size()), Z_OK);
  packed.resize(sizeof(header) + size);
  return packed;
}

TEST(DebugFrameTest, Compressed) {
  const Bytes frames = DebugFrame(false, 3, kTwo);
  ExpectTwoFunctions(
      Compile(AsDebugFrame(test::BuildElf(Zlib(frames, frames.size())), SHF_COMPRESSED)));
}

TEST(DebugFrameTest, UnpacksNoMoreThanAllowedAndNoLessThanClaimed) {
  const Bytes content(1000);
  const Bytes packed = Zlib(content, content.size());
  EXPECT_EQ(UnpackSection(packed, 1000), content);
  EXPECT_FALSE(UnpackSection(packed, 999));
  EXPECT_FALSE(UnpackSection(Zlib(content, 1001), 2000));
  EXPECT_FALSE(UnpackSection(Zlib(content, 999), 2000));
  EXPECT_FALSE(UnpackSection(std::span(packed).first(20), 2000));
  // A few bytes cannot be a gigabyte.
  EXPECT_FALSE(UnpackSection(Zlib(content, 1 << 30), 1 << 30));
}

struct Program {
  UniqueFd fd;
  Bytes bytes;
  std::vector<symbolize::NamedSymbol> functions;
};

Program Open(const std::string& name) {
  Program program;
  const std::string path = test::InBuild(name);
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path, 1 << 24);
  absl::StatusOr<UniqueFd> fd = OpenReadOnly(path);
  EXPECT_TRUE(bytes.ok() && fd.ok()) << path;
  if (!bytes.ok() || !fd.ok()) return program;
  program.fd = *std::move(fd);
  program.bytes.assign(bytes->begin(), bytes->end());
  const absl::StatusOr<ElfFile> elf = ElfFile::Open(program.fd.get());
  EXPECT_TRUE(elf.ok());
  if (elf.ok()) program.functions = symbolize::FindFunctions(*elf, "classes", 200);
  return program;
}

// A compiler writes the same rules into either section.
TEST(DebugFrameTest, SaysTheSameAsEhFrameForTheSameCode) {
  const Program described = Open("classes_frames");
  const RuleTable expected = Compile(described.bytes);
  for (const char* name : {"classes_debug_frame", "classes_packed_frame"}) {
    SCOPED_TRACE(name);
    const Program program = Open(name);
    const RuleTable table = Compile(program.bytes);
    size_t compared = 0;
    for (const symbolize::NamedSymbol& function : program.functions) {
      for (const symbolize::NamedSymbol& twin : described.functions) {
        if (twin.name != function.name || twin.size != function.size) continue;
        for (uint64_t i = 0; i < function.size; ++i) {
          // Addresses are file offsets in the segment with code of a program that is linked so.
          EXPECT_EQ(FindRule(table, static_cast<uint32_t>(function.address + i)),
                    FindRule(expected, static_cast<uint32_t>(twin.address + i)))
              << function.name << "+" << i;
          EXPECT_NE(FindRule(table, static_cast<uint32_t>(function.address + i)), kNone);
        }
        ++compared;
      }
    }
    EXPECT_GE(compared, 15u);
  }
}

TEST(DebugFrameTest, GivesBoundsOfFunctions) {
  for (const char* name : {"classes_debug_frame", "classes_packed_frame"}) {
    SCOPED_TRACE(name);
    const Program program = Open(name);
    const absl::StatusOr<ElfFile> elf = ElfFile::Open(program.fd.get());
    ASSERT_TRUE(elf.ok());
    for (const symbolize::NamedSymbol& function : program.functions) {
      const std::vector<uint64_t> inside = {function.address + function.size / 2};
      const auto bounds = symbolize::FindBounds(*elf, inside);
      ASSERT_TRUE(bounds[0]) << function.name;
      EXPECT_EQ(bounds[0]->begin, function.address) << function.name;
      EXPECT_EQ(bounds[0]->end, function.address + function.size) << function.name;
    }
  }
}

}  // namespace
}  // namespace profd
