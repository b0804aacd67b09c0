#include "daemon/unwind/rules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/unwind/cfi.h"
#include "daemon/unwind/elf_image.h"
#include "daemon/unwind/go_rules.h"

namespace profd {
namespace {

constexpr int64_t kWord = 8;
constexpr uint32_t kNoneRule = PROFD_RULE_PACK(PROFD_RULE_NONE, 0, 0);
constexpr uint32_t kEndRule = PROFD_RULE_PACK(PROFD_RULE_END, 0, 0);
constexpr uint32_t kSignalRule = PROFD_RULE_PACK(PROFD_RULE_SIGNAL, 0, 0);
constexpr uint32_t kUnsupportedRule = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);
// In a function that has not pushed anything yet.
constexpr uint32_t kEntryRule = PROFD_RULE_PACK(PROFD_RULE_RSP, 1, 0);

constexpr uint32_t kPltEntrySize = 16;
constexpr uint32_t kPltHeaderPush = 6;  // bytes of the header's first instruction
constexpr int64_t kPltThreshold = 11;
// Limit for PLTs compiled entry by entry, per file: 256 Ki entries.
constexpr uint64_t kMaxPltBytes = 4 << 20;

// Offsets in the x86-64 ucontext that rsp points to in a signal frame (psABI, Linux's struct
// ucontext).
constexpr int64_t kUcontextRbp = 120;
constexpr int64_t kUcontextRsp = 160;
constexpr int64_t kUcontextRip = 168;

// Hand-written code without unwind information is short: musl's __clone has 45 bytes.
constexpr uint64_t kMaxRootSize = 64;
constexpr uint64_t kMaxRootSymbolSize = 512;
constexpr uint64_t kMaxCloneGap = 16;

// Symbols where a process or thread begins; they have no caller.
constexpr std::array<std::string_view, 5> kRootSymbols = {"_start", "_dl_start_user", "__clone",
                                                          "clone", "thread_start"};
constexpr std::string_view kRestoreSymbol = "__restore_rt";

// A function, or undescribed code whose rule is known. A million of them must fit in memory beside
// the rows.
struct IndexEntry {
  uint32_t begin = 0;  // file offset
  uint32_t size = 0;
  uint64_t source = 0;  // position in .eh_frame, with kInDebugFrame in .debug_frame, or one below
};
static_assert(sizeof(IndexEntry) == 16);
constexpr uint64_t kSourceRoot = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSourceSignal = kSourceRoot - 1;
constexpr uint64_t kSourcePlt = kSourceRoot - 2;
constexpr uint64_t kInDebugFrame = uint64_t{1} << 62;
// With the index of a function in Go's table.
constexpr uint64_t kInGoTable = uint64_t{1} << 61;

// Of two overlapping functions the first wins; of two with the same start, the larger.
bool ComesBefore(const IndexEntry& a, const IndexEntry& b) {
  if (a.begin != b.begin) return a.begin < b.begin;
  if (a.size != b.size) return a.size > b.size;
  return a.source < b.source;
}

bool FitsWords(int64_t bytes, int bits) {
  if (bytes % kWord != 0) return false;
  const int64_t limit = int64_t{1} << (bits - 1);
  return bytes / kWord >= -limit && bytes / kWord < limit;
}

bool IsUnchanged(const RegisterRule& rule) {
  switch (rule.kind) {
    case RegisterRule::Kind::kUnset:
    case RegisterRule::Kind::kSame:
    case RegisterRule::Kind::kUndefined:
      return true;
    case RegisterRule::Kind::kAtCfa:
    case RegisterRule::Kind::kCfaValue:
    case RegisterRule::Kind::kAtRegister:
    case RegisterRule::Kind::kOther:
      return false;
  }
  return false;
}

bool IsAt(const RegisterRule& rule, uint64_t reg, int64_t offset) {
  return rule.kind == RegisterRule::Kind::kAtRegister && rule.reg == reg && rule.offset == offset;
}

bool IsKernelSignalFrame(const FrameState& state) {
  return state.cfa.kind == CfaRule::Kind::kDereference && state.cfa.reg == kDwarfRsp &&
         state.cfa.offset == kUcontextRsp && IsAt(state.rbp, kDwarfRsp, kUcontextRbp) &&
         IsAt(state.return_address, kDwarfRsp, kUcontextRip);
}

// In every kind of row except a signal frame's, the caller's rsp is the CFA.
bool HasStandardStackPointer(const RegisterRule& rsp) {
  return IsUnchanged(rsp) || (rsp.kind == RegisterRule::Kind::kCfaValue && rsp.offset == 0);
}

uint32_t PackState(const FrameState& state) {
  if (state.signal_frame) return IsKernelSignalFrame(state) ? kSignalRule : kUnsupportedRule;
  if (state.return_address.kind == RegisterRule::Kind::kUndefined) return kEndRule;
  if (state.return_address.kind != RegisterRule::Kind::kAtCfa ||
      state.return_address.offset != -kWord || !HasStandardStackPointer(state.rsp)) {
    return kUnsupportedRule;
  }
  const CfaRule& cfa = state.cfa;
  if (cfa.kind == CfaRule::Kind::kDereference) {
    if (cfa.reg != kDwarfRbp || !FitsWords(cfa.offset, PROFD_RULE_CFA_BITS) ||
        !IsAt(state.rbp, kDwarfRbp, 0)) {
      return kUnsupportedRule;
    }
    return PROFD_RULE_PACK(PROFD_RULE_DEREF_RBP, cfa.offset / kWord, 0);
  }
  int64_t rbp_words = 0;
  if (!IsUnchanged(state.rbp)) {
    // Zero words mean "unchanged", so rbp saved at the CFA itself cannot be expressed.
    if (state.rbp.kind != RegisterRule::Kind::kAtCfa || state.rbp.offset == 0 ||
        !FitsWords(state.rbp.offset, PROFD_RULE_RBP_BITS)) {
      return kUnsupportedRule;
    }
    rbp_words = state.rbp.offset / kWord;
  }
  switch (cfa.kind) {
    case CfaRule::Kind::kRegister:
      if (!FitsWords(cfa.offset, PROFD_RULE_CFA_BITS)) return kUnsupportedRule;
      if (cfa.reg == kDwarfRsp) {
        return PROFD_RULE_PACK(PROFD_RULE_RSP, cfa.offset / kWord, rbp_words);
      }
      if (cfa.reg == kDwarfRbp) {
        return PROFD_RULE_PACK(PROFD_RULE_RBP, cfa.offset / kWord, rbp_words);
      }
      return kUnsupportedRule;
    case CfaRule::Kind::kPlt:
      return cfa.offset == kPltThreshold ? PROFD_RULE_PACK(PROFD_RULE_PLT, 0, rbp_words)
                                         : kUnsupportedRule;
    case CfaRule::Kind::kDereference:
    case CfaRule::Kind::kUnset:
    case CfaRule::Kind::kOther:
      return kUnsupportedRule;
  }
  return kUnsupportedRule;
}

class Compiler {
 public:
  // A section that is not there is empty.
  Compiler(const ElfImage& image, const FrameSection& frames, const FrameSection& debug_frames,
           std::optional<GoTable> go, const RuleLimits& limits)
      : image_(image),
        frames_(frames),
        debug_frames_(debug_frames),
        go_(std::move(go)),
        limits_(limits),
        sections_size_(frames.bytes.size() + debug_frames.bytes.size()) {}

