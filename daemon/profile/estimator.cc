#include "daemon/profile/estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/wrapping.h"

namespace profd {
namespace {

__extension__ typedef __int128 Wide;

constexpr auto kRunQueueIndex = static_cast<size_t>(Reason::kRunQueue);
constexpr auto kOtherIndex = static_cast<size_t>(Reason::kOther);
// Of what allocations go beyond their marks on the mean, as a share: what marks that fall into step
// with sizes do to a stack's bytes at most, as a standard error (docs/sampling.md).
constexpr double kLattice = 0.6;

// Divides `total` in proportion to `weights`, none negative, so that the parts sum to it exactly.
// Each part is within 1 ns of its share: the sums so far are rounded, not the parts.
std::vector<int64_t> Apportion(int64_t total, std::span<const int64_t> weights) {
  Wide whole = 0;
  for (int64_t w : weights) whole += w;
  std::vector<int64_t> parts(weights.size(), 0);
  if (whole == 0) return parts;
  Wide so_far = 0;
  int64_t given = 0;
  for (size_t i = 0; i < weights.size(); i++) {
    so_far += weights[i];
    const auto up_to_here = static_cast<int64_t>(Wide{total} * so_far / whole);
    parts[i] = up_to_here - given;
    given = up_to_here;
  }
  return parts;
}

// The weights of samples among which something is divided. Those of one stack are taken as equal.
class SampleWeights {
 public:
  void Add(const Sample& s) {
    const auto weight = static_cast<double>(std::max<int64_t>(s.weight, 0));
    const auto ticks = static_cast<double>(std::max<int64_t>(s.ticks, 1));
    sum_ += weight;
    variance_ += weight * weight / ticks;
  }
  double sum() const { return sum_; }
  // How many samples of equal weight would be worth as much.
  double value() const { return variance_ > 0 ? sum_ * sum_ / variance_ : 0; }
  // Standard error of the share of one that was added, by the number of samples of equal weight
  // that would have its variance (docs/sampling.md): its stack may occur only while weights are
  // large.
  double ErrorOf(const Sample& s) const {
    if (!(sum_ > 0)) return ShareError(0, 0);
    const double weight = static_cast<double>(std::max<int64_t>(s.weight, 0));
    const double own = weight * weight / static_cast<double>(std::max<int64_t>(s.ticks, 1));
    const double p = weight / sum_;
    const double others = std::max(variance_ - own, 0.0);
    const double variance = (1 - p) * (1 - p) * own + p * p * others;
    const bool alone = p >= 1 || variance <= 0;
    const double n = alone ? value() : p * (1 - p) * sum_ * sum_ / variance;
    return ShareError(p, n);
  }

