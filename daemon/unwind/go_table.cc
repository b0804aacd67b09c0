#include "daemon/unwind/go_table.h"

#include <algorithm>
#include <array>
#include <limits>

#include "daemon/unwind/byte_reader.h"

namespace profd {
namespace {

constexpr uint32_t kGo118Magic = 0xfffffff0;
constexpr uint32_t kGo120Magic = 0xfffffff1;
constexpr uint8_t kPointerSize = 8;
constexpr size_t kHeaderSize = 72;
constexpr size_t kEntrySize = 8;
// A description without its tables. Its parts: entryOff, nameOff, args, deferreturn, pcsp, pcfile,
// pcln, npcdata, cuOffset, startLine (4 bytes each), funcID, flag.
constexpr size_t kDescriptionSize = 44;
constexpr uint8_t kFlagTopFrame = 1, kFlagSetsStack = 2;

// In runtime.moduledata, the address from which functions are counted: after the address of the
// header, six slices, and three addresses.
constexpr uint64_t kModuleText = 8 + 6 * 24 + 3 * 8;

constexpr size_t kMaxName = 512;
constexpr uint32_t kMaxFunctions = 1 << 22;

// Go's linker fills the room between functions with this instruction, INT3.
constexpr uint8_t kPadding = 0xcc;
constexpr uint32_t kProbes = 64;

// A number of a table of changes: seven bits a byte, the lowest first, at most 32 in all.
class Changes {
 public:
  Changes(const GoTable::Read* read, uint64_t at, uint64_t end) : read_(read), at_(at), end_(end) {}

  std::optional<uint32_t> Next() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (used_ == filled_ && !Fill()) return std::nullopt;
      const uint8_t byte = buffer_[used_++];
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return static_cast<uint32_t>(value);
    }
    return std::nullopt;
  }

 private:
  bool Fill() {
    filled_ = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), end_ - std::min(at_, end_)));
    used_ = 0;
    if (filled_ == 0 || !(*read_)(at_, std::span(buffer_).first(filled_))) return false;
    at_ += filled_;
    return true;
  }

  const GoTable::Read* read_;
  uint64_t at_, end_;
  std::array<uint8_t, 64> buffer_{};
  size_t filled_ = 0, used_ = 0;
};

}  // namespace

std::optional<GoTable> GoTable::Open(const GoPlaces& places, Read read, CodeOffset code_offset) {
  GoTable table(std::move(read), std::move(code_offset));
  if (!table.ReadHeader(places) || !table.FindText(places)) return std::nullopt;
  return table;
}

bool GoTable::ReadHeader(const GoPlaces& places) {
  std::array<uint8_t, kHeaderSize> bytes;
  if (places.table_size < bytes.size() || !read_(places.table, bytes)) return false;
  ByteReader reader(bytes);
  const auto magic = reader.Read<uint32_t>();
  const auto zeros = reader.Read<uint16_t>();
  const auto quantum = reader.Read<uint8_t>();
  const auto pointer_size = reader.Read<uint8_t>();
  if ((magic != kGo118Magic && magic != kGo120Magic) || zeros != 0 || quantum != 1 ||
      pointer_size != kPointerSize) {
    return false;
  }
  const auto count = reader.Read<uint64_t>();
  reader.Read<uint64_t>();  // files
  header_text_ = reader.Read<uint64_t>();
  const auto names = reader.Read<uint64_t>();
  reader.Read<uint64_t>();  // compilation units
  reader.Read<uint64_t>();  // names of files
  const auto depths = reader.Read<uint64_t>();
  const auto functions = reader.Read<uint64_t>();
  // The last entry says where the last function ends.
  const uint64_t size = places.table_size;
  if (count == 0 || count > kMaxFunctions || names > size || depths > size || functions > size ||
      (count + 1) * kEntrySize > size - functions) {
    return false;
  }
  count_ = static_cast<uint32_t>(count);
  names_ = places.table + names;
  depths_ = places.table + depths;
  functions_ = places.table + functions;
  end_ = places.table + size;
  return true;
}

// Each version keeps it somewhere else; a table that is relocated at its start, nowhere in the
// file.
bool GoTable::FindText(const GoPlaces& places) {
  uint64_t of_module = 0;
  std::array<uint8_t, 8> bytes;
  if (places.module != 0 && read_(places.module + kModuleText, bytes)) {
    of_module = ByteReader(bytes).Read<uint64_t>();
  }
  for (const uint64_t text : {header_text_, of_module, places.text}) {
    if (text == 0 || !FitsCode(text)) continue;
    text_ = text;
    return true;
  }
  return false;
}

