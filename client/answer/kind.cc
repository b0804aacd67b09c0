#include "client/answer/kind.h"

#include <algorithm>

#include "client/text/text.h"

namespace profctl {

std::string FormatValue(int64_t value, Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return FormatDuration(value);
    case Unit::kBytes:
      return FormatBytes(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
    case Unit::kCount:
      return FormatCount(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
  }
  return "";
}

std::string FormatGrowth(int64_t bytes) {
  const uint64_t size =
      bytes < 0 ? uint64_t{0} - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + FormatBytes(size);
}

}  // namespace profctl
