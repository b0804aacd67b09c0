// Chains of waits: what a group of threads waited for, who ended these waits, what those threads
// did meanwhile, and so on, until something that is no wait for a thread. An estimate; its model
// and its formulas are those of docs/sampling.md.
#ifndef PROFD_CLIENT_ANALYSIS_CHAINS_H_
#define PROFD_CLIENT_ANALYSIS_CHAINS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/analysis/activity.h"
#include "client/answer/reason.h"

namespace profctl {

enum class LinkKind {
  kWait,         // waits for `reason` in `function`
  kWaker,        // threads of `group` ended the wait, from `function`
  kOnCpu,        // ran `function`
  kRunQueue,     // waited for a CPU
  kInterrupt,    // an interrupt ended the wait: `name`
  kOutside,      // a thread `name` that is not in the answer ended it, from `function`
  kUnknown,      // nobody knows who ended it
  kUnexplained,  // the waker has no time left that could have been during the wait
  kNotFollowed,  // deeper than asked for
  kSmall,        // many small parts
};

// A part of the waiting time.
struct Link {
  LinkKind kind = LinkKind::kUnknown;
  uint32_t group = 0;  // whose time it is; of kWaker: the waker
  Reason reason = profd::v1::REASON_UNSPECIFIED;
  std::string function = {};
  std::string name = {};
  bool for_work = false;  // an idle wait
  double time_ns = 0;
  double variance = 0;
  // What it consists of, the largest first; the times sum to this one. Empty: the chain ends here.
  std::vector<Link> next = {};
};

// What chains end at, in all chains together.
struct ChainEnd {
  Link end;   // without its own variance
  Link wait;  // the wait that it ended; kind kWait, or as `end` where there is none
  double error_ns = 0;
};

// Threads of `waker` also waited for threads further up the chain, which cannot end their waits at
// the same time as they wait themselves. These waits are left out.
struct Cycle {
  uint32_t waker = 0;
  uint32_t waiter = 0;
  double time_ns = 0;
};

struct ChainOptions {
  int depth = 5;                // wakers in a row
  std::vector<Reason> reasons;  // of the first waits; empty: all
  double least_share = 0.001;   // of the first waits: smaller parts are put together
};

struct Chains {
  Root root{};
  double waits_ns = 0;  // without idle waits, with the reasons asked for
  double variance = 0;
  std::vector<Link> links;     // kWait and kRunQueue; sum to waits_ns
  std::vector<ChainEnd> ends;  // the largest first; sum to waits_ns
  std::vector<Cycle> cycles;   // the largest first
};

// Pure.
Chains FollowChains(const Activity& activity, const Root& root, const ChainOptions& options);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_CHAINS_H_
