// Tables with a row for each group of threads show the first rows only.
#ifndef PROFD_CLIENT_RENDER_GROUP_ROWS_H_
#define PROFD_CLIENT_RENDER_GROUP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace profctl {

inline constexpr size_t kMostGroupRows = 15;

// The line below the table, of `groups` groups. `threads`: those of the groups that are not shown.
// Empty if none are left out.
std::string MoreGroups(size_t groups, uint64_t threads);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_GROUP_ROWS_H_
