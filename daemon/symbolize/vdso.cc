#include "daemon/symbolize/vdso.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/base/maps_line.h"

namespace profd {
namespace {

constexpr absl::string_view kVdsoPrefix = "__vdso_";

// The bytes of this process's vDSO; empty without one.
absl::StatusOr<absl::string_view> OwnVdso() {
  const uint64_t base = getauxval(AT_SYSINFO_EHDR);
  ASSIGN_OR_RETURN(const std::string maps, ReadWholeFile("/proc/self/maps"));
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const std::optional<MapsLine> mapping = ParseMapsLine(line);
    if (base == 0 || !mapping || mapping->begin != base) continue;
    return absl::string_view(reinterpret_cast<const char*>(base), mapping->end - base);
  }
  return absl::FailedPreconditionError("the kernel maps no vDSO into this process");
}

}  // namespace

absl::StatusOr<UniqueFd> CopyVdso() {
  ASSIGN_OR_RETURN(const absl::string_view image, OwnVdso());
  UniqueFd fd(memfd_create("vdso", MFD_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("create a file in memory for the vDSO", errno);
  const ssize_t written = write(fd.get(), image.data(), image.size());
  if (written < 0) return ErrnoStatus("copy the vDSO", errno);
  if (static_cast<size_t>(written) != image.size()) {
    return absl::InternalError("the vDSO was copied in part only");
  }
  return fd;
}

std::string VdsoFunction(const std::string& name) {
  return absl::StartsWith(name, kVdsoPrefix) ? name : absl::StrCat(kVdsoPrefix, name);
}

}  // namespace profd
