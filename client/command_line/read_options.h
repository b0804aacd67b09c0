// From the words of a command line to what a command is to do.
#ifndef PROFD_CLIENT_COMMAND_LINE_READ_OPTIONS_H_
#define PROFD_CLIENT_COMMAND_LINE_READ_OPTIONS_H_

#include "absl/status/statusor.h"
#include "client/command_line/command_line.h"
#include "client/commands/bottlenecks.h"
#include "client/commands/diff.h"
#include "client/commands/fetch.h"
#include "client/commands/locks.h"
#include "client/commands/memory.h"
#include "client/commands/stacks.h"
#include "client/commands/symbolize.h"
#include "client/commands/threads.h"
#include "client/commands/top.h"
#include "client/commands/why.h"
#include "client/commands/worst.h"

namespace profctl {

// Each checks what was typed for its verb. Errors name the option and say what to do.
absl::StatusOr<FetchOptions> ReadFetch(const Typed& typed);
absl::StatusOr<SymbolizeOptions> ReadSymbolize(const Typed& typed);
absl::StatusOr<DiffOptions> ReadDiff(const Typed& typed);
absl::StatusOr<WhyOptions> ReadWhy(const Typed& typed);
absl::StatusOr<BottlenecksOptions> ReadBottlenecks(const Typed& typed);
absl::StatusOr<WorstOptions> ReadWorst(const Typed& typed);
absl::StatusOr<LocksOptions> ReadLocks(const Typed& typed);
absl::StatusOr<StacksOptions> ReadStacks(const Typed& typed);
absl::StatusOr<ThreadsOptions> ReadThreads(const Typed& typed);
// `screen`: there is a terminal for it.
absl::StatusOr<TopOptions> ReadTop(const Typed& typed, bool screen);
absl::StatusOr<MemoryOptions> ReadMemory(const Typed& typed);

}  // namespace profctl

#endif  // PROFD_CLIENT_COMMAND_LINE_READ_OPTIONS_H_
