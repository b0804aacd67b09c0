// Whose turn it is in what a thread waits for. An answer says it, so that profctl can judge waits
// anew.
#ifndef PROFD_DAEMON_SERVICE_OBJECT_TURN_H_
#define PROFD_DAEMON_SERVICE_OBJECT_TURN_H_

#include <string_view>

namespace profd {

// As far as the object tells (docs/profctl.md, "Idle waits").
enum class ObjectTurn {
  kUnknown,    // the reason and the stack decide whether the wait is idle
  kOfPeer,     // a request is in flight: no idle wait
  kListens,    // for somebody to connect
  kNoRequest,  // all that the peer asked for was answered
  kTimer,
  kEvents,    // for whatever may happen
  kTerminal,  // for somebody to type
};

// The text of the attribute kTurnKey of samples; empty for kUnknown, which has none.
std::string_view TurnName(ObjectTurn turn);
// kUnknown for any other text.
ObjectTurn TurnOfName(std::string_view name);

inline constexpr std::string_view kTurnKey = "turn";

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_OBJECT_TURN_H_
