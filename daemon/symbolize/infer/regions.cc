#include "daemon/symbolize/infer/regions.h"

#include <algorithm>
#include <utility>

namespace profd::symbolize {
namespace {

constexpr size_t kWordBits = 64;

size_t WordsFor(size_t states) { return (states + kWordBits - 1) / kWordBits; }

}  // namespace

size_t Regions::BytesPerFunction(size_t states) {
  return WordsFor(states) * sizeof(uint64_t) + sizeof(uint32_t);
}

Regions::Regions(std::vector<float> entry, size_t functions)
    : entry_(std::move(entry)), scores_(entry_.size(), 0), words_(WordsFor(entry_.size())) {
  best_.reserve(functions);
  entered_.reserve(functions * words_);
}

size_t Regions::Best() const {
  return static_cast<size_t>(std::max_element(scores_.begin(), scores_.end()) - scores_.begin());
}

void Regions::Next() {
  const size_t best = Best();
  const float most = scores_[best];
  best_.push_back(static_cast<uint32_t>(best));
  entered_.resize(entered_.size() + words_, 0);
  uint64_t* const entered = &entered_[entered_.size() - words_];
  for (size_t state = 0; state < scores_.size(); ++state) {
    const float entering = most - entry_[state];
    const bool enters = entering > scores_[state];
    entered[state / kWordBits] |= uint64_t{enters} << (state % kWordBits);
    // Relative to the best, so that scores of long programs keep their precision.
    scores_[state] = std::max(scores_[state], entering) - most;
  }
}

std::vector<Regions::Run> Regions::Trace() const {
  std::vector<Run> runs;
  size_t state = Best();
  for (size_t function = best_.size(); function-- > 0;) {
    const bool is_new = runs.empty() || runs.back().state != state;
    if (is_new) runs.push_back({.first = 0, .state = static_cast<uint32_t>(state)});
    runs.back().first = static_cast<uint32_t>(function);
    const uint64_t word = entered_[function * words_ + state / kWordBits];
    if ((word >> (state % kWordBits) & 1) != 0) state = best_[function];
  }
  std::reverse(runs.begin(), runs.end());
  return runs;
}

}  // namespace profd::symbolize
