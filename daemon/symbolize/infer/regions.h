// Divides the code of a program into regions, each of which one crate was compiled to.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_REGIONS_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace profd::symbolize {

// The most likely sequence of states, one for each function, where changing the state costs
// something (Viterbi's algorithm). All states but those that a function speaks for or against get
// the same for it, which is why a function costs a comparison per state.
class Regions {
 public:
  // `entry`: for each state, what changing to it costs. `functions`: how many will be added.
  Regions(std::vector<float> entry, size_t functions);

  // Begins the next function.
  void Next();
  // How much the function speaks for a state, or against it.
  void Add(size_t state, float score) { scores_[state] += score; }

  // The states of functions from `first` on.
  struct Run {
    uint32_t first = 0;
    uint32_t state = 0;
  };
  std::vector<Run> Trace() const;

  // Bytes for each function and for so many states.
  static size_t BytesPerFunction(size_t states);

 private:
  size_t Best() const;

  const std::vector<float> entry_;
  std::vector<float> scores_;
  const size_t words_;
  // By function: the best state before it, and a bit for each state that was entered from that.
  std::vector<uint32_t> best_;
  std::vector<uint64_t> entered_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_REGIONS_H_
