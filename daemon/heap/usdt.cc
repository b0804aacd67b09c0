#include "daemon/heap/usdt.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/heap/probe_point.h"

namespace profd {
namespace {

using symbolize::ElfFile;
using symbolize::FileRange;
using symbolize::Section;
using symbolize::Segment;

constexpr char kProvider[] = "otel_memory";

// A program with a thousand probes has about 100 KiB of notes.
constexpr uint64_t kMaxNoteBytes = 1 << 20;
constexpr size_t kMaxPlaces = 256;
constexpr uint32_t kNoteType = 3;
constexpr std::string_view kOwner("stapsdt\0", 8);
// Addresses of the instruction, of .stapsdt.base at link time (it shows by how much the file was
// moved), and of the semaphore.
constexpr size_t kAddressBytes = 3 * sizeof(uint64_t);
// Limit for one argument.
constexpr size_t kMaxArgument = 64;

// In the order of struct pt_regs; "" for registers that hold no argument.
constexpr std::array<std::array<absl::string_view, 4>, PROFD_PT_REGS_WORDS> kRegisters = {{
    {"r15", "r15d", "r15w", "r15b"},
    {"r14", "r14d", "r14w", "r14b"},
    {"r13", "r13d", "r13w", "r13b"},
    {"r12", "r12d", "r12w", "r12b"},
    {"rbp", "ebp", "bp", "bpl"},
    {"rbx", "ebx", "bx", "bl"},
    {"r11", "r11d", "r11w", "r11b"},
    {"r10", "r10d", "r10w", "r10b"},
    {"r9", "r9d", "r9w", "r9b"},
    {"r8", "r8d", "r8w", "r8b"},
    {"rax", "eax", "ax", "al"},
    {"rcx", "ecx", "cx", "cl"},
    {"rdx", "edx", "dx", "dl"},
    {"rsi", "esi", "si", "sil"},
    {"rdi", "edi", "di", "dil"},
    {},
    {},
    {},
    {},
    {"rsp", "esp", "sp", "spl"},
    {},
}};

// With "%" before it.
std::optional<uint8_t> ParseRegister(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "%") || text.empty()) return std::nullopt;
  for (size_t word = 0; word < kRegisters.size(); ++word) {
    for (const absl::string_view name : kRegisters[word]) {
      if (name == text) return static_cast<uint8_t>(word);
    }
  }
  return std::nullopt;
}

// Decimal or, after 0x, hexadecimal; may be negative.
std::optional<uint64_t> ParseNumber(absl::string_view text) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) {
    return std::nullopt;
  }
  uint64_t value = 0;
  const bool read = absl::ConsumePrefix(&text, "0x") ? absl::SimpleHexAtoi(text, &value)
                                                     : absl::SimpleAtoi(text, &value);
  if (!read) return std::nullopt;
  return negative ? 0 - value : value;
}

// "base", "base,index" or "base,index,scale"; the base may be missing.
bool ParseAddress(absl::string_view text, profd_usdt_argument& argument) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 3 || (parts.size() == 1 && parts[0].empty())) return false;
  if (!parts[0].empty()) {
    const auto base = ParseRegister(parts[0]);
    if (!base) return false;
    argument.base = *base;
  }
  if (parts.size() == 1) return true;
  const auto index = ParseRegister(parts[1]);
  if (!index) return false;
  argument.index = *index;
  if (parts.size() == 2 || parts[2] == "1") return true;
  argument.shift = parts[2] == "2" ? 1 : parts[2] == "4" ? 2 : parts[2] == "8" ? 3 : 0;
  return argument.shift != 0;
}

