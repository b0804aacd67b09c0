// FrameNames::OrderLines and AddLines: what debug info says of frames.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "daemon/base/clock.h"
#include "daemon/elf/elf_file.h"
#include "daemon/lines/line_reader.h"
#include "daemon/service/frame_names.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

// How long an answer waits for what was not read before. The second one is for answers in which
// fewer than one frame in kMany has debug info, as of a stripped program above a libc that has
// some.
constexpr std::chrono::milliseconds kLinePatience(100);
constexpr std::chrono::milliseconds kFewLinesPatience(20);
constexpr size_t kMany = 20;
// Frames of an answer that get lines: it is kept in memory as a whole.
constexpr size_t kMostFrames = 32 << 10;
constexpr size_t kMaxFunction = 1024;

InlinedFunction Describe(const SourceLine& line, const std::string& module_path) {
  InlinedFunction function;
  function.function = CleanText(line.function, kMaxFunction);
  function.kind = ClassifyFrame(module_path, function.function);
  function.file = CleanText(line.file, kMaxPathText);
  function.line = line.line;
  return function;
}

void SetLines(const LineChain& chain, LineWish wish, const std::string& module_path,
              NamedFrame* frame) {
  const SourceLine& own = chain.back();
  frame->file = CleanText(own.file, kMaxPathText);
  frame->line = own.line;
  if (IsPlaceOnly(frame->found_by) && !own.function.empty()) {
    frame->function = CleanText(own.function, kMaxFunction);
    frame->kind = ClassifyFrame(module_path, frame->function);
    frame->found_by = NameSource::kDebugInfo;
    frame->details = nullptr;
  }
  if (wish != LineWish::kInlines) return;
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    // Without a name it is left out: the position in its caller is known all the same.
    if (!chain[i].function.empty()) frame->inlined.push_back(Describe(chain[i], module_path));
  }
}

}  // namespace

std::shared_ptr<const UniqueFd> FrameNames::DebugInfoOf(uint64_t key, ModuleFile& module,
                                                        const symbolize::ElfFile& elf,
                                                        uint64_t* number) {
  *number = key;
  if (symbolize::HasDebugInfo(elf)) return std::make_shared<UniqueFd>(std::move(module.fd));
  absl::MutexLock lock(&mutex_);
  *number = absl::HashOf(key, line_files_.Refresh(key, module));
  std::optional<symbolize::DebugFile> debug = line_files_.Open(key);
  if (!debug || !symbolize::HasDebugInfo(debug->elf)) return nullptr;
  return std::make_shared<UniqueFd>(std::move(debug->fd));
}

LineOrder FrameNames::OrderLines(std::span<const FrameAddress> addresses, LineWish wish) {
  LineOrder order;
  if (wish == LineWish::kNone) return order;
  const int64_t begin_ns = MonotonicNs();
  std::map<ModuleId, std::vector<size_t>> by_module;
  for (size_t i = 0; i < std::min(addresses.size(), kMostFrames); ++i) {
    if (IsInFile(addresses[i].frame)) by_module[ModuleOf(addresses[i].frame)].push_back(i);
  }
  for (const auto& [id, which] : by_module) {
    if (lines_ == nullptr) {
      order.missing += which.size();
      continue;
    }
    std::optional<ModuleFile> module = modules_->Find(id);
    const absl::StatusOr<symbolize::ElfFile> elf =
        module ? symbolize::ElfFile::Open(module->fd.get()) : absl::NotFoundError("no module");
    const bool same = elf.ok() && (module->identity.build_id.empty() ||
                                   elf->BuildId() == module->identity.build_id);
    LineQuery query;
    if (same) query.contents = DebugInfoOf(KeyOf(id, module->identity), *module, *elf, &query.file);
    if (query.contents == nullptr) {
      order.missing += which.size();
      continue;
    }
    query.companions = std::make_shared<CompanionFiles>(module->root, "/", debug_directories_,
                                                        module->identity.path);
    LineOrder::Asked& asked = order.asked.emplace_back();
    asked.path = module->identity.path;
    for (const size_t i : which) {
      const std::optional<uint64_t> address = elf->VaddrOfOffset(TargetOf(addresses[i]));
      if (!address) {
        ++order.missing;
        continue;
      }
      query.addresses.push_back(*address);
      asked.frames.push_back(i);
    }
    order.queries.push_back(std::move(query));
  }
  size_t asked = 0;
  for (const LineOrder::Asked& of_module : order.asked) asked += of_module.frames.size();
  const bool many = asked * kMany >= addresses.size();
  order.deadline_ns =
      begin_ns + std::chrono::nanoseconds(many ? kLinePatience : kFewLinesPatience).count();
  // Places the order, and does not wait.
  if (!order.queries.empty()) lines_->Find(order.queries, std::chrono::milliseconds(0));
  return order;
}

LineCounts FrameNames::AddLines(LineOrder order, LineWish wish, std::vector<NamedFrame>* frames) {
  LineCounts counts{.missing = order.missing};
  if (order.queries.empty()) return counts;
  const int64_t left_ns = std::max<int64_t>(order.deadline_ns - MonotonicNs(), 0);
  lines_->Find(order.queries, std::chrono::milliseconds(left_ns / 1'000'000));
  for (size_t q = 0; q < order.queries.size(); ++q) {
    const LineQuery& query = order.queries[q];
    const LineOrder::Asked& asked = order.asked[q];
    for (size_t i = 0; i < asked.frames.size(); ++i) {
      switch (query.states[i]) {
        case LineQuery::State::kPending:
          ++counts.pending;
          continue;
        case LineQuery::State::kFailed:
          ++counts.failed;
          continue;
        case LineQuery::State::kKnown:
          break;
      }
      const LineChain& chain = query.chains[i];
      ++(chain.empty() ? counts.missing : counts.known);
      if (!chain.empty()) SetLines(chain, wish, asked.path, &(*frames)[asked.frames[i]]);
    }
  }
  return counts;
}

}  // namespace profd
