#include "client/render/occupants.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/render/estimate.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using profd::v1::Occupant;

constexpr int kMostRows = 20;
constexpr size_t kMostNamed = 3;
constexpr double kCertain = 2;  // standard errors

// Of all threads; what the shares are of.
double RunQueueNs(const Profile& profile) {
  double sum = 0;
  for (const Thread& thread : profile.threads) {
    for (const profd::v1::ReasonTotal& off : thread.ledger.off()) {
      if (off.reason() == profd::v1::REASON_RUNQUEUE) sum += static_cast<double>(off.time_ns());
    }
  }
  return sum;
}

std::string Share(const Occupant& occupant, double whole) {
  Estimate estimate;
  const auto error = static_cast<double>(occupant.error_ns());
  estimate.value = occupant.time_ns();
  estimate.variance = error * error;
  return estimate.Share(whole);
}

std::string NameOf(const Occupant& occupant) {
  std::string name = CleanName(occupant.name());
  if (!occupant.thread().empty()) name = absl::StrCat(CleanName(occupant.thread()), " of ", name);
  if (occupant.pid() > 0) return absl::StrCat(name, " (", occupant.pid(), ")");
  if (occupant.processes() > 1) {
    return absl::StrCat(name, " (", FormatCount(occupant.processes()), " processes)");
  }
  return name;
}

}  // namespace

std::string DescribeOccupant(const Occupant& occupant) {
  switch (occupant.kind()) {
    case profd::v1::OCCUPANT_KIND_PROCESS:
      return NameOf(occupant);
    case profd::v1::OCCUPANT_KIND_KERNEL:
      return absl::StrCat("[", CleanName(occupant.name()), "]");
    case profd::v1::OCCUPANT_KIND_IDLE:
      return "[idle CPU]";
    case profd::v1::OCCUPANT_KIND_QUOTA:
      return absl::StrCat("[CPU quota", occupant.name().empty() ? "" : " of ",
                          CleanName(occupant.name()), "]");
    default:
      return "[not known]";
  }
}

std::vector<Occupant> LargestOccupants(const Profile& profile, double least) {
  const double whole = RunQueueNs(profile);
  std::vector<Occupant> largest;
  for (const Occupant& occupant : profile.message->occupants()) {
    const double certain = static_cast<double>(occupant.time_ns()) -
                           kCertain * static_cast<double>(occupant.error_ns());
    const bool known = profd::v1::OccupantKind_IsValid(occupant.kind()) &&
                       occupant.kind() != profd::v1::OCCUPANT_KIND_UNSPECIFIED;
    if (whole <= 0 || certain < least * whole || !known) continue;
    if (largest.size() == kMostNamed) break;
    largest.push_back(occupant);
  }
  return largest;
}

std::string DescribeOccupants(const google::protobuf::RepeatedPtrField<Occupant>& occupants,
                              int64_t run_queue_ns) {
  std::string ran, rest;
  for (const Occupant& occupant : occupants) {
    const std::string share = Share(occupant, static_cast<double>(run_queue_ns));
    switch (occupant.kind()) {
      case profd::v1::OCCUPANT_KIND_PROCESS:
      case profd::v1::OCCUPANT_KIND_KERNEL:
        absl::StrAppend(&ran, ran.empty() ? " Meanwhile their CPUs ran " : ", ",
                        DescribeOccupant(occupant), " for ", share,
                        ran.empty() ? " of that time" : "");
        break;
      case profd::v1::OCCUPANT_KIND_QUOTA:
        absl::StrAppend(&rest, " A CPU quota",
                        occupant.name().empty()
                            ? std::string()
                            : absl::StrCat(", that of ", CleanName(occupant.name()), ","),
                        " held them back for ", share, " of it.");
        break;
      case profd::v1::OCCUPANT_KIND_IDLE:
        absl::StrAppend(&rest, " Their CPUs were idle, about to run them, for ", share, " of it.");
        break;
      default:
        break;
    }
  }
  return absl::StrCat(ran, ran.empty() ? "" : ".", rest);
}

void AppendOccupants(const Profile& profile, bool colour, std::string& text) {
  const auto& occupants = profile.message->occupants();
  const double whole = RunQueueNs(profile);
  if (occupants.empty() || whole <= 0) return;
  text += "\n" + Heading(
                     "Who had the CPUs that threads waited for (shares of the time in the run "
                     "queue)",
                     colour);
  Table table({{"ran meanwhile", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"share", Table::Align::kRight}});
  for (int i = 0; i < std::min(occupants.size(), kMostRows); i++) {
    table.Add({DescribeOccupant(occupants[i]),
               FormatDuration(std::max<int64_t>(occupants[i].time_ns(), 0)),
               Share(occupants[i], whole)});
  }
  text += table.Render();
  const uint64_t more = profile.message->occupants_left_out() +
                        static_cast<uint64_t>(std::max(occupants.size() - kMostRows, 0));
  if (more > 0) absl::StrAppend(&text, "  and ", FormatCount(more), " more\n");
}

}  // namespace profctl