// "8@%rdi", "-4@$5", "8@-16(%rbp,%rax,8)". False for all others.
bool ParseArgument(absl::string_view text, profd_usdt_argument& argument) {
  argument.base = PROFD_USDT_NO_REGISTER;
  argument.index = PROFD_USDT_NO_REGISTER;
  argument.is_signed = absl::ConsumePrefix(&text, "-") ? 1 : 0;
  if (text.size() < 2 || text[1] != '@') return false;
  if (text[0] != '1' && text[0] != '2' && text[0] != '4' && text[0] != '8') return false;
  argument.size = static_cast<uint8_t>(text[0] - '0');
  text.remove_prefix(2);
  if (absl::ConsumePrefix(&text, "$")) {
    const auto value = ParseNumber(text);
    if (!value) return false;
    argument.value = *value;
    return true;
  }
  if (absl::StartsWith(text, "%")) {
    const auto base = ParseRegister(text);
    if (!base) return false;
    argument.base = *base;
    return true;
  }
  const size_t open = text.find('(');
  if (open == text.npos || !absl::ConsumeSuffix(&text, ")")) return false;
  if (open != 0) {
    const auto displacement = ParseNumber(text.substr(0, open));
    if (!displacement) return false;
    argument.value = *displacement;
  }
  argument.in_memory = 1;
  return ParseAddress(text.substr(open + 1), argument);
}

// Removes the text up to its NUL from `bytes`; nothing if there is none.
std::optional<std::string_view> TakeString(std::string_view& bytes) {
  const size_t end = bytes.find('\0');
  if (end == bytes.npos) return std::nullopt;
  const std::string_view text = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return text;
}

uint64_t ReadWord(std::string_view bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

// Notes are padded to multiples of four.
size_t Padded(uint32_t size) { return (size_t{size} + 3) & ~size_t{3}; }

// File offset of a semaphore.
std::optional<uint64_t> FindSemaphore(const ElfFile& elf, uint64_t vaddr) {
  for (const Segment& segment : elf.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) == 0 || vaddr < segment.address) continue;
    const uint64_t inside = vaddr - segment.address;
    uint16_t count = 0;
    if (inside < segment.file_size && segment.file_size - inside >= sizeof(count) &&
        elf.Read(segment.offset + inside, &count, sizeof(count)).ok()) {
      return segment.offset + inside;
    }
  }
  return std::nullopt;
}

// The nop at a probe, of one byte or more. Empty for anything else.
std::optional<std::array<uint8_t, 2>> ReadNoOp(const ElfFile& elf, const FileRange& code) {
  std::array<uint8_t, 2> bytes{};
  if (code.size < bytes.size() || !elf.Read(code.offset, bytes.data(), bytes.size()).ok()) {
    return std::nullopt;
  }
  const bool is_no_op = bytes[0] == 0x90 || (bytes[0] == 0x0f && bytes[1] == 0x1f);
  return is_no_op ? std::optional(bytes) : std::nullopt;
}

absl::StatusOr<UsdtPlace> FindPlace(const ElfFile& elf, const UsdtNote& note, int arguments) {
  UsdtPlace place;
  const std::optional<FileRange> code = elf.CodeAt(note.address);
  const auto no_op = code ? ReadNoOp(elf, *code) : std::nullopt;
  if (!no_op) return absl::InvalidArgumentError("there is no no-op at the note's address");
  place.offset = code->offset;
  place.stepped = !IsEmulated(*no_op);
  if (note.semaphore != 0) {
    const auto semaphore = FindSemaphore(elf, note.semaphore);
    if (!semaphore) return absl::InvalidArgumentError("its semaphore is outside the file's data");
    place.semaphore = *semaphore;
  }
  ASSIGN_OR_RETURN(place.arguments, ParseUsdtArguments(note.arguments, arguments));
  return place;
}

}  // namespace

