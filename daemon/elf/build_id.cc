#include "daemon/elf/build_id.h"

#include <elf.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "daemon/base/fd.h"

namespace profd::symbolize {
namespace {

constexpr int kMaxNotes = 1024;
constexpr uint64_t kMaxBuildIdBytes = 64;
constexpr size_t kMaxFileBytes = 64 << 10;

uint64_t AlignUp(uint64_t value, uint64_t align) { return (value + align - 1) & ~(align - 1); }

}  // namespace

std::string BuildIdFromNotes(NoteReader read, uint64_t begin, uint64_t end, uint64_t align) {
  align = align == 8 ? 8 : 4;
  uint64_t at = begin;
  for (int i = 0; i < kMaxNotes && at <= end && end - at >= sizeof(Elf64_Nhdr); ++i) {
    Elf64_Nhdr note;
    if (!read(at, &note, sizeof(note))) return "";
    const uint64_t name_at = at + sizeof(note);
    // None of these sums can overflow: both lengths have 32 bits, and the file size is an off_t.
    const uint64_t desc_at = at + AlignUp(sizeof(note) + note.n_namesz, align);
    const uint64_t next = at + AlignUp(desc_at - at + note.n_descsz, align);
    char name[4];
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(name) && note.n_descsz > 0 &&
        note.n_descsz <= kMaxBuildIdBytes && desc_at + note.n_descsz <= end &&
        read(name_at, name, sizeof(name)) && std::memcmp(name, "GNU", sizeof(name)) == 0) {
      std::string id(note.n_descsz, '\0');
      if (!read(desc_at, id.data(), id.size())) return "";
      return absl::BytesToHexString(id);
    }
    at = next;
  }
  return "";
}

std::string BuildIdOfNotesFile(const std::string& path) {
  const absl::StatusOr<UniqueFd> fd = OpenReadOnly(path);
  if (!fd.ok()) return "";
  std::string bytes(kMaxFileBytes, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n = read(fd->get(), bytes.data() + size, bytes.size() - size);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  const auto copy = [&](uint64_t offset, void* out, size_t wanted) {
    if (offset > size || wanted > size - offset) return false;
    std::memcpy(out, bytes.data() + offset, wanted);
    return true;
  };
  return BuildIdFromNotes(copy, 0, size, 4);
}

}  // namespace profd::symbolize
