#include "client/answer/source_lines.h"

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {

std::string SourcePlace(const Frame& frame) {
  if (frame.file.empty()) return "";
  if (frame.line <= 0) return frame.file;
  return absl::StrCat(frame.file, ":", frame.line);
}

void AddLinesToNames(Profile* profile) {
  for (Frame& frame : profile->frames) {
    if (frame.file.empty()) continue;
    const std::string place = SourcePlace(frame);
    absl::StrAppend(&frame.function, " (", place.substr(place.rfind('/') + 1), ")");
  }
}

void DropInlined(Profile* profile) {
  const std::vector<Frame>& frames = profile->frames;
  for (Stack& stack : profile->stacks) {
    // What it was inlined into comes after it, in the profile's frames as in the stack.
    while (stack.origin < frames.size() && frames[stack.origin].inlined) ++stack.origin;
    std::erase_if(stack.frames, [&](uint32_t frame) { return frames[frame].inlined; });
  }
}

std::string DescribeLines(const Profile& profile) {
  const profd::v1::SourceLines& lines = profile.message->source_lines();
  std::string text;
  if (lines.pending() > 0) {
    text = absl::StrCat("those of ", FormatCount(lines.pending()),
                        " places are not read yet; fetch again to have them");
  }
  if (lines.failed() > 0) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "those of ", FormatCount(lines.failed()),
                    " places cannot be read, see 'profctl status'");
  }
  return text;
}

}  // namespace profctl
