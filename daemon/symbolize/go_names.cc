#include "daemon/symbolize/go_names.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace profd::symbolize {

std::optional<GoTable> OpenGoTable(const ElfFile& elf) {
  const Section* section = nullptr;
  for (const std::string_view name : kGoTableSections) {
    if (section == nullptr) section = elf.FindSectionByName(name);
  }
  if (section == nullptr) return std::nullopt;
  GoPlaces places = {.table = section->offset, .table_size = section->size};
  if (const Section* module = elf.FindSectionByName(kGoModuleSection)) {
    places.module = module->offset;
  }
  if (const Section* text = elf.FindSectionByName(kGoTextSection)) places.text = text->address;
  return GoTable::Open(
      places,
      [&elf](uint64_t offset, std::span<uint8_t> out) {
        return elf.Read(offset, out.data(), out.size()).ok();
      },
      [&elf](uint64_t address) -> std::optional<uint64_t> {
        const std::optional<FileRange> code = elf.CodeAt(address);
        return code ? std::optional(code->offset) : std::nullopt;
      });
}

}  // namespace profd::symbolize
