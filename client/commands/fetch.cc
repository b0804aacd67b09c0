#include "client/commands/fetch.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/answer/json.h"
#include "client/answer/profile.h"
#include "client/answer/saved_answer.h"
#include "client/answer/source_lines.h"
#include "client/answer/view.h"
#include "client/io/connection.h"
#include "client/io/output.h"
#include "client/io/progress.h"
#include "client/io/receive.h"
#include "client/render/caption.h"
#include "client/render/findings.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/gaps.h"
#include "client/render/next_steps.h"
#include "client/render/pprof.h"
#include "client/render/speedscope.h"
#include "client/render/summary.h"
#include "client/text/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

std::string DescribeFilter(const profd::v1::FetchRequest& request) {
  std::string text;
  const auto add = [&](std::string_view what, const std::string& value) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", absl::string_view(what.data(), what.size()),
                    " ", value);
  };
  std::string targets;
  for (const std::string& target : request.targets()) {
    absl::StrAppend(&targets, targets.empty() ? "" : ", ", target);
  }
  if (!targets.empty()) add("target", targets);
  if (!request.thread_regex().empty()) add("thread", request.thread_regex());
  std::string reasons;
  for (const int reason : request.reasons()) {
    absl::StrAppend(&reasons, reasons.empty() ? "" : ", ",
                    std::string(DescribeReason(static_cast<Reason>(reason)).name));
  }
  if (!reasons.empty()) add("reason", reasons);
  return text;
}

// The summary of each sample type.
std::string RenderText(const std::vector<View>& views, bool colour) {
  std::string text;
  for (const View& view : views) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", RenderSummary(view, colour));
  }
  return text;
}

absl::StatusOr<std::string> Render(const Answer& answer, const std::vector<View>& views,
                                   Format format, const FlameGraphOptions& graph, bool colour) {
  switch (format) {
    case Format::kSvg:
      return RenderFlameGraph(views.front(), graph);
    case Format::kText:
      return RenderText(views, colour);
    case Format::kFolded:
      return RenderFolded(views.front());
    case Format::kJson:
      return RenderJson(WithFindings(answer, views));
    case Format::kPprof:
      return RenderPprof(views);
    case Format::kSpeedscope:
      return RenderSpeedscope(views);
  }
  return absl::InternalError("unknown format");
}

// Whether samples have groups if nothing else was asked for.
bool GroupsByName(Format format) { return format != Format::kJson && format != Format::kPprof; }

// Notes for data without a summary: idle waits, gaps, losses.
void Remark(const std::vector<View>& views, Format format, std::ostream& err) {
  for (const View& view : views) {
    if (view.idle_ns > 0 && !view.idle_shown && format != Format::kJson) {
      err << "profctl: " << FormatDuration(view.idle_ns)
          << " of idle waits folded away; --idle shows them\n";
    }
    for (const std::string& gap : DescribeGaps(*view.profile)) err << "profctl: " << gap << "\n";
  }
  if (const std::string lines = DescribeLines(*views.front().profile); !lines.empty()) {
    err << "profctl: source lines: " << lines << "\n";
  }
  for (const std::string& loss : DescribeLosses(*views.front().profile->message)) {
    err << "profctl: lost " << loss << "\n";
  }
}

// What to ask next, after all else. Of the first sample type: the others are about the same time.
absl::Status PrintNextSteps(const FetchOptions& options, const View& view, std::ostream& out) {
  if (!options.next_steps) return absl::OkStatus();
  const std::string server = options.server == kDefaultServer ? "" : options.server;
  const std::vector<std::string> steps = NextSteps(
      view, {.server = server,
             .targets = {options.request.targets().begin(), options.request.targets().end()},
             .thread = options.request.thread_regex(),
             .by_object = options.group_by &&
                          std::ranges::count(*options.group_by, profd::v1::GROUP_KEY_OBJECT) > 0});
  std::string text = steps.empty() ? "" : "\nNext\n";
  for (const std::string& step : steps) absl::StrAppend(&text, "  ", step, "\n");
  return Print(text, out);
}

