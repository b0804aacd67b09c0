#include "tests/unit/stripped_library.h"

#include <fstream>
#include <optional>

namespace profd::test {
namespace {

// `exported` has a symbol that a library needs. The others lose theirs. `bare` has neither a size
// nor a description in .eh_frame. `cold` is a part of a function at another place. Exported
// functions jump to `alone`, `shared`, `common`, `called` and `encoded`.
constexpr char kSource[] = R"(
#include <stdio.h>
#include <stdlib.h>
int state;
static __attribute__((noinline)) int hidden_one(int x) {
  if (x == state) puts("one");
  return x * 3 + state;
}
static __attribute__((noinline)) int hidden_two(int x) {
  if (x == state) abort();
  return x * 5 + state;
}
int exported(int x) { return hidden_one(x) ^ hidden_two(x + 1); }
__asm__(
    ".text\n"
    ".type bare, @function\n"
    "bare:\n"
    "  nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"
    "  ret\n"
    ".type described, @function\n"
    "described:\n"
    "  .cfi_startproc\n"
    "  nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"
    "  ret\n"
    "  .cfi_endproc\n"
    "behind:\n"
    "  nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"
    "  ret\n"
    ".size behind, . - behind\n"
    "  .skip 64, 0x90\n"
    ".macro hidden name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    "  .cfi_startproc\n"
    "  nop; nop; nop; nop\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".endm\n"
    ".macro jumps name, to, opcode:vararg\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    "  nop\n"
    "  .byte \\opcode\n"
    "  .long \\to - . - 4\n"
    ".size \\name, . - \\name\n"
    ".endm\n"
    "hidden alone\n"
    "hidden shared\n"
    "hidden common\n"
    "hidden called\n"
    "hidden encoded\n"
    "jumps jump_alone, alone, 0xe9\n"
    ".globl __jump_alone\n"
    ".set __jump_alone, jump_alone\n"
    "jumps jump_until, shared, 0xe9\n"
    "jumps jump, shared, 0x0f, 0x84\n"
    "jumps jump_a, common, 0xe9\n"
    "jumps jump_b, common, 0xe9\n"
    "jumps jump_c, common, 0xe9\n"
    "jumps jump_d, common, 0xe9\n"
    "jumps jump_e, common, 0xe9\n"
    "jumps jump_called, called, 0xe9\n"
    "jumps caller, called, 0xe8\n"
    "jumps _Z4jumpv, encoded, 0xe9\n");
)";

}  // namespace

void BuildLibrary(const std::string& path, const std::string& flags) {
  const std::string source = path + ".c";
  std::ofstream(source) << kSource;
  Shell("cc -shared -fPIC -O1 -g " + flags + " -o '" + path + "' '" + source + "'");
}

symbolize::NamedSymbol FunctionIn(const std::string& path, const std::string& name) {
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(path);
  EXPECT_TRUE(fd.ok()) << fd.status();
  const auto elf = symbolize::ElfFile::Open(fd->get());
  EXPECT_TRUE(elf.ok()) << elf.status();
  for (symbolize::NamedSymbol& symbol : symbolize::FindFunctions(*elf, name, 16)) {
    if (symbol.name == name) return std::move(symbol);
  }
  ADD_FAILURE() << "no function " << name << " in " << path;
  return {};
}

std::vector<Symbol> NamesIn(const std::string& path, const std::vector<uint64_t>& addresses) {
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(path);
  EXPECT_TRUE(fd.ok()) << fd.status();
  const auto elf = symbolize::ElfFile::Open(fd->get());
  EXPECT_TRUE(elf.ok()) << elf.status();
  std::vector<uint64_t> offsets;
  for (const uint64_t address : addresses) {
    const std::optional<symbolize::FileRange> place = elf->CodeAt(address);
    EXPECT_TRUE(place.has_value()) << std::hex << address;
    offsets.push_back(place ? place->offset : 0);
  }
  return SymbolizeModule(fd->get(), {path, ""}, offsets);
}

Symbol NameIn(const std::string& path, uint64_t address) { return NamesIn(path, {address})[0]; }

}  // namespace profd::test
