#include "daemon/service/object_turn.h"

namespace profd {

std::string_view TurnName(ObjectTurn turn) {
  switch (turn) {
    case ObjectTurn::kUnknown:
      break;
    case ObjectTurn::kOfPeer:
      return "peer";
    case ObjectTurn::kListens:
      return "listens";
    case ObjectTurn::kNoRequest:
      return "no request";
    case ObjectTurn::kTimer:
      return "timer";
    case ObjectTurn::kEvents:
      return "events";
    case ObjectTurn::kTerminal:
      return "terminal";
  }
  return {};
}

ObjectTurn TurnOfName(std::string_view name) {
  for (const ObjectTurn turn : {ObjectTurn::kOfPeer, ObjectTurn::kListens, ObjectTurn::kNoRequest,
                                ObjectTurn::kTimer, ObjectTurn::kEvents, ObjectTurn::kTerminal}) {
    if (TurnName(turn) == name) return turn;
  }
  return ObjectTurn::kUnknown;
}

}  // namespace profd
