// What changed between two profiles, as a page and as JSON.
#ifndef PROFD_CLIENT_RENDER_DIFF_H_
#define PROFD_CLIENT_RENDER_DIFF_H_

#include <cstddef>
#include <string>

#include "client/analysis/diff.h"
#include "client/answer/profile.h"

namespace profctl {

// The processes and the window of one side.
std::string WindowText(const Profile& profile);
// "1.23 ms/s", "12.3 MiB/s", "12.3 MiB" of a level, or "12.3%".
std::string ValueText(double value, const Profile& profile, bool normalized);
// "+12.3%" of the value in A, "new" or "gone".
std::string RelativeText(const DiffValue& a, const DiffValue& b);

// The first `most` changed rows, and the number of the others.
std::string RenderDiffText(const Profile& a, const Profile& b, const Diff& diff, size_t most,
                           bool colour);
// Every row, changed ones first. docs/profctl.md describes the fields.
std::string RenderDiffJson(const Profile& a, const Profile& b, const Diff& diff);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DIFF_H_
