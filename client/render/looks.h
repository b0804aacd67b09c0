// What threads do at a moment, as text and as JSON.
#ifndef PROFD_CLIENT_RENDER_LOOKS_H_
#define PROFD_CLIENT_RENDER_LOOKS_H_

#include <string>

#include "client/analysis/looks.h"
#include "nlohmann/json_fwd.hpp"

namespace profctl {

// A page. Idle threads are folded into a table, unless `show_idle`.
std::string RenderLooksText(const Looks& looks, bool show_idle, bool colour);
// All threads, each with its stack.
std::string RenderLooksJson(const Looks& looks);
// One of them.
nlohmann::ordered_json LookJson(const Looks& looks, const ThreadLook& look);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_LOOKS_H_
