#include "daemon/service/frame_names.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"
#include "daemon/service/text.h"
#include "daemon/symbolize/module_symbols.h"

namespace profd {
namespace {

constexpr ModuleId kNoModule{0};
// What kernel frames are cached under: no file has it.
constexpr ModuleId kKernel{PROFD_MAX_MODULE_ID + 1};
// A name longer than this says no more; a hostile file may have one of any length.
constexpr size_t kMaxName = 4096;
constexpr size_t kMaxOtherName = 512;
// In no file, and in no perf map.
constexpr char kNoName[] = "[unmapped code]";
constexpr char kGeneratedModule[] = "[jit]";
// What one answer reads of perf maps: less than a second's work.
constexpr uint64_t kMaxPerfMapBytes = 256 << 20;
// What one answer reads of code to identify it: some 0.3 s of work, once for each module.
constexpr uint64_t kMaxCodeBytes = 512 << 20;

// The frames that are named together.
ModuleId GroupOf(uint64_t frame) { return IsKernelFrame(frame) ? kKernel : ModuleOf(frame); }

std::string Hex(uint64_t v) { return absl::StrCat("0x", absl::Hex(v)); }

// As users may see them.
std::shared_ptr<const NameDetails> CleanDetails(std::shared_ptr<const NameDetails> details) {
  if (details == nullptr) return nullptr;
  auto clean = std::make_shared<NameDetails>();
  for (const std::string& name : details->other_names) {
    clean->other_names.push_back(CleanText(name, kMaxOtherName));
  }
  clean->more_names = details->more_names;
  clean->suffix = CleanText(details->suffix, kMaxOtherName);
  return clean;
}

}  // namespace

bool IsInNoFile(uint64_t frame) { return !IsInFile(frame) && !IsKernelFrame(frame); }

uint64_t TargetOf(const FrameAddress& a) {
  const uint64_t offset = PlaceOf(a.frame);
  return a.exact || offset == 0 ? offset : offset - 1;
}

uint64_t KeyOf(ModuleId id, const ModuleIdentity& identity) {
  return absl::HashOf(std::string_view(identity.build_id), std::string_view(identity.path), id);
}

FrameNames::FrameNames(const ModuleSource* modules, symbolize::KernelFiles kernel_files,
                       std::vector<std::string> debug_directories, std::string proc,
                       LineReader* lines)
    : modules_(modules),
      lines_(lines),
      debug_directories_(debug_directories),
      kernel_(std::move(kernel_files)),
      kernel_symbols_(kernel_.files().symbols, kernel_.files().lasting),
      debug_files_(debug_directories),
      line_files_(std::move(debug_directories), SystemClock(), "/", DebugNeed::kDebugInfo),
      perf_maps_(std::move(proc)) {}

void FrameNames::Prepare() {
  absl::MutexLock lock(&mutex_);
  // An answer with frames of the kernel tells an error.
  kernel_symbols_.Read().IgnoreError();
}

std::vector<NamedFrame> FrameNames::Name(std::span<const FrameAddress> addresses,
                                         const ModuleIdentities& recorded) {
  std::vector<NamedFrame> out(addresses.size());
  std::vector<size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return addresses[a].frame < addresses[b].frame; });
  uint64_t code_bytes_left = kMaxCodeBytes;
  absl::MutexLock lock(&mutex_);
  for (size_t begin = 0; begin < order.size();) {
    const ModuleId id = GroupOf(addresses[order[begin]].frame);
    size_t end = begin;
    while (end < order.size() && GroupOf(addresses[order[end]].frame) == id) end++;
    const std::span<const size_t> which(order.data() + begin, end - begin);
    if (id == kKernel) {
      NameKernel(addresses, which, &out);
    } else if (id == kNoModule) {
      NameGenerated(addresses, which, &out);
    } else {
      NameModule(id, recorded, addresses, which, &code_bytes_left, &out);
    }
    begin = end;
  }
  for (size_t i = 0; i < out.size(); i++) out[i].exact = addresses[i].exact;
  return out;
}

