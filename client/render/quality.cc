#include "client/render/quality.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/answer/name_source.h"
#include "client/answer/source_lines.h"
#include "client/answer/watched.h"
#include "client/render/caption.h"
#include "client/render/cost.h"
#include "client/render/heap.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kQualityLabel = 17;  // columns

void AppendField(std::string_view label, std::string_view content, std::string& text) {
  text +=
      WrapAfter(absl::StrCat("  ", PadRight(label, kQualityLabel), "  "), content, PageColumns());
}

void AppendWatched(const Profile& profile, std::string& text) {
  AppendField("watched",
              absl::StrCat(FormatShare(static_cast<double>(WatchedNs(profile)),
                                       static_cast<double>(WindowNs(profile))),
                           " of the window"),
              text);
}

// The sample of an off-CPU profile.
void AppendTickTrust(const Profile& profile, std::string& text) {
  const profd::v1::Coverage& header = profile.coverage();
  const auto window = static_cast<double>(WindowNs(profile));
  const auto layer = [&](const char* name, int64_t ns) {
    return absl::StrCat(name, " ", FormatShare(static_cast<double>(ns), window));
  };
  AppendField(
      "layers on",
      absl::StrCat(layer("books", header.books_ns()), ", ", layer("switch", header.switch_ns()),
                   ", ", layer("tick", header.tick_ns()), " of the window"),
      text);
  AppendField("samples",
              absl::StrCat(FormatCount(profile.type.count()), " in ", FormatCount(header.ticks()),
                           " ticks, mean interval ", FormatDuration(header.tick_interval_ns()),
                           "; ", FormatCount(header.ticks_missed()), " ticks missed"),
              text);
  if (profile.type.count() > 0) {
    AppendField("complete stacks",
                absl::StrCat(FormatShare(profile.type.complete_share(), 1), " of the time; ",
                             FormatCount(header.torn_walks()), " of ", FormatCount(header.walks()),
                             " walks torn"),
                text);
  }
}

// The samples of time on a CPU.
void AppendRunningTrust(const Profile& profile, std::string& text) {
  AppendWatched(profile, text);
  AppendField("samples",
              absl::StrCat(FormatCount(profile.type.count()), ", one per ",
                           FormatDuration(profile.type.period()), " of CPU time"),
              text);
  if (profile.type.count() > 0) {
    AppendField("complete stacks", FormatShare(profile.type.complete_share(), 1) + " of the time",
                text);
  }
}

// The sample of context switches.
void AppendSwitchTrust(const Profile& profile, std::string& text) {
  AppendWatched(profile, text);
  const uint64_t count = profile.type.count();
  std::string samples = FormatCount(count);
  if (count > 0) {
    absl::StrAppend(&samples, ", one per ",
                    FormatValue(std::max<int64_t>(profile.type.period(), 1), profile.unit),
                    profile.type.period() > 1 ? " switches on average" : " switch");
  }
  AppendField("samples", samples, text);
  if (count > 0) {
    AppendField("complete stacks",
                FormatShare(profile.type.complete_share(), 1) + " of the switches", text);
  }
}

// Disk requests and file syncs.
void AppendCountedTrust(const Profile& profile, std::string& text) {
  AppendWatched(profile, text);
  const bool off = profile.type.watched_ns() <= 0;
  const bool gap = HasGap(profile, profile.type.watched_ns());
  AppendField(profile.kind->count_unit,
              off ? "none was counted"
                  : absl::StrCat(FormatCount(profile.type.count()),
                                 gap ? ", all of the time that was watched" : ", all counted"),
              text);
  if (profile.type.count() > 0) {
    AppendField("complete stacks",
                absl::StrCat(FormatShare(profile.type.complete_share(), 1), " of the ",
                             profile.unit == Unit::kBytes ? "bytes" : "time"),
                text);
  }
}

// The sample of any profile of bytes.
void AppendByteTrust(const Profile& profile, std::string& text) {
  AppendWatched(profile, text);
  if (HasSamples(profile)) {
    AppendField("complete stacks", FormatShare(profile.type.complete_share(), 1) + " of the bytes",
                text);
  }
}

// The events of an allocator.
void AppendEventTrust(const Profile& profile, std::string& text) {
  const profd::v1::HeapTotal heap = SumHeap(profile).value_or(profd::v1::HeapTotal());
  std::string events = FormatCount(heap.events());
  if (heap.events() > 0) {
    const double each =
        static_cast<double>(heap.weight_bytes()) / static_cast<double>(heap.events());
    absl::StrAppend(&events, ", one per ",
                    FormatValue(static_cast<int64_t>(std::round(each)), profile.unit));
  }
  AppendField("events", events, text);
  if (heap.events() == 0 && heap.gaps() == 0) return;
  std::string coverage = FormatCoverage(heap) + " of the bytes";
  if (heap.gaps() > 0) absl::StrAppend(&coverage, "; ", DescribeUnseen(heap));
  AppendField("coverage", coverage, text);
}

SwitchLayer SwitchLayerOf(const Profile& profile, int64_t on_ns) {
  if (on_ns <= 0) return SwitchLayer::kOff;
  return HasGap(profile, on_ns) ? SwitchLayer::kPartlyOn : SwitchLayer::kOn;
}

}  // namespace

void AppendQuality(const Profile& profile, bool colour, std::string& text) {
  const profd::v1::Coverage& header = profile.coverage();
  text += "\n" + Heading("Data quality", colour);
  switch (profile.unit) {
    case Unit::kNanoseconds:
      if (profile.kind->IsCounted()) {
        AppendCountedTrust(profile, text);
      } else if (profile.kind->HasReasons()) {
        AppendTickTrust(profile, text);
      } else {
        AppendRunningTrust(profile, text);
      }
      break;
    case Unit::kCount:
      AppendSwitchTrust(profile, text);
      break;
    case Unit::kBytes:
      if (profile.kind->IsCounted()) {
        AppendCountedTrust(profile, text);
        break;
      }
      AppendByteTrust(profile, text);
      if (!profile.kind->level && !profile.kind->IsOfCalls()) AppendEventTrust(profile, text);
      break;
  }
  if (const std::string names = DescribeNameShares(profile); !names.empty()) {
    AppendField("names", names, text);
  }
  if (const std::string lines = DescribeLines(profile); !lines.empty()) {
    AppendField("source lines", lines, text);
  }
  const profd::v1::Cost& cost = profile.message->cost();
  const int64_t duration_ns = cost.duration_ns() > 0 ? cost.duration_ns() : WindowNs(profile);
  AppendField("overhead, profd", DescribeDaemonCost(cost, duration_ns), text);
  AppendField("overhead, targets",
              DescribePathCost(cost, duration_ns, SwitchLayerOf(profile, header.switch_ns())),
              text);
  if (profile.message->losses().empty()) AppendField("losses", "none", text);
  for (const profd::v1::Loss& loss : profile.message->losses()) {
    if (IsUsualLoss(loss, cost)) continue;
    AppendField("losses", NameLoss(loss), text);
    text += Wrap(CleanName(loss.help()), PageColumns(), std::string(kQualityLabel + 6, ' '));
  }
  const std::string usual = DescribeUsualLosses(*profile.message);
  if (!usual.empty()) AppendField("losses", usual, text);
}

}  // namespace profctl
