// The samples of a thread in a merged window, in the memory in which they were added up.
#ifndef PROFD_DAEMON_STORE_MERGED_SAMPLES_H_
#define PROFD_DAEMON_STORE_MERGED_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/profile/profile.h"
#include "daemon/store/site_table.h"
#include "daemon/store/slice.h"

namespace profd {

// A range of Sample, each of which is made when it is read. Sites are shared by all threads.
class MergedSamples {
 public:
  using Sites = std::shared_ptr<const std::vector<Site>>;
  // What levels and bursts have beside an amount.
  struct Extra {
    uint32_t site = 0;
    int64_t growth = 0;
    double squares = 0;
  };

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Sample;
    using difference_type = std::ptrdiff_t;
    using pointer = const Sample*;
    using reference = const Sample&;

    Iterator() = default;
    explicit Iterator(const MergedSamples* samples)
        : samples_(samples), cursor_(samples->table_), extra_(samples->extras_.data()) {
      ++*this;
    }
    // Valid until the iterator moves.
    reference operator*() const { return sample_; }
    pointer operator->() const { return &sample_; }
    Iterator& operator++();
    uint32_t site() const { return cursor_->site(); }
    friend bool operator==(const Iterator& a, const Iterator& b) {
      // One of both is the end.
      return a.samples_ == b.samples_;
    }

   private:
    const MergedSamples* samples_ = nullptr;  // null at the end
    std::optional<SiteTable::Cursor> cursor_;
    const Extra* extra_ = nullptr;
    Sample sample_;
  };
  using const_iterator = Iterator;
  using value_type = Sample;

  MergedSamples() = default;
  // `sites` by the numbers in `table`; `extras` by site.
  MergedSamples(Sites sites, ThreadId thread, SiteTable table, std::vector<Extra> extras);
  // Samples of one thread. They stay apart, whatever their keys.
  MergedSamples(std::initializer_list<Sample> samples);
  explicit MergedSamples(const std::vector<Sample>& samples);

  Iterator begin() const { return Iterator(this); }
  static Iterator end() { return {}; }
  size_t size() const { return table_.size(); }
  bool empty() const { return size() == 0; }
  std::vector<Sample> OfKind(Kind kind) const;
  // Calls `change` for each sample, and keeps what it does to the weight, and to the squares of
  // bursts.
  void Change(absl::FunctionRef<void(Sample*)> change);

 private:
  Sites sites_;
  ThreadId thread_{};
  SiteTable table_;  // sorted
  std::vector<Extra> extras_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_MERGED_SAMPLES_H_
