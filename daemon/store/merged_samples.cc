#include "daemon/store/merged_samples.h"

#include <algorithm>
#include <utility>

namespace profd {

MergedSamples::MergedSamples(Sites sites, ThreadId thread, SiteTable table,
                             std::vector<Extra> extras)
    : sites_(std::move(sites)),
      thread_(thread),
      table_(std::move(table)),
      extras_(std::move(extras)) {
  table_.Sort();
}

MergedSamples::MergedSamples(std::initializer_list<Sample> samples)
    : MergedSamples(std::vector<Sample>(samples)) {}

MergedSamples::MergedSamples(const std::vector<Sample>& samples) {
  auto sites = std::make_shared<std::vector<Site>>();
  for (const Sample& sample : samples) {
    const auto number = static_cast<uint32_t>(sites->size());
    thread_ = sample.key.thread;
    sites->push_back(SiteOf(sample.key));
    table_.At(number) = {.weight = sample.weight, .ticks = sample.ticks};
    extras_.push_back({.site = number, .growth = sample.growth, .squares = sample.squares});
  }
  sites_ = std::move(sites);
  table_.Sort();
}

MergedSamples::Iterator& MergedSamples::Iterator::operator++() {
  if (!cursor_->Next()) {
    samples_ = nullptr;
    return *this;
  }
  const uint32_t site = cursor_->site();
  sample_ = {.key = KeyOf(samples_->thread_, (*samples_->sites_)[site]),
             .weight = cursor_->amount().weight,
             .ticks = cursor_->amount().ticks};
  const std::vector<Extra>& extras = samples_->extras_;
  if (extra_ != extras.data() + extras.size() && extra_->site == site) {
    sample_.growth = extra_->growth;
    sample_.squares = extra_->squares;
    extra_++;
  }
  return *this;
}

std::vector<Sample> MergedSamples::OfKind(Kind kind) const {
  std::vector<Sample> found;
  for (const Sample& sample : *this) {
    if (sample.key.kind == kind) found.push_back(sample);
  }
  return found;
}

void MergedSamples::Change(absl::FunctionRef<void(Sample*)> change) {
  auto extra = extras_.begin();
  for (Iterator it = begin(); it != end(); ++it) {
    Sample sample = *it;
    change(&sample);
    table_.FindSorted(it.site())->weight = sample.weight;
    while (extra != extras_.end() && extra->site < it.site()) ++extra;
    if (extra != extras_.end() && extra->site == it.site()) extra->squares = sample.squares;
  }
}

}  // namespace profd
