// Makes small ELF files with chosen unwind information, byte by byte.
#ifndef PROFD_TESTS_UNIT_ELF_BUILDER_H_
#define PROFD_TESTS_UNIT_ELF_BUILDER_H_

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace profd::test {

using Bytes = std::vector<uint8_t>;

template <typename T>
void Put(Bytes& out, T value) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), begin, begin + sizeof(value));
}

inline void Put(Bytes& out, const Bytes& bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

inline Bytes Uleb(uint64_t value) {
  Bytes out;
  do {
    const uint8_t low = value & 0x7f;
    value >>= 7;
    out.push_back(value != 0 ? low | 0x80 : low);
  } while (value != 0);
  return out;
}

inline Bytes Sleb(int64_t value) {
  Bytes out;
  for (bool more = true; more;) {
    const uint8_t low = value & 0x7f;
    value >>= 7;
    more = !((value == 0 && (low & 0x40) == 0) || (value == -1 && (low & 0x40) != 0));
    out.push_back(more ? low | 0x80 : low);
  }
  return out;
}

// Joins bytes and byte strings.
inline Bytes Join(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) Put(out, part);
  return out;
}

// Where the one code segment lies: addresses and file offsets differ by kAddressBias.
inline constexpr uint64_t kTextOffset = 0x1000;
inline constexpr uint64_t kTextSize = 0x1000;
inline constexpr uint64_t kAddressBias = 0x400000;
inline constexpr uint64_t kText = kTextOffset + kAddressBias;
inline constexpr uint64_t kFrameOffset = 0x2000;
inline constexpr uint64_t kFrameAddress = kFrameOffset + kAddressBias;

// The usual first instructions: CFA = rsp + 8, return address at CFA - 8.
inline Bytes DefaultInitial() { return {0x0c, 7, 8, 0x80 | 16, 1}; }

// An .eh_frame at kFrameAddress.
class FrameBuilder {
 public:
  // Returns the position to name in AddFunction. `data` is the augmentation's.
  uint32_t AddCommon(const Bytes& initial = DefaultInitial(), std::string_view augmentation = "zR",
                     const Bytes& data = {0x1b}, uint8_t version = 1) {
    Bytes body;
    Put<uint32_t>(body, 0);
    body.push_back(version);
    body.insert(body.end(), augmentation.begin(), augmentation.end());
    body.push_back(0);
    if (version == 4) Put(body, Bytes{8, 0});
    Put(body, Bytes{1, 0x78, 16});  // code 1, data -8, return address in column 16
    if (!augmentation.empty() && augmentation[0] == 'z') Put(body, Uleb(data.size()));
    Put(body, data);
    Put(body, initial);
    return AddRecord(body);
  }

  // With pc-relative 4-byte pointers.
  uint32_t AddFunction(uint32_t common, uint64_t address, uint32_t size, const Bytes& program) {
    Bytes pointers;
    Put<int32_t>(pointers, static_cast<int32_t>(address - (kFrameAddress + position() + 8)));
    Put<uint32_t>(pointers, size);
    return AddEncodedFunction(common, pointers, program);
  }

  // With `pointers` as the encoded begin and size.
  uint32_t AddEncodedFunction(uint32_t common, const Bytes& pointers, const Bytes& program) {
    Bytes body;
    Put<uint32_t>(body, position() + 4 - common);
    Put(body, pointers);
    body.push_back(0);  // augmentation data
    Put(body, program);
    return AddRecord(body);
  }

  uint32_t AddRecord(const Bytes& body) {
    const uint32_t start = position();
    Put<uint32_t>(bytes_, static_cast<uint32_t>(body.size()));
    Put(bytes_, body);
    return start;
  }

