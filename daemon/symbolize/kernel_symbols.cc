#include "daemon/symbolize/kernel_symbols.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/fd.h"
#include "daemon/symbolize/symbol_name.h"

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

// The best symbol so far for a wanted address.
struct Slot {
  uint64_t address = 0;  // of the last symbol at or before the wanted address
  char type = 0;         // 0: none
  std::string name;
};

// Text symbols beat data, exported ones beat local ones, then the better name wins.
bool Better(char type, std::string_view name, char than_type, std::string_view than_name) {
  if (IsText(type) != IsText(than_type)) return IsText(type);
  const bool local = type == 't';
  const bool than_local = than_type == 't';
  if (local != than_local) return than_local;
  return symbolize::BetterName(name, than_name);
}

class Lookup {
 public:
  explicit Lookup(std::vector<uint64_t> wanted)
      : wanted_(std::move(wanted)), slots_(wanted_.size()) {}

  void Add(const Line& line) {
    // Stored at the first address that it can name; Names() carries it on.
    const auto at = std::lower_bound(wanted_.begin(), wanted_.end(), line.address);
    if (at == wanted_.end()) return;
    Slot& slot = slots_[static_cast<size_t>(at - wanted_.begin())];
    if (slot.type != 0 && line.address < slot.address) return;
    if (slot.type != 0 && line.address == slot.address &&
        !Better(line.type, line.name, slot.type, slot.name)) {
      return;
    }
    slot.address = line.address;
    slot.type = line.type;
    slot.name.assign(line.name);
  }

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
};

absl::Status ReadLines(int fd, const std::string& path, absl::FunctionRef<void(const Line&)> add) {
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
      if (!skip && ParseLine({buffer.data() + begin, end - begin}, &line)) add(line);
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

// The functions of the kernel's image, as they are read.
class KernelSymbolTable::Image {
 public:
  void Add(const Line& line) {
    any_ = true;
    visible_ |= line.address != 0;
    if (line.name == "_text") begin_ = line.address;
    if (line.name == "_etext") end_ = line.address;
    // Data, modules and BPF programs.
    if (line.address < begin_ || (end_ != 0 && line.address >= end_)) return;
    if (names_.size() + line.name.size() >= std::numeric_limits<uint32_t>::max()) return;
    symbols_.push_back({line.address, static_cast<uint32_t>(names_.size()),
                        static_cast<uint32_t>(line.name.size()), line.type});
    names_.append(line.name);
  }

  bool Hidden() const { return any_ && !visible_; }

  // Into the table, if it is known where the image's code lies.
  void MoveTo(KernelSymbolTable* table) {
    if (begin_ == 0 || end_ <= begin_ || end_ - begin_ > std::numeric_limits<uint32_t>::max()) {
      return;
    }
    std::erase_if(symbols_, [this](const Entry& symbol) {
      return symbol.address < begin_ || symbol.address >= end_;
    });
    const auto before = [](const Entry& a, const Entry& b) { return a.address < b.address; };
    // As the kernel writes it, it is sorted, and sorting takes as much memory again.
    if (!std::is_sorted(symbols_.begin(), symbols_.end(), before)) {
      std::stable_sort(symbols_.begin(), symbols_.end(), before);
    }
    size_t best = 0, bytes = 1;
    for (const Entry& symbol : symbols_) {
      Entry& last = symbols_[best == 0 ? 0 : best - 1];
      if (best == 0 || last.address != symbol.address) {
        symbols_[best++] = symbol;
      } else if (Better(symbol.type, NameOf(symbol), last.type, NameOf(last))) {
        last = symbol;
      }
    }
    symbols_.resize(best);
    for (const Entry& symbol : symbols_) {
      if (IsText(symbol.type)) bytes += symbol.name_size + 1;
    }
    table->text_begin_ = begin_;
    table->text_end_ = end_;
    table->functions_.reserve(symbols_.size());
    table->names_.reserve(bytes);
    table->names_.assign(1, '\0');  // of data between functions
    for (const Entry& symbol : symbols_) {
      const bool text = IsText(symbol.type);
      table->functions_.push_back({static_cast<uint32_t>(symbol.address - begin_),
                                   text ? static_cast<uint32_t>(table->names_.size()) : 0});
      if (text) table->names_.append(NameOf(symbol)).push_back('\0');
    }
  }

 private:
  struct Entry {
    uint64_t address;
    uint32_t name, name_size;
    char type;
  };
  std::string_view NameOf(const Entry& symbol) const {
    return std::string_view(names_).substr(symbol.name, symbol.name_size);
  }

  std::vector<Entry> symbols_;
  std::string names_;
  uint64_t begin_ = 0, end_ = 0;
  bool any_ = false;
  bool visible_ = false;
};

KernelSymbolTable::KernelSymbolTable(std::string path, std::vector<CodeRange> lasting)
    : path_(std::move(path)) {
  std::sort(lasting.begin(), lasting.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.begin < b.begin; });
  for (const CodeRange& code : lasting) lasting_.push_back({.code = code, .name = {}});
}

