#include "daemon/service/frame_names.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/service/text.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

constexpr ModuleId kNoModule{0};
constexpr ModuleId kKernel{PROFD_FRAME_KERNEL_MODULE};
// A name longer than this says no more; a hostile file may have one of any length.
constexpr size_t kMaxName = 4096;

ModuleId ModuleOf(uint64_t frame) {
  return static_cast<ModuleId>(frame >> PROFD_FRAME_MODULE_SHIFT);
}

// What is looked up: the kernel's addresses are whole, others relative to their file.
uint64_t Target(const FrameAddress& a) {
  const uint64_t offset =
      ModuleOf(a.frame) == kKernel ? a.frame : a.frame & PROFD_FRAME_OFFSET_MASK;
  return a.exact || offset == 0 ? offset : offset - 1;
}

std::string Hex(uint64_t v) { return absl::StrCat("0x", absl::Hex(v)); }

}  // namespace

FrameNames::FrameNames(const ModuleSource* modules, std::string kallsyms,
                       std::vector<std::string> debug_directories)
    : modules_(modules),
      kallsyms_(std::move(kallsyms)),
      debug_files_(std::move(debug_directories)) {}

std::vector<NamedFrame> FrameNames::Name(std::span<const FrameAddress> addresses) {
  std::vector<NamedFrame> out(addresses.size());
  std::vector<size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return addresses[a].frame < addresses[b].frame; });
  absl::MutexLock lock(&mutex_);
  for (size_t begin = 0; begin < order.size();) {
    const ModuleId id = ModuleOf(addresses[order[begin]].frame);
    size_t end = begin;
    while (end < order.size() && ModuleOf(addresses[order[end]].frame) == id) end++;
    const std::span<const size_t> which(order.data() + begin, end - begin);
    if (id == kKernel) {
      NameKernel(addresses, which, &out);
    } else {
      NameModule(id, addresses, which, &out);
    }
    begin = end;
  }
  return out;
}

void FrameNames::NameKernel(std::span<const FrameAddress> addresses, std::span<const size_t> which,
                            std::vector<NamedFrame>* out) {
  std::vector<size_t> missing;
  std::vector<uint64_t> targets;
  for (size_t i : which) {
    NamedFrame& frame = (*out)[i];
    frame.module = "[kernel]";
    frame.offset = addresses[i].frame;
    frame.kind = FrameKind::kKernel;
    frame.found_by = NameSource::kKallsyms;
    const uint64_t target = Target(addresses[i]);
    if (const Symbol* known = cache_.Get({kKernel, 0, target}); known != nullptr) {
      frame.function = known->function;
    } else {
      missing.push_back(i);
      targets.push_back(target);
    }
  }
  if (missing.empty()) return;
  absl::StatusOr<std::vector<Symbol>> symbols = SymbolizeKernel(targets, kallsyms_);
  if (!symbols.ok() && !kernel_warned_) {
    kernel_warned_ = true;
    spdlog::warn("kernel functions have no names: {}", symbols.status().ToString());
  }
  for (size_t k = 0; k < missing.size(); k++) {
    std::string& function = (*out)[missing[k]].function;
    if (!symbols.ok() || k >= symbols->size()) {
      function = absl::StrCat("[kernel]+", Hex(addresses[missing[k]].frame));
      (*out)[missing[k]].found_by = NameSource::kNone;
      continue;
    }
    function = CleanText((*symbols)[k].function, kMaxName);
    cache_.Put({kKernel, 0, targets[k]}, {function, FrameKind::kKernel, NameSource::kKallsyms});
  }
}

void FrameNames::NameModule(ModuleId id, std::span<const FrameAddress> addresses,
                            std::span<const size_t> which, std::vector<NamedFrame>* out) {
  std::optional<ModuleFile> file;
  if (id != kNoModule) file = modules_->Find(id);
  if (!file.has_value()) {
    // Code that lies in no file (made at run time), or in one that is not known any more.
    for (size_t i : which) {
      NamedFrame& frame = (*out)[i];
      frame.offset = addresses[i].frame & PROFD_FRAME_OFFSET_MASK;
      frame.function = id == kNoModule ? "[unmapped code]" : "[unknown module]";
    }
    return;
  }
  const uint64_t key = absl::HashOf(std::string_view(file->identity.build_id),
                                    std::string_view(file->identity.path), id);
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
    frame.offset = addresses[i].frame & PROFD_FRAME_OFFSET_MASK;
    const uint64_t target = Target(addresses[i]);
    if (const Symbol* known = cache_.Get({id, identity, target}); known != nullptr) {
      frame.function = known->function;
      frame.kind = known->kind;
      frame.found_by = known->source;
    } else {
      missing.push_back(i);
      targets.push_back(target);
    }
  }
  if (missing.empty()) return;
  const std::optional<symbolize::DebugFile> debug = debug_files_.Open(key);
  const std::vector<Symbol> symbols =
      SymbolizeModule(file->fd.get(), file->identity, targets, debug ? &*debug : nullptr);
  for (size_t k = 0; k < missing.size(); k++) {
    NamedFrame& frame = (*out)[missing[k]];
    if (k >= symbols.size()) {
      frame.function = absl::StrCat(module, "+", Hex(frame.offset));
      continue;
    }
    frame.function = CleanText(symbols[k].function, kMaxName);
    frame.kind = symbols[k].kind;
    frame.found_by = symbols[k].source;
    // A file that could not be opened now may be there the next time.
    if (file->fd.ok())
      cache_.Put({id, identity, targets[k]}, {frame.function, frame.kind, frame.found_by});
  }
}

}  // namespace profd
