#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {
namespace {

// The kernel limits names to 512 bytes; a longer line is not from kallsyms.
constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kBufferBytes = 64 << 10;
// No kernel function is longer, so addresses farther from a symbol do not belong to it.
constexpr uint64_t kMaxReach = 1 << 20;

struct Line {
  uint64_t address = 0;
  char type = 0;
  std::string_view name;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// "ffffffff81000000 T _text" or "ffffffffc0001000 t init\t[module]".
bool ParseLine(std::string_view text, Line* line) {
  size_t i = 0;
  uint64_t address = 0;
  for (; i < text.size() && i < 16 && HexDigit(text[i]) >= 0; ++i) {
    address = address << 4 | static_cast<uint64_t>(HexDigit(text[i]));
  }
  if (i == 0 || text.size() < i + 4 || text[i] != ' ' || text[i + 2] != ' ') return false;
  line->address = address;
  line->type = text[i + 1];
  text.remove_prefix(i + 3);
  line->name = text.substr(0, text.find('\t'));
  return !line->name.empty();
}

bool IsText(char type) { return type == 't' || type == 'T' || type == 'w' || type == 'W'; }

struct Slot {
  uint64_t address = 0;  // of the last symbol at or before the wanted address
  char type = 0;         // 0: none
  std::string name;
};

// Text symbols beat data, exported ones beat local ones, then the better name wins.
bool Better(const Line& line, const Slot& slot) {
  if (IsText(line.type) != IsText(slot.type)) return IsText(line.type);
  const bool line_local = line.type == 't';
  const bool slot_local = slot.type == 't';
  if (line_local != slot_local) return slot_local;
  return symbolize::BetterName(line.name, slot.name);
}

class Lookup {
 public:
  explicit Lookup(std::vector<uint64_t> wanted)
      : wanted_(std::move(wanted)), slots_(wanted_.size()) {}

  void Add(const Line& line) {
    any_ = true;
    visible_ |= line.address != 0;
    if (line.name == "_text") text_begin_ = line.address;
    if (line.name == "_etext") text_end_ = line.address;
    // Stored at the first address that it can name; Names() carries it on.
    const auto at = std::lower_bound(wanted_.begin(), wanted_.end(), line.address);
    if (at == wanted_.end()) return;
    Slot& slot = slots_[static_cast<size_t>(at - wanted_.begin())];
    if (slot.type != 0 && line.address < slot.address) return;
    if (slot.type != 0 && line.address == slot.address && !Better(line, slot)) return;
    slot.address = line.address;
    slot.type = line.type;
    slot.name.assign(line.name);
  }

  bool Hidden() const { return any_ && !visible_; }
  uint64_t text_begin() const { return text_begin_; }
  uint64_t text_end() const { return text_end_; }

  // One name per wanted address; "" if unknown.
  std::vector<std::string> Names() {
    std::vector<std::string> names(wanted_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].type == 0 && i > 0) slots_[i] = slots_[i - 1];
      const Slot& slot = slots_[i];
      if (!IsText(slot.type) || wanted_[i] - slot.address >= kMaxReach) continue;
      names[i] = symbolize::Printable(Demangle(slot.name));
    }
    return names;
  }

 private:
  std::vector<uint64_t> wanted_;  // ascending, each once
  std::vector<Slot> slots_;
  uint64_t text_begin_ = 0, text_end_ = 0;
  bool any_ = false;
  bool visible_ = false;
};

absl::Status ReadLines(int fd, const std::string& path, Lookup* lookup) {
  std::vector<char> buffer(kBufferBytes);
  size_t used = 0;
  bool skip = false;  // within a line that is too long
  while (true) {
    const ssize_t n = read(fd, buffer.data() + used, buffer.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(absl::StrCat("read ", path), errno);
    used += static_cast<size_t>(n);
    size_t begin = 0;
    while (begin < used) {
      const void* newline = std::memchr(buffer.data() + begin, '\n', used - begin);
      if (newline == nullptr && n > 0) break;
      const size_t end =
          newline == nullptr
              ? used
              : static_cast<size_t>(static_cast<const char*>(newline) - buffer.data());
      Line line;
      if (!skip && ParseLine({buffer.data() + begin, end - begin}, &line)) lookup->Add(line);
      skip = false;
      begin = end + 1;
    }
    if (n == 0) return absl::OkStatus();
    used -= std::min(begin, used);
    std::memmove(buffer.data(), buffer.data() + begin, used);
    if (used > kMaxLineBytes) {
      skip = true;
      used = 0;
    }
  }
}

}  // namespace

absl::StatusOr<KernelSymbols> SymbolizeKernel(std::span<const uint64_t> addresses,
                                              const std::string& path) {
  if (addresses.empty()) return KernelSymbols();
  std::vector<uint64_t> wanted(addresses.begin(), addresses.end());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());

  ASSIGN_OR_RETURN(UniqueFd fd, OpenReadOnly(path));
  Lookup lookup(wanted);
  RETURN_IF_ERROR(ReadLines(fd.get(), path, &lookup));
  if (lookup.Hidden()) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel names are hidden: ", path,
                     " shows no addresses; run profd with CAP_SYSLOG and kernel.kptr_restrict "
                     "below 2"));
  }
  const std::vector<std::string> names = lookup.Names();

  KernelSymbols result = {
      .symbols = {}, .text_begin = lookup.text_begin(), .text_end = lookup.text_end()};
  result.symbols.reserve(addresses.size());
  for (const uint64_t address : addresses) {
    const auto at = std::lower_bound(wanted.begin(), wanted.end(), address) - wanted.begin();
    const std::string& name = names[static_cast<size_t>(at)];
    const bool in_text = result.text_begin <= address && address < result.text_end;
    const uint64_t place = in_text ? address - result.text_begin : address;
    result.symbols.push_back(
        {.function = name.empty() ? symbolize::ModuleOffset("kernel", place) : name,
         .kind = FrameKind::kKernel});
  }
  return result;
}

}  // namespace profd