absl::StatusOr<std::vector<UsdtNote>> ReadUsdtNotes(const ElfFile& elf, std::string_view provider) {
  std::vector<UsdtNote> notes;
  const Section* section = elf.FindSectionByName(".note.stapsdt");
  if (section == nullptr || section->type != SHT_NOTE || section->size == 0) return notes;
  if (section->size > kMaxNoteBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxNoteBytes, " bytes of USDT notes"));
  }
  std::string bytes(static_cast<size_t>(section->size), '\0');
  RETURN_IF_ERROR(elf.Read(section->offset, bytes.data(), bytes.size()));
  const Section* base = elf.FindSectionByName(".stapsdt.base");

  std::string_view rest = bytes;
  while (rest.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, rest.data(), sizeof(header));
    rest.remove_prefix(sizeof(header));
    const size_t owner_size = Padded(header.n_namesz);
    const size_t size = Padded(header.n_descsz);
    if (owner_size > rest.size() || header.n_descsz > rest.size() - owner_size) break;
    const std::string_view owner = rest.substr(0, header.n_namesz);
    std::string_view description = rest.substr(owner_size, header.n_descsz);
    rest.remove_prefix(std::min(owner_size + size, rest.size()));
    if (header.n_type != kNoteType || owner != kOwner || description.size() < kAddressBytes) {
      continue;
    }
    // If a tool moved the file after linking, the address of the section shows by how much.
    const uint64_t linked_base = ReadWord(description, 8);
    const uint64_t moved = base != nullptr && linked_base != 0 ? base->address - linked_base : 0;
    const uint64_t semaphore = ReadWord(description, 16);
    UsdtNote note = {.name = "",
                     .arguments = "",
                     .address = ReadWord(description, 0) + moved,
                     .semaphore = semaphore == 0 ? 0 : semaphore + moved};
    description.remove_prefix(kAddressBytes);
    const auto note_provider = TakeString(description);
    const auto name = note_provider ? TakeString(description) : std::nullopt;
    const auto arguments = name ? TakeString(description) : std::nullopt;
    if (!arguments || *note_provider != provider) continue;
    if (notes.size() == kMaxPlaces) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMaxPlaces, " USDT probes of ", std::string(provider)));
    }
    note.name = *name;
    note.arguments = *arguments;
    notes.push_back(std::move(note));
  }
  return notes;
}

absl::StatusOr<profd_usdt_spec> ParseUsdtArguments(const std::string& text, int count) {
  profd_usdt_spec spec{};
  int found = 0;
  for (const absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (found == count) break;
    if (part.size() > kMaxArgument || !ParseArgument(part, spec.arguments[found])) {
      return absl::InvalidArgumentError(
          absl::StrCat("argument ", found + 1, " has an unsupported form"));
    }
    ++found;
  }
  if (found < count) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", found, " arguments, expected ", count));
  }
  return spec;
}

absl::StatusOr<std::optional<OtelMemory>> FindOtelMemory(int fd) {
  ASSIGN_OR_RETURN(const ElfFile elf, ElfFile::Open(fd));
  if (elf.machine() != EM_X86_64) return absl::InvalidArgumentError("not an x86-64 ELF file");
  const absl::StatusOr<std::vector<UsdtNote>> notes = ReadUsdtNotes(elf, kProvider);
  RETURN_IF_ERROR(notes.status());
  OtelMemory found;
  size_t refused = 0;
  size_t all = 0;
  for (const UsdtNote& note : *notes) {
    const bool alloc = note.name == "alloc";
    if (!alloc && note.name != "free") continue;
    ++all;
    absl::StatusOr<UsdtPlace> place = FindPlace(elf, note, alloc ? 3 : 1);
    if (place.ok()) {
      (alloc ? found.alloc : found.free).push_back(*std::move(place));
    } else if (++refused == 1) {
      found.note = absl::StrCat(kProvider, ":", note.name, ": ", place.status().message());
    }
  }
  if (all == 0) return std::nullopt;
  if (refused != 0) {
    found.note =
        absl::StrCat(refused, " of ", all, " places cannot be watched; the first: ", found.note);
  }
  if (found.alloc.empty() || found.free.empty()) {
    // With only one of the two, the live heap would grow for ever, or stay empty.
    if (found.note.empty()) {
      found.note =
          absl::StrCat("the module has no ", kProvider, found.alloc.empty() ? ":alloc" : ":free");
    }
    found.alloc.clear();
    found.free.clear();
  }
  return found;
}

}  // namespace profd
