#include "daemon/symbolize/infer/location_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"

namespace profd::symbolize {
namespace {

constexpr uint64_t kMaxPointers = 4 << 20;
constexpr size_t kMaxRecords = 1 << 20;
constexpr size_t kMaxFiles = 1 << 15;
constexpr uint64_t kMaxPath = 1024;
constexpr uint32_t kMaxLine = 10'000'000;
constexpr uint32_t kMaxColumn = 100'000;
constexpr uint64_t kMaxModulePath = 256;
constexpr size_t kMaxRoots = 4096;
constexpr uint64_t kMaxScanned = 256 << 20;  // bytes of data without relocations
constexpr std::string_view kSuffix = ".rs";
constexpr uint32_t kNoFile = UINT32_MAX;
// A path and the name of its module lie in one tracing::Metadata, which has about this size.
constexpr uint64_t kMetadataBytes = 96;

// A core::panic::Location: pointer and length of the path, and this.
struct Position {
  uint32_t line = 0;
  uint32_t column = 0;
};
constexpr uint64_t kLengthOffset = 8;
constexpr uint64_t kPositionOffset = 16;

bool IsModuleName(std::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c == '_' || absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

// Which crate has the source file in a module of this path; "" if its first module is the crate's
// name. None if the path does not fit the file.
std::optional<std::string> FitModules(const SourceFile& file, std::string_view module_path) {
  const std::vector<std::string_view> path = SplitText(module_path, "::");
  if (!std::all_of(path.begin(), path.end(), IsModuleName)) return std::nullopt;
  const std::vector<std::string_view> modules = SplitText(file.modules, "::");
  const auto fits = [&](size_t at) {
    return path.size() >= at + modules.size() &&
           std::equal(modules.begin(), modules.end(),
                      path.begin() + static_cast<std::ptrdiff_t>(at));
  };
  if (!path.empty() && fits(1)) return std::string(path[0]);
  if (!modules.empty() && fits(0)) return "";
  return std::nullopt;
}

}  // namespace

void LocationReader::ReadAll() {
  for (const Section& section : elf_->sections()) {
    if (section.type == SHT_RELA && (section.flags & SHF_ALLOC) != 0) ReadRelocations(section);
  }
  const bool relocated = pointers_ > 0;
  uint64_t scanned = 0;
  for (const DataRange& range : data_.ranges()) {
    if (relocated && !range.writable) continue;
    if (range.size > kMaxScanned - scanned) break;
    scanned += range.size;
    ScanRange(range);
  }
}

void LocationReader::ReadRelocations(const Section& section) {
  constexpr uint64_t kEntry = sizeof(Elf64_Rela);
  // What can be read before an error counts.
  const absl::Status unused = elf_->ReadPieces(
      {section.offset, section.size}, kEntry - 1, [&](uint64_t at, std::string_view bytes) {
        // Pieces overlap by less than an entry: begin with the first whole one.
        const uint64_t skip = (kEntry - (at - section.offset) % kEntry) % kEntry;
        for (uint64_t i = skip; i + kEntry <= bytes.size(); i += kEntry) {
          Elf64_Rela entry;
          std::memcpy(&entry, bytes.data() + i, sizeof(entry));
          if (ELF64_R_TYPE(entry.r_info) != R_X86_64_RELATIVE) continue;
          if (++pointers_ > kMaxPointers) return false;
          Consider(entry.r_offset, static_cast<uint64_t>(entry.r_addend));
        }
        return true;
      });
  (void)unused;
}

void LocationReader::ScanRange(const DataRange& range) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  std::array<uint64_t, 512> words;
  const uint64_t end = range.address + range.size;
  for (uint64_t at = (range.address + kWord - 1) / kWord * kWord; at < end; at += sizeof(words)) {
    const auto count = static_cast<size_t>(std::min<uint64_t>((end - at) / kWord, words.size()));
    if (count == 0 || !data_.Read(at, words.data(), count * kWord)) return;
    for (size_t i = 0; i < count; ++i) {
      if (words[i] != 0) Consider(at + i * kWord, words[i]);
    }
  }
}

// The word at `slot` is `pointer` when the program runs.
void LocationReader::Consider(uint64_t slot, uint64_t pointer) {
  Slice slice{.slot = slot, .pointer = pointer};
  const DataRange* text = data_.Find(pointer, 1);
  if (text == nullptr || text->writable || slot > UINT64_MAX - kPositionOffset ||
      !data_.Read(slot + kLengthOffset, &slice.length, sizeof(slice.length)) || slice.length == 0 ||
      slice.length > kMaxPath) {
    return;
  }
  const std::optional<uint32_t> file = FileOf(slice);
  if (!file) {
    if (path_ && slot - path_->first <= kMetadataBytes) Learn(path_->second, slice);
    recent_[next_recent_++ % recent_.size()] = slice;
    return;
  }
  Position position;
  if (data_.Read(slot + kPositionOffset, &position, sizeof(position)) && position.line > 0 &&
      position.line <= kMaxLine && position.column > 0 && position.column <= kMaxColumn) {
    if (records_.size() < kMaxRecords) records_.push_back({slot, *file, position.line});
    return;
  }
  path_ = {slot, *file};
  for (const Slice& other : recent_) {
    if (other.slot != 0 && slot - other.slot <= kMetadataBytes) Learn(*file, other);
  }
}

// The source file that the string names; none if it is no path.
std::optional<uint32_t> LocationReader::FileOf(const Slice& slice) {
  char end[kSuffix.size() + 1] = {};
  const auto size = static_cast<size_t>(std::min<uint64_t>(slice.length, sizeof(end)));
  if (!data_.Read(slice.pointer + slice.length - size, end, size)) return std::nullopt;
  std::string_view tail(end, size);
  // Some versions of Rust count the NUL at the end of the path.
  if (tail.back() == '\0') tail.remove_suffix(1);
  if (!tail.ends_with(kSuffix)) return std::nullopt;
  const auto known = by_slice_.find({slice.pointer, slice.length});
  const uint32_t file = known != by_slice_.end() ? known->second : InternPath(slice);
  return file == kNoFile ? std::nullopt : std::optional(file);
}

uint32_t LocationReader::InternPath(const Slice& slice) {
  if (by_slice_.size() >= kMaxFiles) return kNoFile;
  uint32_t& file = by_slice_[{slice.pointer, slice.length}];
  file = kNoFile;
  std::string path(slice.length, '\0');
  if (!data_.Read(slice.pointer, path.data(), path.size())) return kNoFile;
  if (path.back() == '\0') path.pop_back();
  const bool plain = std::all_of(path.begin(), path.end(),
                                 [](char c) { return static_cast<unsigned char>(c) >= ' '; });
  if (!plain) return kNoFile;
  const auto [at, is_new] =
      by_path_.try_emplace(std::move(path), static_cast<uint32_t>(files_.size()));
  if (is_new) files_.push_back(ParseSourcePath(at->first));
  return file = at->second;
}

void LocationReader::Learn(uint32_t index, const Slice& slice) {
  const SourceFile& file = files_[index];
  if (slice.length > kMaxModulePath || file.origin == SourceFile::Origin::kStandard ||
      file.origin == SourceFile::Origin::kRegistry) {
    return;
  }
  std::string text(slice.length, '\0');
  if (!data_.Read(slice.pointer, text.data(), text.size())) return;
  const std::optional<std::string> crate = FitModules(file, text);
  if (!crate) return;
  if (learned_.size() >= kMaxRoots && !learned_.contains(file.root)) return;
  ++learned_[file.root][*crate];
}

std::optional<std::string> LocationReader::CrateOfRoot(const std::string& root) const {
  const auto found = learned_.find(root);
  if (found == learned_.end()) return std::nullopt;
  return std::max_element(found->second.begin(), found->second.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace profd::symbolize
