#include "daemon/base/program_pages.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "daemon/base/fd.h"

namespace profd {
namespace {

// Of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst): the page is mapped,
// and it is the file's.
constexpr uint64_t kOfFile = uint64_t{1} << 63 | uint64_t{1} << 61;

struct Unmapping {
  int pagemap;
  uint64_t page_size;
  size_t bytes = 0;
  absl::Status status;
};

// Unmaps the file's pages among those from `first` up to `last`, as numbers.
absl::Status Unmap(uint64_t first, uint64_t last, Unmapping* unmapping) {
  std::vector<uint64_t> entries(last - first);
  RETURN_IF_ERROR(ReadFileAt(unmapping->pagemap, first * sizeof(uint64_t), entries.data(),
                             entries.size() * sizeof(uint64_t)));
  const auto of_file = [](uint64_t entry) { return (entry & kOfFile) == kOfFile; };
  for (auto end = entries.begin();;) {
    const auto begin = std::find_if(end, entries.end(), of_file);
    if (begin == entries.end()) return absl::OkStatus();
    end = std::find_if_not(begin, entries.end(), of_file);
    const uint64_t address =
        (first + static_cast<uint64_t>(begin - entries.begin())) * unmapping->page_size;
    const uint64_t bytes = static_cast<uint64_t>(end - begin) * unmapping->page_size;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are numbers here
    if (madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTNEED) == 0) {
      unmapping->bytes += bytes;
    }
  }
}

// The loader keeps the object where it is until this returns. Its segments that nobody may write
// have nothing but what is in the file.
int UnmapObject(dl_phdr_info* object, size_t /*size*/, void* data) {
  auto* const unmapping = static_cast<Unmapping*>(data);
  for (int i = 0; i < object->dlpi_phnum && unmapping->status.ok(); ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uint64_t begin = object->dlpi_addr + segment.p_vaddr;
    const uint64_t page = unmapping->page_size;
    unmapping->status = Unmap(begin / page, (begin + segment.p_memsz + page - 1) / page, unmapping);
  }
  return 0;
}

}  // namespace

absl::StatusOr<size_t> UnmapProgramPages() {
  constexpr char kPath[] = "/proc/self/pagemap";
  const UniqueFd pagemap(open(kPath, O_RDONLY | O_CLOEXEC));
  if (!pagemap.ok()) return ErrnoStatus(kPath, errno);
  Unmapping unmapping{.pagemap = pagemap.get(),
                      .page_size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
                      .status = absl::OkStatus()};
  dl_iterate_phdr(UnmapObject, &unmapping);
  RETURN_IF_ERROR(unmapping.status);
  return unmapping.bytes;
}

}  // namespace profd