const KernelSymbolTable::Lasting* KernelSymbolTable::FindLasting(uint64_t address) const {
  auto at = std::upper_bound(
      lasting_.begin(), lasting_.end(), address,
      [](uint64_t wanted, const Lasting& lasting) { return wanted < lasting.code.begin; });
  if (at == lasting_.begin()) return nullptr;
  --at;
  return address < at->code.end && !at->name.empty() ? &*at : nullptr;
}

std::string KernelSymbolTable::NameInImage(uint64_t address) const {
  const auto offset = static_cast<uint32_t>(address - text_begin_);
  auto at = std::upper_bound(functions_.begin(), functions_.end(), offset,
                             [](uint32_t wanted, const Function& f) { return wanted < f.offset; });
  if (at == functions_.begin()) return "";
  --at;
  const char* name = names_.c_str() + at->name;
  if (*name == '\0' || offset - at->offset >= kMaxReach) return "";
  return symbolize::Printable(Demangle(name));
}

absl::StatusOr<std::vector<std::string>> KernelSymbolTable::ReadFile(std::vector<uint64_t> wanted) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenReadOnly(path_));
  Lookup lookup(std::move(wanted));
  Image image;
  RETURN_IF_ERROR(ReadLines(fd.get(), path_, [&](const Line& line) {
    lookup.Add(line);
    if (!functions_.empty()) return;
    image.Add(line);
    const auto at = std::lower_bound(
        lasting_.begin(), lasting_.end(), line.address,
        [](const Lasting& lasting, uint64_t begin) { return lasting.code.begin < begin; });
    if (at != lasting_.end() && at->code.begin == line.address) at->name = line.name;
  }));
  if (image.Hidden()) {
    return absl::PermissionDeniedError(
        absl::StrCat("kernel names are hidden: ", path_,
                     " shows no addresses; run profd with CAP_SYSLOG and kernel.kptr_restrict "
                     "below 2"));
  }
  if (functions_.empty()) image.MoveTo(this);
  return lookup.Names();
}

absl::Status KernelSymbolTable::Read() {
  return functions_.empty() ? ReadFile({}).status() : absl::OkStatus();
}

absl::StatusOr<KernelSymbols> KernelSymbolTable::Find(std::span<const uint64_t> addresses) {
  if (addresses.empty()) return KernelSymbols();
  std::vector<uint64_t> elsewhere;
  for (const uint64_t address : addresses) {
    if (functions_.empty() || (!Holds(address) && FindLasting(address) == nullptr)) {
      elsewhere.push_back(address);
    }
  }
  std::sort(elsewhere.begin(), elsewhere.end());
  elsewhere.erase(std::unique(elsewhere.begin(), elsewhere.end()), elsewhere.end());
  std::vector<std::string> names;
  if (!elsewhere.empty()) {
    ASSIGN_OR_RETURN(names, ReadFile(elsewhere));
  }

  KernelSymbols result = {.symbols = {}, .text_begin = text_begin_, .text_end = text_end_};
  result.symbols.reserve(addresses.size());
  for (const uint64_t address : addresses) {
    const auto at = std::lower_bound(elsewhere.begin(), elsewhere.end(), address);
    const bool is_elsewhere = at != elsewhere.end() && *at == address;
    std::string name;
    if (is_elsewhere) {
      name = names[static_cast<size_t>(at - elsewhere.begin())];
    } else if (const Lasting* lasting = FindLasting(address); lasting != nullptr) {
      name = symbolize::Printable(lasting->name);
    } else {
      name = NameInImage(address);
    }
    const uint64_t place = Holds(address) ? address - text_begin_ : address;
    if (name.empty()) name = symbolize::ModuleOffset("kernel", place);
    result.symbols.push_back({.function = std::move(name), .kind = FrameKind::kKernel});
  }
  return result;
}

}  // namespace profd
