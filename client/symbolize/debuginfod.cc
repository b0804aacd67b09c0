#include "client/symbolize/debuginfod.h"

#include <elfutils/debuginfod.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/clock.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr char kMaxBytes[] = "4294967296";
constexpr char kMaxSeconds[] = "90";
constexpr int64_t kMaxSpentNs = 300ll * 1'000'000'000;

}  // namespace

void Debuginfod::Deleter::operator()(debuginfod_client* client) const { debuginfod_end(client); }

absl::StatusOr<Debuginfod> Debuginfod::Open(const std::vector<std::string>& urls) {
  setenv(DEBUGINFOD_URLS_ENV_VAR, absl::StrJoin(urls, " ").c_str(), 1);
  setenv(DEBUGINFOD_MAXSIZE_ENV_VAR, kMaxBytes, 0);
  setenv(DEBUGINFOD_MAXTIME_ENV_VAR, kMaxSeconds, 0);
  debuginfod_client* client = debuginfod_begin();
  if (client == nullptr) return absl::UnavailableError("libdebuginfod cannot be started");
  return Debuginfod(client);
}

absl::StatusOr<profd::UniqueFd> Debuginfod::Find(const std::string& build_id) {
  if (spent_ns_ > kMaxSpentNs) return absl::DeadlineExceededError("debuginfod took too long");
  const int64_t begin = profd::MonotonicNs();
  // Of length 0: it is a string of hexadecimal digits.
  profd::UniqueFd fd(debuginfod_find_debuginfo(
      client_.get(), reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, nullptr));
  spent_ns_ += profd::MonotonicNs() - begin;
  if (!fd.ok()) return profd::ErrnoStatus(absl::StrCat("debuginfod ", build_id), -fd.get());
  return fd;
}

}  // namespace profctl
