#include "client/symbolize/debuginfod.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr char kLibrary[] = "libdebuginfod.so.1";
constexpr char kMaxBytes[] = "4294967296";
constexpr char kMaxSeconds[] = "90";
constexpr int64_t kMaxSpentNs = 300ll * 1'000'000'000;

// A function of the library, of the type that its header gives it.
template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

absl::StatusOr<Debuginfod> Debuginfod::Open(const std::vector<std::string>& urls) {
  // It stays until the end: its own libraries cannot be unloaded safely.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("debuginfod servers (--debuginfod, DEBUGINFOD_URLS) need ", kLibrary,
                     " (Debian: libdebuginfod1): ", dlerror()));
  }
  decltype(&debuginfod_begin) begin = nullptr;
  decltype(&debuginfod_end) end = nullptr;
  decltype(&debuginfod_find_debuginfo) find = nullptr;
  static_assert(std::is_same_v<decltype(end), End> && std::is_same_v<decltype(find), FindFile>);
  if (!Resolve(library, "debuginfod_begin", &begin) || !Resolve(library, "debuginfod_end", &end) ||
      !Resolve(library, "debuginfod_find_debuginfo", &find)) {
    return absl::UnavailableError(absl::StrCat(kLibrary, ": ", dlerror()));
  }
  setenv(DEBUGINFOD_URLS_ENV_VAR, absl::StrJoin(urls, " ").c_str(), 1);
  setenv(DEBUGINFOD_MAXSIZE_ENV_VAR, kMaxBytes, 0);
  setenv(DEBUGINFOD_MAXTIME_ENV_VAR, kMaxSeconds, 0);
  debuginfod_client* client = begin();
  if (client == nullptr) return absl::UnavailableError("libdebuginfod cannot be started");
  return Debuginfod(client, end, find);
}

absl::StatusOr<profd::UniqueFd> Debuginfod::Find(const std::string& build_id) {
  if (spent_ns_ > kMaxSpentNs) return absl::DeadlineExceededError("debuginfod took too long");
  const int64_t begin = profd::MonotonicNs();
  // Of length 0: it is a string of hexadecimal digits.
  profd::UniqueFd fd(
      find_(client_.get(), reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, nullptr));
  spent_ns_ += profd::MonotonicNs() - begin;
  if (!fd.ok()) return profd::ErrnoStatus(absl::StrCat("debuginfod ", build_id), -fd.get());
  return fd;
}

}  // namespace profctl
