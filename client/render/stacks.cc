#include "client/render/stacks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/render/estimate.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kWidestStacks = 5;
constexpr size_t kMostFunctions = 10;

struct WideStack {
  const Sample* example = nullptr;
  std::string group;
  Estimate estimate;
  std::set<uint32_t> threads;
};

std::string StacksHeading(const View& view) {
  const Unit unit = view.profile->unit;
  std::string what;
  if (unit == Unit::kCount) {
    what = absl::StrCat(" ", std::string(view.profile->kind->done));
  } else if (view.profile->kind->HasReasons()) {
    what = view.idle_shown ? " with idle waits" : " without idle waits";
  }
  return absl::StrCat("Widest stacks (", FormatValue(view.shown_value, unit), what,
                      "; ± one standard error)");
}

std::string WhyNoStacks(const View& view) {
  const SampleTypeInfo& kind = *view.profile->kind;
  if (kind.IsCounted() && view.profile->type.watched_ns() <= 0) return "nothing was counted";
  if (kind.IsOfDisk()) return "no disk request was completed in this window";
  if (kind.IsOfSyncs()) return "no call that syncs a file returned in this window";
  if (kind.kind == profd::Kind::kInuse) {
    return "no object is known to be in use: jemalloc reports objects if the process was started "
           "with MALLOC_CONF=prof:true; profctl status has the details";
  }
  if (kind.level) return "no memory was touched for the first time since profd began to watch";
  if (kind.IsOfCalls())
    return absl::StrCat("nothing was ", std::string(kind.done), " in this window");
  if (kind.unit == Unit::kBytes) return "no allocation event in this window";
  if (kind.unit == Unit::kCount) return "no thread left its CPU in this window";
  if (!kind.HasReasons()) return "no thread ran in this window";
  return view.idle_ns > 0 ? "every wait in this window was idle; --idle shows them"
                          : "no waits in this window";
}

const char* WhyUnsampled(const SampleTypeInfo& kind, bool ran) {
  if (kind.IsCounted()) {
    return kind.IsOfSyncs() ? "calls whose stack was not taken, to keep the budget"
                            : "requests whose stack was not taken, to keep the budget";
  }
  if (ran) return "threads that ran too little to be sampled";
  if (kind.level)
    return "touched while page faults were not watched; could belong to any of these stacks";
  if (kind.unit == Unit::kCount) return "threads with too few switches to be sampled";
  return kind.unit == Unit::kBytes ? "too few bytes to reach an allocation event"
                                   : "waits too short and too few for a tick to hit";
}

// A sample of time on a CPU.
bool Ran(const Profile& profile, const Sample& sample) {
  return profile.kind->kind == profd::Kind::kCpu || sample.reason == profd::v1::REASON_ON_CPU;
}

}  // namespace

std::string FrameLine(const TellingFrame& frame, size_t margin) {
  return absl::StrCat(std::string(margin - 2, ' '), frame.after_gap ? "… " : "  ",
                      Shorten(frame.name, LineColumns() - margin), "\n");
}

void AppendStacks(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> group_names = GroupNames(profile);
  // Stacks of which the same frames are shown are one stack to a reader.
  std::vector<std::optional<std::vector<TellingFrame>>> telling(profile.stacks.size());
  using StackKey = std::tuple<std::string, Reason, std::string, bool, std::vector<std::string>>;
  std::map<StackKey, WideStack> stacks;
  for (const Sample* sample : view.shown) {
    const bool sampled = sample->stack != kUnsampled;
    std::vector<std::string> frames;
    if (sampled) {
      std::optional<std::vector<TellingFrame>>& known = telling[sample->stack];
      if (!known) known = TellingFrames(profile, profile.stacks[sample->stack]);
      for (const TellingFrame& frame : *known) frames.push_back(frame.name);
    }
    const std::string& group = group_names[sample->group];
    WideStack& stack =
        stacks[StackKey(group, sample->reason, sample->lock, sampled, std::move(frames))];
    stack.example = sample;
    stack.group = group;
    stack.estimate.Add(*sample);
    stack.threads.insert(sample->threads.begin(), sample->threads.end());
  }
  std::vector<WideStack> widest;
  for (auto& [key, stack] : stacks) widest.push_back(std::move(stack));
  std::stable_sort(widest.begin(), widest.end(), [](const WideStack& a, const WideStack& b) {
    return a.estimate.value > b.estimate.value;
  });

  text += "\n" + Heading(StacksHeading(view), colour);
  if (widest.empty()) text += Line("  none: ", WhyNoStacks(view));
  const auto whole = static_cast<double>(view.shown_value);
  const bool level = profile.kind->level;
  for (size_t i = 0; i < std::min(widest.size(), kWidestStacks); ++i) {
    const WideStack& stack = widest[i];
    std::string line = absl::StrCat(FormatValue(stack.estimate.value, profile.unit), "  ",
                                    stack.estimate.Share(whole));
    if (level) absl::StrAppend(&line, "  ", FormatGrowth(stack.estimate.growth));
    if (profile.kind->HasReasons()) {
      const std::string reason(DescribeReason(stack.example->reason).name);
      absl::StrAppend(&line, "  [", reason, "]");
      if (!stack.example->lock.empty()) absl::StrAppend(&line, "  ", DescribeLock(*stack.example));
    }
    if (!stack.group.empty()) absl::StrAppend(&line, "  in ", stack.group);
    if (stack.threads.size() > 1) {
      absl::StrAppend(&line, " (", FormatCount(stack.threads.size()), " threads)");
    }
    text += Line(absl::StrCat("  ", i + 1, ". "), line);
    if (stack.example->stack == kUnsampled) {
      text +=
          Line("       [unsampled]: ", WhyUnsampled(*profile.kind, Ran(profile, *stack.example)));
      continue;
    }
    for (const TellingFrame& frame : *telling[stack.example->stack]) {
      text += FrameLine(frame, kFrameMargin);
    }
  }
}

void AppendFunctions(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> asker_of_stack = Askers(profile);
  std::map<std::string, Estimate> functions;
  for (const Sample* sample : view.shown) {
    const bool sampled = sample->stack != kUnsampled;
    functions[sampled ? asker_of_stack[sample->stack] : "[unsampled]"].Add(*sample);
  }
  if (functions.empty()) return;
  std::vector<std::pair<std::string, Estimate>> rows(functions.begin(), functions.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.value > b.second.value; });
  text += "\n" + Heading("Functions of the program (innermost of each stack)", colour);
  const SampleTypeInfo& kind = *profile.kind;
  std::vector<Table::Column> columns = {{std::string(kind.done), Table::Align::kRight},
                                        {"share", Table::Align::kRight}};
  if (kind.level) columns.push_back({"growth", Table::Align::kRight, 1});
  columns.push_back({"function", Table::Align::kLeft});
  Table table(std::move(columns));
  int64_t rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [function, estimate] = rows[i];
    if (i >= kMostFunctions) {
      rest += estimate.value;
      continue;
    }
    std::vector<std::string> cells = {FormatValue(estimate.value, profile.unit),
                                      estimate.Share(static_cast<double>(view.shown_value))};
    if (kind.level) cells.push_back(FormatGrowth(estimate.growth));
    cells.push_back(function);
    table.Add(std::move(cells));
  }
  text += table.Render();
  if (rows.size() > kMostFunctions) {
    absl::StrAppend(&text, "  and ", FormatCount(rows.size() - kMostFunctions), " more with ",
                    FormatValue(rest, profile.unit), "\n");
  }
}

}  // namespace profctl
