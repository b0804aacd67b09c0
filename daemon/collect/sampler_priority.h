// The scheduling policy of the sampler's thread.
//
// A tick has to come at its random instant. A thread of normal priority that wakes up on a busy CPU
// often waits until somebody blocks there, and what it sees then is not random. A real-time thread
// preempts at once. But it keeps others from its CPU for as long as a tick takes, so the sampler is
// real-time only after a row of short ticks, and until the first long one.
#ifndef PROFD_DAEMON_COLLECT_SAMPLER_PRIORITY_H_
#define PROFD_DAEMON_COLLECT_SAMPLER_PRIORITY_H_

#include <cstdint>

namespace profd {

class SamplerPriority {
 public:
  // For the calling thread, which begins with a normal priority. Without CAP_SYS_NICE it keeps its
  // priority, with a warning.
  void Begin();
  // After a tick that took `cpu_ns` of CPU time, where there is one in every `interval_ns`.
  void Adapt(int64_t cpu_ns, int64_t interval_ns);

  // Whether such ticks are short enough for a real-time thread.
  static bool IsShort(int64_t cpu_ns, int64_t interval_ns, bool was_short);

 private:
  void SetRealTime(bool on);

  bool permitted_ = true;
  bool real_time_ = false;
  // Short ticks in a row, and the time that they are of.
  int short_ticks_ = 0;
  int64_t short_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_COLLECT_SAMPLER_PRIORITY_H_
