#include "client/render/flamegraph_page.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/answer/name_source.h"
#include "client/answer/reason.h"
#include "client/render/caption.h"
#include "client/render/gaps.h"
#include "client/render/heap.h"
#include "client/text/text.h"

namespace profctl {
namespace {

std::string_view NameOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kApplication:
      return "application";
    case NodeKind::kRuntime:
      return "runtime";
    case NodeKind::kLibc:
      return "libc";
    case NodeKind::kKernel:
      return "kernel";
    case NodeKind::kReason:
      return "reason";
    case NodeKind::kSynthetic:
      return "unknown";
    case NodeKind::kBase:
      return "process, thread";
  }
  return "";
}

std::string JoinNonEmpty(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!joined.empty()) joined += " · ";
    joined += part;
  }
  return joined;
}

std::string WindowLine(const Profile& profile) {
  const profd::v1::Host& host = profile.message->host();
  std::vector<std::string> parts;
  if (WindowNs(profile) > 0) {
    parts.push_back(DescribeWindow(profile));
  }
  parts.push_back(CleanName(host.hostname()));
  if (!host.kernel_release().empty()) {
    parts.push_back(absl::StrCat("Linux ", CleanName(host.kernel_release())));
  }
  return JoinNonEmpty(parts);
}

// The shown total.
std::string ShownPart(const View& view) {
  const Profile& profile = *view.profile;
  switch (profile.unit) {
    case Unit::kNanoseconds:
      return absl::StrCat("shown: ", FormatDuration(view.shown_value), " ",
                          std::string(profile.kind->done));
    case Unit::kBytes:
      return absl::StrCat(std::string(profile.kind->done), ": ",
                          DescribeBytes(profile, view.shown_value));
    case Unit::kCount:
      return absl::StrCat("shown: ", FormatValue(view.shown_value, profile.unit), " ",
                          std::string(profile.kind->done));
  }
  return "";
}

std::string TotalsLine(const View& view) {
  const Profile& profile = *view.profile;
  std::vector<std::string> parts;
  parts.push_back(ShownPart(view));
  if (view.idle_ns > 0) {
    parts.push_back(absl::StrCat(view.idle_shown ? "including idle: " : "idle waits folded away: ",
                                 FormatDuration(view.idle_ns)));
  }
  const double complete = profile.type.complete_share();
  if (HasSamples(profile) && complete >= 0 && complete <= 1) {
    parts.push_back(absl::StrCat("complete stacks: ", FormatShare(complete, 1)));
  }
  std::string lost = "losses: none";
  if (profile.message->losses_size() > 0) {
    lost = "losses:";
    for (const profd::v1::Loss& loss : profile.message->losses()) {
      absl::StrAppend(&lost, lost.back() == ':' ? " " : ", ", CleanName(loss.cause()), " ",
                      FormatCount(loss.count()));
    }
  }
  parts.push_back(lost);
  return JoinNonEmpty(parts);
}

std::vector<std::string> EmptyMessage(const View& view) {
  if (view.profile->kind->IsOfSyncs()) {
    return {"No call that syncs a file returned in this window.",
            "Use a longer --since; 'profctl status' shows whether they are counted."};
  }
  if (view.profile->kind->IsOfDisk()) {
    return {"No disk request was completed in this window.",
            "Use a longer --since; 'profctl status' shows whether requests are counted."};
  }
  if (view.profile->kind->level) {
    return {absl::StrCat("No memory is known to be ", std::string(view.profile->kind->done),
                         " at the end of this window."),
            "'profctl status' shows what is watched and what is missing."};
  }
  if (view.profile->unit == Unit::kBytes) {
    return {absl::StrCat("Nothing was ", std::string(view.profile->kind->done),
                         " in this window, as far as profd knows."),
            absl::StrCat("'profctl status' ",
                         view.profile->kind->IsOfCalls() ? "shows whether calls are watched"
                                                         : "lists the allocators that are watched",
                         "; or use a longer --since.")};
  }
  if (view.profile->unit == Unit::kCount) {
    return {"No thread left its CPU in this window.",
            "Use a longer --since, or a wider --target, --thread or --reason."};
  }
  if (!view.profile->kind->HasReasons()) {
    return {"No thread ran in this window.",
            "Use a longer --since, or a wider --target or --thread."};
  }
  if (view.idle_ns > 0) {
    return {"Only idle waits in this window.",
            absl::StrCat(FormatDuration(view.idle_ns),
                         " of idle waits is folded away; use --idle to see it.")};
  }
  return {"No waits in this window.",
          "Use a longer --since, or a wider --target, --thread or --reason."};
}

