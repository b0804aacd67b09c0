// What changed from one profile to another, for people and for machines.
#ifndef PROFD_CLIENT_RENDER_DIFF_H_
#define PROFD_CLIENT_RENDER_DIFF_H_

#include <cstddef>
#include <string>

#include "client/diff.h"
#include "client/profile.h"

namespace profctl {

// At most 100 columns. The first `most` rows that changed; how many more changed is said.
std::string RenderDiffText(const Profile& a, const Profile& b, const Diff& diff, size_t most,
                           bool colour);
// Every row, those that changed first. docs/profctl.md describes the fields.
std::string RenderDiffJson(const Profile& a, const Profile& b, const Diff& diff);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DIFF_H_