// A summary and a flame graph of each sample type. The summary comes first, so that it is there
// even if the file cannot be written.
absl::Status WriteGraphs(const std::vector<View>& views, const std::vector<std::string>& graphs,
                         const FetchOptions& options, std::ostream& out) {
  for (size_t i = 0; i < views.size(); ++i) {
    RETURN_IF_ERROR(
        Print(absl::StrCat(i > 0 ? "\n" : "", RenderSummary(views[i], options.colour)), out));
    const absl::StatusOr<std::string> path =
        WriteNewFile(FileStem(*views[i].profile), ".svg", graphs[i]);
    if (!path.ok()) {
      return absl::Status(path.status().code(),
                          absl::StrCat(path.status().message(),
                                       "; choose another place with -o "
                                       "FILE, or leave the graph out with --format text"));
    }
    RETURN_IF_ERROR(Print(absl::StrCat("\n", Written(Format::kSvg, *path), "\n"), out));
  }
  return PrintNextSteps(options, views.front(), out);
}

}  // namespace

std::string FileStem(const Profile& profile, std::string_view what) {
  std::set<int32_t> pids;
  std::set<std::string> names;
  for (const Thread& thread : profile.threads) {
    pids.insert(thread.pid);
    names.insert(thread.process);
  }
  std::string name = names.size() == 1 ? FileNamePart(*names.begin()) : "all";
  if (pids.size() == 1) {
    absl::StrAppend(&name, "-", *pids.begin());
  } else {
    absl::StrAppend(&name, "-", pids.size(), "procs");
  }
  const SampleTypeInfo& kind = *profile.kind;
  if (kind.kind != profd::Kind::kWait) absl::StrAppend(&name, "-", std::string(kind.name));
  if (!what.empty()) absl::StrAppend(&name, "-", std::string(what));
  return absl::StrCat("profd-", name, "-", FormatFileTimeUtc(profile.coverage().end_ns()));
}

std::string Written(Format format, const std::string& path) {
  switch (format) {
    case Format::kSvg:
      return absl::StrCat("Flame graph: ", path, " (open it in a browser)");
    case Format::kText:
      return "Summary: " + path;
    case Format::kFolded:
      return "Folded stacks: " + path;
    case Format::kJson:
      return "JSON: " + path;
    case Format::kPprof:
      return "pprof: " + path;
    case Format::kSpeedscope:
      return "speedscope: " + path;
  }
  return path;
}

std::optional<Format> ParseFormat(std::string_view name) {
  if (name == "svg") return Format::kSvg;
  if (name == "text") return Format::kText;
  if (name == "folded") return Format::kFolded;
  if (name == "json") return Format::kJson;
  if (name == "pprof") return Format::kPprof;
  if (name == "speedscope") return Format::kSpeedscope;
  return std::nullopt;
}

std::optional<Format> FormatOfFile(std::string_view path) {
  if (path.ends_with(".svg")) return Format::kSvg;
  if (path.ends_with(".txt")) return Format::kText;
  if (path.ends_with(".folded")) return Format::kFolded;
  if (path.ends_with(".speedscope.json")) return Format::kSpeedscope;
  if (path.ends_with(".json")) return Format::kJson;
  if (path.ends_with(".pb.gz")) return Format::kPprof;
  return std::nullopt;
}

Format FormatOf(const FetchOptions& options) {
  return options.format.value_or(FormatOfFile(options.output).value_or(Format::kSvg));
}