  absl::StatusOr<RuleTable> Compile() &&;

 private:
  void BuildIndex();
  void AddFunctions(FrameReader& frames, uint64_t source_mark);
  void AddFunction(uint64_t address, uint64_t size, uint64_t source);
  bool exhausted() const { return frames_.exhausted() || debug_frames_.exhausted(); }
  void AddRoots();
  void AddCode(uint64_t begin, uint64_t size, uint64_t source);
  bool IsSignalReturn(uint64_t offset) const;
  void AddPlt();
  bool HasCode(uint64_t offset, std::span<const uint8_t> code) const;
  void CompileAll();
  bool CompileOne(const IndexEntry& entry, uint32_t begin);
  bool CompileGo(const IndexEntry& entry, uint32_t begin);
  void CompileStretch(uint32_t begin, uint32_t end, const FrameState& state);
  void BridgeCloneGap(size_t gap_row);
  void Append(uint32_t offset, uint32_t rule);

  const ElfImage& image_;
  FrameReader frames_;
  FrameReader debug_frames_;
  const std::optional<GoTable> go_;
  const RuleLimits limits_;
  const uint64_t sections_size_;
  std::vector<IndexEntry> index_;
  size_t functions_ = 0;                   // described entries of index_, sorted
  std::optional<uint32_t> program_entry_;  // file offset
  uint64_t plt_bytes_left_ = kMaxPltBytes;
  RuleTable table_;
  bool full_ = false;
};

absl::StatusOr<RuleTable> Compiler::Compile() && {
  BuildIndex();
  if (!index_.empty()) {
    AddRoots();
    CompileAll();
  }
  if (full_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("unwind information needs more than ", limits_.max_rows, " rows"));
  }
  if (exhausted()) {
    return absl::ResourceExhaustedError("unwind information takes more than linear time to read");
  }
  table_.unsupported_rows = static_cast<uint32_t>(std::count_if(
      table_.rows.begin(), table_.rows.end(),
      [](const profd_rule& row) { return PROFD_RULE_KIND(row.rule) == PROFD_RULE_UNSUPPORTED; }));
  return std::move(table_);
}

