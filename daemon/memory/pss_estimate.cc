#include "daemon/memory/pss_estimate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/base/maps_line.h"

namespace profd {
namespace {

constexpr size_t kMostMapsBytes = 4 << 20;
// Kernel addresses are above this.
constexpr uint64_t kEndOfAddresses = uint64_t{1} << 62;
constexpr uint64_t kRunPages = 512;
constexpr uint64_t kMostRuns = 16'384;
// Number of runs between two checks of the CPU time.
constexpr size_t kRunsAtOnce = 64;
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kAlone = uint64_t{1} << 56;
// 95 % of a normal distribution is within this many standard deviations.
constexpr double kSigmas = 1.96;
// If no run of n shows a shared page, the share is below 3/n with 95 % confidence.
constexpr double kNoneSeen = 3;

struct Run {
  double present = 0, shared = 0;  // pages
};

struct Share {
  double least = 0, most = 0;
};

// The share of pages that are shared: a ratio estimator over runs. Its variance is that of the
// residuals of the runs (W. G. Cochran, Sampling Techniques, 3rd ed., section 6.4).
Share SharedShare(const std::vector<Run>& seen, uint64_t of_runs) {
  Run sum;
  double with_pages = 0;
  for (const Run& run : seen) {
    sum.present += run.present;
    sum.shared += run.shared;
    with_pages += run.present > 0 ? 1 : 0;
  }
  const double ratio = sum.shared / sum.present;
  if (seen.size() == of_runs) return {ratio, ratio};
  double squares = 0;
  for (const Run& run : seen) squares += std::pow(run.shared - ratio * run.present, 2);
  const auto n = static_cast<double>(seen.size());
  const double unseen = 1 - n / static_cast<double>(of_runs);
  const double error = std::sqrt(n / std::max(n - 1, 1.0) * squares * unseen) / sum.present;
  const double rare = unseen * kNoneSeen / with_pages;
  return {std::max(0.0, ratio - kSigmas * error - rare),
          std::min(1.0, ratio + kSigmas * error + rare)};
}

}  // namespace

std::vector<PageRange> AccessibleRanges(absl::string_view maps) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<PageRange> ranges;
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const std::optional<MapsLine> mapping = ParseMapsLine(line);
    if (!mapping || absl::StartsWith(mapping->access, "---") || mapping->end > kEndOfAddresses) {
      continue;
    }
    ranges.push_back(
        {.first = mapping->begin / page, .count = (mapping->end - mapping->begin) / page});
  }
  return ranges;
}

absl::StatusOr<PssEstimate> EstimatePss(const ProcessDirectory& directory, int64_t rss,
                                        int64_t most_cpu_ns, std::mt19937_64* random) {
  const int64_t began = ThreadCpuNs();
  ASSIGN_OR_RETURN(const std::string maps, directory.Read("maps", kMostMapsBytes));
  ASSIGN_OR_RETURN(const UniqueFd pagemap, directory.OpenFile("pagemap"));
  const std::vector<PageRange> ranges = AccessibleRanges(maps);
  // Index of each range's first run, and of the end.
  std::vector<uint64_t> first_run = {0};
  for (const PageRange& range : ranges) {
    first_run.push_back(first_run.back() + (range.count + kRunPages - 1) / kRunPages);
  }
  const uint64_t runs = first_run.back(), strata = std::min(runs, kMostRuns);
  // One run per stratum, in random order: those that fit in the time are a sample of all strata.
  std::vector<uint64_t> chosen(strata);
  for (uint64_t i = 0; i < strata; ++i) {
    const uint64_t begin = runs * i / strata, end = runs * (i + 1) / strata;
    chosen[i] = std::uniform_int_distribution<uint64_t>(begin, end - 1)(*random);
  }
  std::shuffle(chosen.begin(), chosen.end(), *random);

  std::vector<Run> seen;
  std::array<uint64_t, kRunPages> states;
  for (const uint64_t run : chosen) {
    if (seen.size() % kRunsAtOnce == 0 && ThreadCpuNs() - began >= most_cpu_ns) break;
    const auto next = std::upper_bound(first_run.begin(), first_run.end(), run);
    const auto in = static_cast<size_t>(next - first_run.begin()) - 1;
    const uint64_t skipped = (run - first_run[in]) * kRunPages;
    const uint64_t count = std::min(kRunPages, ranges[in].count - skipped);
    const ssize_t bytes =
        pread(pagemap.get(), states.data(), count * sizeof(states[0]),
              static_cast<off_t>((ranges[in].first + skipped) * sizeof(states[0])));
    if (bytes < 0) return ErrnoStatus("read pagemap", errno);
    Run& sum = seen.emplace_back();
    for (size_t i = 0; i < static_cast<size_t>(bytes) / sizeof(states[0]); ++i) {
      if ((states[i] & kPresent) == 0) continue;
      ++sum.present;
      if ((states[i] & kAlone) == 0) ++sum.shared;
    }
  }
  if (std::none_of(seen.begin(), seen.end(), [](const Run& run) { return run.present > 0; })) {
    return absl::NotFoundError("no pages found in its pagemap");
  }
  const Share shared = SharedShare(seen, runs);
  // A shared page counts between zero and a half.
  const auto size = static_cast<double>(rss);
  const double least = size * (1 - shared.most), most = size * (1 - shared.least / 2);
  return PssEstimate{.pss = std::llround((least + most) / 2),
                     .error = std::llround((most - least) / 2)};
}

}  // namespace profd
