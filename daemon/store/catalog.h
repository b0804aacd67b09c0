// The dictionaries of several segments as one.
#ifndef PROFD_DAEMON_STORE_CATALOG_H_
#define PROFD_DAEMON_STORE_CATALOG_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/store/segment_codec.h"
#include "daemon/store/slice.h"

namespace profd {

// Gives threads and sites small numbers, in the order in which they come. Not thread-safe.
class Catalog {
 public:
  // Numbers of a segment's threads and sites, by its own.
  struct Numbers {
    std::vector<uint32_t> threads, sites;
  };

  // Segments come from the newest to the oldest: of a thread the first info is kept, unless it
  // was nothing but an id.
  Numbers Add(const Segment& dictionaries);
  uint32_t Thread(const std::shared_ptr<const ThreadInfo>& info);
  uint32_t SiteNumber(const Site& site);
  // From now on what is known of a thread is what is known of another one, of which it is part.
  void MakePartOf(uint32_t thread, uint32_t whole) { threads_[thread] = threads_[whole]; }
  void AddStack(const std::shared_ptr<const StackTrace>& stack) { stacks_[stack->id] = stack; }

  const std::vector<std::shared_ptr<const ThreadInfo>>& threads() const { return threads_; }
  const std::vector<Site>& sites() const { return sites_; }
  std::shared_ptr<const StackTrace> Stack(StackId id) const;
  size_t stacks() const { return stacks_.size(); }
  const ModuleIdentities& modules() const { return modules_; }
  // For segments that are read next: their stacks, and threads of which they say the same, need not
  // be made again. Must not outlive this.
  Known known() const {
    return {.stack = [this](StackId id) { return Stack(id); },
            .thread = [this](ThreadId id) { return InfoOf(id); }};
  }

 private:
  std::shared_ptr<const ThreadInfo> InfoOf(ThreadId id) const;

  std::vector<std::shared_ptr<const ThreadInfo>> threads_;
  std::vector<Site> sites_;
  absl::flat_hash_map<ThreadId, uint32_t> thread_numbers_;
  absl::flat_hash_map<Site, uint32_t> site_numbers_;
  absl::flat_hash_map<StackId, std::shared_ptr<const StackTrace>> stacks_;
  ModuleIdentities modules_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_CATALOG_H_
