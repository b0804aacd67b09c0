// The longest single waits of a window.
#ifndef PROFD_DAEMON_SERVICE_LONGEST_H_
#define PROFD_DAEMON_SERVICE_LONGEST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "daemon/profile/profile.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/service/part_writer.h"
#include "daemon/service/request.h"
#include "daemon/service/tables.h"
#include "daemon/store/store.h"

namespace profd {

class LongestWaits {
 public:
  // Both must outlive this. Without FetchPlan::longest there are none.
  LongestWaits(const FetchPlan& plan, const MergedProfile& profile)
      : plan_(plan), profile_(profile) {}

  // Adds the stacks of all that may be shown.
  void AddStacks(NamedStacks* stacks) const;
  // Chooses what is shown, once stacks have names. `idle_of` gives the kind of idle wait, or empty.
  using IdleOf = std::function<std::string_view(const ThreadInfo&, const SampleKey&)>;
  void Choose(const IdleOf& idle_of);
  // Whether a wait of this thread is shown, an index into those of the profile.
  bool Shows(size_t thread) const { return threads_.contains(thread); }
  // The thread is sent as the entry `index` of its table.
  void SetIndex(size_t thread, uint32_t index) { threads_[thread] = index; }
  // Sends what was chosen, after all threads of it.
  void Send(const NamedStacks& stacks, WaitObjects* objects, int64_t wall_offset_ns, Tables* tables,
            PartWriter* parts) const;

 private:
  struct Chosen {
    const MergedWait* wait;
    std::string_view idle;
  };
  bool MayShow(const MergedWait& wait) const;

  const FetchPlan& plan_;
  const MergedProfile& profile_;
  std::vector<Chosen> chosen_;
  std::map<size_t, uint32_t> threads_;  // index of the profile to index of the answer
  uint64_t left_out_ = 0;
  uint64_t idle_left_out_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_LONGEST_H_
