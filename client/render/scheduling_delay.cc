#include "client/render/scheduling_delay.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using nlohmann::ordered_json;

constexpr double kLeastTold = 0.1;  // of the waits, to be told at the head of the page
constexpr double kCertain = 2;      // standard errors

class Section {
 public:
  Section(const SchedulingDelay& delay, const Chains& chains, const GroupTexts& names)
      : delay_(delay), chains_(chains), names_(names) {}

  std::string Lines() {
    if (IsShown(delay_.own.time_ns)) {
      Add(delay_.own, 0, absl::StrCat("own: ", Queued(chains_.root.whole)));
    }
    for (const InheritedDelay& inherited : delay_.inherited) {
      if (IsShown(inherited.delay.time_ns)) AddInherited(inherited);
    }
    return std::move(text_);
  }

 private:
  bool IsShown(double time_ns) const { return time_ns >= kLeastPart * chains_.waits_ns; }

  std::string Queued(uint32_t group) const {
    return absl::StrCat(names_.Of(group), " waits for a CPU");
  }

  void Add(const Delay& delay, size_t indent, const std::string& text) {
    text_ += WrapAfter(PartLabel(delay.time_ns, delay.error_ns, chains_.waits_ns, indent), text,
                       PageColumns());
  }

  void AddInherited(const InheritedDelay& inherited) {
    std::vector<const QueuedGroup*> shown;
    Delay rest;
    for (const QueuedGroup& queued : delay_.queued) {
      if (queued.wakers != inherited.wakers) continue;
      if (IsShown(queued.delay.time_ns)) {
        shown.push_back(&queued);
      } else {
        rest.Add(queued.delay.time_ns, queued.delay.error_ns);
      }
    }
    const std::string text = absl::StrCat(
        "inherited through ",
        inherited.wakers == 1 ? std::string("1 waker") : absl::StrCat(inherited.wakers, " wakers"));
    if (shown.size() == 1 && !IsShown(rest.time_ns)) {
      Add(inherited.delay, 0, absl::StrCat(text, ": ", Queued(shown.front()->group)));
      return;
    }
    Add(inherited.delay, 0, text);
    for (const QueuedGroup* queued : shown) Add(queued->delay, 1, Queued(queued->group));
    if (IsShown(rest.time_ns)) Add(rest, 1, "smaller parts");
  }

  const SchedulingDelay& delay_;
  const Chains& chains_;
  const GroupTexts& names_;
  std::string text_;
};

ordered_json DelayJson(const Delay& delay) {
  return {{"time_ns", WholeNs(delay.time_ns)}, {"error_ns", WholeNs(delay.error_ns)}};
}

}  // namespace

std::string SchedulingDelayLead(const SchedulingDelay& delay, const Chains& chains) {
  if (delay.all.time_ns - kCertain * delay.all.error_ns < kLeastTold * chains.waits_ns) return "";
  const auto share = [&](double time_ns) { return FormatShare(time_ns, chains.waits_ns); };
  return absl::StrCat("Scheduling delay is ", share(delay.all.time_ns), " ± ",
                      share(delay.all.error_ns), " of these waits: ", share(delay.own.time_ns),
                      " its own, ", share(delay.all.time_ns - delay.own.time_ns),
                      " inherited through wakers.");
}

std::string SchedulingDelayText(const SchedulingDelay& delay, const Chains& chains,
                                const GroupTexts& names, bool colour) {
  const std::string lines = Section(delay, chains, names).Lines();
  if (lines.empty()) return "";
  std::string text = absl::StrCat(
      "\n", Heading("Scheduling delay (shares of these waits; ± one standard error)", colour),
      lines);
  if (delay.unresolved_ns >= kLeastPart * chains.waits_ns) {
    text += Wrap(absl::StrCat("It may be up to ", FormatShare(delay.unresolved_ns, chains.waits_ns),
                              " more: that much is unknown, not watched or not followed."),
                 PageColumns(), "  ");
  }
  text += Wrap("'profctl fetch --kind runqueue' shows who had the CPUs meanwhile.", PageColumns(),
               "  ");
  return text;
}

ordered_json SchedulingDelayJson(const SchedulingDelay& delay, const Activity& activity) {
  ordered_json inherited = ordered_json::array(), queued = ordered_json::array();
  for (const InheritedDelay& part : delay.inherited) {
    ordered_json json = {{"wakers", part.wakers}};
    json.update(DelayJson(part.delay));
    inherited.push_back(std::move(json));
  }
  for (const QueuedGroup& part : delay.queued) {
    const ThreadGroup& group = activity.groups[part.group];
    ordered_json json = {
        {"process", group.process}, {"thread", group.name}, {"wakers", part.wakers}};
    json.update(DelayJson(part.delay));
    queued.push_back(std::move(json));
  }
  ordered_json json = DelayJson(delay.all);
  json["own_ns"] = WholeNs(delay.own.time_ns);
  json["own_error_ns"] = WholeNs(delay.own.error_ns);
  json["inherited"] = std::move(inherited);
  json["queued"] = std::move(queued);
  json["unresolved_ns"] = WholeNs(delay.unresolved_ns);
  json["rest_ns"] = WholeNs(delay.rest_ns);
  return json;
}

}  // namespace profctl