void Compiler::BuildIndex() {
  AddFunctions(frames_, 0);
  // Of a function in both, that in .eh_frame comes first.
  AddFunctions(debug_frames_, kInDebugFrame);
  for (uint32_t i = 0; go_ && i < go_->size(); ++i) {
    if (const std::optional<GoFunction> function = go_->At(i)) {
      AddFunction(function->begin, function->end - function->begin, kInGoTable | i);
    } else {
      ++table_.rejected_functions;
    }
  }
  std::sort(index_.begin(), index_.end(), ComesBefore);
  functions_ = index_.size();
}

void Compiler::AddFunctions(FrameReader& frames, uint64_t source_mark) {
  const uint64_t malformed = frames.ForEachFunction([&](const FrameDescription& function) {
    AddFunction(function.begin, function.size, function.position | source_mark);
  });
  table_.rejected_functions += static_cast<uint32_t>(malformed);
}

void Compiler::AddFunction(uint64_t address, uint64_t size, uint64_t source) {
  if (size == 0) return;
  const std::optional<uint64_t> offset = image_.CodeOffset(address, size);
  if (!offset) return;  // the linker discarded this code
  if (*offset + size > std::numeric_limits<uint32_t>::max()) {
    ++table_.rejected_functions;
    return;
  }
  index_.push_back({static_cast<uint32_t>(*offset), static_cast<uint32_t>(size), source});
}

void Compiler::AddRoots() {
  if (const std::optional<uint64_t> entry = image_.EntryOffset()) {
    if (image_.is_program() && *entry <= std::numeric_limits<uint32_t>::max()) {
      program_entry_ = static_cast<uint32_t>(*entry);
    }
    AddCode(*entry, 0, kSourceRoot);
  }
  AddPlt();
  // Only a file without libraries (a static program, a dynamic linker, musl) starts threads in
  // undescribed code of its own. Other files need no symbols.
  if (!image_.needs_libraries()) {
    for (const CodeSymbol& symbol : image_.FindCode(kRootSymbols, kMaxRootSymbolSize)) {
      AddCode(symbol.offset, symbol.size, kSourceRoot);
    }
    for (const CodeSymbol& symbol : image_.FindCode(std::span(&kRestoreSymbol, 1), kMaxRootSize)) {
      // Starts one byte early, because a walk looks up the byte before a return address.
      if (symbol.offset > 0 && IsSignalReturn(symbol.offset)) {
        AddCode(symbol.offset - 1, symbol.size != 0 ? symbol.size + 1 : 0, kSourceSignal);
      }
    }
  }
  if (index_.size() > functions_) std::sort(index_.begin(), index_.end(), ComesBefore);
}

// Adds undescribed code. `size` 0: up to the next function, at most kMaxRootSize.
void Compiler::AddCode(uint64_t begin, uint64_t size, uint64_t source) {
  const uint64_t limit = begin + (size != 0 ? size : kMaxRootSize);
  if (limit > std::numeric_limits<uint32_t>::max()) return;
  const auto functions_end = index_.begin() + static_cast<ptrdiff_t>(functions_);
  const auto next = std::upper_bound(
      index_.begin(), functions_end, begin,
      [](uint64_t offset, const IndexEntry& entry) { return offset < entry.begin; });
  if (next != index_.begin() && begin < uint64_t{std::prev(next)->begin} + std::prev(next)->size) {
    return;
  }
  uint64_t end = limit;
  if (next != functions_end && next->begin < limit) {
    if (size != 0) return;  // partly described: the rest is a gap on purpose
    end = next->begin;
  }
  index_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin), source});
}