void FrameNames::NameKernel(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                            std::vector<NamedFrame>* out) {
  std::vector<size_t> missing;
  std::vector<uint64_t> targets;
  for (size_t i : which) {
    NamedFrame& frame = (*out)[i];
    frame.module = symbolize::kKernelName;
    frame.kind = FrameKind::kKernel;
    frame.found_by = NameSource::kKallsyms;
    const uint64_t target = TargetOf(addresses[i]);
    if (const Symbol* known = cache_.Get({kKernel, 0, target}); known != nullptr) {
      frame.function = known->function;
    } else {
      missing.push_back(i);
      targets.push_back(target);
    }
  }
  if (!missing.empty()) NameNewInKernel(addresses, missing, targets, out);
  for (const size_t i : which) {
    NamedFrame& frame = (*out)[i];
    std::optional<symbolize::KernelPlace> place = kernel_.Find(TargetOf(addresses[i]));
    if (!place) continue;
    frame.module = CleanText(place->module);
    frame.build_id = std::move(place->build_id);
    frame.offset = place->offset + (addresses[i].frame - TargetOf(addresses[i]));
  }
}

void FrameNames::NameNewInKernel(std::span<const FrameAddress> addresses,
                                 std::span<const size_t> missing, std::span<const uint64_t> targets,
                                 std::vector<NamedFrame>* out) {
  const absl::StatusOr<KernelSymbols> found = kernel_symbols_.Find(targets);
  if (found.ok()) {
    kernel_.Update(found->text_begin, found->text_end);
  } else if (!kernel_warned_) {
    kernel_warned_ = true;
    LogWarning("kernel functions have no names: ", found.status().ToString());
  }
  for (size_t k = 0; k < missing.size(); k++) {
    std::string& function = (*out)[missing[k]].function;
    if (!found.ok() || k >= found->symbols.size()) {
      function = absl::StrCat(symbolize::kKernelName, "+", Hex(addresses[missing[k]].frame));
      (*out)[missing[k]].found_by = NameSource::kNone;
      continue;
    }
    function = CleanText(found->symbols[k].function, kMaxName);
    cache_.Put({kKernel, 0, targets[k]}, {function, FrameKind::kKernel, NameSource::kKallsyms});
  }
}

void FrameNames::NameGenerated(std::span<const FrameAddress> addresses,
                               std::span<const size_t> which, std::vector<NamedFrame>* out) {
  std::map<ProcessId, std::vector<size_t>> by_process;
  for (const size_t i : which) {
    (*out)[i].offset = PlaceOf(addresses[i].frame);
    (*out)[i].function = kNoName;
    by_process[addresses[i].process].push_back(i);
  }
  uint64_t bytes_left = kMaxPerfMapBytes;
  for (const auto& [process, frames] : by_process) {
    NameByPerfMap(process, addresses, frames, &bytes_left, out);
  }
}

void FrameNames::NameByPerfMap(const ProcessId& process, std::span<const FrameAddress> addresses,
                               std::span<const size_t> which, uint64_t* bytes_left,
                               std::vector<NamedFrame>* out) {
  const PerfMap map = perf_maps_.Look(process);
  if (map.version == 0) return;
  const uint64_t identity = absl::HashOf(process, map.version);
  const auto use = [](const Symbol& symbol, NamedFrame& frame) {
    frame.function = symbol.function;
    frame.found_by = symbol.source;
    if (symbol.source == NameSource::kPerfMap) frame.module = kGeneratedModule;
  };
  std::map<uint64_t, std::vector<size_t>> missing;  // by address
  for (const size_t i : which) {
    const uint64_t target = TargetOf(addresses[i]);
    if (const Symbol* known = cache_.Get({kNoModule, identity, target}); known != nullptr) {
      use(*known, (*out)[i]);
    } else {
      missing[target].push_back(i);
    }
  }
  if (missing.empty()) return;
  std::vector<uint64_t> targets;
  targets.reserve(missing.size());
  for (const auto& [target, frames] : missing) targets.push_back(target);
  const absl::StatusOr<std::vector<std::string>> names =
      perf_maps_.Find(process, map, targets, bytes_left);
  if (!names.ok()) return;
  for (size_t k = 0; k < targets.size(); k++) {
    const std::string& name = (*names)[k];
    const Symbol symbol = {
        .function = name.empty() ? std::string(kNoName) : CleanText(name, kMaxName),
        .source = name.empty() ? NameSource::kNone : NameSource::kPerfMap};
    for (const size_t i : missing[targets[k]]) use(symbol, (*out)[i]);
    cache_.Put({kNoModule, identity, targets[k]}, symbol);
  }
}

