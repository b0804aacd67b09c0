#include "daemon/symbolize/infer/locations.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/symbolize/infer/location_reader.h"

namespace profd::symbolize {
namespace {

// Where the path of the file does not tell the crate, something else may.
void SettleCrate(const LocationReader& reader, std::string_view own_crate, SourceFile* file) {
  const bool exact = file->origin == SourceFile::Origin::kStandard ||
                     file->origin == SourceFile::Origin::kRegistry;
  if (const auto learned = reader.CrateOfRoot(file->root); learned && !exact) {
    file->crate = *learned;
    if (file->crate.empty()) {
      const size_t end = file->modules.find("::");
      file->crate = file->modules.substr(0, end);
      file->modules.erase(0, end == std::string::npos ? end : end + 2);
    }
  }
  if (file->crate.empty()) file->crate = own_crate;
}

}  // namespace

LocationTable LocationTable::Read(const ElfFile& elf, std::string_view own_crate) {
  LocationReader reader(&elf);
  reader.ReadAll();

  LocationTable table;
  absl::flat_hash_map<std::string, uint32_t> crates;
  for (SourceFile file : reader.files()) {
    SettleCrate(reader, own_crate, &file);
    const auto [crate, is_new] =
        crates.try_emplace(file.crate, static_cast<uint32_t>(crates.size()));
    if (is_new) table.crates_.push_back(file.crate);
    table.files_.push_back(
        {absl::StrCat(file.crate, file.modules.empty() ? "" : "::", file.modules), crate->second,
         file.origin});
  }
  for (const LocationReader::Record& record : reader.TakeRecords()) {
    table.records_.push_back({record.address, record.file, record.line});
  }
  const auto less = [](const Record& a, const Record& b) { return a.address < b.address; };
  const auto same = [](const Record& a, const Record& b) { return a.address == b.address; };
  std::sort(table.records_.begin(), table.records_.end(), less);
  table.records_.erase(std::unique(table.records_.begin(), table.records_.end(), same),
                       table.records_.end());
  table.records_.shrink_to_fit();
  return table;
}

std::vector<uint32_t> LocationTable::RecordsOfCrates() const {
  std::vector<uint32_t> counts(crates_.size());
  for (const Record& record : records_) ++counts[files_[record.file].crate];
  return counts;
}

std::optional<uint32_t> LocationTable::FileAt(uint64_t address) const {
  const std::optional<LocatedLine> line = LineAt(address);
  return line ? std::optional(line->file) : std::nullopt;
}

std::vector<uint32_t> LocationTable::LinesOf(uint32_t file) const {
  std::vector<uint32_t> lines;
  for (const Record& record : records_) {
    if (record.file == file) lines.push_back(record.line);
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

std::optional<LocatedLine> LocationTable::LineAt(uint64_t address) const {
  if (records_.empty() || address > records_.back().address) return std::nullopt;
  const auto at =
      std::lower_bound(records_.begin(), records_.end(), address,
                       [](const Record& record, uint64_t value) { return record.address < value; });
  if (at == records_.end() || at->address != address) return std::nullopt;
  return LocatedLine{.file = at->file, .line = at->line};
}

size_t LocationTable::MemoryBytes() const {
  size_t bytes = records_.capacity() * sizeof(Record);
  for (const LocatedFile& file : files_) bytes += sizeof(file) + file.module.capacity();
  for (const std::string& crate : crates_) bytes += sizeof(std::string) + crate.capacity();
  return bytes;
}

}  // namespace profd::symbolize