// Whether the code is a call of rt_sigreturn, to which signal handlers return.
bool Compiler::IsSignalReturn(uint64_t offset) const {
  constexpr std::array<uint8_t, 9> kMovRax = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  constexpr std::array<uint8_t, 7> kMovEax = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  return HasCode(offset, kMovRax) || HasCode(offset, kMovEax);
}

bool Compiler::HasCode(uint64_t offset, std::span<const uint8_t> code) const {
  const std::span<const uint8_t> file = image_.file();
  return offset <= file.size() && code.size() <= file.size() - offset &&
         std::memcmp(file.data() + offset, code.data(), code.size()) == 0;
}

// LLVM's linker does not describe the PLT. Its code does: a header that pushes a word and jumps,
// and entries that jump, or push a word and jump to the header (x86-64 psABI, "Procedure Linkage
// Table").
void Compiler::AddPlt() {
  constexpr std::array<uint8_t, 2> kPushMemory = {0xff, 0x35}, kJumpMemory = {0xff, 0x25};
  constexpr std::array<uint8_t, 1> kPush = {0x68}, kJump = {0xe9};
  const std::optional<Elf64_Shdr> section = image_.FindSection(".plt");
  if (!section || section->sh_addr % kPltEntrySize != 0 || section->sh_size < 2 * kPltEntrySize ||
      section->sh_size % kPltEntrySize != 0) {
    return;
  }
  const std::optional<uint64_t> begin = image_.CodeOffset(section->sh_addr, section->sh_size);
  if (!begin || *begin % kPltEntrySize != 0 || !HasCode(*begin, kPushMemory) ||
      !HasCode(*begin + kPltHeaderPush, kJumpMemory)) {
    return;
  }
  for (uint64_t at = *begin + kPltEntrySize; at < *begin + section->sh_size; at += kPltEntrySize) {
    if (!HasCode(at, kJumpMemory) || !HasCode(at + 6, kPush) ||
        !HasCode(at + kPltThreshold, kJump)) {
      return;
    }
  }
  AddCode(*begin, section->sh_size, kSourcePlt);
}

void Compiler::CompileAll() {
  // Reserves address space only: memory is used when it is written.
  table_.rows.reserve(std::min<uint64_t>(limits_.max_rows, sections_size_ / 3 + 2));
  uint32_t covered = 0;  // end of the last function
  for (const IndexEntry& entry : index_) {
    const uint32_t end = entry.begin + entry.size;
    if (end <= covered) continue;
    const uint32_t begin = std::max(entry.begin, covered);
    const size_t mark = table_.rows.size();
    const bool gap = mark > 0 && begin > covered;
    if (gap) Append(covered, kNoneRule);
    if (!CompileOne(entry, begin)) {
      table_.rows.resize(mark);
      ++table_.rejected_functions;
    } else {
      if (gap) BridgeCloneGap(mark);
      covered = end;
    }
    if (full_ || exhausted()) return;
  }
  if (!table_.rows.empty()) Append(covered, kNoneRule);
}

// Compiles the part of a function from `begin` on. False if it is malformed.
bool Compiler::CompileOne(const IndexEntry& entry, uint32_t begin) {
  const bool root = entry.source == kSourceRoot || entry.begin == program_entry_;
  if (root || entry.source == kSourceSignal) {
    Append(begin, root ? kEndRule : kSignalRule);
    return true;
  }
  if (entry.source == kSourcePlt) {
    // An entry has pushed a word already when it comes to the header.
    Append(begin, PROFD_RULE_PACK(PROFD_RULE_RSP, 2, 0));
    Append(begin + kPltHeaderPush, PROFD_RULE_PACK(PROFD_RULE_RSP, 3, 0));
    Append(begin + kPltEntrySize, PROFD_RULE_PACK(PROFD_RULE_PLT, 0, 0));
    return true;
  }
  if ((entry.source & kInGoTable) != 0) return CompileGo(entry, begin);
  std::optional<uint64_t> first;
  FrameReader& frames = (entry.source & kInDebugFrame) != 0 ? debug_frames_ : frames_;
  const bool well_formed = frames.Run(entry.source & ~kInDebugFrame, [&](uint64_t from, uint64_t to,
                                                                         const FrameState& state) {
    if (!first) first = from;
    const auto to_offset = static_cast<uint32_t>(entry.begin + (to - *first));
    const auto from_offset = std::max(begin, static_cast<uint32_t>(entry.begin + (from - *first)));
    if (from_offset < to_offset) CompileStretch(from_offset, to_offset, state);
  });
  if (well_formed) ++table_.functions;
  return well_formed;
}

