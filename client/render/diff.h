// What changed between two profiles, as a page and as JSON.
#ifndef PROFD_CLIENT_RENDER_DIFF_H_
#define PROFD_CLIENT_RENDER_DIFF_H_

#include <cstddef>
#include <string>

#include "client/diff.h"
#include "client/profile.h"

namespace profctl {

// The first `most` changed rows, and the number of the others.
std::string RenderDiffText(const Profile& a, const Profile& b, const Diff& diff, size_t most,
                           bool colour);
// Every row, changed ones first. docs/profctl.md describes the fields.
std::string RenderDiffJson(const Profile& a, const Profile& b, const Diff& diff);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DIFF_H_