 private:
  double sum_ = 0, variance_ = 0;
};

size_t ReasonIndex(Reason reason) {
  return std::min(static_cast<size_t>(reason), kReasonCount - 1);
}

// Standard error of a raw weight: `ticks` of `all` ticks saw it, each stands for weight / ticks.
double RawError(const Sample& s, int64_t all) {
  if (s.ticks <= 0) return 0;
  const auto ticks = static_cast<double>(s.ticks);
  const double interval = static_cast<double>(s.weight) / ticks;
  if (all < s.ticks) return interval * std::sqrt(ticks);
  const auto n = static_cast<double>(all);
  return interval * n * ShareError(ticks / n, n);
}

// Standard error of a level as a share of it. Pages are counted as they were sampled, one in many.
// Of objects it is told how many there are and how many bytes are sampled once on the mean: each is
// sampled with a probability that goes with its size, for which their mean size is taken.
double LevelError(const Sample& s) {
  if (s.ticks <= 0 || s.weight <= 0) return 0;
  const auto count = static_cast<double>(s.ticks);
  if (s.key.kind != Kind::kInuse || s.key.argument == 0) return 1 / std::sqrt(count);
  const double size = static_cast<double>(s.weight) / count;
  const double p = -std::expm1(-size / static_cast<double>(s.key.argument));
  return std::sqrt((1 - p) / (count * p));
}

int64_t Rounded(double v) { return static_cast<int64_t>(std::llround(std::min(v, 9e18))); }

// What needs no scaling; without an error.
EstimatedSample AsCounted(const Sample& s) {
  EstimatedSample out;
  out.key = s.key;
  out.amount = std::max<int64_t>(s.weight, 0);
  out.weight = s.weight;
  out.ticks = s.ticks;
  return out;
}

// Samples of which each event was counted are worth so many.
constexpr double kAllOfThem = 1e15;

struct BySwitch {
  bool operator()(const SampleKey& a, const SampleKey& b) const {
    return std::tie(a.stack, a.reason) < std::tie(b.stack, b.reason);
  }
};

// A ledger of numbers of switches in place of times. Those that only the kernel's books have are as
// time of unknown reason.
LedgerDelta AsSwitches(const LedgerDelta& ledger) {
  LedgerDelta numbers;
  int64_t seen = 0;
  for (size_t r = 0; r < kReasonCount; r++) {
    numbers.off_ns[r] = std::max<int64_t>(ledger.waits[r], 0);
    if (r != kRunQueueIndex) seen = WrappingAdd(seen, numbers.off_ns[r]);
  }
  numbers.unattributed_ns = std::max<int64_t>(WrappingSubtract(ledger.voluntary_switches, seen), 0);
  numbers.off_ns[kRunQueueIndex] =
      std::max(numbers.off_ns[kRunQueueIndex], ledger.involuntary_switches);
  return numbers;
}

}  // namespace

Interval WilsonInterval(double p, double n) {
  if (!(n > 0)) return {};
  p = std::clamp(p, 0.0, 1.0);
  constexpr double kZ2 = kNormal95 * kNormal95;
  const double shrink = 1 / (1 + kZ2 / n);
  const double center = (p + kZ2 / (2 * n)) * shrink;
  const double half = kNormal95 * std::sqrt(p * (1 - p) / n + kZ2 / (4 * n * n)) * shrink;
  return {std::max(center - half, 0.0), std::min(center + half, 1.0)};
}

double ShareError(double p, double n) {
  if (!(n > 0)) return 0.5;
  p = std::clamp(p, 0.0, 1.0);
  const Interval wilson = WilsonInterval(p, n);
  return std::max(std::sqrt(p * (1 - p) / n), (wilson.high - wilson.low) / 2 / kNormal95);
}

EstimatedThread EstimateThread(ThreadId thread, const LedgerDelta& ledger,
                               std::span<const Sample> samples, const EstimateBasis& basis) {
  EstimatedThread result;
  result.ledger = ledger;
  std::array<int64_t, kReasonCount> weight{};
  std::array<SampleWeights, kReasonCount> effective;
  SampleWeights blocked;
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return samples[a].key.reason < samples[b].key.reason;
  });
  for (const Sample& s : samples) {
    const size_t r = ReasonIndex(s.key.reason);
    weight[r] += std::max<int64_t>(s.weight, 0);
    result.ticks[r] = WrappingAdd(result.ticks[r], s.ticks);
    effective[r].Add(s);
    if (r != kRunQueueIndex) blocked.Add(s);
  }

  // Blocked time of unknown reason goes where the tick saw the thread blocked.
  std::array<int64_t, kReasonCount> estimated{};
  const int64_t unattributed = ledger.unattributed_ns;
  if (basis.ledger && unattributed != 0) {
    std::array<int64_t, kReasonCount> shares = weight;
    shares[kRunQueueIndex] = 0;
    if (blocked.sum() <= 0) shares[kOtherIndex] = 1;
    const std::vector<int64_t> parts = Apportion(unattributed, shares);
    std::copy(parts.begin(), parts.end(), estimated.begin());
    for (size_t r = 0; r < kReasonCount; r++) result.ledger.off_ns[r] += estimated[r];
    result.ledger.unattributed_ns = 0;
    result.estimated_ns = unattributed;
  }

  size_t next = 0;
  for (size_t r = 0; r < kReasonCount; r++) {
    std::vector<const Sample*> here;
    std::vector<int64_t> weights;
    for (; next < order.size() && ReasonIndex(samples[order[next]].key.reason) == r; next++) {
      here.push_back(&samples[order[next]]);
      weights.push_back(std::max<int64_t>(here.back()->weight, 0));
    }
    const int64_t total = basis.ledger ? std::max<int64_t>(result.ledger.off_ns[r], 0) : weight[r];
    if (total > 0 && weight[r] == 0) {
      EstimatedSample& unsampled = result.samples.emplace_back();
      unsampled.key = {.thread = thread, .reason = static_cast<Reason>(r)};
      unsampled.amount = total;
    }
    const std::vector<int64_t> times = Apportion(total, weights);
    for (size_t i = 0; i < here.size(); i++) {
      const Sample& s = *here[i];
      EstimatedSample& out = result.samples.emplace_back();
      out.key = s.key;
      out.weight = s.weight;
      out.ticks = s.ticks;
      out.amount = times[i];
      if (!basis.ledger) {
        out.error = Rounded(RawError(s, basis.ticks));
        continue;
      }
      if (weight[r] == 0) continue;
      // The exact part of the total and the divided part come from the same ticks: their errors
      // may go together, so they are added.
      const auto divided = static_cast<double>(std::clamp<int64_t>(estimated[r], 0, total));
      const double exact = static_cast<double>(total) - divided;
      double error = exact * effective[r].ErrorOf(s);
      if (divided > 0) {
        error += static_cast<double>(unattributed) * blocked.ErrorOf(s);
      }
      out.error = Rounded(error);
    }
  }
  return result;
}

