// The page a person reads first: where the time went, and how far it can be trusted.
#ifndef PROFD_CLIENT_RENDER_SUMMARY_H_
#define PROFD_CLIENT_RENDER_SUMMARY_H_

#include <string>

#include "client/view.h"

namespace profctl {

// At most 100 columns. `colour` marks headings for a terminal.
std::string RenderSummary(const View& view, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SUMMARY_H_
