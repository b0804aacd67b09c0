#include "client/commands/fetch.h"

#include <chrono>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "client/output.h"
#include "client/profile.h"
#include "client/progress.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/gaps.h"
#include "client/render/json.h"
#include "client/render/summary.h"
#include "client/text.h"
#include "client/view.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::minutes kFetchTimeout(5);

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

// "profd-reth-1234-20260131T130509Z"; several processes are counted instead of numbered, and a
// kind that is not the default one is named: "profd-reth-1234-alloc-20260131T130509Z".
std::string FileStem(const Profile& profile) {
  std::set<int32_t> pids;
  std::set<std::string> names;
  for (const profd::v1::Thread& thread : profile.threads) {
    pids.insert(thread.pid());
    names.insert(thread.process());
  }
  std::string name = names.size() == 1 ? FileNamePart(*names.begin()) : "all";
  if (pids.size() == 1) {
    absl::StrAppend(&name, "-", *pids.begin());
  } else {
    absl::StrAppend(&name, "-", pids.size(), "procs");
  }
  const KindInfo& kind = DescribeKind(profile.header.kind());
  if (kind.unit == Unit::kBytes) absl::StrAppend(&name, "-", std::string(kind.name));
  return absl::StrCat("profd-", name, "-", FormatFileTimeUtc(profile.header.end_ns()));
}

std::string Render(const View& view, Format format, const FetchOptions& options) {
  switch (format) {
    case Format::kSvg:
      return RenderFlameGraph(view, options.grouping, options.graph);
    case Format::kFolded:
      return RenderFolded(view);
    case Format::kJson:
      return RenderJson(*view.profile);
  }
  return "";
}

// The last line of the summary.
std::string Written(Format format, const std::string& path) {
  switch (format) {
    case Format::kSvg:
      return absl::StrCat("Flame graph: ", path, " (open it in a browser)");
    case Format::kFolded:
      return "Folded stacks: " + path;
    case Format::kJson:
      return "JSON: " + path;
  }
  return path;
}

// What a reader of bare data would otherwise not learn.
void Remark(const View& view, Format format, std::ostream& err) {
  if (view.idle_ns > 0 && !view.idle_shown && format != Format::kJson) {
    err << "profctl: " << FormatDuration(view.idle_ns)
        << " of idle waits folded away; --idle shows them\n";
  }
  for (const std::string& gap : DescribeGaps(*view.profile)) err << "profctl: " << gap << "\n";
  for (const profd::v1::Loss& loss : view.profile->trailer.losses()) {
    err << "profctl: lost " << FormatCount(loss.count()) << " " << CleanName(loss.cause()) << ": "
        << CleanName(loss.help()) << "\n";
  }
}

}  // namespace

std::optional<Format> ParseFormat(std::string_view name) {
  if (name == "svg") return Format::kSvg;
  if (name == "folded") return Format::kFolded;
  if (name == "json") return Format::kJson;
  return std::nullopt;
}

std::optional<Format> FormatOfFile(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  return ParseFormat(path.substr(dot + 1));
}

absl::StatusOr<Profile> ReceiveProfile(const std::string& server,
                                       const profd::v1::FetchRequest& request, Progress* progress) {
  const auto say = [&](const std::string& what) {
    if (progress != nullptr) progress->Say("profctl: " + what);
  };
  say("connecting to " + CleanName(server));
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(server, kConnectTimeout));
  grpc::ClientContext context;
  SetDeadline(context, kFetchTimeout);
  const auto reader = connection->stub().Fetch(&context, request);
  say(absl::StrCat("waiting for profd at ", CleanName(server)));
  ProfileBuilder builder(request.kind());
  uint64_t received = 0;
  profd::v1::FetchResponse part;
  absl::Status status;
  while (status.ok() && reader->Read(&part)) {
    received += part.ByteSizeLong();
    say("receiving, " + FormatBytes(received) + " so far");
    status = builder.Add(part);
  }
  if (!status.ok()) context.TryCancel();
  const grpc::Status outcome = reader->Finish();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(connection->Explain(outcome));
  return builder.Finish();
}

Format FormatOf(const FetchOptions& options) {
  return options.format.value_or(FormatOfFile(options.output).value_or(Format::kSvg));
}

absl::Status Fetch(const FetchOptions& options, std::ostream& out, std::ostream& err) {
  Progress progress(options.progress ? &err : nullptr);
  ASSIGN_OR_RETURN(const Profile profile,
                   ReceiveProfile(options.server, options.request, &progress));
  progress.Say("profctl: drawing");
  View view = MakeView(profile, options.show_idle);
  view.filter = DescribeFilter(options.request);
  const Format format = FormatOf(options);
  const std::string content = Render(view, format, options);
  progress.Finish();

  if (options.output == "-" || (options.output.empty() && format != Format::kSvg)) {
    RETURN_IF_ERROR(Print(content, out));
    Remark(view, format, err);
    return absl::OkStatus();
  }
  // First what needs no file: it is not lost where none can be written.
  RETURN_IF_ERROR(Print(RenderSummary(view, options.colour), out));
  std::string path = options.output;
  if (path.empty()) {
    ASSIGN_OR_RETURN(path, WriteNewFile(FileStem(profile), ".svg", content));
  } else {
    RETURN_IF_ERROR(WriteFile(path, content));
  }
  return Print(absl::StrCat("\n", Written(format, CleanName(path)), "\n"), out);
}

}  // namespace profctl