  void AddRaw(const Bytes& raw) { Put(bytes_, raw); }
  uint32_t position() const { return static_cast<uint32_t>(bytes_.size()); }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

struct ElfOptions {
  uint16_t type = ET_DYN;
  uint64_t entry = 0;
  bool interpreter = false;
  bool needed = false;
  bool sections = true;
  bool frame_segment = false;  // PT_GNU_EH_FRAME, and a header in front of the code
  uint64_t code_file_offset = kTextOffset;
  struct Symbol {
    std::string name;
    uint64_t address;
    uint64_t size;
    uint8_t type = STT_FUNC;
    uint8_t binding = STB_GLOBAL;
    uint16_t section = 1;
  };
  std::vector<Symbol> symbols{};
  std::vector<Symbol> dynamic_symbols{};  // without any there is no such table
  Bytes code{};                           // at kText
  Bytes go_table{};                       // in .gopclntab; without any there is no such section
  uint64_t plt = 0, plt_size = 0;         // address and size of .plt; without any there is none
};

inline Bytes BuildElf(const Bytes& frames, const ElfOptions& options = {}) {
  constexpr uint64_t kFrameHeaderOffset = 0x800;
  constexpr uint64_t kDynamicOffset = 0x900;
  Bytes file(kFrameOffset);
  std::copy(options.code.begin(), options.code.end(), file.begin() + kTextOffset);
  Put(file, frames);

  std::vector<Elf64_Phdr> segments;
  const auto add_segment = [&](uint32_t type, uint32_t flags, uint64_t offset, uint64_t address,
                               uint64_t size) {
    segments.push_back({type, flags, offset, address, address, size, size, 1});
  };
  add_segment(PT_LOAD, PF_R, 0, kAddressBias, kTextOffset);
  add_segment(PT_LOAD, PF_R | PF_X, options.code_file_offset, kText, kTextSize);
  add_segment(PT_LOAD, PF_R, kFrameOffset, kFrameAddress, frames.size());
  if (options.interpreter) add_segment(PT_INTERP, PF_R, 0, kAddressBias, 1);
  if (options.needed) {
    const Elf64_Dyn entries[2] = {{DT_NEEDED, {1}}, {DT_NULL, {0}}};
    std::memcpy(file.data() + kDynamicOffset, entries, sizeof(entries));
    add_segment(PT_DYNAMIC, PF_R, kDynamicOffset, kAddressBias + kDynamicOffset, sizeof(entries));
  }
  if (options.frame_segment) {
    Bytes header = {1, 0x1b, 0xff, 0xff};  // pc-relative sdata4, no table
    Put<int32_t>(header, static_cast<int32_t>(kFrameOffset - (kFrameHeaderOffset + 4)));
    std::memcpy(file.data() + kFrameHeaderOffset, header.data(), header.size());
    add_segment(PT_GNU_EH_FRAME, PF_R, kFrameHeaderOffset, kAddressBias + kFrameHeaderOffset,
                header.size());
  }

  Elf64_Ehdr elf = {};
  std::memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.e_ident[EI_VERSION] = EV_CURRENT;
  elf.e_type = options.type;
  elf.e_machine = EM_X86_64;
  elf.e_version = EV_CURRENT;
  elf.e_entry = options.entry;
  elf.e_phoff = sizeof(elf);
  elf.e_ehsize = sizeof(elf);
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = static_cast<uint16_t>(segments.size());
  elf.e_shentsize = sizeof(Elf64_Shdr);

  if (options.sections) {
    std::string names(1, '\0');
    std::vector<Elf64_Shdr> sections(1);
    const auto add_section = [&](const char* name, uint32_t type, uint64_t flags, uint64_t address,
                                 uint64_t offset, uint64_t size) {
      Elf64_Shdr section = {};
      section.sh_name = static_cast<uint32_t>(names.size());
      section.sh_type = type;
      section.sh_flags = flags;
      section.sh_addr = address;
      section.sh_offset = offset;
      section.sh_size = size;
      names.append(name).push_back('\0');
      sections.push_back(section);
    };
    add_section(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, kText, kTextOffset, kTextSize);
    add_section(".eh_frame", SHT_PROGBITS, SHF_ALLOC, kFrameAddress, kFrameOffset, frames.size());
    if (options.plt_size != 0) {
      add_section(".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, options.plt,
                  options.plt - kText + kTextOffset, options.plt_size);
    }
    if (!options.go_table.empty()) {
      add_section(".gopclntab", SHT_PROGBITS, SHF_ALLOC, 0, file.size(), options.go_table.size());
      Put(file, options.go_table);
    }
    const auto add_symbols = [&](const char* strings_name, const char* table_name, uint32_t type,
                                 const std::vector<ElfOptions::Symbol>& table) {
      std::string strings(1, '\0');
      Bytes symbols(sizeof(Elf64_Sym));
      for (const ElfOptions::Symbol& symbol : table) {
        Elf64_Sym entry = {};
        entry.st_name = static_cast<uint32_t>(strings.size());
        entry.st_info = static_cast<uint8_t>(ELF64_ST_INFO(symbol.binding, symbol.type));
        entry.st_shndx = symbol.section;
        entry.st_value = symbol.address;
        entry.st_size = symbol.size;
        strings.append(symbol.name).push_back('\0');
        Put(symbols, entry);
      }
      add_section(strings_name, SHT_STRTAB, 0, 0, file.size(), strings.size());
      file.insert(file.end(), strings.begin(), strings.end());
      const auto link = static_cast<uint32_t>(sections.size() - 1);
      add_section(table_name, type, 0, 0, file.size(), symbols.size());
      sections.back().sh_link = link;
      sections.back().sh_entsize = sizeof(Elf64_Sym);
      Put(file, symbols);
    };
    add_symbols(".strtab", ".symtab", SHT_SYMTAB, options.symbols);
    if (!options.dynamic_symbols.empty()) {
      add_symbols(".dynstr", ".dynsym", SHT_DYNSYM, options.dynamic_symbols);
    }
    add_section(".shstrtab", SHT_STRTAB, 0, 0, file.size(), 0);
    sections.back().sh_size = names.size();
    file.insert(file.end(), names.begin(), names.end());
    elf.e_shoff = file.size();
    elf.e_shnum = static_cast<uint16_t>(sections.size());
    elf.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
    for (const Elf64_Shdr& section : sections) Put(file, section);
  }

  std::memcpy(file.data(), &elf, sizeof(elf));
  std::memcpy(file.data() + elf.e_phoff, segments.data(), segments.size() * sizeof(segments[0]));
  return file;
}

}  // namespace profd::test

#endif  // PROFD_TESTS_UNIT_ELF_BUILDER_H_
