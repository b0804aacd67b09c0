// The part of a summary that tells what threads allocated or freed.
#ifndef PROFD_CLIENT_RENDER_SUMMARY_MEMORY_H_
#define PROFD_CLIENT_RENDER_SUMMARY_MEMORY_H_

#include <string>

#include "client/answer/view.h"

namespace profctl {

// `heap`: the totals of all threads together.
void AppendMemory(const View& view, const profd::v1::HeapTotal& heap, bool colour,
                  std::string& text);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_SUMMARY_MEMORY_H_
