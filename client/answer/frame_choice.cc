#include "client/answer/frame_choice.h"

#include <utility>

#include "client/answer/saved_answer.h"
#include "client/answer/short_names.h"
#include "client/answer/source_lines.h"
#include "daemon/base/status.h"

namespace profctl {

absl::StatusOr<Answer> WithChosenFrames(const FrameChoice& choice, Answer answer) {
  if (choice.short_names) {
    profd::v1::Profile message = answer.message();
    message.set_window(0);  // of a baseline it is another
    ShortenNames(&message);
    ASSIGN_OR_RETURN(answer, BuildAnswer(message));
  }
  if (choice.lines) {
    for (Profile& profile : answer.profiles) AddLinesToNames(&profile);
  }
  return answer;
}

}  // namespace profctl
