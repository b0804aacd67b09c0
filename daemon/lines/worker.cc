#include "daemon/lines/worker.h"

#include <malloc.h>
#include <sys/time.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "daemon/base/fd.h"
#include "daemon/lines/descriptor_message.h"
#include "daemon/lines/dwarf_lines.h"
#include "daemon/lines/file_asker.h"
#include "daemon/lines/protocol.h"

namespace profd {
namespace {

// Files whose indexes are kept for the next request.
constexpr size_t kOpenFiles = 4;

struct OpenFile {
  uint64_t number = 0;
  UniqueFd fd;                        // must outlive `lines`
  std::unique_ptr<DwarfLines> lines;  // null: the file cannot be used
};

class Files {
 public:
  explicit Files(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Null if the file has no debug info that can be used.
  DwarfLines* Find(uint64_t number, UniqueFd fd, FileAsker& asker) {
    for (auto it = files_.begin(); it != files_.end(); ++it) {
      if (it->number != number) continue;
      files_.splice(files_.begin(), files_, it);
      return files_.front().lines.get();
    }
    if (files_.size() >= kOpenFiles) files_.pop_back();
    OpenFile& file = files_.emplace_front();
    file.number = number;
    file.fd = std::move(fd);
    absl::StatusOr<std::unique_ptr<DwarfLines>> lines = DwarfLines::Open(
        file.fd.get(), [&asker](const std::string& name, const std::string& build_id) {
          return asker.Ask(FileQuestion::Kind::kSupplementary, name, build_id);
        });
    if (lines.ok()) file.lines = *std::move(lines);
    return file.lines.get();
  }

  // Closes all if they take too much memory: libdw keeps whatever it has read of a file.
  void Trim() {
    const struct mallinfo2 use = mallinfo2();
    if (most_bytes_ == 0 || use.uordblks + use.hblkhd < most_bytes_ / 2) return;
    files_.clear();
    malloc_trim(0);
  }

 private:
  const uint64_t most_bytes_;
  std::list<OpenFile> files_;  // latest use first
};

// SIGPROF ends the process when it is over.
void AllowCpu(int seconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

bool Answer(int socket, const LineRequest& request, DwarfLines* lines) {
  LineAnswerWriter writer(request.id);
  if (lines == nullptr) {
    return SendWithDescriptor(socket, writer.Take(true, true), -1);
  }
  for (const uint64_t address : request.addresses) {
    writer.Add(address, lines->Find(address));
    if (writer.IsFull() && !SendWithDescriptor(socket, writer.Take(false), -1)) return false;
  }
  return SendWithDescriptor(socket, writer.Take(true), -1);
}

}  // namespace

void ServeLines(int socket, const WorkerLimits& limits) {
  FileAsker asker(socket);
  if (!FileAsker::AnswerTraps(&asker).ok() || !EnterSandbox(limits).ok()) return;
  Files files(limits.data_bytes);
  std::array<uint8_t, 4096> buffer;
  for (;;) {
    UniqueFd fd;
    const ssize_t size = ReceiveWithDescriptor(socket, buffer, &fd);
    if (size <= 0) return;
    const std::optional<LineRequest> request =
        DecodeLineRequest(std::span<const uint8_t>(buffer.data(), static_cast<size_t>(size)));
    if (!request) return;
    AllowCpu(limits.cpu_seconds);
    asker.Begin(request->id);
    if (!Answer(socket, *request, files.Find(request->file, std::move(fd), asker))) return;
    files.Trim();
    AllowCpu(0);
  }
}

}  // namespace profd
