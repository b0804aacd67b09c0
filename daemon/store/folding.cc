#include "daemon/store/folding.h"

#include <string>
#include <string_view>

namespace profd {
namespace {

constexpr std::string_view kExitedProcesses = "[exited processes]";
constexpr std::string_view kOtherNames = "[other processes]";
// Ids that neither the kernel nor the daemon's other rows of exited threads get.
constexpr uint64_t kExitedIds = 3ULL << 62;

// FNV-1a, so that a row has one id in every segment, whichever run of the daemon wrote it.
class StableHash {
 public:
  void Add(uint64_t number) {
    for (int byte = 0; byte < 8; byte++) AddByte(static_cast<uint8_t>(number >> (8 * byte)));
  }
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<uint8_t>(c));
    Add(text.size());
  }
  ThreadId id() const { return ThreadId{kExitedIds | hash_}; }

 private:
  void AddByte(uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }

  uint64_t hash_ = 0xcbf29ce484222325;
};

std::shared_ptr<const ThreadInfo> MakeRow(std::string_view name, const ProcessKey& process,
                                          std::string_view process_name) {
  StableHash hash;
  hash.Add(name);
  hash.Add(process.target);
  hash.Add(static_cast<uint64_t>(process.pid));
  hash.Add(static_cast<uint64_t>(process.start_ns));
  hash.Add(process_name);
  return std::make_shared<const ThreadInfo>(ThreadInfo{.id = hash.id(),
                                                       .pid = process.pid,
                                                       .target = process.target,
                                                       .name = std::string(name),
                                                       .process = std::string(process_name),
                                                       .exited = true,
                                                       .process_start_ns = process.start_ns});
}

}  // namespace

ProcessKey ProcessKeyOf(const ThreadInfo& info) {
  return {.target = info.target, .pid = info.pid, .start_ns = info.process_start_ns};
}

std::shared_ptr<const ThreadInfo> ExitedThreadsOf(const ThreadInfo& thread) {
  return MakeRow(kExitedThreads, ProcessKeyOf(thread), thread.process);
}

std::shared_ptr<const ThreadInfo> ExitedProcessesOf(const ThreadInfo& thread) {
  return MakeRow(kExitedProcesses, {.target = thread.target}, thread.process);
}

bool IsExitedThreads(const ThreadInfo& info) { return info.exited && info.name == kExitedThreads; }

bool IsExitedProcesses(const ThreadInfo& info) {
  return info.exited && info.pid == 0 && info.name == kExitedProcesses;
}

std::shared_ptr<const ThreadInfo> ExitedNames::RowFor(const ThreadInfo& thread) {
  auto row = ExitedProcessesOf(thread);
  if (rows_.contains(row->id) || rows_.size() < kMaxExitedNames) {
    rows_.insert(row->id);
    return row;
  }
  return MakeRow(kExitedProcesses, {.target = thread.target}, kOtherNames);
}

}  // namespace profd
