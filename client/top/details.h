// The page of one row of `profctl top`: its ledger, and the stacks of its threads.
#ifndef PROFD_CLIENT_TOP_DETAILS_H_
#define PROFD_CLIENT_TOP_DETAILS_H_

#include <cstddef>
#include <vector>

#include "client/top/layout.h"

namespace profctl {

// The colour of what a thread does.
Style StyleOf(const ThreadLook* look);

// Its lines, at most `columns` wide where they are no names.
std::vector<StyledLine> DetailLines(const Snapshot& snapshot, const TopRow& row, size_t columns);

// The table of rows: the headings, then a line for each.
std::vector<StyledLine> RowLines(const Snapshot& snapshot, const std::vector<TopRow>& rows,
                                 Grouping grouping, size_t columns);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_DETAILS_H_
