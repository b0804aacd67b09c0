// The summary of an answer: threads, reasons, stacks, and the quality of the data.
#ifndef PROFD_CLIENT_RENDER_SUMMARY_H_
#define PROFD_CLIENT_RENDER_SUMMARY_H_

#include <string>

#include "client/answer/view.h"

namespace profctl {

// `colour` marks headings for a terminal.
std::string RenderSummary(const View& view, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SUMMARY_H_
