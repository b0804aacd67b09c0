// A round of `profctl top` as JSON.
#ifndef PROFD_CLIENT_TOP_TOP_JSON_H_
#define PROFD_CLIENT_TOP_TOP_JSON_H_

#include <string>

#include "client/top/rows.h"

namespace profctl {

// One line, ended: the threads of the rows, each with its ledger and what it does now.
std::string RenderTopJson(const Snapshot& snapshot, const TopRows& rows);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_TOP_JSON_H_