bool Compiler::CompileGo(const IndexEntry& entry, uint32_t begin) {
  const auto function = go_->At(static_cast<uint32_t>(entry.source & ~kInGoTable));
  if (!function) return false;
  CompileGoFunction(*go_, *function, [&](uint64_t address, uint32_t rule) {
    const auto offset = static_cast<uint32_t>(entry.begin + (address - function->begin));
    // A rule that began before is in force at `begin`.
    if (offset <= begin && !table_.rows.empty() && table_.rows.back().offset == begin) {
      table_.rows.pop_back();
    }
    Append(std::max(begin, offset), rule);
  });
  ++table_.functions;
  return true;
}

void Compiler::CompileStretch(uint32_t begin, uint32_t end, const FrameState& state) {
  const bool plt = state.cfa.kind == CfaRule::Kind::kPlt && state.cfa.offset != kPltThreshold;
  if (!plt || end - begin > plt_bytes_left_) {
    Append(begin, PackState(state));
    return;
  }
  plt_bytes_left_ -= end - begin;
  // A PLT with another layout (IBT) is compiled entry by entry. Two rows per entry are exact,
  // because file offsets and addresses agree modulo the page size.
  FrameState shallow = state;
  shallow.cfa = {CfaRule::Kind::kRegister, kDwarfRsp, kWord};
  FrameState deep = state;
  deep.cfa = {CfaRule::Kind::kRegister, kDwarfRsp, 2 * kWord};
  const std::array<uint32_t, 2> rules = {PackState(shallow), PackState(deep)};
  for (uint32_t offset = begin; offset < end && !full_; ++offset) {
    const bool pushed = offset % kPltEntrySize >= state.cfa.offset;
    Append(offset, rules[pushed ? 1 : 0]);
  }
}

// glibc does not describe the system call of clone and clone3, between the function proper and the
// root of the new thread. It returns in the parent and in the child. A thread found waiting there
// is a parent (vfork, posix_spawn), for which the entry rule still holds.
void Compiler::BridgeCloneGap(size_t gap_row) {
  std::vector<profd_rule>& rows = table_.rows;
  if (gap_row == 0 || gap_row + 1 >= rows.size()) return;
  const uint32_t gap_size = rows[gap_row + 1].offset - rows[gap_row].offset;
  if (gap_size > kMaxCloneGap || rows[gap_row - 1].rule != kEntryRule ||
      rows[gap_row + 1].rule != kEndRule || rows[gap_row + 1].offset == program_entry_) {
    return;
  }
  rows.erase(rows.begin() + static_cast<ptrdiff_t>(gap_row));
}

void Compiler::Append(uint32_t offset, uint32_t rule) {
  if (!table_.rows.empty() && table_.rows.back().rule == rule) return;
  if (table_.rows.size() >= limits_.max_rows) {
    full_ = true;
    return;
  }
  table_.rows.push_back({offset, rule});
}

}  // namespace

absl::StatusOr<RuleTable> CompileRules(std::span<const uint8_t> elf, const RuleLimits& limits) {
  ASSIGN_OR_RETURN(const ElfImage image, ElfImage::Parse(elf));
  const std::optional<FrameSection> frames = image.FindFrameSection();
  std::optional<GoTable> go = FindGoTable(image);
  std::vector<uint8_t> unpacked;
  std::optional<FrameSection> debug_frames;
  if (!go) debug_frames = image.FindDebugFrame(unpacked);  // it says less
  if (!frames && !debug_frames && !go) return RuleTable();
  const FrameSection none;
  return Compiler(image, frames.value_or(none), debug_frames.value_or(none), std::move(go), limits)
      .Compile();
}

uint32_t FindRule(const RuleTable& table, uint32_t file_offset) {
  const auto next =
      std::upper_bound(table.rows.begin(), table.rows.end(), file_offset,
                       [](uint32_t offset, const profd_rule& row) { return offset < row.offset; });
  return next == table.rows.begin() ? kNoneRule : std::prev(next)->rule;
}

}  // namespace profd
