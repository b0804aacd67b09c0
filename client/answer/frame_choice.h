// How the frames of an answer are told apart and named, as its user asks.
#ifndef PROFD_CLIENT_ANSWER_FRAME_CHOICE_H_
#define PROFD_CLIENT_ANSWER_FRAME_CHOICE_H_

#include "absl/status/statusor.h"
#include "client/answer/profile.h"

namespace profctl {

struct FrameChoice {
  bool inlines = true;       // inlined functions are frames of their own
  bool lines = false;        // functions of different lines are different
  bool short_names = false;  // without the arguments of generics and templates

  // Of what a FetchRequest or a GetStacksRequest asks debug info.
  template <typename Request>
  void SetRequest(Request* request) const {
    request->set_inlines(inlines);
    request->set_source_lines(lines);
  }
};

// The answer with such names.
absl::StatusOr<Answer> WithChosenFrames(const FrameChoice& choice, Answer answer);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_FRAME_CHOICE_H_