absl::Status CheckFormat(const FetchOptions& options) {
  const Format format = FormatOf(options);
  const bool one_file = format == Format::kFolded ||
                        (format == Format::kSvg && (options.format || !options.output.empty()));
  if (options.request.sample_types_size() > 1 && one_file) {
    return absl::InvalidArgumentError(
        "--kind: this format holds one kind per file; select one kind, or use json, pprof or "
        "speedscope");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Answer>> ReceiveAnswers(const std::string& server,
                                                   const profd::v1::FetchRequest& request,
                                                   Progress* progress) {
  return ReceiveParts(
      server,
      [&](profd::v1::Profiler::Stub& stub, grpc::ClientContext* context) {
        return stub.Fetch(context, request);
      },
      {request.sample_types().begin(), request.sample_types().end()},
      request.has_baseline() ? 2 : 1, progress);
}

absl::StatusOr<Answer> ReceiveAnswer(const std::string& server,
                                     const profd::v1::FetchRequest& request, Progress* progress) {
  ASSIGN_OR_RETURN(std::vector<Answer> answers, ReceiveAnswers(server, request, progress));
  return std::move(answers.front());
}

absl::Status WriteAnswer(const FetchOptions& options, Answer answer, LateNames* names,
                         Progress* progress, std::ostream& out, std::ostream& err) {
  const Format format = FormatOf(options);
  std::vector<std::string> notes;
  if (names != nullptr) {
    profd::v1::Profile message = answer.message();
    progress->Say("profctl: looking for names of functions");
    names->Name(&message, &notes);
    if (GroupsByName(format)) GroupByName(&message);
    ASSIGN_OR_RETURN(answer, BuildAnswer(message));
  }
  progress->Say("profctl: drawing");
  ASSIGN_OR_RETURN(answer, WithChosenFrames(options.frames, std::move(answer)));
  std::vector<View> views;
  for (const Profile& profile : answer.profiles) {
    views.push_back(MakeView(profile, options.show_idle));
    views.back().filter = DescribeFilter(options.request);
  }
  const auto note = [&] {
    for (const std::string& text : notes) err << "profctl: " << text << "\n";
  };
  if (format == Format::kSvg && options.output.empty()) {
    std::vector<std::string> graphs;
    for (const View& view : views) graphs.push_back(RenderFlameGraph(view, options.graph));
    progress->Finish();
    note();
    return WriteGraphs(views, graphs, options, out);
  }
  const bool to_stdout = options.output == "-" || options.output.empty();
  ASSIGN_OR_RETURN(const std::string content,
                   Render(answer, views, format, options.graph, to_stdout && options.colour));
  progress->Finish();
  note();

  if (to_stdout) {
    RETURN_IF_ERROR(Print(content, out));
    // The summary has all remarks.
    if (format == Format::kText) return PrintNextSteps(options, views.front(), out);
    Remark(views, format, err);
    return absl::OkStatus();
  }
  // The summary comes first, so that it is there even if the file cannot be written.
  if (format != Format::kText) {
    RETURN_IF_ERROR(Print(RenderText(views, options.colour) + "\n", out));
  }
  RETURN_IF_ERROR(WriteFile(options.output, content));
  RETURN_IF_ERROR(Print(absl::StrCat(Written(format, CleanName(options.output)), "\n"), out));
  return PrintNextSteps(options, views.front(), out);
}

absl::Status Fetch(const FetchOptions& options, std::ostream& out, std::ostream& err) {
  profd::v1::FetchRequest request = options.request;
  std::unique_ptr<LateNames> names;
  if (options.debug) {
    ASSIGN_OR_RETURN(names, LateNames::Open(*options.debug));
  }
  if (options.group_by) {
    request.mutable_group_by()->Add(options.group_by->begin(), options.group_by->end());
  } else if (GroupsByName(FormatOf(options)) && names == nullptr) {
    // With late names, only samples of single threads tell whose waits turn out to be idle.
    request.add_group_by(profd::v1::GROUP_KEY_PROCESS_NAME);
    request.add_group_by(profd::v1::GROUP_KEY_THREAD_NAME);
  }
  Progress progress(options.progress ? &err : nullptr);
  ASSIGN_OR_RETURN(Answer answer, ReceiveAnswer(options.server, request, &progress));
  return WriteAnswer(options, std::move(answer), names.get(), &progress, out, err);
}

}  // namespace profctl
