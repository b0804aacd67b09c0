#include "daemon/service/lock_waits.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace profd {
namespace {

constexpr double kMostWaits = 1e18;

uint64_t Rounded(double number) {
  return static_cast<uint64_t>(std::llround(std::clamp(number, 0.0, kMostWaits)));
}

}  // namespace

bool CountsEndedWaits(const MergedProfile& profile) {
  return profile.wakers_ns > 0 && profile.switch_ns > 0;
}

void FillWaitCount(const WaitCount& count, v1::WaitCount* out) {
  out->set_waits(Rounded(count.waits().value));
  out->set_waits_error(Rounded(count.waits().Error()));
  const WaitQuantile median = count.Quantile(0.5), high = count.Quantile(0.99);
  out->set_p50_ns(median.value_ns);
  out->set_p50_low_ns(median.low_ns);
  out->set_p50_high_ns(median.high_ns);
  out->set_p99_ns(high.value_ns);
  out->set_p99_low_ns(high.low_ns);
  out->set_p99_high_ns(high.high_ns);
  if (!count.ends_known()) return;
  out->set_timeouts(Rounded(count.timeouts().value));
  out->set_timeouts_error(Rounded(count.timeouts().Error()));
  out->set_interrupted(Rounded(count.interrupted().value));
  out->set_interrupted_error(Rounded(count.interrupted().Error()));
}

void AddLockNotes(const MergedProfile& profile, v1::Profile* out) {
  const int64_t covered = profile.covered.end_ns - profile.covered.begin_ns;
  if (profile.wakers_ns < covered) {
    out->add_lock_notes(
        profile.wakers_ns == 0
            ? "Who released the locks is not known: wakers were not watched."
            : absl::StrCat("Wakers were not watched for ",
                           (covered - profile.wakers_ns) / 1'000'000,
                           " ms of the window: who released the locks then is not known."));
  }
  const int64_t counted = std::min(profile.wakers_ns, profile.switch_ns);
  if (counted >= covered) return;
  out->add_lock_notes(CountsEndedWaits(profile)
                          ? absl::StrCat("Waits were not counted for ",
                                         (covered - counted) / 1'000'000, " ms of the window.")
                          : absl::StrCat("How many waits there were is not known: ",
                                         profile.wakers_ns == 0 ? "wakers" : "context switches",
                                         " were not watched."));
}

}  // namespace profd
