#include "daemon/service/memory_names.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/maps_line.h"
#include "daemon/memory/process_memory.h"
#include "daemon/service/text.h"
#include "daemon/symbolize/data_names.h"
#include "daemon/target/procfs.h"

namespace profd {
namespace {

constexpr size_t kMaxMapsBytes = 16 << 20;
constexpr size_t kMaxName = 512;

std::string Hex(uint64_t address) { return absl::StrCat("0x", absl::Hex(address)); }

std::string WithOffset(std::string_view name, uint64_t offset) {
  std::string text = CleanText(name, kMaxName);
  return offset == 0 ? text : absl::StrCat(text, "+", Hex(offset));
}

bool IsOfFile(const MapsLine& mapping) { return absl::StartsWith(mapping.path, "/"); }

bool IsShared(const MapsLine& mapping) {
  return mapping.access.size() > 3 && mapping.access[3] == 's';
}

// "[heap]", "[anon:NAME]"; empty: it has no name.
std::string NameOfMapping(const MapsLine& mapping) {
  absl::string_view name = mapping.path;
  absl::ConsumePrefix(&name, "[");
  absl::ConsumeSuffix(&name, "]");
  absl::ConsumePrefix(&name, "anon:");
  return name.empty() ? "anonymous" : CleanText(std::string_view(name.data(), name.size()));
}

// The mappings of one process, ascending, as views into `text`.
class Mappings {
 public:
  explicit Mappings(std::string text) : text_(std::move(text)) {
    for (const absl::string_view line : absl::StrSplit(text_, '\n')) {
      if (const std::optional<MapsLine> mapping = ParseMapsLine(line)) lines_.push_back(*mapping);
    }
  }

  const MapsLine* Find(uint64_t address) const {
    const auto after = After(address);
    if (after == lines_.begin() || address >= std::prev(after)->end) return nullptr;
    return &*std::prev(after);
  }

  // The mapping of the first byte of the module that may have its data at `address`: that file is
  // mapped there, or before it without a gap, as for what is in no file (.bss).
  const MapsLine* ModuleAt(uint64_t address) const {
    auto at = After(address);
    while (at != lines_.begin() && !IsOfFile(*std::prev(at))) {
      const auto last = std::prev(at);
      if (last == lines_.begin() || std::prev(last)->end != last->begin) return nullptr;
      at = last;
    }
    if (at == lines_.begin()) return nullptr;
    const absl::string_view path = std::prev(at)->path;
    while (at != lines_.begin()) {
      --at;
      if (at->path == path && at->file_offset == 0) return &*at;
    }
    return nullptr;
  }

 private:
  std::vector<MapsLine>::const_iterator After(uint64_t address) const {
    return std::upper_bound(lines_.begin(), lines_.end(), address,
                            [](uint64_t a, const MapsLine& mapping) { return a < mapping.begin; });
  }

  const std::string text_;
  std::vector<MapsLine> lines_;
};

// Gives names to the places that lie in the data of one module.
void NameInModule(int32_t pid, const MapsLine& first, std::span<const uint64_t> addresses,
                  std::span<const size_t> which, std::vector<MemoryName>* names) {
  const absl::StatusOr<MappedModule> module = OpenMapping(pid, first.begin, first.end);
  if (!module.ok()) return;
  const ModuleExtent extent = ExtentOf(module->fd.get());
  std::vector<size_t> inside;
  std::vector<uint64_t> places;
  for (const size_t i : which) {
    const uint64_t place = addresses[i] - first.begin + extent.base;
    if (place < extent.begin || place >= extent.end) continue;
    inside.push_back(i);
    places.push_back(place);
  }
  if (places.empty()) return;
  const std::vector<DataName> found = NameData(module->fd.get(), module->path, places);
  const std::string file(BaseName(module->path));
  for (size_t k = 0; k < inside.size(); k++) {
    (*names)[inside[k]].text =
        found[k].variable.empty()
            ? WithOffset(file, places[k])
            : WithOffset(absl::StrCat(file, ":", found[k].variable), found[k].offset);
  }
}

}  // namespace

std::vector<MemoryName> MemoryNames::Name(const ProcessId& process,
                                          std::span<const uint64_t> addresses) {
  std::vector<MemoryName> names;
  names.reserve(addresses.size());
  for (const uint64_t address : addresses) names.push_back({.text = Hex(address)});
  // Without its start it could be any process that had the PID.
  if (process.start_ns == 0 || addresses.empty()) return names;
  const absl::StatusOr<ProcessDirectory> directory =
      ProcessDirectory::Open(proc_, process.pid, process.start_ns);
  if (!directory.ok()) return names;
  absl::StatusOr<std::string> text =
      directory->Read("maps", std::min<uint64_t>(kMaxMapsBytes, maps_bytes_left_));
  if (!text.ok()) return names;
  maps_bytes_left_ -= std::min<uint64_t>(maps_bytes_left_, text->size());

  const Mappings mappings(*std::move(text));
  std::map<const MapsLine*, std::vector<size_t>> modules;  // by their first mapping
  for (size_t i = 0; i < addresses.size(); i++) {
    const MapsLine* mapping = mappings.Find(addresses[i]);
    if (mapping == nullptr) continue;
    if (IsShared(*mapping)) {
      const absl::string_view path = absl::StripSuffix(mapping->path, " (deleted)");
      names[i].shared = true;
      names[i].text = WithOffset(BaseName(std::string_view(path.data(), path.size())),
                                 mapping->file_offset + (addresses[i] - mapping->begin));
      continue;
    }
    if (!IsOfFile(*mapping)) {
      names[i].text = absl::StrCat(NameOfMapping(*mapping), " ", Hex(addresses[i]));
    }
    if (const MapsLine* first = mappings.ModuleAt(addresses[i])) modules[first].push_back(i);
  }
  for (const auto& [first, which] : modules) {
    if (modules_left_ == 0) break;
    modules_left_--;
    NameInModule(process.pid, *first, addresses, which, &names);
  }
  return names;
}

}  // namespace profd
