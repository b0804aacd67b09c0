#include "client/render/worst.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/analysis/telling_frames.h"
#include "client/answer/reason.h"
#include "client/answer/source_lines.h"
#include "client/render/caption.h"
#include "client/render/gaps.h"
#include "client/render/stacks.h"
#include "client/render/table.h"
#include "client/text/system_call.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr std::string_view kIndent = "       ";

// "futex(0x7f00aa10)"; empty outside of a system call.
std::string WhatFor(const LongWait& wait) {
  if (wait.attributes.syscall < 0) return "";
  const std::string call = SystemCallName(wait.attributes.syscall);
  const std::string& object = wait.attributes.object;
  if (object.empty() || object == "0x0") return call;
  return absl::StrCat(call, "(", CleanName(object), ")");
}

std::string Duration(const profd::v1::LongWait& wait) {
  const std::string least = FormatDuration(wait.duration_ns());
  if (wait.lasts() || wait.began_earlier()) return absl::StrCat("more than ", least);
  if (wait.doubt_ns() == 0) return least;
  return absl::StrCat(least, " to ", FormatDuration(wait.duration_ns() + wait.doubt_ns()));
}

// "rpc-3 (4251) of reth (4242)".
std::string Who(const Thread& thread) {
  const std::string name = CleanName(thread.name), process = CleanName(thread.process);
  if (thread.tid == thread.pid) return absl::StrCat(process, " (", thread.pid, ")");
  return absl::StrCat(name, " (", thread.tid, ") of ", process, " (", thread.pid, ")");
}

std::string How(const LongWait& wait) {
  std::string text = absl::StrCat("since ", FormatTimeMs(wait.wait.begin_ns()));
  if (wait.wait.began_earlier()) absl::StrAppend(&text, " or earlier");
  if (wait.wait.lasts()) {
    absl::StrAppend(&text, "; it was not over at ",
                    FormatTimeMs(wait.wait.begin_ns() + wait.wait.duration_ns()));
  }
  if (const std::string what = WhatFor(wait); !what.empty()) {
    absl::StrAppend(&text, "; in ", what);
  }
  if (!wait.attributes.idle.empty()) {
    absl::StrAppend(&text, "; idle: ", CleanName(wait.attributes.idle));
  }
  if (!wait.waker.empty()) absl::StrAppend(&text, "; ended by ", CleanName(wait.waker));
  return text;
}

void AppendWait(const Profile& profile, size_t number, const LongWait& wait, std::string& text) {
  text += Line(
      absl::StrCat("  ", number, ". "),
      absl::StrCat(Duration(wait.wait), "  [", std::string(DescribeReason(wait.wait.reason()).name),
                   "]  in ", Who(profile.threads[wait.thread])));
  text += WrapAfter(kIndent, How(wait), PageColumns());
  if (wait.stack == kUnsampled) {
    text += Line(absl::StrCat(std::string(kIndent), "[no stack]: "), "no tick saw this wait");
  } else {
    for (const TellingFrame& frame : TellingFrames(profile, profile.stacks[wait.stack])) {
      text += FrameLine(frame, kIndent.size() + 2);
    }
  }
  if (wait.wait.similar() > 0) {
    text += absl::StrCat(std::string(kIndent), "and ", FormatCount(wait.wait.similar()),
                         " more here, none longer\n");
  }
}

std::string Complete(const profd::v1::LongestWaits& longest) {
  if (longest.least_ns() == 0) return "none: neither ticks nor context switches were watched";
  return absl::StrCat("from ", FormatDuration(longest.least_ns()), " on, for poll and sleep from ",
                      FormatDuration(longest.least_rest_ns()), " on");
}

void AppendField(std::string_view label, std::string_view content, std::string& text) {
  text += WrapAfter(absl::StrCat("  ", PadRight(label, 14), "  "), content, PageColumns());
}

}  // namespace

std::string RenderWorst(const Profile& profile, std::span<const LongWait> waits, bool colour) {
  const profd::v1::LongestWaits& longest = profile.message->longest();
  std::string text = absl::StrCat("Window: ", DescribeWindow(profile), "\n\n");
  text += Heading("Longest waits", colour);
  if (waits.empty()) text += "  none\n";
  for (size_t i = 0; i < waits.size(); ++i) AppendWait(profile, i + 1, waits[i], text);
  text += "\n" + Heading("What the list leaves out", colour);
  AppendField("complete", Complete(longest), text);
  if (longest.left_out() > 0) {
    AppendField("beyond --limit", absl::StrCat(FormatCount(longest.left_out()), " waits"), text);
  }
  if (longest.idle_left_out() > 0) {
    AppendField("idle",
                absl::StrCat(FormatCount(longest.idle_left_out()), " waits; --idle lists them"),
                text);
  }
  if (const std::string lines = DescribeLines(profile); !lines.empty()) {
    AppendField("source lines", lines, text);
  }
  for (const std::string& gap : DescribeGaps(profile)) AppendField("gap", gap, text);
  for (const std::string& loss : DescribeLosses(*profile.message)) AppendField("lost", loss, text);
  return text;
}

}  // namespace profctl