std::vector<EstimatedSample> EstimateRunning(ThreadId thread, const LedgerDelta& ledger,
                                             std::span<const Sample> samples,
                                             const EstimateBasis& basis) {
  std::vector<EstimatedSample> result;
  std::vector<int64_t> weights;
  SampleWeights effective;
  for (const Sample& s : samples) {
    weights.push_back(std::max<int64_t>(s.weight, 0));
    effective.Add(s);
  }
  const int64_t weight = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const int64_t total = basis.ledger ? std::max<int64_t>(ledger.on_cpu_ns, 0) : weight;
  if (total > 0 && weight == 0) {
    EstimatedSample& unsampled = result.emplace_back();
    unsampled.key = {.thread = thread, .kind = Kind::kCpu};
    unsampled.amount = total;
    unsampled.error = Rounded(static_cast<double>(total) / kNormal95);
  }
  const std::vector<int64_t> times = Apportion(total, weights);
  for (size_t i = 0; i < samples.size(); i++) {
    EstimatedSample& out = result.emplace_back();
    out.key = samples[i].key;
    out.weight = samples[i].weight;
    out.ticks = samples[i].ticks;
    out.amount = times[i];
    if (weights[i] == 0) continue;
    const auto w = static_cast<double>(weights[i]);
    const auto ticks = static_cast<double>(std::max<int64_t>(samples[i].ticks, 1));
    out.error = basis.ledger ? Rounded(static_cast<double>(total) * effective.ErrorOf(samples[i]))
                             : Rounded(w / std::sqrt(ticks));
  }
  return result;
}

std::vector<EstimatedSample> EstimateSwitches(ThreadId thread, const LedgerDelta& ledger,
                                              std::span<const Sample> samples) {
  // What was drawn with several weights, as samples of equal weight and the same variance.
  struct Drawn {
    int64_t weight = 0, count = 0;
    double variance = 0;
  };
  std::map<SampleKey, Drawn, BySwitch> drawn;
  for (const Sample& s : samples) {
    SampleKey key = s.key;
    const auto one_in = static_cast<double>(std::max<uint64_t>(key.argument, 1));
    key.argument = 0;
    Drawn& sum = drawn[key];
    sum.weight = WrappingAdd(sum.weight, std::max<int64_t>(s.weight, 0));
    sum.count = WrappingAdd(sum.count, s.ticks);
    sum.variance += static_cast<double>(std::max<int64_t>(s.weight, 0)) * (one_in - 1);
  }
  std::vector<Sample> equal;
  for (const auto& [key, sum] : drawn) {
    const auto weight = static_cast<double>(sum.weight);
    const double worth = sum.variance > 0 ? weight * weight / sum.variance : kAllOfThem;
    equal.push_back(
        {.key = key, .weight = sum.weight, .ticks = std::max<int64_t>(Rounded(worth), 1)});
  }
  const EstimatedThread estimated =
      EstimateThread(thread, AsSwitches(ledger), equal, {.ledger = true, .ticks = 0});
  std::vector<EstimatedSample> result;
  for (EstimatedSample out : estimated.samples) {
    out.key.kind = Kind::kSwitch;
    const auto it = drawn.find(out.key);
    out.ticks = it == drawn.end() ? 0 : it->second.count;
    result.push_back(out);
  }
  return result;
}

