// The complete answer for machines. docs/profctl.md describes every field.
#ifndef PROFD_CLIENT_RENDER_JSON_H_
#define PROFD_CLIENT_RENDER_JSON_H_

#include <string>

#include "client/profile.h"

namespace profctl {

// Nothing is folded away: idle samples carry the name of their kind of idleness. In an answer of
// bytes all that is time or of ticks is absent but the cost: header.layers has heap_ns; threads[]
// have pid, tid, name, process, exited and heap (null: nothing is known), samples[] thread, stack,
// bytes, error_bytes, weight_bytes and events, the trailer heap, complete_share, losses and cost.
// `kind` and `unit` are absent where the daemon did not say them, which means offcpu and ns.
std::string RenderJson(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_JSON_H_