// Whether functions begin where the table says: after padding, if the one before has any.
bool GoTable::FitsCode(uint64_t text) const {
  uint32_t probed = 0, padded = 0;
  const uint32_t step = std::max<uint32_t>(1, count_ / kProbes);
  for (uint32_t i = 0; i < count_; i += step) {
    const std::optional<Entry> entry = EntryAt(i);
    if (!entry) return false;
    const std::optional<uint64_t> code = code_offset_(text + entry->begin);
    if (!code) return false;
    std::array<uint8_t, 1> before;
    if (entry->begin == 0 || !read_(*code - 1, before)) continue;
    ++probed;
    padded += before[0] == kPadding ? 1 : 0;
  }
  // Of functions, one in 32 fills its place.
  return padded * 2 >= probed;
}

std::optional<GoTable::Entry> GoTable::EntryAt(uint32_t index) const {
  std::array<uint8_t, kEntrySize> bytes;
  if (index > count_ || !read_(functions_ + uint64_t{index} * kEntrySize, bytes)) {
    return std::nullopt;
  }
  ByteReader reader(bytes);
  Entry entry;
  entry.begin = reader.Read<uint32_t>();
  // The last entry has none.
  if (index < count_) entry.description = reader.Read<uint32_t>();
  return entry;
}

std::optional<GoFunction> GoTable::At(uint32_t index) const {
  const std::optional<Entry> entry = EntryAt(index);
  const std::optional<Entry> next = EntryAt(index + 1);
  if (!entry || !next || next->begin <= entry->begin) return std::nullopt;
  std::array<uint8_t, kDescriptionSize> bytes;
  const uint64_t at = functions_ + entry->description;
  if (at + bytes.size() > end_ || !read_(at, bytes)) return std::nullopt;
  ByteReader reader(bytes);
  GoFunction function = {.begin = text_ + entry->begin, .end = text_ + next->begin};
  if (reader.Read<uint32_t>() != entry->begin) return std::nullopt;
  function.name = reader.Read<uint32_t>();
  reader.Read<uint64_t>();  // args, deferreturn
  function.depths = reader.Read<uint32_t>();
  reader.Read<uint64_t>();  // pcfile, pcln
  reader.Read<uint64_t>();  // npcdata, cuOffset
  reader.Read<uint32_t>();  // startLine
  reader.Read<uint8_t>();   // funcID
  const auto flags = reader.Read<uint8_t>();
  function.is_root = (flags & kFlagTopFrame) != 0;
  function.sets_stack = (flags & kFlagSetsStack) != 0;
  return function;
}

std::optional<GoFunction> GoTable::Around(uint64_t address) const {
  if (address < text_ || address - text_ > std::numeric_limits<uint32_t>::max()) {
    return std::nullopt;
  }
  const auto wanted = static_cast<uint32_t>(address - text_);
  uint32_t low = 0, high = count_;  // the first entry beyond the address is in (low, high]
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const std::optional<Entry> entry = EntryAt(middle);
    if (!entry) return std::nullopt;
    (entry->begin <= wanted ? low : high) = middle;
  }
  const std::optional<GoFunction> function = At(low);
  if (!function || address < function->begin || address >= function->end) return std::nullopt;
  return function;
}

std::string GoTable::Name(const GoFunction& function) const {
  std::string name;
  std::array<uint8_t, 64> bytes;
  for (uint64_t at = names_ + function.name; at < end_ && name.size() < kMaxName;) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end_ - at));
    if (!read_(at, std::span(bytes).first(size))) return {};
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    const std::string_view piece(begin, size);
    const size_t zero = piece.find('\0');
    name += piece.substr(0, zero);
    if (zero != std::string_view::npos) break;
    at += size;
  }
  return name;
}

bool GoTable::ForEachDepth(const GoFunction& function,
                           absl::FunctionRef<void(uint64_t, uint64_t, int64_t)> stretch) const {
  // Assembly that leaves the stack as it is has no table.
  if (function.depths == 0) {
    stretch(function.begin, function.end, 0);
    return true;
  }
  Changes changes(&read_, depths_ + function.depths, end_);
  uint64_t at = function.begin;
  int64_t depth = -1;
  while (at < function.end) {
    const std::optional<uint32_t> change = changes.Next();
    // Zero ends the table, except at its start.
    if (!change || (*change == 0 && at != function.begin)) return change.has_value();
    // Zigzag: the lowest bit is the sign.
    depth += (*change & 1) != 0 ? -static_cast<int64_t>(*change >> 1) - 1
                                : static_cast<int64_t>(*change >> 1);
    const std::optional<uint32_t> length = changes.Next();
    if (!length || *length == 0) return false;
    const uint64_t next = std::min(at + *length, function.end);
    stretch(at, next, depth);
    at = next;
  }
  return true;
}

}  // namespace profd
