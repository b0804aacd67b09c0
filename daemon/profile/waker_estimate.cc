#include "daemon/profile/waker_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "daemon/base/wrapping.h"

namespace profd {
namespace {

using Place = std::pair<Reason, StackId>;  // of waits

// All waits of a place, whatever they were for.
struct Waits {
  int64_t amount = 0;
  double variance = 0;
  int64_t weight = 0;
  int64_t ticks = 0;
};

struct Wakers {
  std::map<StackId, int64_t> weights;  // by the waker's stack; positive
  double sum = 0;
};

// Adds the part of `waits` between two shares of it, of [0, 1]. Parts that follow one another sum
// to the whole.
void AddPart(const SampleKey& key, const Waits& waits, double from, double to,
             std::vector<EstimatedSample>* out) {
  const auto until = [](int64_t whole, double share) {
    return std::llround(static_cast<double>(whole) * share);
  };
  const double share = to - from;
  const auto amount = static_cast<double>(waits.amount);
  const double own = amount * ShareError(share, static_cast<double>(waits.ticks));
  out->push_back({.key = key,
                  .amount = to == 1 ? waits.amount - until(waits.amount, from)
                                    : until(waits.amount, to) - until(waits.amount, from),
                  .error = std::llround(std::hypot(share * std::sqrt(waits.variance), own)),
                  .weight = until(waits.weight, to) - until(waits.weight, from),
                  .ticks = until(waits.ticks, to) - until(waits.ticks, from)});
}

}  // namespace

std::vector<EstimatedSample> EstimateWakers(const EstimatedThread& waits,
                                            std::span<const Sample> samples) {
  std::map<Place, Waits> places;
  SampleKey key = {.kind = Kind::kWaker};
  for (const EstimatedSample& s : waits.samples) {
    Waits& sum = places[{s.key.reason, s.key.stack}];
    const auto error = static_cast<double>(s.error);
    sum.amount = WrappingAdd(sum.amount, s.amount);
    sum.variance += error * error;
    sum.weight = WrappingAdd(sum.weight, s.weight);
    sum.ticks = WrappingAdd(sum.ticks, s.ticks);
    key.thread = s.key.thread;
  }
  std::map<Place, Wakers> ended;
  for (const Sample& s : samples) {
    if (s.key.kind != Kind::kWaker || s.weight <= 0) continue;
    Wakers& wakers = ended[{s.key.reason, WaiterOf(s.key)}];
    int64_t& weight = wakers.weights[s.key.stack];
    weight = WrappingAdd(weight, s.weight);
    wakers.sum += static_cast<double>(s.weight);
  }
  std::vector<EstimatedSample> result;
  for (const auto& [place, sum] : places) {
    key.reason = place.first;
    key.argument = static_cast<uint64_t>(place.second);
    const bool runnable = place.first == Reason::kRunQueue;
    const auto found = ended.find(place);
    double share = 0;
    if (!runnable && found != ended.end()) {
      // Waits that began before the window may have ended in it: then the wakers weigh more.
      const double whole = std::max(found->second.sum, static_cast<double>(sum.weight));
      double weights = 0;
      for (const auto& [stack, weight] : found->second.weights) {
        weights += static_cast<double>(weight);
        const double until = weights >= whole ? 1 : weights / whole;
        key.stack = stack;
        AddPart(key, sum, std::exchange(share, until), until, &result);
      }
    }
    if (share == 1) continue;
    key.stack = runnable ? kNoWaker : kWakerUnknown;
    AddPart(key, sum, share, 1, &result);
  }
  return result;
}

}  // namespace profd