std::vector<EstimatedSample> JoinStates(const EstimatedThread& waits,
                                        std::vector<EstimatedSample> running) {
  std::vector<EstimatedSample> all = waits.samples;
  all.insert(all.end(), running.begin(), running.end());
  // What is less than nothing in the ledger has no stack, and is taken from those that are widest.
  int64_t over = std::max<int64_t>(-waits.ledger.on_cpu_ns, 0);
  for (const int64_t ns : waits.ledger.off_ns) over = WrappingAdd(over, std::max<int64_t>(-ns, 0));
  while (over > 0) {
    const auto widest = std::max_element(
        all.begin(), all.end(),
        [](const EstimatedSample& a, const EstimatedSample& b) { return a.amount < b.amount; });
    if (widest == all.end() || widest->amount <= 0) break;
    const int64_t part = std::min(over, widest->amount);
    widest->amount -= part;
    over -= part;
  }
  return all;
}

int64_t UnsampledHeap(const HeapDelta& heap, std::span<const Sample> samples) {
  const bool seen =
      std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.weight > 0; });
  return seen ? 0 : std::max<int64_t>(heap.bytes, 0);
}

std::vector<EstimatedSample> EstimateHeap(ThreadId thread, Kind kind, const HeapDelta& heap,
                                          std::span<const Sample> samples, int64_t unsampled) {
  const double elsewhere = static_cast<double>(std::max<int64_t>(unsampled, 0)) / kNormal95;
  const int64_t total = std::max<int64_t>(heap.bytes, 0);
  std::vector<EstimatedSample> result;
  // By whether they are large.
  std::array<std::vector<int64_t>, 2> weights;
  std::array<double, 2> sums{};
  SampleWeights effective;
  for (const Sample& s : samples) {
    const int64_t weight = std::max<int64_t>(s.weight, 0);
    const bool large = IsLarge(s.key);
    weights[large].push_back(weight);
    weights[!large].push_back(0);
    sums[large] += static_cast<double>(weight);
    effective.Add(s);
  }
  if (!(effective.sum() > 0)) {
    if (total > 0) result.push_back({.key = {.thread = thread, .kind = kind}, .amount = total});
  }
  // What the events that were seen stand for: the others by more than they weigh, as each also has
  // what went beyond its mark.
  const double seen = std::max(static_cast<double>(heap.seen_bytes), effective.sum());
  const double beyond = sums[0] > 0 ? (seen - effective.sum()) / sums[0] : 0;
  int64_t of_large = sums[0] > 0 ? 0 : total;
  if (sums[0] > 0 && sums[1] > 0) {
    of_large = std::min(total, Rounded(static_cast<double>(total) * (sums[1] / seen)));
  }
  std::array<std::vector<int64_t>, 2> amounts = {Apportion(total - of_large, weights[0]),
                                                 Apportion(of_large, weights[1])};
  absl::flat_hash_map<StackId, size_t> at;
  for (size_t i = 0; i < samples.size(); i++) {
    SampleKey key = samples[i].key;
    if (IsLarge(key)) key.argument = 0;
    const auto [place, is_new] = at.try_emplace(key.stack, result.size());
    if (is_new) result.push_back({.key = key});
    EstimatedSample& out = result[place->second];
    out.weight = WrappingAdd(out.weight, samples[i].weight);
    out.ticks = WrappingAdd(out.ticks, samples[i].ticks);
    out.amount += amounts[0][i] + amounts[1][i];
  }
  if (total == 0 || !(effective.sum() > 0)) return result;
  for (EstimatedSample& out : result) {
    const auto amount = static_cast<double>(out.amount);
    const auto all = static_cast<double>(total);
    const double drawn = all * ShareError(amount / all, effective.value());
    out.error = Rounded(std::hypot(drawn, kLattice * std::min(beyond, 1.0) * amount, elsewhere));
  }
  return result;
}

