// Locks as text.
#ifndef PROFD_CLIENT_RENDER_LOCKS_H_
#define PROFD_CLIENT_RENDER_LOCKS_H_

#include <string>

#include "client/answer/view.h"

namespace profctl {

enum class LockOrder { kTime, kSamples, kThreads };

// The largest first; contention before the rest.
void SortLocks(LockOrder order, profd::v1::Profile* message);

// A page about the locks of a profile of locks: a table, and for the first ones who wanted and who
// released them.
std::string RenderLocks(const View& view, LockOrder order, bool colour);

// The table alone, as part of another page.
void AppendLocks(const View& view, bool colour, std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_LOCKS_H_
