#include "client/render/disk.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr int kMostDisks = 20;

std::string Mean(int64_t ns, uint64_t requests) {
  if (requests == 0) return "-";
  return FormatDuration(
      static_cast<int64_t>(static_cast<double>(ns) / static_cast<double>(requests)));
}

// "vda: 1.53 requests in flight on average, 32 at most".
void AppendFlights(const Profile& profile, std::string& text) {
  const auto& flights = profile.message->disk_flights();
  for (int i = 0; i < std::min(flights.size(), kMostDisks); i++) {
    const profd::v1::DiskFlight& flight = flights[i];
    absl::StrAppend(&text, "  ", CleanName(flight.device()), ": ",
                    absl::StrFormat("%.2f", flight.mean()), " requests in flight on average");
    if (flight.most() > 0) absl::StrAppend(&text, ", ", FormatCount(flight.most()), " at most");
    text += "\n";
  }
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
               {"sequential", Table::Align::kRight, 2},
               {"queued", Table::Align::kRight, 4},
               {"served", Table::Align::kRight, 1},
               {"p50", Table::Align::kRight, 5},
               {"p99", Table::Align::kRight, 3},
               {"longest", Table::Align::kRight, 6}});
  for (int i = 0; i < std::min(disks.size(), kMostDisks); i++) {
    const profd::v1::DiskUse& disk = disks[i];
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(disk.bytes(), 0));
    const bool placed = disk.operation() == "read" || disk.operation() == "write";
    table.Add({CleanName(disk.device()), CleanName(disk.operation()), FormatCount(disk.requests()),
               FormatBytes(bytes),
               placed ? FormatShare(static_cast<double>(disk.sequential_requests()),
                                    static_cast<double>(disk.requests()))
                      : "-",
               Mean(disk.queue_ns(), disk.requests()), Mean(disk.service_ns(), disk.requests()),
               FormatDuration(disk.p50_ns()), FormatDuration(disk.p99_ns()),
               FormatDuration(disk.max_ns())});
  }
  text += table.Render();
  if (disks.size() > kMostDisks)
    absl::StrAppend(&text, "  and ", disks.size() - kMostDisks, " more\n");
  AppendFlights(profile, text);
}

}  // namespace profctl