// How the name was found; of a place, the exact ones.
std::string NameOrigin(const FlameNode& node) {
  const std::string_view source = NameSourceText(node.found_by);
  if (source.empty()) return "";
  std::string text = absl::StrCat("; name from ", std::string(source));
  if (IsPlaceOnly(node.found_by)) text = absl::StrCat("; ", std::string(source));
  for (const uint64_t offset : node.offsets) {
    absl::StrAppend(&text, offset == node.offsets.front() ? ", at +0x" : ", +0x",
                    absl::Hex(offset));
  }
  return node.more_offsets ? text + " ..." : text;
}

// Where the code is in source files.
std::string Sources(const FlameNode& node) {
  std::string text = node.inlined ? "inlined" : "";
  for (const std::string& source : node.sources) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", source);
  }
  if (node.more_sources) text += " ...";
  return text.empty() ? "" : "\n" + text;
}

// What else the code is called.
std::string OtherNames(const FlameNode& node) {
  std::string text;
  if (!node.suffixes.empty()) absl::StrAppend(&text, "\npart ", absl::StrJoin(node.suffixes, ", "));
  if (node.other_names.empty() && !node.more_names) return text;
  absl::StrAppend(&text, "\nsame code as ", absl::StrJoin(node.other_names, ", "),
                  !node.more_names           ? ""
                  : node.other_names.empty() ? "others"
                                             : " ...");
  return text;
}

}  // namespace

FlameGraphPage DescribeFlameGraph(const View& view) {
  const Profile& profile = *view.profile;
  FlameGraphPage page;
  page.unit = profile.unit;
  page.total = view.shown_value;
  page.title = absl::StrCat(std::string(profile.kind->title), ": ", DescribeProcesses(profile));
  page.lines = {WindowLine(profile), TotalsLine(view)};
  for (std::string& gap : DescribeGaps(profile)) page.lines.push_back(std::move(gap));
  if (!view.filter.empty()) page.lines.push_back("filter: " + CleanName(view.filter));
  if (page.total <= 0) page.empty = EmptyMessage(view);
  return page;
}

std::string DescribeNode(const FlameNode& node, const FlameGraphPage& page) {
  const Unit unit = page.unit;
  const auto total = static_cast<double>(page.total);
  const std::string share = FormatShare(static_cast<double>(node.value), total);
  const double error = std::min(std::sqrt(node.variance), 9e18);
  if (error < 1) return absl::StrCat(FormatValue(node.value, unit), ", ", share);
  return absl::StrCat(FormatValue(node.value, unit), " ± ",
                      FormatValue(static_cast<int64_t>(error), unit), ", ", share, " ± ",
                      FormatShare(error, total));
}

std::string ExplainNode(const FlameNode& node, Unit unit) {
  const std::string_view name = NameOf(node.kind);
  switch (node.kind) {
    case NodeKind::kBase:
      if (node.threads == 0) return node.module;
      return absl::StrCat(node.module, node.module.empty() ? "" : ", ", CountThreads(node.threads));
    case NodeKind::kReason: {
      const std::string_view reason = std::string_view(node.name).substr(1, node.name.size() - 2);
      for (const ReasonInfo& info : AllReasons()) {
        if (info.name != reason) continue;
        if (info.reason == profd::v1::REASON_ON_CPU) return "running on a CPU";
        return absl::StrCat("waiting for ", std::string(info.meaning));
      }
      return std::string(name);
    }
    case NodeKind::kSynthetic:
      if (node.name == "[unsampled]") {
        return std::string(unit == Unit::kBytes   ? "bytes that no sample explains"
                           : unit == Unit::kCount ? "switches of threads without a sample"
                                                  : "exact time that no tick hit");
      }
      return "the rest of the stack is unknown";
    case NodeKind::kKernel:
    case NodeKind::kLibc:
    case NodeKind::kRuntime:
    case NodeKind::kApplication:
      if (node.module.empty() || node.kind == NodeKind::kKernel) return std::string(name);
      return absl::StrCat(std::string(name), ", ", node.module, NameOrigin(node), OtherNames(node),
                          Sources(node));
  }
  return std::string(name);
}

}  // namespace profctl
