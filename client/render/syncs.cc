#include "client/render/syncs.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/analysis/telling_frames.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr int kMostSyncs = 10;

std::string JoinedShare(const profd::v1::FileSync& sync) {
  return FormatShare(static_cast<double>(sync.joined()), static_cast<double>(sync.calls()));
}

}  // namespace

void AppendSyncs(const Profile& profile, bool colour, std::string& text) {
  const profd::v1::Profile& message = *profile.message;
  const auto& syncs = message.syncs();
  if (syncs.empty()) return;
  text += "\n" + Heading("File syncs (p50, p99 and longest to a factor of 2)", colour);
  const std::vector<std::string> askers = Askers(profile);
  Table table({{"time", Table::Align::kRight},
               {"calls", Table::Align::kRight},
               {"p50", Table::Align::kRight, 4},
               {"p99", Table::Align::kRight},
               {"longest", Table::Align::kRight, 3},
               {"joined", Table::Align::kRight, 5},
               {"call", Table::Align::kLeft, 1},
               {"file", Table::Align::kLeft},
               {"mostly from", Table::Align::kLeft, 2}});
  uint64_t calls = message.syncs_left_out(), failed = 0;
  int64_t time_ns = message.syncs_left_out_ns();
  for (int i = 0; i < syncs.size(); i++) {
    const profd::v1::FileSync& sync = syncs[i];
    failed += sync.failed();
    if (i >= kMostSyncs) {
      calls += sync.calls();
      time_ns += sync.total_ns();
      continue;
    }
    table.Add({FormatDuration(sync.total_ns()), FormatCount(sync.calls()),
               FormatDuration(sync.p50_ns()), FormatDuration(sync.p99_ns()),
               FormatDuration(sync.max_ns()), JoinedShare(sync), CleanName(sync.call()),
               CleanName(sync.file()), askers[sync.stack()]});
  }
  text += table.Render();
  if (calls > 0) {
    absl::StrAppend(&text, "  and ", FormatCount(calls), " more calls, ", FormatDuration(time_ns),
                    "\n");
  }
  if (failed > 0) {
    absl::StrAppend(&text, "  ", FormatCount(failed), failed == 1 ? " call" : " calls",
                    " returned an error\n");
  }
}

const profd::v1::FileSync* LongestSync(const Profile& profile, double least_ns) {
  const auto& syncs = profile.message->syncs();
  const auto longest =
      std::max_element(syncs.begin(), syncs.end(),
                       [](const auto& a, const auto& b) { return a.total_ns() < b.total_ns(); });
  if (longest == syncs.end() || static_cast<double>(longest->total_ns()) < least_ns) {
    return nullptr;
  }
  return &*longest;
}

}  // namespace profctl
