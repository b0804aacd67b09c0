#include "client/render/disk.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/render/table.h"
#include "client/text.h"

namespace profctl {
namespace {

constexpr int kMostDisks = 20;

std::string Mean(int64_t ns, uint64_t requests) {
  if (requests == 0) return "-";
  return FormatDuration(
      static_cast<int64_t>(static_cast<double>(ns) / static_cast<double>(requests)));
}

}  // namespace

void AppendDisks(const Profile& profile, bool colour, std::string& text) {
  const auto& disks = profile.message->disks();
  if (disks.empty()) return;
  text += Heading("Requests by device (means; p50, p99 and longest to a factor of 2)", colour);
  Table table({{"device", Table::Align::kLeft},
               {"operation", Table::Align::kLeft},
               {"requests", Table::Align::kRight},
               {"bytes", Table::Align::kRight},
               {"queued", Table::Align::kRight, 3},
               {"served", Table::Align::kRight, 1},
               {"p50", Table::Align::kRight, 4},
               {"p99", Table::Align::kRight, 2},
               {"longest", Table::Align::kRight, 5}});
  for (int i = 0; i < std::min(disks.size(), kMostDisks); i++) {
    const profd::v1::DiskUse& disk = disks[i];
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(disk.bytes(), 0));
    table.Add({CleanName(disk.device()), CleanName(disk.operation()), FormatCount(disk.requests()),
               FormatBytes(bytes), Mean(disk.queue_ns(), disk.requests()),
               Mean(disk.service_ns(), disk.requests()), FormatDuration(disk.p50_ns()),
               FormatDuration(disk.p99_ns()), FormatDuration(disk.max_ns())});
  }
  text += table.Render();
  if (disks.size() > kMostDisks)
    absl::StrAppend(&text, "  and ", disks.size() - kMostDisks, " more\n");
}

}  // namespace profctl