void FrameNames::NameModule(ModuleId id, const ModuleIdentities& recorded,
                            std::span<const FrameAddress> addresses, std::span<const size_t> which,
                            uint64_t* code_bytes_left, std::vector<NamedFrame>* out) {
  const std::optional<ModuleFile> file = modules_->Find(id);
  if (!file.has_value()) {
    const auto identity = recorded.find(id);
    for (size_t i : which) {
      NamedFrame& frame = (*out)[i];
      frame.offset = PlaceOf(addresses[i].frame);
      frame.function = "[unknown module]";
      if (identity == recorded.end()) continue;
      frame.module = CleanText(BaseName(identity->second->path));
      frame.build_id = CleanText(identity->second->build_id, 128);
      frame.headers_id = CleanText(identity->second->headers_id, 128);
      frame.function = absl::StrCat(frame.module, "+", Hex(frame.offset));
    }
    return;
  }
  const uint64_t key = KeyOf(id, file->identity);
  // A debug file that appears later gives other names.
  const uint64_t identity = absl::HashOf(key, debug_files_.Refresh(key, *file));
  const std::string module = CleanText(BaseName(file->identity.path));
  const std::string build_id = CleanText(file->identity.build_id, 128);
  std::vector<size_t> missing;
  std::vector<uint64_t> targets;
  for (size_t i : which) {
    NamedFrame& frame = (*out)[i];
    frame.module = module;
    frame.build_id = build_id;
    frame.headers_id = file->identity.headers_id;
    frame.offset = PlaceOf(addresses[i].frame);
    const uint64_t target = TargetOf(addresses[i]);
    if (const Symbol* known = cache_.Get({id, identity, target}); known != nullptr) {
      frame.function = known->function;
      frame.kind = known->kind;
      frame.found_by = known->source;
      frame.details = known->details;
    } else {
      missing.push_back(i);
      targets.push_back(target);
    }
  }
  std::vector<Symbol> symbols;
  if (!missing.empty()) {
    const std::optional<symbolize::DebugFile> debug = debug_files_.Open(key);
    symbols = SymbolizeModule(file->fd.get(), file->identity, targets, debug ? &*debug : nullptr,
                              &crate_maps_);
  }
  for (size_t k = 0; k < missing.size(); k++) {
    NamedFrame& frame = (*out)[missing[k]];
    if (k >= symbols.size()) {
      frame.function = absl::StrCat(module, "+", Hex(frame.offset));
      continue;
    }
    frame.function = CleanText(symbols[k].function, kMaxName);
    frame.kind = symbols[k].kind;
    frame.found_by = symbols[k].source;
    frame.details = CleanDetails(std::move(symbols[k].details));
    // A file that could not be opened now may be there the next time.
    if (file->fd.ok())
      cache_.Put({id, identity, targets[k]},
                 {frame.function, frame.kind, frame.found_by, frame.details});
  }
  // A client may have a debug file that profd has not.
  const bool named = std::none_of(which.begin(), which.end(),
                                  [&](size_t i) { return IsPlaceOnly((*out)[i].found_by); });
  if (named) return;
  const auto code = codes_.Of(key, file->fd.get(), file->identity.build_id, code_bytes_left);
  for (const size_t i : which) (*out)[i].code = code;
}

}  // namespace profd
