// The terminal of `profctl top`, by ncurses.
#ifndef PROFD_CLIENT_TOP_SCREEN_H_
#define PROFD_CLIENT_TOP_SCREEN_H_

#include <chrono>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "client/top/layout.h"
#include "client/top/model.h"

namespace profctl {

// Takes over stdin and stdout while it lives; one at a time. Signals that end the program ask for
// it instead: see Quits.
class Screen {
 public:
  // Unavailable for a terminal of an unknown type. `colour`: use it if the terminal has it.
  static absl::StatusOr<std::unique_ptr<Screen>> Open(bool colour);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  ScreenSize Size() const;
  void Draw(const TopScreen& screen);
  // The next key, or none. Does not wait.
  std::optional<Key> NextKey();
  // Until a key, a new size, a signal, a Wake, or the timeout.
  void Wait(std::chrono::milliseconds timeout);
  // From any thread.
  static void Wake();
  // A signal came that ends programs, or the terminal is gone.
  bool Quits() const;

 private:
  Screen() = default;

  bool colour_ = false;
  bool utf8_ = false;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_SCREEN_H_