std::vector<EstimatedSample> EstimateLevels(std::span<const Sample> samples, int64_t unsampled) {
  const double elsewhere = static_cast<double>(std::max<int64_t>(unsampled, 0)) / kNormal95;
  std::vector<EstimatedSample> result;
  result.reserve(samples.size());
  for (const Sample& s : samples) {
    EstimatedSample& out = result.emplace_back(AsCounted(s));
    out.growth = s.growth;
    if (s.key.stack == StackId{}) continue;  // by the size of the process
    out.error = Rounded(std::hypot(static_cast<double>(out.amount) * LevelError(s), elsewhere));
  }
  return result;
}

std::vector<EstimatedSample> EstimateMappings(std::span<const Sample> samples) {
  std::vector<EstimatedSample> result;
  result.reserve(samples.size());
  for (const Sample& s : samples) {
    EstimatedSample& out = result.emplace_back(AsCounted(s));
    if (s.ticks <= 0 || s.key.argument <= 1) continue;
    const double left_out = 1 - 1 / static_cast<double>(s.key.argument);
    out.error = Rounded(static_cast<double>(out.amount) *
                        std::sqrt(left_out / static_cast<double>(s.ticks)));
  }
  return result;
}

std::vector<EstimatedSample> SumRequests(std::span<const Sample> samples) {
  std::vector<EstimatedSample> result;
  absl::flat_hash_map<SampleKey, size_t> at;
  for (const Sample& s : samples) {
    EstimatedSample counted = AsCounted(s);
    const uint64_t argument = counted.key.argument;
    const bool sync = counted.key.kind == Kind::kSync;
    if (!sync && (argument & PROFD_DISK_PEAK) != 0) continue;
    counted.key.argument = sync ? PROFD_SYNC_PLACE(argument) : PROFD_DISK_PLACE(argument);
    const auto [place, is_new] = at.try_emplace(counted.key, result.size());
    if (is_new) {
      result.push_back(counted);
      continue;
    }
    EstimatedSample& out = result[place->second];
    out.amount = WrappingAdd(out.amount, counted.amount);
    out.weight = WrappingAdd(out.weight, counted.weight);
    out.ticks = WrappingAdd(out.ticks, counted.ticks);
  }
  return result;
}

double StudentWidening(int64_t degrees) {
  constexpr std::array<double, 10> kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571,
                                                 2.447,  2.365, 2.306, 2.262, 2.228};
  if (degrees <= 0) return 1;
  if (degrees <= static_cast<int64_t>(kQuantiles.size())) {
    return kQuantiles[static_cast<size_t>(degrees) - 1] / kNormal95;
  }
  // The first terms of its expansion in 1 / degrees.
  const auto n = static_cast<double>(degrees);
  constexpr double kZ2 = kNormal95 * kNormal95;
  return 1 + (kZ2 + 1) / (4 * n) + (5 * kZ2 * kZ2 + 16 * kZ2 + 3) / (96 * n * n);
}

std::vector<EstimatedSample> EstimateBursts(std::span<const Sample> samples, const HeapDelta& heap,
                                            int64_t bursts) {
  std::vector<EstimatedSample> result;
  result.reserve(samples.size());
  const auto n = static_cast<double>(bursts);
  const double doubt = heap.burst_bytes > 0 ? static_cast<double>(heap.burst_doubt) /
                                                  static_cast<double>(heap.burst_bytes)
                                            : 0;
  for (const Sample& s : samples) {
    EstimatedSample& out = result.emplace_back(AsCounted(s));
    const auto amount = static_cast<double>(out.amount);
    // Of one burst nothing tells how another one would differ.
    double variance = amount * amount;
    if (bursts > 1) variance = std::max(0.0, n / (n - 1) * (s.squares - amount * amount / n));
    const double drawn = std::sqrt(variance) * StudentWidening(bursts - 1);
    out.error = Rounded(std::hypot(drawn, doubt * amount));
  }
  return result;
}

}  // namespace profd
