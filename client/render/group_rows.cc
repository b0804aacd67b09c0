#include "client/render/group_rows.h"

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

std::string MoreGroups(size_t groups, uint64_t threads) {
  if (threads == 0) return "";
  return absl::StrCat("  and ", groups - kMostGroupRows, " more groups with ", FormatCount(threads),
                      " threads\n");
}

}  // namespace profctl
