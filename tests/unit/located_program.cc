#include "tests/unit/located_program.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace profd::test {
namespace {

constexpr uint64_t kHeader = 0x800;  // .eh_frame_hdr
constexpr uint64_t kRelocations = 0x8000;
constexpr uint64_t kNames = 0x9000;

void Place(Bytes& file, uint64_t offset, const Bytes& bytes) {
  file.resize(std::max<size_t>(file.size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

uint64_t LocatedProgram::AddSlice(std::string_view text) {
  const uint64_t slot = kRecords + records_.size();
  const uint64_t pointer = kStrings + strings_.size();
  strings_.insert(strings_.end(), text.begin(), text.end());
  if (pointers_ == Pointers::kRelocated) {
    relocations_.push_back(
        {slot, ELF64_R_INFO(0, R_X86_64_RELATIVE), static_cast<int64_t>(pointer)});
  }
  Put<uint64_t>(records_, pointers_ == Pointers::kInPlace ? pointer : 0);
  Put<uint64_t>(records_, text.size());
  return slot;
}

uint64_t LocatedProgram::AddLocation(std::string_view path, uint32_t line, uint32_t column) {
  const uint64_t record = AddSlice(path);
  Put<uint32_t>(records_, line);
  Put<uint32_t>(records_, column);
  return record;
}

uint64_t LocatedProgram::AddFunction(const std::vector<uint64_t>& loads, uint64_t call,
                                     uint64_t jump, const Bytes& more) {
  const uint64_t begin = kCode + code_.size();
  const auto relative = [&](const Bytes& opcode, uint64_t target) {
    Put(code_, opcode);
    Put<int32_t>(code_, static_cast<int32_t>(target - (kCode + code_.size() + sizeof(int32_t))));
  };
  code_.push_back(0x55);                                                 // push rbp
  for (const uint64_t load : loads) relative({0x48, 0x8d, 0x3d}, load);  // lea rdi, [rip+]
  if (call != 0) relative({0xe8}, call);
  if (jump != 0) relative({0xe9}, jump);
  Put(code_, more);
  Put(code_, {0x5d, 0xc3});  // pop rbp; ret
  begins_.push_back(begin);
  return begin;
}

Bytes LocatedProgram::Build() const {
  Bytes header = {1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0};
  Put<uint32_t>(header, static_cast<uint32_t>(begins_.size()));
  for (const uint64_t begin : begins_) {
    Put<int32_t>(header, static_cast<int32_t>(begin - kHeader));
    Put<int32_t>(header, 0);
  }
  Bytes relocations;
  for (const Elf64_Rela& relocation : relocations_) Put(relocations, relocation);

  Bytes file;
  Place(file, kHeader, header);
  Place(file, kCode, code_);
  Place(file, kStrings, strings_);
  Place(file, kRecords, records_);
  Place(file, kRelocations, relocations);

  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](std::string_view name, uint32_t type, uint64_t flags, uint64_t address,
                       uint64_t size) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_addr = (flags & SHF_ALLOC) != 0 ? address : 0;
    section.sh_offset = address;
    section.sh_size = size;
    names.append(name).push_back('\0');
    sections.push_back(section);
  };
  add(".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, kHeader, header.size());
  add(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, kCode, code_.size());
  add(".rodata", SHT_PROGBITS, SHF_ALLOC, kStrings, strings_.size());
  add(".data.rel.ro", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, kRecords, records_.size());
  if (!relocations.empty()) {
    add(".rela.dyn", SHT_RELA, SHF_ALLOC, kRelocations, relocations.size());
  }
  add(".shstrtab", SHT_STRTAB, 0, kNames, 0);
  sections.back().sh_size = names.size();
  Place(file, kNames, Bytes(names.begin(), names.end()));

  Elf64_Ehdr elf = {};
  std::copy_n(ELFMAG, SELFMAG, elf.e_ident);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.e_ident[EI_VERSION] = EV_CURRENT;
  elf.e_type = ET_DYN;
  elf.e_machine = EM_X86_64;
  elf.e_version = EV_CURRENT;
  elf.e_ehsize = sizeof(elf);
  elf.e_phoff = sizeof(elf);
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_shentsize = sizeof(Elf64_Shdr);
  elf.e_shoff = file.size();
  elf.e_shnum = static_cast<uint16_t>(sections.size());
  elf.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  for (const Elf64_Shdr& section : sections) Put(file, section);

  Bytes segments;
  const auto segment = [&](uint32_t type, uint32_t flags, uint64_t begin, uint64_t size) {
    Put(segments, Elf64_Phdr{type, flags, begin, begin, begin, size, size, 0x1000});
    ++elf.e_phnum;
  };
  segment(PT_LOAD, PF_R, 0, kCode);
  segment(PT_LOAD, PF_R | PF_X, kCode, code_.size());
  segment(PT_LOAD, PF_R, kStrings, strings_.size());
  segment(PT_LOAD, PF_R | PF_W, kRecords, records_.size());
  segment(PT_GNU_EH_FRAME, PF_R, kHeader, header.size());
  Bytes head;
  Put(head, elf);
  Put(head, segments);
  Place(file, 0, head);
  return file;
}

UniqueFd LocatedProgram::BuildFile() const { return FileOf(Build()); }

UniqueFd FileOf(const Bytes& bytes) {
  UniqueFd fd(memfd_create("elf", MFD_CLOEXEC));
  if (!fd.ok() ||
      write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  return fd;
}

}  // namespace profd::test
