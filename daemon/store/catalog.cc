#include "daemon/store/catalog.h"

namespace profd {

Catalog::Numbers Catalog::Add(const Segment& dictionaries) {
  Numbers numbers;
  numbers.threads.reserve(dictionaries.threads.size());
  for (const auto& info : dictionaries.threads) numbers.threads.push_back(Thread(info));
  numbers.sites.reserve(dictionaries.sites.size());
  for (const Site& site : dictionaries.sites) numbers.sites.push_back(SiteNumber(site));
  for (const auto& stack : dictionaries.stacks) AddStack(stack);
  modules_.insert(dictionaries.modules.begin(), dictionaries.modules.end());
  return numbers;
}

uint32_t Catalog::Thread(const std::shared_ptr<const ThreadInfo>& info) {
  const auto [it, fresh] =
      thread_numbers_.try_emplace(info->id, static_cast<uint32_t>(threads_.size()));
  if (fresh) {
    threads_.push_back(info);
  } else if (threads_[it->second]->pid == 0 && threads_[it->second]->name.empty()) {
    threads_[it->second] = info;
  }
  return it->second;
}

std::shared_ptr<const ThreadInfo> Catalog::InfoOf(ThreadId id) const {
  const auto it = thread_numbers_.find(id);
  return it == thread_numbers_.end() ? nullptr : threads_[it->second];
}

uint32_t Catalog::SiteNumber(const Site& site) {
  const auto [it, fresh] = site_numbers_.try_emplace(site, static_cast<uint32_t>(sites_.size()));
  if (fresh) sites_.push_back(site);
  return it->second;
}

std::shared_ptr<const StackTrace> Catalog::Stack(StackId id) const {
  const auto it = stacks_.find(id);
  return it == stacks_.end() ? nullptr : it->second;
}

}  // namespace profd
